"""Five outcomes at every threshold: by hand, by definition, and against scikit-learn's curves."""

import json
import warnings
from math import inf, nan
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics

from evalkit.errors import MetricError
from evalkit.metrics import acceptance, operating, scored
from evalkit.metrics.acceptance import OUTCOMES
from evalkit.records import Query, Requirement

CASES = Path(__file__).parents[1] / "data" / "cases" / "thresholds"


def case(name):
    return json.loads((CASES / f"thresholds-{name}.json").read_text(encoding="utf-8"))


def run_frame(run):
    rows = [
        (query_id, doc_id, rank, score)
        for query_id, hits in run.items()
        for rank, (doc_id, score) in enumerate(hits, 1)
    ]
    return pd.DataFrame(rows, columns=["query_id", "doc_id", "rank", "score"])


def questions_of(given, keeps="hits", cutoff=10, **options):
    queries = [
        Query(
            query_id,
            "?",
            query_id not in given["unsupported"],
            grades=given["qrels"].get(query_id, {}),
        )
        for query_id in given["run"]
    ]
    return scored.scored_questions(
        run_frame(given["run"]), queries, axis="cosine", cutoff=cutoff, keeps=keeps, **options
    )


def counted(questions, threshold):
    """By definition: looks at each question on its own, for rankings kept whole."""
    counts = dict.fromkeys(OUTCOMES, 0)
    for row in questions.frame.to_dict("records"):
        accepted = row["score"] == row["score"] and row["score"] >= threshold
        if row["answerable"] and accepted:
            name = "accepted_with_evidence" if row["evidence"] else "accepted_without_evidence"
        elif row["answerable"]:
            name = "abstained_answerable"
        else:
            name = "accepted_unsupported" if accepted else "abstained_unsupported"
        counts[name] += 1
    return counts


@pytest.mark.parametrize("name", ["unsupported-questions-sweep", "missing-score-is-not-zero"])
def test_cases_count_five_outcomes(name):
    """The published rows at the published thresholds (cases thresholds-*, inclusive rule)."""
    published = case(name)
    given, rows = published["input"], published["expected"]["inclusive_>="]
    frame = acceptance.outcomes_at(questions_of(given), given["thresholds"])

    names = ["answerable_right", "answerable_wrong", "answerable_empty"]
    names += ["unsupported_answered", "unsupported_rejected"]
    for ours, theirs in zip(frame.to_dict("records"), rows, strict=True):
        assert [ours[outcome] for outcome in OUTCOMES] == [theirs[name] for name in names]
        assert ours["recall_answerable"] == pytest.approx(theirs["mean_recall_answerable"])


def test_midpoints_serve_the_strict_rule_as_well():
    """At every threshold of a sweep, > and >= accept the same (case thresholds-unsupported-…).

    So that Qdrant, whose rule is strict (case thresholds-boundary-equality), agrees.
    """
    questions = questions_of(case("unsupported-questions-sweep")["input"])
    score = questions.frame["score"].to_numpy()

    for threshold in acceptance.sweep(questions).frame["threshold"]:
        assert ((score >= threshold) == (score > threshold)).all()


def test_a_missing_score_is_accepted_nowhere():
    """U2 returned nothing and is rejected at -1 and at -inf, though all scores are negative."""
    questions = questions_of(case("missing-score-is-not-zero")["input"], keeps="ranking")
    result = acceptance.sweep(questions)

    assert result.without_score == 1
    assert result.frame["abstained_unsupported"].min() == 1
    # (-0.5, -0.3] separates perfectly: the one midpoint in there is (-0.5 - 0.3) / 2
    perfect = result.frame[
        (result.frame["accepted_unsupported"] == 0) & (result.frame["abstained_answerable"] == 0)
    ]
    assert perfect["threshold"].tolist() == [pytest.approx((-0.5 - 0.3) / 2)]


def test_nothing_kept_is_never_perfect():
    """Recall and precision as published; where nothing is kept precision is nan, not 1."""
    published = case("monotone-and-empty")
    given, expected = published["input"], published["expected"]
    frame = acceptance.outcomes_at(questions_of(given), given["thresholds"])
    answered = 2 - frame["abstained_answerable"]

    assert answered.tolist() == expected["answered_of_2"]
    assert frame["recall_answerable"].tolist() == pytest.approx(expected["set_recall_mean"])
    # over accepted questions here, over both there, with 0 for an empty one
    ours = (frame["precision_accepted"] * answered / 2).fillna(0).tolist()
    assert ours == pytest.approx(expected["set_precision_mean_empty_is_0"])
    assert np.isnan(frame["precision_accepted"].iloc[-1])
    assert np.isnan(frame["recall_accepted"].iloc[-1])
    assert np.isnan(frame["evidence_among_accepted"].iloc[-1])


def test_fused_scores_are_called_rank_scores():
    """A sweep of reciprocal-rank sums says what they are (case thresholds-on-fused-scores)."""
    fused = case("on-fused-scores")["expected"]["rrf"]
    run = run_frame({"A": [(str(doc), score) for doc, score in fused]})
    questions = scored.scored_questions(
        run, [Query("A", "?", True, grades={"1": 1})], axis="rrf", cutoff=10
    )

    assert questions.axis == "rrf top score"
    assert "rank scores" in acceptance.sweep(questions).scale


# -0.0 and 0.0 are equal; 0.1 and its neighbour are one float32
SCORES = st.sampled_from([-0.5, -0.25, -0.0, 0.0, 0.1, 0.1 + 2**-56, 0.5, 3.0, nan, -nan])
QUESTIONS = st.lists(st.tuples(SCORES, st.booleans(), st.booleans()), min_size=1, max_size=25)


@settings(deadline=None)  # a busy machine is no failure
@given(QUESTIONS, st.sampled_from([np.float32, np.float64]))
def test_a_sweep_is_what_counting_one_by_one_gives(rows, dtype):
    """At each threshold, and just beside it, the counts are those of the definition."""
    score, answerable, evidence = zip(*rows, strict=True)
    flags = np.logical_and(answerable, evidence)
    questions = scored.from_arrays("cosine top score", np.array(score, dtype), answerable, flags)
    result = acceptance.sweep(questions)

    assert len(result.frame) == len(result.scores) + 1
    for row in result.frame.to_dict("records"):
        assert {name: row[name] for name in OUTCOMES} == counted(questions, row["threshold"])
        assert sum(row[name] for name in OUTCOMES) == len(rows)
    beside = [*result.scores.astype(float), 0.3]
    for row in acceptance.outcomes_at(questions, beside).to_dict("records"):
        assert {name: row[name] for name in OUTCOMES} == counted(questions, row["threshold"])


@settings(deadline=None)  # a busy machine is no failure
@given(QUESTIONS)
def test_raising_the_threshold_accepts_less(rows):
    """Along a sweep false acceptance never rises and false abstention never falls (property)."""
    score, answerable, _ = zip(*rows, strict=True)
    frame = acceptance.sweep(scored.from_arrays("margin", score, answerable)).frame

    assert frame["threshold"].is_monotonic_increasing
    assert (np.diff(frame["accepted_unsupported"]) <= 0).all()
    assert (np.diff(frame["abstained_answerable"]) >= 0).all()
    assert frame["threshold"].iloc[-1] == inf
    assert frame["threshold"].iloc[0] == -inf or np.isnan(score).all()


@pytest.mark.parametrize("decimals", [1, 6])
def test_curves_are_those_of_scikit_learn(decimals):
    """roc_curve, det_curve, precision_recall_curve and AUC agree, ties included."""
    rng = np.random.default_rng(2)
    answerable = rng.random(500) < 0.4
    score = (rng.normal(0, 1, 500) + answerable).round(decimals)
    result = acceptance.sweep(scored.from_arrays("x", score, answerable))
    down = result.frame.iloc[::-1].reset_index(drop=True)

    fpr, tpr, _ = sklearn_metrics.roc_curve(answerable, score, drop_intermediate=False)
    assert np.allclose(down["false_acceptance"], fpr)
    assert np.allclose(1 - down["false_abstention"], tpr)
    fpr, fnr, _ = sklearn_metrics.det_curve(answerable, score)
    pairs = set(
        zip(down["false_acceptance"].round(9), down["false_abstention"].round(9), strict=True)
    )
    assert set(zip(fpr.round(9), fnr.round(9), strict=True)) <= pairs
    precision, _, _ = sklearn_metrics.precision_recall_curve(answerable, score)
    assert np.allclose(down["evidence_among_accepted"].iloc[1:], precision[:-1][::-1])
    assert operating.separation(result).value == pytest.approx(
        sklearn_metrics.roc_auc_score(answerable, score)
    )


def test_float32_scores_stay_what_they_are():
    """Two neighbouring float32 scores are two thresholds, and the midpoint parts them."""
    low = np.float32(0.7)
    high = np.nextafter(low, np.float32(1))
    result = acceptance.sweep(scored.from_arrays("x", np.array([low, high]), [False, True]))

    assert result.scores.dtype == np.float32
    assert float(low) < result.frame["threshold"].iloc[1] < float(high)


def test_scores_beyond_float32_are_swept():
    """1e39 is no float32 and 1e-50 would be 0 there; both stay three different scores."""
    result = acceptance.sweep(scored.from_arrays("x", [1e39, 1e-50, 0.0], [1, 1, 0]))

    assert result.scores.tolist() == [0.0, 1e-50, 1e39]


def test_neighbouring_doubles_are_parted_by_the_upper_one():
    """No double lies between 0.1 and the next one; the threshold is the upper score."""
    upper = np.nextafter(0.1, 1)

    assert acceptance.midpoints(np.array([0.1, upper])).tolist() == [-inf, upper, inf]


QUERY = Query(
    "q",
    "?",
    True,
    split="held-out",
    grades={"a": 2, "b": 1, "c": 0},
    requirements=(Requirement("one", ("a", "z")), Requirement("two", ("b",))),
)
HITS = {"q": [("x", 0.9), ("a", 0.8), ("b", 0.6), ("c", 0.5)], "u": [("x", 0.7), ("b", 0.4)]}


def two_questions(**options):
    return scored.scored_questions(
        run_frame(HITS),
        [QUERY, Query("u", "?", False, split="development")],
        axis="cosine",
        **options,
    )


def test_hits_are_kept_one_by_one():
    """Keeping x, then a, then b of q: recall 0, 1/2, 1; complete only with b (by hand)."""
    frame = acceptance.outcomes_at(two_questions(cutoff=4, keeps="hits"), [0.85, 0.75, 0.55, 0.45])

    assert frame["accepted_with_evidence"].tolist() == [0, 1, 1, 1]
    assert frame["accepted_without_evidence"].tolist() == [1, 0, 0, 0]
    assert frame["recall_accepted"].tolist() == pytest.approx([0, 1 / 2, 1, 1])
    assert frame["precision_accepted"].tolist() == pytest.approx([0, 1 / 2, 2 / 3, 2 / 4])
    assert frame["complete_accepted"].tolist() == pytest.approx([0, 0, 1, 1])
    # u keeps nothing above 0.7, then x
    assert frame["results_kept"].tolist() == pytest.approx([1 / 2, 2 / 2, (3 + 1) / 2, (4 + 1) / 2])
    assert frame["results_kept_unsupported"].tolist() == [0, 0, 1, 1]


def test_rankings_are_kept_whole():
    """At cutoff 2 q gives x and a: recall 1/2, precision 1/2, 2 results, or nothing (by hand)."""
    frame = acceptance.sweep(two_questions(cutoff=2)).frame

    assert frame["threshold"].tolist() == pytest.approx([-inf, (0.7 + 0.9) / 2, inf])
    assert frame["recall_accepted"].tolist() == pytest.approx([1 / 2, 1 / 2, nan], nan_ok=True)
    assert frame["precision_accepted"].tolist() == pytest.approx([1 / 2, 1 / 2, nan], nan_ok=True)
    assert frame["complete_accepted"].tolist() == pytest.approx([0, 0, nan], nan_ok=True)
    assert frame["results_kept"].tolist() == pytest.approx([4 / 2, 2 / 2, 0])


@pytest.mark.parametrize("keeps", ["ranking", "hits"])
def test_decisions_add_up_to_the_sweep(keeps):
    """Question by question, each threshold gives the counts and means of the sweep (property)."""
    questions = two_questions(cutoff=3, keeps=keeps)

    for row in acceptance.sweep(questions).frame.to_dict("records"):
        table = acceptance.decisions(questions, row["threshold"])
        kept = table[table["accepted"] & table["answerable"]]
        assert {name: int((table["outcome"] == name).sum()) for name in OUTCOMES} == {
            name: row[name] for name in OUTCOMES
        }
        assert table["results"].mean() == pytest.approx(row["results_kept"])
        assert kept["recall"].mean() == pytest.approx(row["recall_accepted"], nan_ok=True)
        assert kept["precision"].mean() == pytest.approx(row["precision_accepted"], nan_ok=True)


def test_no_question_with_hits_is_still_counted():
    """Where nothing was retrieved at all, every question is an abstention at every threshold."""
    queries = [Query("q", "?", True, grades={"a": 1}), Query("u", "?", False)]
    for keeps in ("ranking", "hits"):
        questions = scored.scored_questions(
            run_frame({}), queries, axis="cosine", cutoff=5, keeps=keeps
        )
        frame = acceptance.sweep(questions).frame
        assert frame["threshold"].tolist() == [inf]
        assert frame[list(OUTCOMES)].to_numpy().tolist() == [[0, 0, 1, 0, 1]]


def test_empty_and_uneven_input_is_refused():
    """No question, flags of another length, an infinite score, a threshold that is nan."""
    for arrays in (([], []), ([inf], [True])):
        with pytest.raises(MetricError):
            acceptance.sweep(scored.from_arrays("x", *arrays))
    with pytest.raises(MetricError, match="one length"):
        scored.from_arrays("x", [0.1, 0.2], [True])
    with pytest.raises(MetricError, match="not a number"):
        acceptance.outcomes_at(scored.from_arrays("x", [0.1], [True]), [nan])


def test_one_kind_of_question_warns_of_nothing():
    """Without unsupported questions their rate is nan, silently; it is nobody's 0."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = acceptance.sweep(scored.from_arrays("x", [0.1, 0.2], [True, True])).frame

    assert frame["false_acceptance"].isna().all()
