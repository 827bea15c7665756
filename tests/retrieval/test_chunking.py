"""The splitting rules: what becomes a chunk, under which id."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.errors import DataError, ParameterError
from evalkit.records import Document
from evalkit.retrieval.chunking import MOST_WORDS, SECTIONS, cut, packed, paragraphs


def words(count: int, mark: str = "w") -> str:
    return " ".join(f"{mark}{i}" for i in range(count))


def ids(text: str) -> list[str]:
    return [c.chunk_id for c in cut([Document("d", "D", text)], SECTIONS)]


def test_a_whole_document_keeps_its_own_id() -> None:
    """Under `document` the judged unit is the document, its id exactly as written (contract)."""
    (chunk,) = cut([Document("007", "T", "Text.", {"type": "note"})], "document")
    assert (chunk.doc_id, chunk.chunk_id, chunk.text) == ("007", "", "Text.")
    assert chunk.fields == {"type": "note"}


def test_the_deadline_paragraph_is_in_both_chunks() -> None:
    """Packing to 80 words with one paragraph of overlap repeats the boundary paragraph (A07)."""
    text = f"## Shutdown\n{words(50, 'a')}\n\n{words(20, 'deadline')}\n\n{words(40, 'b')}"
    first, second = cut([Document("worker-shutdown", "Worker", text)], SECTIONS)
    assert first.doc_id == f"worker-shutdown#shutdown/p0@{SECTIONS}"
    assert first.text == f"{words(50, 'a')}\n\n{words(20, 'deadline')}"  # 70 words; +40 > 80
    assert second.text == f"{words(20, 'deadline')}\n\n{words(40, 'b')}"  # 20 + 40 <= 80
    assert second.title == "Worker > Shutdown"


def test_no_overlap_where_it_would_not_fit() -> None:
    """50 + 50 words exceed 80 with or without company, so the second chunk stands alone."""
    assert packed([words(50), words(50)]) == [[words(50)], [words(50)]]


def test_an_oversized_paragraph_is_kept_whole_and_alone() -> None:
    """A paragraph of 90 words is one chunk: nothing is cut, nothing lost (by definition)."""
    assert packed([words(3), words(90), words(4)]) == [[words(3)], [words(90)], [words(4)]]


def test_exactly_eighty_words_fit() -> None:
    """The limit is inclusive: 40 + 40 = 80 words are one chunk."""
    assert len(packed([words(40), words(40)])) == 1
    assert len(packed([words(40), words(41)])) == 2


def test_headings_name_the_sections() -> None:
    """An explicit id wins over the heading's slug; text before a heading is `intro` (contract)."""
    text = "# Title\nBefore.\n\n## Retry budget\nA.\n\n### Why? {#why}\nB.\n\n## Último día\nC."
    assert ids(text) == ["intro/p0", "retry-budget/p0", "why/p0", "último-día/p0"]


def test_a_section_without_text_has_no_chunk() -> None:
    """A heading followed by a heading yields nothing to index (by definition)."""
    assert ids("## Empty\n\n## Full\nText.") == ["full/p0"]


def test_a_hash_in_a_code_fence_is_no_heading() -> None:
    """A fence is one paragraph, blank lines and comment signs included (contract)."""
    fence = "```sh\n# not a heading\n\necho\n```"
    assert ids(f"## Run\n{fence}") == ["run/p0"]
    assert paragraphs(f"One.\n\n{fence}\n\nTwo.") == ["One.", fence, "Two."]


def test_a_list_with_gaps_is_one_paragraph() -> None:
    """Items separated by blank lines still belong to one list (contract)."""
    assert paragraphs("- one\n\n- two\n\n  more\n\nAfter.") == ["- one\n- two\n  more", "After."]


def test_two_sections_under_one_slug_are_refused() -> None:
    """The same identity for two texts is an error that says how to part them."""
    with pytest.raises(DataError, match=r"two sections 'notes'.*\{#other-id\}"):
        ids("## Notes\nA.\n\n## Notes\nB.")


def test_the_same_document_twice_is_refused() -> None:
    """A chunk identity occurs once in a corpus (A05)."""
    with pytest.raises(DataError, match="cut twice"):
        cut([Document("d", "D", "x"), Document("d", "D", "y")], "document")


def test_an_unknown_rule_names_the_known_ones() -> None:
    """A misspelt chunking is a parameter error, never a default."""
    with pytest.raises(ParameterError, match=SECTIONS):
        cut([], "section-paragraphs")


@given(st.lists(st.integers(1, 120), max_size=12))
def test_packing_loses_nothing_and_overlaps_by_at_most_one(sizes: list[int]) -> None:
    """Every paragraph appears in order; only a lone long one passes the limit (property)."""
    blocks = [words(size, f"p{i}-") for i, size in enumerate(sizes)]
    packs = packed(blocks)
    joined: list[str] = []
    for pack in packs:
        joined += pack[1:] if joined and joined[-1] == pack[0] else pack
        assert len(pack) == 1 or sum(len(b.split()) for b in pack) <= MOST_WORDS
    assert joined == blocks
