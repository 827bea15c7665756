"""Operating points: a threshold chosen by a stated rule, or the reason why there is none.

Where the scores do not tell answerable questions from unsupported ones, or no threshold
meets the rule, the verdict is NOT SEPARABLE and no threshold is recommended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil, inf, log, nan, sqrt
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evalkit.errors import MetricError
from evalkit.metrics.acceptance import Sweep
from evalkit.metrics.uncertainty import Estimate

RuleKind = Literal["ceiling", "cost", "equal error", "guarantee"]
Verdict = Literal["CHOSEN", "NOT SEPARABLE", "TOO FEW QUESTIONS"]
Counts = NDArray[np.int64]
_MOST = 2**20  # no one labels more questions than this for one guarantee


@dataclass(frozen=True, slots=True)
class Rule:
    """How a threshold is chosen; `str(rule)` says it in words.

    ceiling       fewest false abstentions with false acceptance at most `value`
    cost          least expected cost, a false acceptance costing `value` false abstentions;
                  `unsupported_share` of the questions in use (default: as in the set)
    equal error   false acceptance and false abstention as near as they come
    guarantee     fewest false abstentions such that false acceptance is at most `value`
                  with confidence 1 - `delta`: see `guarantee`
    """

    kind: RuleKind
    value: float = nan
    delta: float = 0.05
    unsupported_share: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("ceiling", "cost", "equal error", "guarantee"):
            raise MetricError(
                f"no rule is called {self.kind!r}: ceiling, cost, equal error or guarantee"
            )
        if self.kind == "cost" and not 0 < self.value < inf:
            raise MetricError(f"a cost ratio is a number above 0, got {self.value}")
        if self.kind in ("ceiling", "guarantee") and not 0 < self.value < 1:
            raise MetricError(f"a rate of false acceptance lies in (0, 1), got {self.value}")
        if not 0 < self.delta < 1:
            raise MetricError(f"delta lies between 0 and 1, got {self.delta}")
        if self.unsupported_share is not None and not 0 < self.unsupported_share < 1:
            raise MetricError(f"unsupported_share lies in (0, 1), got {self.unsupported_share}")

    def __str__(self) -> str:
        if self.kind == "ceiling":
            return f"false acceptance at most {self.value:g}"
        if self.kind == "cost":
            share = self.unsupported_share
            mixed = "mixed as in the set" if share is None else f"{share:.0%} of them unsupported"
            return f"least cost, one false acceptance = {self.value:g} false abstentions, {mixed}"
        if self.kind == "guarantee":
            return f"false acceptance at most {self.value:g} with confidence {1 - self.delta:g}"
        return "false acceptance equal to false abstention"


@dataclass(frozen=True, slots=True)
class Operating:
    """A threshold chosen on some questions by a rule; None, with the reason, where none is.

    `between` are the observed scores it lies between: every threshold in there accepts the
    same of these questions. `separation` is the area under the ROC curve it rests on.
    """

    axis: str
    scale: str
    rule: Rule
    verdict: Verdict
    reason: str
    threshold: float | None
    between: tuple[float, float] | None
    separation: Estimate
    chosen_on: str
    answerable: int
    unsupported: int
    false_acceptance: float
    false_abstention: float

    def __str__(self) -> str:
        if self.threshold is None:
            return f"{self.verdict}: {self.reason}. No threshold is recommended."
        scale = f" ({self.scale})" if self.scale else ""
        return (
            f"Accept when the {self.axis}{scale} is at least {self.threshold:.6g}: {self.rule}, "
            f"chosen on {self.answerable} answerable and {self.unsupported} unsupported "
            f"questions ({self.chosen_on}), where false acceptance is "
            f"{self.false_acceptance:.3f} and false abstention {self.false_abstention:.3f}."
        )


def separation(sweep: Sweep, *, level: float = 0.95) -> Estimate:
    """Area under the ROC curve: how often an answerable question scores above an unsupported.

        AUC = P(s_answerable > s_unsupported) + P(equal) / 2

    A question without a score is below all others. The interval holds the θ for which
    |θ - AUC| <= z √V(θ), with Hanley and McNeil's variance, N = (m + n) / 2 - 1:

        V(θ) = θ(1-θ) [1 + N (1-θ)/(2-θ) + N θ/(1+θ)] / (m n)

    It has width even at AUC 1, and includes 0.5 exactly when the Mann-Whitney test (normal,
    without tie correction) does not reject. DeLong's, the rival, has no width there.

    Source: Newcombe, Statistics in Medicine 25, 2006, pp. 559-573, method 5.
    """
    m, n = both_kinds(sweep)
    accepted, wrong = accepted_counts(sweep)
    # from everything accepted, the questions without a score included, to nothing accepted
    curve = np.trapezoid(np.append(m, accepted)[::-1], np.append(n, wrong)[::-1])
    area = float(curve) / (m * n)
    z = NormalDist().inv_cdf((1 + level) / 2)

    def too_far(theta: float) -> bool:
        size = (m + n) / 2 - 1
        bracket = 1 + size * (1 - theta) / (2 - theta) + size * theta / (1 + theta)
        variance = theta * (1 - theta) * bracket / (m * n)
        return abs(theta - area) > z * sqrt(variance)

    low, high = (_edge(area, end, too_far) for end in (0.0, 1.0))
    return Estimate(f"AUC of {sweep.axis}", m + n, area, low, high, level, "Newcombe-Hanley")


def choose(sweep: Sweep, rule: Rule, *, level: float = 0.95) -> Operating:
    """The threshold the rule asks for, or the reason why none is recommended.

    Ties are broken by the fewest false abstentions, then the fewest false acceptances. A
    threshold that accepts no answerable question meets no rule: it is not a retriever.

    >>> from evalkit.metrics.acceptance import sweep
    >>> from evalkit.metrics.scored import from_arrays
    >>> scored = from_arrays("cosine", [.9, .8, .7, .6, .3, .2, .1, .0], [True] * 4 + [False] * 4)
    >>> choose(sweep(scored), Rule("equal error")).between
    (0.3, 0.6)
    """
    m, n = both_kinds(sweep)
    accepted, wrong = accepted_counts(sweep)
    area = separation(sweep, level=level)
    index = pick(rule, accepted, wrong, m, n)
    verdict: Verdict = "CHOSEN"
    reason = str(rule)
    if rule.kind == "guarantee" and (1 - rule.value) ** n > rule.delta:
        verdict, index = "TOO FEW QUESTIONS", None
        reason = (
            f"{n} unsupported questions cannot show {rule}, even with none accepted "
            f"({1 - rule.value:g}^{n} is above {rule.delta:g}); "
            f"{questions_for_guarantee(rule.value, rule.delta)} are needed"
        )
    elif area.low <= 0.5:
        verdict, index = "NOT SEPARABLE", None
        reason = (
            f"the {sweep.axis} is higher for an answerable than for an unsupported question "
            f"with probability {area.value:.3f} ({level * 100:g} % {area.low:.3f} to "
            f"{area.high:.3f}), which does not exclude chance"
        )
    elif index is None:
        verdict, reason = _unmet(rule, accepted, wrong, n)
    return Operating(
        axis=sweep.axis,
        scale=sweep.scale,
        rule=rule,
        verdict=verdict,
        reason=reason,
        threshold=None if index is None else float(sweep.frame["threshold"].iloc[index]),
        between=None if index is None else _between(sweep.scores, index),
        separation=area,
        chosen_on=sweep.label,
        answerable=m,
        unsupported=n,
        false_acceptance=nan if index is None else float(wrong[index] / n),
        false_abstention=nan if index is None else float(1 - accepted[index] / m),
    )


def questions_for_guarantee(alpha: float, delta: float = 0.05, rate: float = 0.0) -> int | None:
    """Fewest unsupported questions for the guarantee, if a share `rate` of them is accepted.

    None where `rate` is not below alpha, or over a million would be needed. With rate 0 it
    is the least n with (1 - alpha)^n <= delta:

    >>> questions_for_guarantee(0.05), questions_for_guarantee(0.05, rate=0.02)
    (59, 181)
    """
    if rate <= 0:
        return ceil(log(delta) / log(1 - alpha) - 1e-12)
    if rate >= alpha:
        return None
    for most in (2**10, _MOST):  # few are usually enough, and a million take a while
        n = np.arange(1, most)
        met = p_values(np.ceil(rate * n - 1e-9), n, alpha) <= delta
        if met.any():
            return int(n[met.argmax()])
    return None


def operating_from(record: Mapping[str, Any]) -> Operating:
    """Reads back what `as_record` wrote of an operating point."""
    fields = dict(record)
    rule = fields["rule"]
    fields["rule"] = Rule(**rule | {"value": nan if rule["value"] is None else rule["value"]})
    fields["separation"] = Estimate(**fields["separation"])
    for name in ("false_acceptance", "false_abstention"):
        fields[name] = nan if fields[name] is None else fields[name]
    if fields["threshold"] is not None:
        fields["threshold"] = float(fields["threshold"])
        fields["between"] = tuple(float(end) for end in fields["between"])
    return Operating(**fields)


def both_kinds(sweep: Sweep) -> tuple[int, int]:
    if not (sweep.answerable and sweep.unsupported):
        raise MetricError(
            f"a threshold is chosen between answerable and unsupported questions; here are "
            f"{sweep.answerable} and {sweep.unsupported} ({sweep.label})"
        )
    return sweep.answerable, sweep.unsupported


def accepted_counts(sweep: Sweep) -> tuple[Counts, Counts]:
    abstained = sweep.frame["abstained_answerable"].to_numpy(np.int64)
    return sweep.answerable - abstained, sweep.frame["accepted_unsupported"].to_numpy(np.int64)


def pick(rule: Rule, accepted: Counts, wrong: Counts, m: int, n: int) -> int | None:
    """Position of the threshold the rule asks for, None where no useful one meets it."""
    meets = accepted > 0
    abstained = m - accepted
    keys: list[NDArray[Any]] = [abstained, wrong]
    # compared in whole numbers where the rule has them, so that equal is equal
    if rule.kind == "ceiling":
        meets &= wrong / n <= rule.value
    elif rule.kind == "guarantee":
        meets &= p_values(wrong, n, rule.value) <= rule.delta
    elif rule.kind == "equal error":
        keys.insert(0, np.abs(wrong * m - abstained * n))
    else:
        share = rule.unsupported_share
        each, other = (1, 1.0) if share is None else (share * m, (1 - share) * n)
        cost = rule.value * each * wrong + other * abstained
        meets &= cost < other * m  # what abstaining always would cost
        keys.insert(0, cost)
    left = np.flatnonzero(meets)
    for key in keys:
        left = left[key[left] == key[left].min()] if left.size else left
    return int(left[0]) if left.size else None


def _unmet(rule: Rule, accepted: Counts, wrong: Counts, n: int) -> tuple[Verdict, str]:
    best = int(wrong[accepted > 0].min(initial=n))
    reason = (
        f"no threshold that accepts an answerable question meets the rule ({rule}); the "
        f"strictest such accepts {best} of {n} unsupported questions"
    )
    if rule.kind != "guarantee":
        return "NOT SEPARABLE", reason
    needed = questions_for_guarantee(rule.value, rule.delta, best / n)
    if needed is None:
        return "NOT SEPARABLE", f"{reason}, and more questions would not change that"
    return "TOO FEW QUESTIONS", f"{reason}; at that rate {needed} of them are needed"


def p_values(accepted: NDArray[Any], n: NDArray[Any] | int, alpha: float) -> NDArray[Any]:
    from scipy.special import betainc

    # P(Binomial(n, alpha) <= k), as scipy.stats.binom.cdf, which takes a second to import
    below = betainc(np.maximum(n - accepted, 1), accepted + 1, 1 - alpha)
    return np.where(accepted >= n, 1.0, below)


def _between(scores: NDArray[Any], index: int) -> tuple[float, float]:
    below = float(scores[index - 1]) if index else -inf
    return below, float(scores[index]) if index < len(scores) else inf


def _edge(inside: float, outside: float, too_far: Callable[[float], bool]) -> float:
    """Where, on the way from `inside` to `outside`, values begin to lie too far; by halving."""
    if not too_far(outside):
        return outside
    for _ in range(60):
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if too_far(middle) else (middle, outside)
    return inside
