"""Reviewing questions: what they would be answered from, why, and the reviewer's table."""

from dataclasses import replace

import pandas as pd
import pytest

from evalkit import reviews
from evalkit.errors import DataError, ExecutionError, ParameterError
from evalkit.executions import Execution, create
from evalkit.records import Document, LabelledSet, Query

QUERIES = (
    Query(
        "drain", "How long may the queue worker drain?", True, "condition", grades={"w#s/p0@v": 2}
    ),
    Query("login", "Who opens an account for a colleague?", True, "fact", grades={"a#s/p0@v": 2}),
    Query("u-ingress", "Which timeout does the queue worker use at night?", False, "condition"),
    Query("u-moon", "Who painted the lobby?", False, "fact"),
)
SET = LabelledSet("small", "1", (), QUERIES, "v", 2)
TOP = {"drain": 0.8, "login": 0.3, "u-ingress": 0.6, "u-moon": 0.2}


@pytest.fixture
def execution(tmp_path, monkeypatch) -> Execution:
    """A stored execution: one hit a question, threshold 0.5."""
    monkeypatch.setenv("EVALKIT_OUTPUTS", str(tmp_path))
    made = create("review")
    outcomes = pd.DataFrame(
        {
            "mode": "semantic",
            "query_id": [query.query_id for query in QUERIES],
            "text": [query.text for query in QUERIES],
            "category": [query.category for query in QUERIES],
            "answerable": [query.answerable for query in QUERIES],
            "top_score": [TOP[query.query_id] for query in QUERIES],
        }
    )
    made.write_frame("outcomes", outcomes)
    evidence = pd.DataFrame(
        {"query_id": list(TOP), "rank": 1, "doc_id": "w#s/p0@v", "text": "The queue worker drains."}
    )
    made.write_frame("evidence-semantic", evidence)
    made.record_inputs(retrieval={"semantic": {"axis": "cosine"}})
    made.write_json(
        "operating-point", {"operating": {"axis": "cosine top score", "threshold": 0.5}}
    )
    return made


def test_counts_are_of_all_unsupported_questions(execution):
    """Accepting anything lets 2 of 2 through, the threshold 1 of 2 (by hand)."""
    counts = reviews.read(execution, "semantic").counts

    assert counts[["accepted", "total"]].to_numpy().tolist() == [[2, 2], [1, 2]]


def test_the_worst_come_first(execution):
    """Unsupported questions by falling score; refused answerable ones by rising score."""
    seen = reviews.read(execution, "semantic")

    assert reviews.review(seen)["query_id"].tolist() == ["u-ingress", "u-moon"]
    assert reviews.review(seen, answerable=True)["query_id"].tolist() == ["login"]


def test_a_near_miss_is_explained(execution):
    """Shared words, the document of the nearest question and its category are named."""
    seen = reviews.read(execution, "semantic")
    row = reviews.explained(reviews.review(seen), SET, page=1, size=1).iloc[0]

    assert row["nearest"].startswith("drain: ")
    assert row["near_miss"] == (
        "shares queue, worker with the passage; the passage's document answers drain; "
        "same category as drain"
    )


def test_pages_divide_the_questions(execution):
    """Page 2 of size 1 is the second question; a page beyond the end is empty."""
    seen = reviews.read(execution, "semantic")
    table = reviews.review(seen)

    assert reviews.explained(table, SET, page=2, size=1)["query_id"].tolist() == ["u-moon"]
    assert reviews.explained(table, SET, page=3, size=1).empty


def test_a_threshold_of_another_axis_is_not_used(execution):
    """An operating point on the margin says nothing about the top score."""
    execution.write_json(
        "operating-point", {"operating": {"axis": "cosine margin", "threshold": 0.1}}
    )

    seen = reviews.read(execution, "semantic")
    assert seen.threshold is None
    assert len(seen.counts) == 1


def test_a_mode_that_was_not_evaluated_is_named(execution):
    """The error says which mode is missing."""
    with pytest.raises(ExecutionError, match="did not evaluate the mode 'keyword'"):
        reviews.read(execution, "keyword")


def filled(execution, **row):
    path = reviews.write_template(execution, reviews.review(reviews.read(execution, "semantic")))
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    for name, value in row.items():
        table.loc[0, name] = value
    table.to_csv(path, index=False)
    return str(path)


def test_the_template_round_trips(execution):
    """An untouched template has no findings; a filled row is read as written."""
    assert reviews.findings(filled(execution), SET).empty

    path = filled(execution, verdict="mislabelled", answer_in="w#s/p0", reviewer="R", note="NA")
    found = reviews.findings(path, SET)
    assert found.loc[0, ["query_id", "verdict", "note"]].tolist() == [
        "u-ingress",
        "mislabelled",
        "NA",
    ]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"verdict": "wrong"}, "findings-template.csv:2: verdict 'wrong'"),
        ({"verdict": "mislabelled"}, "answer_in names the chunk"),
        ({"verdict": "ambiguous", "answer_in": "w#s/p0"}, "answer_in names the chunk"),
        ({"query_id": "gone"}, "no question is called 'gone'"),
    ],
)
def test_a_wrong_row_is_refused_with_its_line(execution, row, said):
    """File, line and cure are in the message."""
    with pytest.raises(DataError, match=said):
        reviews.findings(filled(execution, **row), SET)


def test_a_revision_is_a_new_set_and_the_old_one_stays(execution, tmp_path):
    """A mislabelled question is answerable by its chunk, an ambiguous one is left out (by hand)."""
    from evalkit import datasets

    document = Document("w", "W", "## S {#s}\n\nThe queue worker drains.")
    old = replace(SET, documents=(document,), chunking="section-paragraphs-80w-overlap1-v1")
    old = replace(old, queries=QUERIES[2:])
    found = pd.DataFrame(
        {
            "query_id": ["u-ingress", "u-moon"],
            "verdict": ["mislabelled", "ambiguous"],
            "answer_in": ["w#s/p0", ""],
        }
    )

    done = reviews.revise(old, found, "2", tmp_path / "revised")
    new = datasets.load(tmp_path / "revised")

    assert done == ("u-ingress: answerable by w#s/p0", "u-moon: left out as ambiguous")
    assert new.version == "2"
    assert [query.query_id for query in new.queries] == ["u-ingress"]
    assert new.queries[0].grades == {"w#s/p0@section-paragraphs-80w-overlap1-v1": 2}
    assert [query.answerable for query in old.queries] == [False, False]


def test_a_revision_needs_a_new_version_and_a_fresh_folder(tmp_path):
    """Neither the set's own version nor an existing folder is accepted."""
    nothing = pd.DataFrame(columns=["query_id", "verdict", "answer_in"])

    with pytest.raises(ParameterError, match="give the revision another"):
        reviews.revise(SET, nothing, "1", tmp_path / "new")
    with pytest.raises(DataError, match="fresh folder"):
        reviews.revise(SET, nothing, "2", tmp_path)
