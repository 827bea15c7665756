"""How far a chosen threshold can be trusted.

sweep of the development questions -> choose -> report on the held-out questions
                                   -> band, optimism -> a guarantee, or how many
                                      questions it would need
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import numpy as np
import pandas as pd

from evalkit.errors import MetricError
from evalkit.metrics.acceptance import OUTCOMES, Sweep, decisions, midpoints
from evalkit.metrics.operating import (
    Operating,
    Rule,
    accepted_counts,
    both_kinds,
    choose,
    p_values,
    pick,
    questions_for_guarantee,
)
from evalkit.metrics.scored import ScoredQuestions
from evalkit.metrics.uncertainty import (
    Estimate,
    Rate,
    ShareMethod,
    mean_estimate,
    rate,
    rate_difference,
)


@dataclass(frozen=True, slots=True)
class Band:
    """How far the chosen threshold moves when the questions are drawn again.

    `chosen` is the share of resamples in which any threshold met the rule. The optimism is
    what a choice promises on the questions it was made on, less what it does on the others:
    mean over resamples of (rate on the whole set - rate on the resample).
    """

    low: float
    high: float
    level: float
    method: str
    resamples: int
    chosen: float
    optimism_false_acceptance: float
    optimism_false_abstention: float


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A threshold whose false acceptance is at most alpha, with confidence 1 - delta.

    `accepted` of `unsupported` calibration questions are accepted there, and up to `allowed`
    may be (-1: not even none is enough). `needed` is the number of unsupported questions
    with which the guarantee could be had; None where no number would give it.
    """

    alpha: float
    delta: float
    unsupported: int
    allowed: int
    accepted: int | None
    p_value: float | None
    needed: int | None
    operating: Operating

    def __str__(self) -> str:
        if self.operating.threshold is None:
            return str(self.operating)
        return (
            f"{self.operating} At most {self.alpha:g} of unsupported questions like these are "
            f"accepted, with confidence {1 - self.delta:g}: {self.accepted} of "
            f"{self.unsupported} were, p = {self.p_value:.2g}."
        )


def guarantee(sweep: Sweep, alpha: float, delta: float = 0.05) -> Guarantee:
    """The most accepting threshold with P(false acceptance <= alpha) >= 1 - delta.

    Learn-then-Test with fixed-sequence testing: thresholds are tried from the strictest
    down, each with H(t): false acceptance at t > alpha, and the exact binomial p-value

        p(t) = P(Binomial(n, alpha) <= accepted unsupported at t);

    the first p above delta stops, and the threshold before it stands. No price is paid for
    trying many: the order is fixed beforehand and errs at its first true H only. That the
    thresholds lie between observed scores changes nothing: they stand for all real numbers
    from inf down, and between two of them no count moves.

    It holds for every distribution of scores, with n = number of unsupported questions, if
    those to come are drawn like these, each independently; topics in one split only, or
    near copies, break that. It promises nothing about answerable questions.

    Source: Angelopoulos, Bates, Candès, Jordan & Lei, "Learn then Test", arXiv:2110.01052, 2021.
    """
    rule = Rule("guarantee", alpha, delta)
    operating = choose(sweep, rule)
    n = sweep.unsupported
    accepted, wrong = accepted_counts(sweep)
    met = np.flatnonzero(p_values(np.arange(n + 1), n, alpha) <= delta)
    allowed = int(met[-1]) if met.size else -1
    count = None
    if operating.threshold is not None:
        count = round(operating.false_acceptance * n)
    best = int(wrong[accepted > 0].min(initial=n))
    return Guarantee(
        alpha=alpha,
        delta=delta,
        unsupported=n,
        allowed=allowed,
        accepted=count,
        p_value=None if count is None else float(p_values(np.array([count]), n, alpha)[0]),
        needed=questions_for_guarantee(alpha, delta, best / n if best > allowed >= 0 else 0.0),
        operating=operating,
    )


def band(
    sweep: Sweep,
    rule: Rule,
    rng: np.random.Generator,
    *,
    resamples: int = 1_000,
    level: float = 0.95,
) -> Band:
    """Chooses again on resampled questions, the answerable and unsupported ones apart.

    Percentiles of the thresholds so chosen, over the resamples in which one was.
    """
    m, n = both_kinds(sweep)
    accepted, wrong = accepted_counts(sweep)
    # the group of each question: 0 without a score, g + 1 at the g-th lowest score
    groups = len(sweep.scores) + 1
    home = [
        np.repeat(np.arange(groups), -np.diff(np.append(counts, 0), prepend=total))
        for counts, total in ((accepted[:-1], m), (wrong[:-1], n))
    ]
    chosen: list[float] = []
    optimism: list[tuple[float, float]] = []
    for _ in range(resamples):
        sizes = [np.bincount(h[rng.integers(0, h.size, h.size)], minlength=groups) for h in home]
        again = [np.append(size[:0:-1].cumsum()[::-1], 0) for size in sizes]
        index = pick(rule, again[0], again[1], m, n)
        if index is None:
            continue
        present = np.flatnonzero((sizes[0] + sizes[1])[1:])
        at = int(np.searchsorted(present, index))
        threshold = float(midpoints(sweep.scores[present])[at])
        whole = int(np.searchsorted(sweep.scores, threshold))
        chosen.append(threshold)
        worse = (wrong[whole] - again[1][index]) / n, (again[0][index] - accepted[whole]) / m
        optimism.append(worse)
    tail = (1 - level) / 2
    low = float(np.quantile(chosen, tail, method="lower")) if chosen else nan
    high = float(np.quantile(chosen, 1 - tail, method="higher")) if chosen else nan
    means = np.mean(optimism, axis=0) if optimism else (nan, nan)
    share = len(chosen) / resamples
    method = "percentile bootstrap"
    return Band(low, high, level, method, resamples, share, float(means[0]), float(means[1]))


def report(
    operating: Operating,
    questions: ScoredQuestions,
    rng: np.random.Generator,
    *,
    level: float = 0.95,
    method: ShareMethod = "Wilson",
) -> tuple[Rate | Estimate, ...]:
    """What the threshold does on these questions, each rate with its count and interval.

    Empty where no threshold is recommended. Questions of another axis are refused.
    """
    if operating.axis != questions.axis:
        raise MetricError(
            f"a threshold of the axis {operating.axis!r} says nothing about {questions.axis!r}; "
            "choose one on that axis"
        )
    if operating.threshold is None:
        return ()
    table = decisions(questions, operating.threshold)
    outcome = table["outcome"].value_counts()
    right, without, abstained, wrong, refused = (int(outcome.get(name, 0)) for name in OUTCOMES)
    shares = {
        "false acceptance": (wrong, wrong + refused),
        "false abstention": (abstained, right + without + abstained),
        "answerable accepted with evidence": (right, right + without + abstained),
        "evidence among accepted": (right, right + without + wrong),
    }
    kept = table[table["accepted"] & table["answerable"]]
    if "required" in table and table["required"].any():
        shares["complete answer among accepted"] = (
            int(kept["complete"].sum()),
            int(kept["required"].sum()),
        )
    lines: list[Rate | Estimate] = [
        rate(name, count, total, level=level, method=method)
        for name, (count, total) in shares.items()
    ]
    if "recall" in kept:
        recall = f"recall@{questions.cutoff} among accepted"
        lines.append(mean_estimate(recall, kept["recall"], rng, level=level))
        lines.append(mean_estimate("results kept", table["results"], rng, level=level))
    return tuple(lines)


def optimism(tuned: Sequence[Rate | Estimate], held_out: Sequence[Rate | Estimate]) -> pd.DataFrame:
    """The same rates on the questions the threshold was chosen on, and on others.

    `difference` is held-out minus tuned, with Newcombe's interval of two independent shares.
    """
    rows = []
    for first, second in zip(tuned, held_out, strict=True):
        if isinstance(first, Rate) and isinstance(second, Rate):
            difference, low, high = rate_difference(second, first)
            rows.append((first.name, first.value, second.value, difference, low, high))
    columns = ["name", "tuned", "held_out", "difference", "low", "high"]
    return pd.DataFrame(rows, columns=columns)
