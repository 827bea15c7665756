"""Thousands of draws with known error rates: guarantees, intervals and verdicts hold as stated."""

from math import sqrt
from statistics import NormalDist

import numpy as np
import pytest

from evalkit.metrics import acceptance, calibration, operating, scored, uncertainty
from evalkit.metrics.operating import Rule


def swept(score, answerable, evidence=None, axis="cosine top score"):
    return acceptance.sweep(scored.from_arrays(axis, score, answerable, evidence))


def normal_questions(rng, answerable=200, unsupported=200, distance=1.5, axis="cosine top score"):
    """Scores of two normal kinds of question, a `distance` of standard deviations apart."""
    flags = np.arange(answerable + unsupported) < answerable
    return scored.from_arrays(axis, rng.normal(distance * flags, 1), flags)


# 2,000 draws of a share p have a standard error of √(p (1 - p) / 2000): 0.0067 at p = 0.1
DRAWS = 2_000
NORMAL = NormalDist()


@pytest.mark.slow
@pytest.mark.parametrize("decimals", [12, 0])
def test_the_guarantee_holds_as_often_as_it_says(decimals):
    """Over 2,000 draws false acceptance exceeds 0.1 in at most 10 %; a plain ceiling in far more.

    True rates are known: a score is normal, or rounded to whole numbers so that ties abound.
    """
    rng = np.random.default_rng(21)
    exceeded = {"guarantee": 0, "ceiling": 0}
    given_at_all = 0
    for _ in range(DRAWS):
        flags = np.arange(300) < 150
        result = swept(rng.normal(2 * flags, 1).round(decimals), flags)
        for rule in (Rule("guarantee", 0.1, 0.1), Rule("ceiling", 0.1)):
            point = operating.choose(result, rule)
            if point.threshold is None:
                continue
            edge = point.threshold if decimals else np.ceil(point.threshold) - 0.5
            exceeded[rule.kind] += 1 - NORMAL.cdf(edge) > 0.1
            given_at_all += rule.kind == "guarantee"

    assert given_at_all > 0.95 * DRAWS
    assert exceeded["guarantee"] / DRAWS <= 0.1 + 3 * 0.0067
    if decimals:
        assert exceeded["ceiling"] / DRAWS > 0.3


@pytest.mark.slow
@pytest.mark.parametrize("answerable, unsupported", [(7, 2), (200, 60)])
def test_noise_is_not_separable(answerable, unsupported):
    """Over 2,000 draws of pure noise at least 95 % of the verdicts are NOT SEPARABLE."""
    rng = np.random.default_rng(22)
    verdicts = [
        operating.choose(
            acceptance.sweep(normal_questions(rng, answerable, unsupported, distance=0)),
            Rule("equal error"),
        ).verdict
        for _ in range(DRAWS)
    ]

    assert verdicts.count("NOT SEPARABLE") >= 0.95 * DRAWS


@pytest.mark.slow
@pytest.mark.parametrize("distance", [1, 2.5])
def test_the_interval_of_the_area_covers(distance):
    """Over 2,000 draws of 40 and 25 questions, 95 % intervals cover Φ(d/√2) 93 % or more."""
    rng = np.random.default_rng(23)
    truth = NORMAL.cdf(distance / sqrt(2))
    covered = 0
    for _ in range(DRAWS):
        area = operating.separation(acceptance.sweep(normal_questions(rng, 40, 25, distance)))
        covered += area.low <= truth <= area.high

    assert covered / DRAWS >= 0.95 - 0.02


@pytest.mark.slow
def test_held_out_intervals_cover_and_tuned_ones_do_not():
    """Over 2,000 draws the 95 % interval of the accepted answerable share holds it when held out.

    Tuning on ten candidate axes and reporting on the same questions is the wrong way: there
    the interval fails far more often.
    """
    rng = np.random.default_rng(24)
    covered = {"held-out": 0, "tuned": 0}
    for _ in range(DRAWS):
        best = None
        for axis in rng.normal(np.arange(80) < 40, 1, (10, 80)):
            # counts at the thresholds from below all scores to above them, without a frame
            order = np.argsort(axis)
            accepted = 40 - np.append(0, np.cumsum(order < 40))
            wrong = 40 - np.append(0, np.cumsum(order >= 40))
            index = operating.pick(Rule("ceiling", 0.1), accepted, wrong, 40, 40)
            if index is not None and (best is None or accepted[index] > best[0]):
                best = accepted[index], acceptance.midpoints(axis[order])[index]
        assert best is not None
        held_out = int((rng.normal(1, 1, 40) >= best[1]).sum())
        for name, count in (("held-out", held_out), ("tuned", int(best[0]))):
            rate = uncertainty.rate(name, count, 40, method="Clopper-Pearson")
            covered[name] += rate.low <= NORMAL.cdf(1 - best[1]) <= rate.high

    assert covered["held-out"] / DRAWS >= 0.94
    assert covered["tuned"] / DRAWS < 0.9


@pytest.mark.slow
def test_the_band_covers_the_threshold_of_all_questions():
    """Over 300 draws the 95 % band of a 10 % ceiling holds Φ⁻¹(0.9) in 88 % or more."""
    rng = np.random.default_rng(25)
    covered = 0
    for _ in range(300):
        band = calibration.band(
            acceptance.sweep(normal_questions(rng)), Rule("ceiling", 0.1), rng, resamples=200
        )
        covered += band.low <= NORMAL.inv_cdf(0.9) <= band.high

    assert covered / 300 >= 0.88
