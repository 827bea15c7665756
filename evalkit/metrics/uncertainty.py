"""How sure a single number is: intervals of a share, of a mean, of a difference of two shares.

Every interval carries the name of its method. Nothing here compares two retrievers on the
same questions; that is paired work and has a file of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import inf, isnan, nan
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalkit.errors import MetricError

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
ShareMethod = Literal["Wilson", "Clopper-Pearson"]
MeanMethod = Literal["BCa bootstrap", "percentile bootstrap"]
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Rate:
    """A share of counted questions, with the interval its method gives; nan when total is 0."""

    name: str
    count: int
    total: int
    value: float
    low: float
    high: float
    level: float
    method: str

    def __str__(self) -> str:
        if self.total == 0:
            return f"{self.name}: undefined, 0 questions"
        return f"{self.name}: {self.count}/{self.total} = {self.value:.3f} ({_interval_of(self)})"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number that is not a share of counts (a mean, an area), with its interval."""

    name: str
    total: int
    value: float
    low: float
    high: float
    level: float
    method: str

    def __str__(self) -> str:
        if isnan(self.value):
            return f"{self.name}: undefined, n = {self.total}"
        return f"{self.name}: {self.value:.3f}, n = {self.total} ({_interval_of(self)})"


def _interval_of(record: Rate | Estimate) -> str:
    return f"{record.level * 100:g} % {record.method} {record.low:.3f} to {record.high:.3f}"


def as_record(record: Any) -> dict[str, Any]:
    """A dataclass as plain values that JSON can hold: nan becomes None, an infinity its name.

    >>> as_record(rate("x", 0, 0))["value"] is None
    True
    """
    plain: dict[str, Any] = _plain(asdict(record))
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        if isnan(value):
            return None
        return str(float(value)) if abs(value) == inf else float(value)
    return value


def as_frame(records: Sequence[Rate | Estimate]) -> pd.DataFrame:
    """One row a record: name, count, total, value, low, high, level, method (no count: empty)."""
    import pandas as pd

    columns = ["name", "count", "total", "value", "low", "high", "level", "method"]
    frame = pd.DataFrame([asdict(record) for record in records]).reindex(columns=columns)
    return frame.astype({"count": "Int64"})


def wilson(count: ArrayLike, total: ArrayLike, level: float = 0.95) -> tuple[Floats, Floats]:
    """Score interval of a share: the values that a normal test of the count would not reject.

        centre = (p + z²/2n) / (1 + z²/n),   half = z √(p(1-p)/n + z²/4n²) / (1 + z²/n)

    Covers `level` on average over p, not for each p; Clopper-Pearson never covers less.
    Takes arrays, for bands. With no question at all the interval is 0 to 1.

    Source: Wilson, JASA 22(158), 1927, pp. 209-212.

    >>> low, high = wilson(2, 2)
    >>> round(float(low), 3), float(high)
    (0.342, 1.0)
    """
    k, n = _counts(count, total, level)
    z2 = _z(level) ** 2
    safe = np.maximum(n, 1)
    p = k / safe
    centre = p + z2 / (2 * safe)
    half = np.sqrt(z2 * (p * (1 - p) / safe + z2 / (4 * safe**2)))
    # the ends are exact where the count is none or all; rounding must not say otherwise
    low = np.where(k == 0, 0.0, (centre - half) / (1 + z2 / safe))
    high = np.where(k == n, 1.0, (centre + half) / (1 + z2 / safe))
    return low, high


def clopper_pearson(
    count: ArrayLike, total: ArrayLike, level: float = 0.95
) -> tuple[Floats, Floats]:
    """Exact interval of a share: each end is where a one-sided binomial test just rejects.

        low = Beta(a/2; k, n-k+1),   high = Beta(1-a/2; k+1, n-k),   a = 1 - level

    Never covers less than `level`, so it is wider than Wilson's. Takes arrays.

    Source: Clopper & Pearson, Biometrika 26(4), 1934, pp. 404-413.

    >>> low, high = clopper_pearson(0, 59, 0.90)  # the "rule of three": 1 - 0.05**(1/59)
    >>> float(low), round(float(high), 4)
    (0.0, 0.0495)
    """
    from scipy.special import betaincinv

    k, n = _counts(count, total, level)
    tail = (1 - level) / 2
    low = np.where(k == 0, 0.0, betaincinv(np.maximum(k, 1), n - k + 1, tail))
    high = np.where(k == n, 1.0, betaincinv(k + 1, np.maximum(n - k, 1), 1 - tail))
    return low, high


def rate(
    name: str, count: int, total: int, *, level: float = 0.95, method: ShareMethod = "Wilson"
) -> Rate:
    """The share `count / total` with its interval.

    >>> print(rate("false acceptance", 1, 10))
    false acceptance: 1/10 = 0.100 (95 % Wilson 0.018 to 0.404)
    """
    interval = {"Wilson": wilson, "Clopper-Pearson": clopper_pearson}.get(method)
    if interval is None:
        raise MetricError(f"no interval is called {method!r}: Wilson or Clopper-Pearson")
    low, high = interval(count, total, level)
    value = count / total if total else nan
    return Rate(name, int(count), int(total), value, float(low), float(high), level, method)


def rate_difference(first: Rate, second: Rate) -> tuple[float, float, float]:
    """First share minus second, of two independent groups of questions: value, low, high.

        low = d - √((p1-l1)² + (u2-p2)²),   high = d + √((u1-p1)² + (p2-l2)²)

    l and u are the Wilson limits of each share. For shares of the same questions this is
    too wide: use a paired interval there.

    Source: Newcombe, Statistics in Medicine 17, 1998, pp. 873-890, method 10.
    """
    if first.level != second.level:
        raise MetricError(f"two levels in one difference: {first.level:g} and {second.level:g}")
    if not (first.total and second.total):
        return nan, -1.0, 1.0
    p1, p2 = first.value, second.value
    (l1, u1), (l2, u2) = (wilson(r.count, r.total, r.level) for r in (first, second))
    low = p1 - p2 - np.hypot(p1 - l1, u2 - p2)
    high = p1 - p2 + np.hypot(u1 - p1, p2 - l2)
    return p1 - p2, float(low), float(high)


def mean_estimate(
    name: str,
    values: ArrayLike,
    rng: np.random.Generator,
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    method: MeanMethod = "BCa bootstrap",
) -> Estimate:
    """The mean of one value a question, with a bootstrap interval over questions.

    Undefined (nan) without values; with one, the mean stands and its interval is nan.
    Where all values are equal the interval has no width: it knows only what was seen.
    """
    column = np.asarray(values, np.float64).reshape(-1, 1)
    if column.size < 2:
        value = float(column.mean()) if column.size else nan
        return Estimate(name, column.size, value, nan, nan, level, method)
    low, high = mean_intervals(column, rng, level=level, resamples=resamples, method=method)
    return Estimate(
        name, column.size, float(column.mean()), float(low[0]), float(high[0]), level, method
    )


def mean_intervals(
    values: Floats,
    rng: np.random.Generator,
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    method: MeanMethod = "BCa bootstrap",
) -> tuple[Floats, Floats]:
    """Bootstrap intervals of the means of the columns of `values` (questions × metrics).

    All columns share the same resamples. BCa shifts the percentiles by the bias z0 and the
    skewness a of the mean (jackknifed in closed form); the plain percentile method does not:

        level of an end = Φ(z0 + (z0 + z) / (1 - a (z0 + z))),   a = Σc³ / 6 (Σc²)^1.5

    Source: Efron, JASA 82(397), 1987, pp. 171-185.
    """
    _z(level)
    if method not in ("BCa bootstrap", "percentile bootstrap"):
        raise MetricError(f"no interval of a mean is called {method!r}")
    if not np.isfinite(values).all():
        raise MetricError("a mean was asked of values that are not numbers; leave them out first")
    means = bootstrap_means(values, resamples, rng)
    low, high = np.empty(values.shape[1]), np.empty(values.shape[1])
    tail = (1 - level) / 2
    for j in range(values.shape[1]):
        ends = [tail, 1 - tail]
        if method == "BCa bootstrap":
            ends = _bca_ends(means[:, j], values[:, j], ends)
        low[j], high[j] = np.quantile(means[:, j], ends)
    return low, high


def bootstrap_means(values: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    """Means of the columns over questions drawn with replacement: (resamples × metrics).

    A resample is a count of how often each question was drawn, shared by all columns.
    """
    n, columns = values.shape
    block = block_size(n, columns)
    means = np.empty((resamples, columns))
    own = np.arange(block)[:, None] * n  # each resample of a block counts in places of its own
    places, counts = np.empty((block, n), np.int64), np.empty((block, n))
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        drawn = rng.integers(0, n, (size, n), np.uint32)
        if columns == 1:
            means[start : start + size, 0] = values[:, 0].take(drawn, mode="clip").sum(1)
            continue
        np.add(drawn, own[:size], out=places[:size])
        counted = np.bincount(places[:size].ravel(), minlength=size * n)
        counts[:size] = counted.reshape(size, n)
        np.matmul(counts[:size], values, out=means[start : start + size])
    means /= n
    return means


def block_size(questions: int, metrics: int) -> int:
    """How many resamples to draw at once.

    So many stay in the L2 cache (2^17 numbers) and within what OpenBLAS multiplies without
    starting threads (10^6 products), which cost far more than they give.
    """
    return max(1, min((1 << 17) // questions, 10**6 // (questions * metrics)))


def _bca_ends(means: Floats, values: Floats, ends: list[float]) -> list[float]:
    centred = values - values.mean()
    spread = float((centred**2).sum())
    # a resampled mean equals the observed one up to rounding: half of those count as below
    slack = 1e-12 * max(1.0, float(np.abs(values).max()))
    below = float((means < values.mean() - slack).mean())
    equal = float((np.abs(means - values.mean()) <= slack).mean())
    share = below + equal / 2
    if spread == 0 or not 0 < share < 1:
        return ends
    bias = _NORMAL.inv_cdf(share)
    skew = float((centred**3).sum()) / (6 * spread**1.5)
    shifted = (bias + _NORMAL.inv_cdf(end) for end in ends)
    return [_NORMAL.cdf(bias + s / (1 - skew * s)) for s in shifted]


def _z(level: float) -> float:
    if not 0 < level < 1:
        raise MetricError(f"a confidence level lies between 0 and 1, got {level:g}")
    return _NORMAL.inv_cdf((1 + level) / 2)


def _counts(count: ArrayLike, total: ArrayLike, level: float) -> tuple[Floats, Floats]:
    _z(level)
    k, n = np.broadcast_arrays(np.asarray(count, np.float64), np.asarray(total, np.float64))
    if not ((k >= 0) & (k <= n)).all():
        raise MetricError(f"a count lies between 0 and its total, got {count!r} of {total!r}")
    return k, n
