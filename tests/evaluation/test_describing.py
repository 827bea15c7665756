"""Tables and sentences about what was evaluated."""

from math import log2

import pytest

from evalkit import evaluation
from evalkit.evaluation import Plan


def test_the_corpus_is_counted_by_what_decides_eligibility(labelled, chunks):
    """Four runbooks that may be retrieved, one note that may not; eligible first."""
    table = evaluation.corpus(labelled, chunks)

    assert table[["document_type", "may be retrieved", "documents", "chunks"]].values.tolist() == [
        ["runbook", "yes", 4, 4],
        ["note", "no", 1, 1],
    ]


def test_questions_are_counted_by_category_and_split(labelled):
    """One fact with 2 relevant chunks, one condition with 3, one unsupported fact with none."""
    table = evaluation.questions(labelled).set_index(["kind", "category"])

    assert table.loc[("answerable", "fact"), "relevant chunks a question"] == 2
    assert table.loc[("answerable", "condition"), "relevant chunks a question"] == 3
    assert table.loc[("unsupported", "fact"), "questions"] == 1
    assert table.loc[("unsupported", "fact"), "held-out"] == 1


def test_stable_prefixes_are_said_to_be_stable(labelled, chunks, written):
    """The retriever cuts one list: every shorter ranking begins the deepest."""
    found = evaluation.evaluate(labelled, chunks, written({"first?": ["a", "b"]}), Plan((1, 2)))

    assert evaluation.prefix_sentence([found]) == (
        "written: every shorter ranking begins the deepest one."
    )


def test_recall_and_facts_are_set_beside_each_other_where_they_differ(labelled, chunks, written):
    """q2 after c and a: both facts, 2 of 3 chunks (by hand); q1 has no facts and is not listed."""
    found = evaluation.evaluate(labelled, chunks, written({"second?": ["c", "a"]}), Plan((2,)))
    table = evaluation.recall_against_facts(labelled, found, Plan((2,)))

    assert table["query_id"].tolist() == ["q2"]
    assert table["Recall@2"].item() == pytest.approx(2 / 3)
    assert table["RequirementRecall@2"].item() == 1
    assert table[["relevant chunks", "facts"]].values.tolist() == [[3, 2]]


def test_two_policies_differ_where_a_choice_differs(labelled, chunks, written):
    """Linear against exponential gain for c (0), a (2) where a, b is ideal; q2 is ideal (by hand).

    Precision does not depend on the gain.
    """
    asked = written({"first?": ["c", "a"], "second?": ["c", "a", "b"]})
    found = evaluation.evaluate(labelled, chunks, asked, Plan((3,)))
    table = evaluation.under_two_policies(found, labelled, Plan((3,)), "trec_eval")
    by_name = table.set_index("metric")

    exponential = (3 / log2(3)) / (3 + 1 / log2(3))
    linear = (2 / log2(3)) / (2 + 1 / log2(3))
    assert by_name.loc["nDCG@3", "this policy"] == pytest.approx((exponential + 1) / 2)
    assert by_name.loc["nDCG@3", "trec_eval"] == pytest.approx((linear + 1) / 2)
    assert "gain" in by_name.loc["nDCG@3", "choices that differ for it"]
    assert by_name.loc["Precision@3", "this policy"] == by_name.loc["Precision@3", "trec_eval"]
