"""The one number of a question: signals, agreement, splits, and what is refused."""

from math import inf, nan

import pandas as pd
import pytest

from evalkit.errors import DataError, MetricError
from evalkit.metrics import acceptance, scored
from evalkit.records import Query, Requirement

QUERY = Query(
    "q",
    "?",
    True,
    split="held-out",
    grades={"a": 2, "b": 1, "c": 0},
    requirements=(Requirement("one", ("a", "z")), Requirement("two", ("b",))),
)
HITS = {"q": [("x", 0.9), ("a", 0.8), ("b", 0.6), ("c", 0.5)], "u": [("x", 0.7), ("b", 0.4)]}


def run_frame(run):
    rows = [
        (query_id, doc_id, rank, score)
        for query_id, hits in run.items()
        for rank, (doc_id, score) in enumerate(hits, 1)
    ]
    return pd.DataFrame(rows, columns=["query_id", "doc_id", "rank", "score"])


def two_questions(**options):
    return scored.scored_questions(
        run_frame(HITS),
        [QUERY, Query("u", "?", False, split="development")],
        axis="cosine",
        **options,
    )


@pytest.mark.parametrize(
    "signal, expected, axis",
    [
        ("top score", [0.9, 0.7], "cosine top score"),
        ("margin", [0.9 - 0.8, 0.7 - 0.4], "cosine margin"),
        # of two scores the first lies one standard deviation above their mean
        ("standing", [1.0, 1.0], "cosine standing@2"),
        (pd.Series({"q": 3.0}), [3.0, nan], "cosine"),
    ],
)
def test_signals_are_taken_from_the_ranking(signal, expected, axis):
    """Top score, margin, standing, or a number of the caller's own (by hand)."""
    questions = two_questions(cutoff=2, signal=signal)

    assert questions.frame["score"].tolist() == pytest.approx(expected, nan_ok=True)
    assert questions.axis == axis


def test_one_hit_has_no_margin():
    """With one hit there is no second score: the question has no margin and is not accepted."""
    query = Query("q", "?", True, grades={"a": 1})
    run = run_frame({"q": [("a", 0.9)]})
    questions = scored.scored_questions(run, [query], axis="cosine", cutoff=5, signal="margin")

    assert acceptance.sweep(questions).frame["abstained_answerable"].tolist() == [1]


def test_agreement_is_the_share_of_common_chunks():
    """x and a against a and y: 1 of 2 in common; a question one run lacks has none (by hand)."""
    other = run_frame({"q": [("a", 12.0), ("y", 11.0)]})

    assert scored.agreement(run_frame(HITS), other, 2).to_dict() == {"q": 1 / 2}


def test_splits_are_swept_apart():
    """A part holds its split's questions and hits only, and carries its name."""
    part = two_questions(cutoff=4, keeps="hits").part("development")
    result = acceptance.sweep(part)

    assert (part.label, result.answerable, result.unsupported) == ("development", 0, 1)
    assert result.scores.tolist() == [0.4, 0.7]
    with pytest.raises(MetricError, match="development"):
        part.part("test")


@pytest.mark.parametrize(
    "run, message",
    [
        ({"q": [("a", inf)]}, "no number"),
        ({"q": [("a", nan)]}, "no number"),
        ({"q": [("a", 0.9), ("a", 0.8)]}, "twice"),
        ({"q": [("a", 0.1), ("b", 0.8)]}, "rise"),
    ],
)
def test_unusable_rankings_are_refused(run, message):
    """Scores that are no numbers, doubled chunks, rising scores: an error, not a count."""
    with pytest.raises(MetricError, match=message):
        scored.scored_questions(run_frame(run), [QUERY], axis="cosine", cutoff=5, keeps="hits")


def test_questions_must_be_known_and_judged():
    """A run of other questions and an answerable one without a relevant chunk are errors."""
    with pytest.raises(DataError, match="'u'"):
        scored.scored_questions(run_frame(HITS), [QUERY], axis="cosine", cutoff=5)
    with pytest.raises(MetricError, match="no chunk is relevant"):
        scored.scored_questions(
            run_frame({"q": []}), [Query("q", "?", True)], axis="cosine", cutoff=5
        )


@pytest.mark.parametrize(
    "options",
    [
        {"cutoff": 0},
        {"cutoff": 5, "signal": "mode"},
        {"cutoff": 5, "keeps": "hits", "signal": "margin"},
    ],
)
def test_options_out_of_range_are_refused(options):
    """A cutoff of 0, an unknown signal, a margin held against single hits."""
    with pytest.raises(MetricError):
        two_questions(**options)
