"""The splitting rule for notes (C13, C14)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evalkit.records import Document
from evalkit.retrieval.chunking import cut
from evalkit.retrieval.notes import MOST_CHARACTERS, NOTES, breadcrumbs, merged, notes, windows


def test_a_short_note_is_one_chunk_under_its_own_id() -> None:
    """Up to 4000 characters nothing is cut; the judged unit is the note."""
    (chunk,) = cut([Document("Viajes/Oporto", "Oporto", "x" * MOST_CHARACTERS)], NOTES)
    assert (chunk.doc_id, chunk.chunk_id, chunk.title) == ("Viajes/Oporto", "c0", "Oporto")


def test_a_long_note_keeps_its_id_and_loses_nothing() -> None:
    """Two sections of 3000 and 5000 characters: 1 + 2 chunks, whose texts join to the note."""
    text = "# Note\n" + "a" * 2993 + "\n## Late\n" + "b" * 4991
    chunks = cut([Document("n", "Note", text)], NOTES)
    assert {chunk.doc_id for chunk in chunks} == {"n"}
    assert [chunk.title for chunk in chunks] == ["Note", "Note > Late", "Note > Late"]
    assert "".join(chunk.text for chunk in chunks) == text
    assert abs(len(chunks[1].text) - len(chunks[2].text)) <= 1  # equal windows


def test_breadcrumbs_pop_at_the_same_or_a_higher_level() -> None:
    """H2 closes H3 and H2; an H1 that repeats the note's name is said once."""
    text = "# Trip\nx\n## Day\ny\n### Noon\nz\n## Night\nw\n# Other\nv\n"
    crumbs = [crumb for crumb, _ in breadcrumbs(Document("t", "trip", text))]
    assert crumbs == ["trip", "trip > Day", "trip > Day > Noon", "trip > Night", "trip > Other"]


def test_small_neighbours_merge_while_they_fit() -> None:
    """At most 100: 20 < 25 takes 70; 90 is no longer small; 24 + 90 would not fit."""
    sizes = [20, 70, 24, 90]
    joined = merged([(str(size), "x" * size) for size in sizes], 100)
    assert [(crumb, len(text)) for crumb, text in joined] == [("20", 90), ("24", 24), ("90", 90)]


@given(st.integers(0, 500), st.integers(1, 60))
def test_windows_are_equal_and_whole(length: int, most: int) -> None:
    """As few as possible, lengths within one of each other, joined they are the text (property)."""
    text = "".join(chr(97 + i % 26) for i in range(length))
    parts = windows(text, most)
    assert "".join(parts) == text and len(parts) == max(1, -(-length // most))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@given(st.lists(st.sampled_from(["# A", "## B", "word " * 9, "", "```", "# x"]), max_size=30))
def test_nothing_is_lost_and_nothing_is_too_long(lines: list[str]) -> None:
    """Chunks in order are the note, each within the limit (property)."""
    text = "\n".join(lines)
    chunks = list(notes(Document("n", "N", text), most=60))
    assert "".join(chunk.text for chunk in chunks) == text
    assert all(len(chunk.text) <= 60 for chunk in chunks)
