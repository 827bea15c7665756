"""Means with their counts and ceilings, outcomes in sums, and the questions worth reading."""

import numpy as np
import pandas as pd
import pytest

from evalkit import evaluation
from evalkit.errors import EmbeddingError
from evalkit.evaluation import Plan

PLAN = Plan(cutoffs=(1, 2))


def frames(values, categories=None, ceiling=1.0):
    """Results, outcomes and ceilings of Recall@1 for questions q0, q1, ...; None is no value."""
    ids = [f"q{number}" for number in range(len(values))]
    rows = [(i, "Recall", "1", v) for i, v in zip(ids, values, strict=True) if v is not None]
    columns = ["query_id", "metric", "cutoff", "value"]
    best = [(i, "Recall", "1", ceiling) for i in ids]
    outcomes = pd.DataFrame({"query_id": ids, "category": categories or ["fact"] * len(ids)})
    return pd.DataFrame(rows, columns=columns), outcomes, pd.DataFrame(best, columns=columns)


def test_each_question_counts_once():
    """Macro mean of 1, 0, 1/2 and 1/2 (by hand: 2/4), over 4 of 4, under a ceiling of 1."""
    row = evaluation.means(*frames([1.0, 0.0, 0.5, 0.5])).iloc[0]

    assert row["mean"] == (1 + 0 + 1 / 2 + 1 / 2) / 4
    assert [row["count"], row["of"], row["ceiling"]] == [4, 4, 1.0]
    assert row["low"] <= row["mean"] <= row["high"]


def test_a_question_without_a_value_shows_in_the_count_and_not_as_0():
    """Of three questions one failed: the mean is that of two, and `count` is 2 of 3."""
    row = evaluation.means(*frames([1.0, None, 0.5])).iloc[0]

    assert row["mean"] == (1 + 1 / 2) / 2
    assert [row["count"], row["of"]] == [2, 3]


def test_a_slice_that_failed_whole_stays_visible():
    """Both symptoms failed: their row says 0 of 2 with an undefined mean, and is not dropped."""
    found = evaluation.means(
        *frames([1.0, None, None], ["fact", "symptom", "symptom"]), by=["category"]
    ).set_index("category")

    assert found.loc["symptom", ["count", "of"]].tolist() == [0, 2]
    assert np.isnan(found.loc["symptom", "mean"])
    assert found.loc["fact", "mean"] == 1


def test_the_interval_repeats():
    """The bootstrap is seeded: the same values give the same interval (property)."""
    values = np.random.default_rng(0).random(30).tolist()
    first, second = (evaluation.means(*frames(values)) for _ in range(2))

    pd.testing.assert_frame_equal(first, second)


def outcomes(*statuses):
    return pd.DataFrame({"status": statuses})


def test_the_five_outcomes_are_counted_apart():
    """One of each: five counts of one, in the order they are always printed."""
    found = evaluation.counts(outcomes("scored", "zero_hit", "skipped", "failed", "not_run"))

    assert found == dict.fromkeys(["scored", "zero_hit", "skipped", "failed", "not_run"], 1)


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        (("scored", "zero_hit"), "completed"),
        (("scored", "skipped"), "completed"),
        (("scored", "failed"), "failed"),
        (("scored", "not_run"), "failed"),
        (("skipped", "skipped"), "failed"),
    ],
)
def test_an_evaluation_failed_when_a_question_did_or_all_were_skipped(statuses, status):
    """One failure fails it, and so do all skipped (B15); one skipped question does not."""
    assert evaluation.status(outcomes(*statuses)) == status


def test_the_worst_questions_come_first_with_what_was_missing(labelled, chunks, written):
    """q1 found nothing (0), q2 something: q1 first; a (2) and b (1) are missing, in that order."""
    found = evaluation.evaluate(
        labelled, chunks, written({"first?": ["c", "e"], "second?": ["c", "e"]}), PLAN
    )
    misses = list(evaluation.worst(found, labelled, chunks))

    assert [miss.query_id for miss in misses] == ["q1", "q2"]
    assert misses[0].value == 0
    assert misses[0].missing[["grade", "doc_id", "text"]].values.tolist() == [
        [2, "a", "text of a"],
        [1, "b", "text of b"],
    ]
    assert misses[0].returned["ideal"].tolist() == ["a (2)", "b (1)"]


def test_a_question_at_its_ceiling_is_no_miss(labelled, chunks, written):
    """q1 answered perfectly is not listed among the worst."""
    found = evaluation.evaluate(
        labelled, chunks, written({"first?": ["a", "b"], "second?": ["e"]}), PLAN
    )

    assert [miss.query_id for miss in evaluation.worst(found, labelled, chunks)] == ["q2"]


def test_a_failed_question_is_not_a_miss(labelled, chunks, written):
    """It has no value, so it cannot have the lowest."""
    asked = written({"first?": EmbeddingError("no vector"), "second?": ["e"]})
    found = evaluation.evaluate(labelled, chunks, asked, PLAN)

    assert [miss.query_id for miss in evaluation.worst(found, labelled, chunks)] == ["q2"]
