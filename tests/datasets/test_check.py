"""The lint refuses labels that would make numbers lie, and warns of what makes them weak."""

from dataclasses import replace

import pytest

from evalkit.datasets import check, near_matches, refuse_errors
from evalkit.errors import LabelError
from evalkit.records import Chunk, Document, LabelledSet, Query, Requirement

PUBLISHED, DRAFT = {"state": "published"}, {"state": "draft"}
CHUNKS = [
    Chunk("a#p0@v", "a", "p0", "A", "One.", PUBLISHED),
    Chunk("a#p1@v", "a", "p1", "A", "Two.", PUBLISHED),
    Chunk("d#p0@v", "d", "p0", "D", "Old.", DRAFT),
]
ASKED = Query("q1", "Why?", True, "fact", grades={"a#p0@v": 2})
SOUND = LabelledSet(
    name="tiny",
    version="1",
    documents=(Document("a", "A", "One. Two.", PUBLISHED), Document("d", "D", "Old.", DRAFT)),
    queries=(ASKED, Query("q2", "When?", False, "fact")),
    chunking="v",
    highest_grade=2,
    complete=True,
    eligibility=PUBLISHED,
)


def errors_of(labelled, chunks=CHUNKS):
    """The messages of the errors found."""
    return [found.message for found in check(labelled, chunks) if found.level == "error"]


def with_first(**changes):
    """The sound set with its first question changed."""
    return replace(SOUND, queries=(replace(ASKED, **changes), SOUND.queries[1]))


def test_a_sound_set_has_only_the_warning_of_its_size():
    """Fewer than 50 answerable questions is a warning and no error (B02)."""
    findings = check(SOUND, CHUNKS)

    assert [found.level for found in findings] == ["warning"]
    assert "1 answerable questions, fewer than 50" in findings[0].message
    assert refuse_errors(SOUND, CHUNKS) == findings


def test_fifty_answerable_questions_need_no_warning():
    """The bound itself is enough: 50 is not fewer than 50 (by definition)."""
    asked = [replace(ASKED, query_id=f"q{n}", text=f"Why {n}?") for n in range(50)]

    assert check(replace(SOUND, queries=tuple(asked)), CHUNKS) == []


MORE = Requirement("the cause", ("a#p1@v",))
REFUSED = [
    (with_first(grades={}), "no chunk is judged relevant"),
    (with_first(grades={"a#p0@v": 0}), "no chunk is judged relevant"),
    (with_first(grades={"a#p9@v": 2}), "does not exist; 'a' has the chunks p0, p1"),
    (with_first(grades={"A#p0@v": 2}), "does not exist; did you mean 'a#p0@v'"),
    (with_first(grades={"a#p0@w": 2}), "does not exist"),
    (with_first(grades={"d#p0@v": 2}), "relevant, but it is not eligible"),
    (with_first(grades={"a#p0@v": 3}), "grade 3 of 'a#p0@v' is off the scale 0..2"),
    (with_first(grades={"a#p0@v": 2, "a#p1@v": -1}), "grade -1"),
    (with_first(requirements=(MORE,)), "satisfies 'the cause' but is not judged relevant"),
    (with_first(requirements=(Requirement("x", ()),)), "lists no chunk"),
    (with_first(requirements=(Requirement("x", ("a#p0@v", "a#p0@v")),)), "or one twice"),
    (with_first(answerable=False), "is unsupported, but has relevant"),
    (with_first(query_id="q2"), "the query 'q2' stands twice"),
    (replace(SOUND, queries=()), "no answerable question"),
    (replace(SOUND, documents=SOUND.documents * 2), "the document 'a' stands twice"),
    (replace(SOUND, eligibility={"state": "retired"}), "no chunk is eligible"),
    (replace(SOUND, form="kioku"), "a golden set needs 20"),
    (replace(SOUND, form="kioku", queries=(ASKED,)), "no probe"),
]


@pytest.mark.parametrize(("labelled", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_labels_that_contradict_are_refused(labelled, said):
    """A20 to A22, C03: each contradiction is an error that names its question."""
    assert any(said in message for message in errors_of(labelled))
    with pytest.raises(LabelError, match="cannot be evaluated"):
        refuse_errors(labelled, CHUNKS)


def test_a_chunk_cut_twice_is_refused():
    """Two eligible chunks under one key are two texts with one judgment (A20)."""
    assert errors_of(SOUND, [*CHUNKS, CHUNKS[0]]) == ["the chunk 'a#p0@v' stands twice"]


def test_a_topic_on_both_sides_is_refused():
    """Paraphrases on both sides of a split leak the held-out answers (by definition)."""
    sides = [
        replace(ASKED, split="development", topic="shutdown"),
        replace(ASKED, query_id="q3", text="How?", split="held-out", topic="shutdown"),
    ]

    assert any("crosses splits" in message for message in errors_of(replace(SOUND, queries=sides)))


def test_the_same_question_twice_is_a_warning_and_across_splits_an_error():
    """Equal texts but for case and spaces are one question (by definition)."""
    again = replace(ASKED, query_id="q3", text="  why? ")
    same = check(replace(SOUND, queries=(ASKED, again)), CHUNKS)
    split = replace(SOUND, queries=(replace(ASKED, split="development"),
                                    replace(again, split="held-out")))  # fmt: skip

    assert any("q1, q3 ask the same" in found.message for found in same)
    assert all(found.level == "warning" for found in same)
    assert any("different splits" in message for message in errors_of(split))


def test_a_question_under_both_labels_is_a_warning():
    """Public sets hold such pairs (SQuAD 2.0 does); a person must say which label is wrong."""
    assert errors_of(with_first(text="When?")) == []
    assert any(
        "one label is wrong" in str(found) for found in check(with_first(text="When?"), CHUNKS)
    )


def test_a_set_without_documents_is_checked_in_itself():
    """Judgments for a run file have no corpus to be checked against; the lint says so."""
    findings = check(replace(SOUND, documents=()), [])

    assert [found.level for found in findings] == ["warning", "warning"]
    assert any("no documents" in found.message for found in findings)


def test_a_deleted_chunk_cannot_shrink_the_denominator():
    """A judged chunk that the source no longer yields is an error, never a perfect recall (A21)."""
    assert "does not exist" in errors_of(SOUND, CHUNKS[1:])[0]


@pytest.mark.parametrize(
    ("left", "right", "found"),
    [
        ("Q1", "q1", True),  # case
        ("q 1", "q1", True),  # white space
        ("é", "e\u0301", True),  # Unicode form: composed and decomposed
        ("007", "7", True),  # leading zeros
        ("q007", "q7", True),
        ("100", "1", False),  # zeros that count
        ("q0", "q", False),  # the last zero is a digit
        ("70", "7", False),
    ],
)
def test_near_matches_are_told_from_other_ids(left, right, found):
    """Ids that differ only in how they are written are paired; other ids are not."""
    assert near_matches([left], [right]) == ([(left, right)] if found else [])


def test_an_id_with_an_exact_partner_is_no_near_match():
    """007 beside 007 and 7 is simply 007 (by definition)."""
    assert near_matches(["007"], ["7", "007"]) == []
