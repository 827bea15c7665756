"""Intervals of shares, of means, of differences of shares; records that JSON can hold."""

import json
from math import inf, isnan, nan, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evalkit.errors import MetricError
from evalkit.metrics import uncertainty

COUNTS = st.integers(0, 60).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total)))


def test_wilson_solves_the_score_equation():
    """At both ends of Wilson's interval |p - end| is z √(end (1 - end) / n) (by definition)."""
    low, high = uncertainty.wilson(7, 20)

    for end in (float(low), float(high)):
        assert abs(7 / 20 - end) == pytest.approx(1.959964 * sqrt(end * (1 - end) / 20), rel=1e-6)


def test_two_of_two_accepted_leaves_a_third():
    """2 of 2 has the 95 % interval 1 / (1 + z²/2) = 0.342 to 1 (by hand; the two-probe set)."""
    low, high = uncertainty.wilson(2, 2)

    assert float(low) == pytest.approx(1 / (1 + 1.959964**2 / 2), abs=1e-6)
    assert float(high) == 1.0


@settings(deadline=None)  # a busy machine is no failure
@given(COUNTS.filter(lambda pair: pair[1] > 0), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_shares_have_the_intervals_of_scipy(pair, level):
    """Wilson and Clopper-Pearson equal scipy's binomtest (second implementation)."""
    count, total = pair
    for method, oracle in (("Wilson", "wilson"), ("Clopper-Pearson", "exact")):
        ours = uncertainty.rate("x", count, total, level=level, method=method)
        theirs = stats.binomtest(count, total).proportion_ci(level, method=oracle)

        assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)
        assert 0 <= ours.low <= ours.value <= ours.high <= 1


def test_clopper_pearson_ends_are_where_a_binomial_test_just_rejects():
    """P(X >= 3 | low) = P(X <= 3 | high) = 0.025 for 3 of 12 (by definition, plain sums)."""
    from math import comb

    low, high = (float(end) for end in uncertainty.clopper_pearson(3, 12))
    upper = sum(comb(12, k) * low**k * (1 - low) ** (12 - k) for k in range(3, 13))
    lower = sum(comb(12, k) * high**k * (1 - high) ** (12 - k) for k in range(4))

    assert (upper, lower) == pytest.approx((0.025, 0.025), abs=1e-9)


def test_no_questions_is_no_rate():
    """A share of nothing is nan with the interval 0 to 1, and says so in words (by hand)."""
    nothing = uncertainty.rate("false acceptance", 0, 0)

    assert isnan(nothing.value)
    assert (nothing.low, nothing.high) == (0, 1)
    assert str(nothing) == "false acceptance: undefined, 0 questions"


def test_intervals_are_taken_of_whole_curves():
    """Arrays of counts give arrays of ends, each as for the single count (property)."""
    counts = np.array([0, 3, 10])
    low, high = uncertainty.clopper_pearson(counts, 10)

    for index, count in enumerate(counts):
        one = uncertainty.rate("x", int(count), 10, method="Clopper-Pearson")
        assert (low[index], high[index]) == (one.low, one.high)


@pytest.mark.parametrize("count, total", [(-1, 5), (6, 5)])
def test_impossible_counts_are_refused(count, total):
    """A count below 0 or above its total is an error, not an interval."""
    with pytest.raises(MetricError, match="between 0 and its total"):
        uncertainty.rate("x", count, total)


def test_impossible_levels_and_methods_are_refused():
    """A level of 95 and a method nobody wrote are errors that name what was given."""
    with pytest.raises(MetricError, match="95"):
        uncertainty.rate("x", 1, 5, level=95)
    with pytest.raises(MetricError, match="Wald"):
        uncertainty.rate("x", 1, 5, method="Wald")
    with pytest.raises(MetricError, match="studentised"):
        uncertainty.mean_estimate("x", [1, 2], np.random.default_rng(0), method="studentised")


def test_difference_of_rates_is_newcombes():
    """56/70 - 48/80 = 0.20, 95 % 0.0524 to 0.3339 (Newcombe 1998, table II, method 10)."""
    first, second = uncertainty.rate("a", 56, 70), uncertainty.rate("b", 48, 80)

    assert uncertainty.rate_difference(first, second) == pytest.approx(
        (0.2, 0.0524, 0.3339), abs=5e-5
    )


def test_difference_with_nothing_is_undefined():
    """A difference from a rate without questions is nan and anything between -1 and 1."""
    value, low, high = uncertainty.rate_difference(
        uncertainty.rate("a", 1, 2), uncertainty.rate("b", 0, 0)
    )

    assert isnan(value)
    assert (low, high) == (-1, 1)


@pytest.mark.parametrize(
    "method, oracle", [("BCa bootstrap", "BCa"), ("percentile bootstrap", "percentile")]
)
def test_bootstrap_ends_are_those_of_scipy(method, oracle):
    """On 80 skewed values both ends lie within Monte Carlo error of scipy's bootstrap."""
    values = np.random.default_rng(5).gamma(0.7, 1.0, 80)
    ours = uncertainty.mean_estimate(
        "x", values, np.random.default_rng(1), method=method, resamples=20_000
    )
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, batch=500, method=oracle, rng=2
    ).confidence_interval

    assert ours.value == values.mean()
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.012)


def test_all_resamples_of_three_questions():
    """Means over 27 equally likely resamples of 0, 0, 1: each k/3 comes as binomial says."""
    means = uncertainty.bootstrap_means(
        np.array([[0.0], [0.0], [1.0]]), 40_000, np.random.default_rng(3)
    )
    shares = [float((np.abs(means - k / 3) < 1e-9).mean()) for k in range(4)]

    # P(k of 3 draws are the third question) = C(3, k) (1/3)^k (2/3)^(3-k)
    assert shares == pytest.approx([8 / 27, 12 / 27, 6 / 27, 1 / 27], abs=0.01)


def test_columns_share_their_resamples():
    """Two metrics on the same questions move together: b = 1 - a in every resample."""
    a = np.random.default_rng(0).random(37)
    means = uncertainty.bootstrap_means(np.c_[a, 1 - a], 50, np.random.default_rng(4))

    assert np.allclose(means.sum(1), 1)


def test_seeds_decide_the_interval():
    """The same generator state gives the same ends, another gives others."""
    values = np.random.default_rng(0).random(50)
    first, again, other = (
        uncertainty.mean_estimate("x", values, np.random.default_rng(seed)) for seed in (7, 7, 8)
    )

    assert first == again
    assert first != other


def test_means_of_little_say_so():
    """No value: nan. One: its mean, no interval. All equal: an interval without width."""
    rng = np.random.default_rng(0)

    assert isnan(uncertainty.mean_estimate("x", [], rng).value)
    one = uncertainty.mean_estimate("x", [0.4], rng)
    assert one.value == 0.4
    assert isnan(one.low)
    equal = uncertainty.mean_estimate("x", [0.4, 0.4], rng)
    assert (equal.low, equal.high) == pytest.approx((0.4, 0.4))
    with pytest.raises(MetricError, match="not numbers"):
        uncertainty.mean_estimate("x", [0.4, nan], rng)


def test_records_become_json():
    """nan is null and an infinity its name, so that json refuses nothing (by hand)."""
    record = uncertainty.Estimate("x", 3, nan, -inf, inf, 0.95, "by hand")

    assert json.loads(json.dumps(uncertainty.as_record(record), allow_nan=False)) == {
        "name": "x",
        "total": 3,
        "value": None,
        "low": "-inf",
        "high": "inf",
        "level": 0.95,
        "method": "by hand",
    }


def test_frames_have_one_row_a_record():
    """A rate keeps its count as a whole number, an estimate has none; no records, no rows."""
    rows = [uncertainty.rate("a", 1, 3), uncertainty.Estimate("b", 3, 0.5, 0, 1, 0.95, "by hand")]
    frame = uncertainty.as_frame(rows)

    assert frame["count"].tolist()[0] == 1
    assert frame["count"].isna().tolist() == [False, True]
    assert uncertainty.as_frame(()).empty


@pytest.mark.slow
def test_intervals_of_shares_cover_at_their_level():
    """Of 2,000 draws a share, Clopper-Pearson covers at least 95 % and Wilson near 95 %."""
    rng = np.random.default_rng(11)
    for p in (0.02, 0.1, 0.5, 0.9):
        counts = rng.binomial(60, p, 2_000)
        covered = []
        for interval in (uncertainty.clopper_pearson, uncertainty.wilson):
            low, high = interval(counts, 60)
            covered.append(float(((low <= p) & (p <= high)).mean()))

        # 2,000 draws of a coverage of 0.95 have a standard error of √(.95 × .05 / 2000) = 0.005
        assert covered[0] >= 0.95 - 3 * 0.005
        assert 0.92 <= covered[1] <= 0.99


@pytest.mark.slow
def test_intervals_of_means_cover_near_their_level():
    """Of 2,000 samples of 60 skewed recalls, BCa covers the true mean 92 to 97 % of the time."""
    rng = np.random.default_rng(12)
    # every sample is a column, with resamples of its own: 40 batches of 50
    inside = []
    for _ in range(40):
        recalls = rng.beta(2, 0.7, (60, 50))
        low, high = uncertainty.mean_intervals(recalls, rng, resamples=1_000)
        inside.append((low <= 2 / 2.7) & (high >= 2 / 2.7))

    assert 0.92 <= float(np.mean(inside)) <= 0.97
