"""Sign-flip tests, Holm's adjustment, detectable effects."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.errors import MetricError
from evalkit.metrics import paired

CASES = Path(__file__).parents[1] / "data" / "cases" / "stats"


def case(name):
    return json.loads((CASES / f"{name}.json").read_text(encoding="utf-8"))


def all_sign_vectors(differences):
    """By definition: the share of sign vectors whose sum is at least as far from 0."""
    observed = abs(sum(differences))
    sums = [
        abs(sum(sign * value for sign, value in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    return sum(total >= observed - 1e-12 for total in sums) / len(sums)


@given(st.lists(st.sampled_from([-0.5, -0.25, 0.0, 0.1, 0.2, 1.0]), min_size=1, max_size=9))
def test_few_questions_are_enumerated(differences):
    """Up to 16 moving questions p is the share over all sign vectors (by definition)."""
    assert paired.sign_flip(differences)[0] == pytest.approx(all_sign_vectors(differences))


def test_a_run_against_itself_has_p_one():
    """Equal values give mean difference 0 and p 1, never nan (case stats-identical-runs)."""
    values = case("stats-identical-runs")["input"]["metric_by_query"]
    differences = [values["B"][query] - values["A"][query] for query in values["A"]]

    assert paired.sign_flip(differences).tolist() == [1.0]


def test_pairing_is_by_question():
    """Six differences of one sign: 2 of 2^6 sign vectors (case stats-paired-by-query)."""
    found = case("stats-paired-by-query")
    values = found["input"]["metric_by_query"]
    differences = [values["B"][query] - values["A"][query] for query in values["A"]]

    assert paired.sign_flip(differences)[0] == found["expected"]["sign_flip_exact_p_two_sided"]


def test_p_is_never_zero():
    """Thirty gains: p is 1 / (B + 1) at least (case stats-permutation-p-never-zero)."""
    thirty = case("stats-permutation-p-never-zero")["input"]["differences"]["thirty"]

    assert paired.sign_flip(thirty, resamples=999)[0] >= 1 / 1000


def test_both_ways_of_drawing_agree_with_the_exact_p():
    """Twenty questions by table and by product come within 5 standard errors of the exact p."""
    rng = np.random.default_rng(3)
    differences = rng.normal(0.08, 0.3, 18)
    exact = all_sign_vectors(differences.tolist())
    error = 5 * np.sqrt(exact * (1 - exact) / 100_000)

    table = paired.sign_flip(differences)[0]
    product = paired.sign_flip(np.column_stack([differences, differences]))

    assert table == pytest.approx(exact, abs=error)
    assert product == pytest.approx([exact, exact], abs=error)


def test_equal_sums_that_round_differently_count_as_equal():
    """Lattice values: 0.1 + 0.2 - 0.3 is a tie with 0 although floats disagree (by definition)."""
    differences = [0.1, 0.2, -0.3, 0.1, 0.2, -0.3]

    assert paired.sign_flip(differences)[0] == 1.0


def test_the_same_seed_gives_the_same_p():
    """The draw is a function of its seed alone (property)."""
    differences = np.random.default_rng(1).normal(0, 1, 50)

    first, second = (paired.sign_flip(differences, resamples=2000, seed=7) for _ in range(2))

    assert first == second


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_keeps_order_and_never_lowers(p_values):
    """Adjusted p-values are at least the raw ones, at most 1, and keep their order (property)."""
    adjusted = paired.holm(p_values)
    order = np.argsort(p_values, kind="stable")

    assert (adjusted >= np.asarray(p_values) - 1e-15).all()
    assert (adjusted <= 1).all()
    assert (np.diff(adjusted[order]) >= 0).all()


def test_five_questions_can_show_nothing_at_five_percent():
    """2 / 2^5 = 0.0625 is above 0.05, 2 / 2^6 = 0.03125 is not (by hand)."""
    assert paired.detectable(0.1, 5) == float("inf")
    assert np.isfinite(paired.detectable(0.1, 6))


@given(st.floats(0.01, 0.5), st.floats(0.01, 1.0))
def test_questions_needed_is_the_inverse_of_detectable(effect, spread):
    """With the number asked for, the effect is detectable (property)."""
    needed = paired.questions_needed(effect, spread)

    assert paired.detectable(spread, needed) <= effect + 1e-9


@pytest.mark.parametrize("bad", [[], [[1.0, float("nan")]], [float("inf")]])
def test_holes_are_refused(bad):
    """A missing value is an error, never a zero difference."""
    with pytest.raises(MetricError, match="one finite number"):
        paired.sign_flip(bad)


@pytest.mark.slow
@pytest.mark.parametrize("questions", [7, 22, 80, 500])
def test_false_alarms_stay_at_the_level(questions):
    """Over 10,000 null comparisons at most alpha are called different (5 standard errors)."""
    rng = np.random.default_rng(questions)
    differences = rng.choice([-0.5, 0.0, 0.25, 0.5], (questions, 10_000), p=[0.25, 0.3, 0.2, 0.25])
    differences *= rng.choice([-1.0, 1.0], (questions, 10_000))  # symmetric about 0: a true null
    alarms = (paired.sign_flip(differences, resamples=1_999) <= 0.05).mean()

    assert alarms <= 0.05 + 5 * np.sqrt(0.05 * 0.95 / 10_000)


@pytest.mark.slow
def test_planted_effects_are_found_at_the_power_promised():
    """An effect of the detectable size is found in 80 % of 4,000 comparisons (4 points)."""
    rng = np.random.default_rng(9)
    effect = paired.detectable(0.3, 80)
    differences = rng.normal(effect, 0.3, (80, 4_000))
    found = (paired.sign_flip(differences, resamples=1_999) <= 0.05).mean()

    assert found == pytest.approx(0.8, abs=0.04)
