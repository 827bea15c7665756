"""Thresholds chosen by a stated rule, or not at all: by hand, by definition, with scipy."""

from fractions import Fraction
from math import comb, isnan, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evalkit.errors import MetricError
from evalkit.metrics import acceptance, operating, scored
from evalkit.metrics.operating import Rule

RULES = [Rule("ceiling", 0.25), Rule("cost", 2.0), Rule("equal error"), Rule("guarantee", 0.4)]
ROWS = st.lists(
    st.tuples(st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.8]), st.booleans(), st.booleans()),
    min_size=4,
    max_size=40,
).filter(lambda rows: 0 < sum(row[1] for row in rows) < len(rows))


def swept(score, answerable, evidence=None, axis="cosine top score"):
    return acceptance.sweep(scored.from_arrays(axis, score, answerable, evidence))


def binomial_tail(k, n, p):
    """P(Binomial(n, p) <= k) by definition."""
    return sum(comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(k + 1))


@settings(deadline=None)  # a busy machine is no failure
@given(ROWS)
def test_separation_counts_pairs(rows):
    """The area is the share of (answerable, unsupported) pairs in order, ties half (definition)."""
    result = swept([row[0] for row in rows], [row[1] for row in rows])
    pairs = [(a[0] > b[0]) + (a[0] == b[0]) / 2 for a in rows if a[1] for b in rows if not b[1]]
    area = operating.separation(result)

    assert area.value == pytest.approx(sum(pairs) / len(pairs))
    assert area.low <= area.value <= area.high


def test_separation_ends_solve_the_score_equation():
    """At both ends |AUC - end| is z √V(end), with Hanley and McNeil's V (by definition)."""
    area = operating.separation(swept([0.9, 0.6, 0.8, 0.4, 0.3], [1, 1, 0, 0, 0]))

    # answerable .9 and .6 against .8, .4, .3: (3 + 2) of 6 pairs are in order
    assert area.value == pytest.approx(5 / 6)
    for end in (area.low, area.high):
        n = (2 + 3) / 2 - 1
        bracket = 1 + n * (1 - end) / (2 - end) + n * end / (1 + end)
        spread = sqrt(end * (1 - end) * bracket / 6)
        assert abs(5 / 6 - end) == pytest.approx(1.959964 * spread, rel=1e-6)


@settings(deadline=None)  # a busy machine is no failure
@given(ROWS)
def test_chance_is_excluded_when_mann_whitney_rejects(rows):
    """The interval includes 0.5 exactly when the normal Mann-Whitney test keeps its null."""
    score = np.array([row[0] for row in rows])
    answerable = np.array([row[1] for row in rows])
    score = score + np.arange(len(rows)) * 1e-6  # without ties, as the test assumes
    area = operating.separation(swept(score, answerable))
    p = stats.mannwhitneyu(
        score[answerable], score[~answerable], method="asymptotic", use_continuity=False
    ).pvalue

    assert (area.low <= 0.5 <= area.high) == (p >= 0.05)


def test_a_missing_score_ranks_below_all():
    """An unsupported question that returned nothing is beaten by both answerable ones."""
    area = operating.separation(swept([-0.5, -0.4, np.nan, -0.45], [1, 1, 0, 0]))

    assert area.value == (2 + 1) / 4
    # two that returned nothing, one of each kind, are tied
    area = operating.separation(swept([-0.5, np.nan, np.nan, -0.45], [1, 1, 0, 0]))
    assert area.value == (1 + 0 + 1 / 2 + 0) / 4


def meets(rule, row, m, n):
    """By definition: what each rule demands of one row of a sweep; None where it is not met."""
    accepted, wrong = m - row["abstained_answerable"], row["accepted_unsupported"]
    if accepted == 0:
        return None
    if rule.kind == "ceiling":
        return () if wrong / n <= rule.value else None
    if rule.kind == "guarantee":
        return () if binomial_tail(wrong, n, rule.value) <= rule.delta else None
    if rule.kind == "equal error":
        return (abs(Fraction(wrong, n) - Fraction(row["abstained_answerable"], m)),)
    cost = Fraction(int(rule.value) * wrong + row["abstained_answerable"], m + n)
    return (cost,) if cost < Fraction(m, m + n) else None


@settings(deadline=None)  # a busy machine is no failure
@given(ROWS, st.sampled_from(RULES))
def test_rules_pick_what_trying_each_threshold_picks(rows, rule):
    """Each rule's choice is the best row of the sweep by its own words (by definition)."""
    result = swept([row[0] for row in rows], [row[1] for row in rows])
    m, n = result.answerable, result.unsupported
    best = None
    for index, row in enumerate(result.frame.to_dict("records")):
        demand = meets(rule, row, m, n)
        if demand is not None:
            key = (*demand, row["abstained_answerable"], row["accepted_unsupported"])
            best = min(best, (key, index)) if best else (key, index)
    accepted, wrong = operating.accepted_counts(result)

    assert operating.pick(rule, accepted, wrong, m, n) == (best[1] if best else None)


def test_a_ceiling_is_kept_and_no_more():
    """Ten unsupported at .0 to .9, ceiling 0.2: the threshold lies between .7 and .8 (by hand)."""
    unsupported = np.arange(10) / 10
    answerable = np.array([0.65, 0.75, 0.85, 0.95, 0.96, 0.97, 0.98, 0.99])
    point = operating.choose(
        swept(np.r_[unsupported, answerable], np.arange(18) >= 10), Rule("ceiling", 0.2)
    )

    # from .75 on: .8 and .9 are accepted falsely, 2 of 10; .65 is abstained, 1 of 8
    assert point.between == (0.7, 0.75)
    assert point.threshold == (0.7 + 0.75) / 2
    assert (point.false_acceptance, point.false_abstention) == (2 / 10, 1 / 8)
    assert str(point).startswith("Accept when the cosine top score is at least 0.725:")


def test_a_cost_ratio_weighs_the_expected_mix():
    """Where unsupported questions are rare in use, the same costs accept more (by hand)."""
    score = [0.1, 0.2, 0.3, 0.5, 0.4, 0.6, 0.7, 0.8]
    result = swept(score, [0, 0, 0, 0, 1, 1, 1, 1])
    half, rare = (
        operating.choose(result, Rule("cost", 1.5, unsupported_share=share)) for share in (0.5, 0.1)
    )

    # above .5: no false acceptance, 1/4 abstained: cost .125; from .4 on: 1.5 × .5 × 1/4 = .1875
    assert half.between == (0.5, 0.6)
    # above .5: .9 × 1/4 = .225; from .4 on: 1.5 × .1 × 1/4 = .0375
    assert rare.between == (0.3, 0.4)


def test_scores_without_order_are_not_separable():
    """Equal scores for all: the words NOT SEPARABLE, and no threshold (by hand, AUC 1/2)."""
    point = operating.choose(swept([0.5] * 60, np.arange(60) < 30), Rule("equal error"))

    assert point.verdict == "NOT SEPARABLE"
    assert point.threshold is None
    assert str(point).startswith("NOT SEPARABLE: the cosine top score is higher")
    assert str(point).endswith("No threshold is recommended.")
    assert isnan(point.false_acceptance)


def test_reversed_scores_are_not_separable():
    """Unsupported questions that all score higher cannot be told by accepting high scores."""
    point = operating.choose(swept(np.arange(40.0), np.arange(40) < 20), Rule("ceiling", 0.1))

    assert point.verdict == "NOT SEPARABLE"


def test_a_rule_no_threshold_meets_is_not_separable():
    """The highest score is unsupported, so false acceptance is 1/20 at best (by hand)."""
    score = np.r_[np.arange(19.0), 100, np.arange(20.0) + 30]
    point = operating.choose(swept(score, np.arange(40) >= 20), Rule("ceiling", 0.04))

    assert point.verdict == "NOT SEPARABLE"
    assert "accepts 1 of 20 unsupported" in point.reason


def test_one_kind_of_question_is_no_choice():
    """Without unsupported questions there is nothing to choose between."""
    with pytest.raises(MetricError, match="2 and 0"):
        operating.choose(swept([0.1, 0.2], [1, 1]), Rule("equal error"))


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "best"},
        {"kind": "ceiling"},
        {"kind": "ceiling", "value": 1.5},
        {"kind": "cost", "value": 0},
        {"kind": "guarantee", "value": 0.1, "delta": 1},
        {"kind": "cost", "value": 2, "unsupported_share": 0},
    ],
)
def test_rules_out_of_range_are_refused(options):
    """An unknown rule, a ceiling that is missing or above 1, a free false acceptance."""
    with pytest.raises(MetricError):
        Rule(**options)
