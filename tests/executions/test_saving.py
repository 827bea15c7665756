"""An evaluation written and read back: tables, summary, inputs; the same bytes each time."""

import re
from dataclasses import replace

import pytest

from evalkit import executions
from evalkit.errors import ExecutionError
from evalkit.evaluation import Plan


def test_every_number_a_reader_may_quote_is_in_the_summary(evaluated):
    """Recall@2 of q1 (c, a): 1/2, of q2 (c): 1; mean 3/4 over 2 of 2 under a ceiling of 1."""
    summary = evaluated().read_json("summary")
    row = executions.table(summary, metric="Recall", cutoff=2).iloc[0]

    assert row["mean"] == (1 / 2 + 1) / 2
    assert [row["count"], row["of"], row["ceiling"]] == [2, 2, 1.0]
    assert summary["questions"] == {"answerable": 2, "unsupported": 1}
    assert summary["status"] == {"keyword": "completed"}


def test_what_is_read_is_what_was_written(evaluated):
    """Rankings, evidence, values and outcomes come back row by row."""
    made = evaluated()

    assert made.read_frame("run-keyword")[["query_id", "doc_id", "rank"]].values.tolist() == [
        ["q1", "c", 1],
        ["q1", "a", 2],
        ["q2", "c", 1],
        ["q2", "a", 2],
    ]
    assert (made.folder / "run-keyword.trec").read_text().splitlines()[0].split()[:4] == [
        "q1",
        "Q0",
        "c",
        "1",
    ]
    assert made.read_frame("evidence-keyword")["grade"].tolist() == [0, 2, 2, 0]
    assert made.read_frame("outcomes")["status"].tolist() == ["scored", "scored", "zero_hit"]


def test_the_same_inputs_give_the_same_bytes(evaluated):
    """All but the times, in manifest and summary.md, repeats bit for bit (promise 5)."""
    first, second = evaluated(), evaluated()
    names = sorted(path.name for path in first.folder.iterdir() if "manifest" not in path.name)

    assert names == sorted(p.name for p in second.folder.iterdir() if "manifest" not in p.name)
    for name in names:
        one, two = ((each.folder / name).read_bytes() for each in (first, second))
        date = re.compile(rb"- Date \(UTC\): .*Z\n" if name == "summary.md" else rb"$^")
        assert date.sub(b"", one) == date.sub(b"", two), name


def test_a_failed_question_is_stored_and_fails_the_mode(evaluated, broken):
    """q2 has no value, its reason is in the outcomes, and the mean is over 1 of 2."""
    made = evaluated(rankings=broken)
    summary = made.read_json("summary")
    row = executions.table(summary, metric="Recall", cutoff=2).iloc[0]

    assert summary["status"] == {"keyword": "failed"}
    assert [row["mean"], row["count"], row["of"]] == [1.0, 1, 2]
    reasons = made.read_frame("outcomes").set_index("query_id")["reason"]
    assert reasons["q2"] == "no vector for this question"


def test_an_undefined_mean_is_null(evaluated, broken):
    """The category of the one failed question has no mean: null and 0 of 1, not 0 and not NaN."""
    rows = evaluated(rankings=broken).read_json("summary")["by_category"]
    row = next(each for each in rows if each["category"] == "symptom")

    assert [row["mean"], row["low"], row["count"], row["of"]] == [None, None, 0, 1]


def test_modes_stand_beside_one_another(evaluated):
    """Two modes: one results table with a column for the mode, one run file each."""
    made = evaluated(rankings={"keyword": {"first?": "a"}, "semantic": {"first?": "b"}})

    assert set(made.read_frame("results")["mode"]) == {"keyword", "semantic"}
    assert made.read_frame("run-semantic")["doc_id"].tolist() == ["b"]


def test_the_manifest_names_every_input(evaluated, labelled):
    """Set with fingerprints, chunking, eligibility, scoring with the policy, retrieval settings."""
    inputs = evaluated(k1=1.2).inputs

    assert inputs["set"]["fingerprints"] == dict(labelled.fingerprints)
    assert inputs["scoring"]["policy"]["gain"] == "exp2"
    assert inputs["scoring"]["cutoffs"] == [1, 2]
    assert inputs["retrieval"]["keyword"]["k1"] == 1.2
    assert inputs["chunking"] == "document"


def test_checksums_of_vectors_are_artifacts_and_not_inputs(evaluated):
    """The same model on another processor is no other experiment; embedders stand on their own."""
    made = evaluated(vectors_sha256="abc", points=11, embedder={"name": "m", "digest": "d"})

    assert made.manifest["artifacts"] == {"vectors_sha256": "abc", "points": 11}
    assert made.inputs["embedder"] == {"name": "m", "digest": "d"}
    assert "vectors_sha256" not in made.inputs["retrieval"]["keyword"]


def test_another_set_cannot_be_evaluated_into_the_same_execution(evaluated, labelled):
    """One changed version: refused before any table is overwritten."""
    made = evaluated()
    other = replace(labelled, version="2")

    with pytest.raises(ExecutionError, match="made with another set"):
        executions.save(made, other, [], Plan(cutoffs=(1, 2)))


def test_how_the_questions_ended_is_a_sentence(evaluated, broken):
    """All five outcomes of all three questions, and what that makes of the mode."""
    summary = evaluated(rankings=broken).read_json("summary")

    assert executions.outcome_sentences(summary) == [
        "2 answerable and 1 unsupported questions.",
        "keyword: 1 scored, 1 zero hit, 0 skipped, 1 failed, 0 not run; failed.",
    ]
