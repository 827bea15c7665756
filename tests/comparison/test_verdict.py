"""The five words: by hand at their borders, and by simulation over 10,000 comparisons."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest

from evalkit.comparison import (
    HELD,
    IMPROVED,
    REGRESSED,
    UNDERPOWERED,
    Rule,
    improve_or_hold,
    verdict,
)
from evalkit.comparison.rules import word
from evalkit.errors import ParameterError
from evalkit.metrics import paired, uncertainty

RULE = Rule(smallest=0.02)
ROW = {"n": 100, "wins": 60, "losses": 40, "p_adjusted": 0.01, "p_harm": 0.001}


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ({"difference": 0.03, "low": 0.01, "high": 0.05}, IMPROVED),
        ({"difference": 0.015, "low": 0.005, "high": 0.025}, IMPROVED),
        ({"difference": 0.01, "low": 0.005, "high": 0.015}, HELD),
        ({"difference": -0.01, "low": -0.015, "high": -0.005}, HELD),
        ({"difference": -0.03, "low": -0.05, "high": -0.01}, REGRESSED),
        ({"difference": -0.015, "low": -0.02, "high": -0.005}, REGRESSED),
        ({"difference": 0.03, "low": 0.0, "high": 0.06, "p_adjusted": 0.06}, HELD),
        ({"difference": 0.0, "low": -0.02, "high": 0.02, "p_adjusted": 1.0}, UNDERPOWERED),
        ({"difference": 0.0, "low": -0.01, "high": 0.01, "p_harm": 0.026}, UNDERPOWERED),
        ({"difference": 0.5, "low": 0.5, "high": 0.5, "p_adjusted": 0.05}, IMPROVED),
        ({"difference": 0.0, "low": 0.0, "high": 0.0, "wins": 0, "losses": 0}, HELD),
    ],
)
def test_each_word_at_its_borders(numbers, expected):
    """Both ends of the interval against 0.02, p at 0.05, p_harm at 0.025 (by definition)."""
    assert word(ROW | numbers, RULE) == expected


def table(**words):
    rows = [
        ROW
        | {
            "slice": "all",
            "metric": metric,
            "cutoff": "10",
            "difference": 0.0,
            "low": 0.0,
            "high": 0.0,
            "ties": 0,
            "detectable": 0.1,
            "needed": 50,
            "verdict": said,
        }
        for metric, said in words.items()
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("ndcg", "recall", "expected"),
    [
        (IMPROVED, HELD, IMPROVED),
        (HELD, HELD, HELD),
        (IMPROVED, REGRESSED, REGRESSED),
        (HELD, UNDERPOWERED, UNDERPOWERED),
        (UNDERPOWERED, REGRESSED, REGRESSED),
    ],
)
def test_improve_or_hold_asks_it_of_both_metrics(ndcg, recall, expected):
    """Kept only where nDCG@10 and Recall@10 each improve or hold (C19)."""
    assert verdict(table(nDCG=ndcg, Recall=recall), improve_or_hold())[0] == expected


def test_an_underpowered_verdict_says_how_many_questions_would_tell():
    """50 are needed: the number stands in the last sentence."""
    said = verdict(table(nDCG=UNDERPOWERED), Rule(cutoff="10"))[1]

    assert said[-1] == "About 50 questions would be needed to tell."
    assert "would show one of 0.100 four times in five" in said[1]


@pytest.mark.parametrize(
    "wrong", [{"smallest": 0.0}, {"alpha": 0.0}, {"alpha": 1.0}, {"varying": "weather"}]
)
def test_a_rule_without_a_meaning_is_refused(wrong):
    """No effect at all that matters, a level that is none, an input nobody records."""
    with pytest.raises(ParameterError):
        Rule(**wrong)


def words(differences, rule):
    """The word for each column of (questions, comparisons), each alone as the declared metric."""
    found = Counter()
    for part in np.array_split(differences, -(-differences.shape[1] // 250), axis=1):
        harm = paired.sign_flip(part + rule.smallest, resamples=1_999) / 2
        low, high = uncertainty.mean_intervals(
            part, np.random.default_rng(1), level=1 - rule.alpha, resamples=999
        )
        rows = pd.DataFrame(
            {
                "n": len(part),
                "wins": (part > 0).sum(axis=0),
                "losses": (part < 0).sum(axis=0),
                "difference": part.mean(axis=0),
                "low": low,
                "high": high,
                "p_adjusted": paired.sign_flip(part, resamples=1_999),
                "p_harm": np.where((part + rule.smallest).mean(axis=0) > 0, harm, 1.0),
            }
        )
        found += Counter(word(row, rule) for row in rows.to_dict("records"))
    return found


def error(share, comparisons):
    """Five standard errors of a share."""
    return 5 * np.sqrt(share * (1 - share) / comparisons)


@pytest.mark.slow
@pytest.mark.parametrize("questions", [7, 22, 80, 500])
def test_no_difference_is_called_one_no_more_often_than_alpha(questions):
    """10,000 null comparisons: IMPROVED and REGRESSED together in at most 5 % (property)."""
    rng = np.random.default_rng(questions)
    found = Counter()
    for _ in range(10):
        differences = rng.choice([-0.5, -0.25, 0.0, 0.25, 0.5], (questions, 1_000))
        found += words(differences, Rule(smallest=0.05))

    assert found.total() == 10_000
    assert found[IMPROVED] + found[REGRESSED] <= (0.05 + error(0.05, 10_000)) * 10_000
    assert abs(found[IMPROVED] - found[REGRESSED]) <= error(0.05, 10_000) * 10_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("questions", "sign", "points"), [(7, 1, 0.06), (22, -1, 0.04), (80, 1, 0.04), (500, -1, 0.04)]
)
def test_an_effect_that_matters_is_found_with_the_power_promised(questions, sign, points):
    """Planted at the detectable size, which is the one that matters: 80 % of 2,000.

    Within 4 points; at 7 questions, where few p-values exist and intervals are narrow, within 6.
    """
    effect = paired.detectable(0.3, questions)
    rng = np.random.default_rng(questions + sign)
    differences = rng.normal(sign * effect, 0.3, (questions, 2_000))
    found = words(differences, Rule(smallest=effect))

    assert found[IMPROVED if sign > 0 else REGRESSED] / 2_000 == pytest.approx(0.8, abs=points)
    assert found[REGRESSED if sign > 0 else IMPROVED] == 0


@pytest.mark.slow
def test_with_the_number_of_questions_needed_the_effect_is_found():
    """`needed` for 0.05 at a spread of 0.3 is 285; so many find it in 80 % (4 points)."""
    questions = paired.questions_needed(0.05, 0.3)
    differences = np.random.default_rng(5).normal(0.05, 0.3, (questions, 2_000))

    assert words(differences, Rule(smallest=0.05))[IMPROVED] / 2_000 == pytest.approx(0.8, abs=0.04)


@pytest.mark.slow
@pytest.mark.parametrize("questions", [7, 22, 80])
def test_a_loss_that_matters_is_rarely_called_held(questions):
    """The true loss is exactly the one that matters: HELD in at most alpha / 2 (property)."""
    differences = np.random.default_rng(questions).normal(-0.05, 0.2, (questions, 4_000))
    found = words(differences, Rule(smallest=0.05))

    assert found[HELD] / 4_000 <= 0.025 + error(0.025, 4_000)
