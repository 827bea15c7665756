"""Every metric from a run's hits: rank hits, not documents.

Of all that a run returned, only its hits can change a metric: documents that were returned and
are judged. Of a hit only two things matter, its grade and its rank, and its rank is the number
of documents returned before it. So no ranking is sorted and no matrix of queries x ranks is
built: each statistic is one `bincount` over the hits by (cutoff, query), and a running sum over
the cutoffs answers all of them together, at a cost that hardly grows with their number.

`evalkit.metrics.ranking` holds the definitions in plain words; this file must give their values.
`engine` finds the hits of dicts, `columns` those of tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from evalkit.errors import MetricError
from evalkit.metrics.policy import Cutoff, Metric, MetricPolicy

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """All that metrics need of a run: each query's hits together, in order of rank.

    A hit is (`query` number, `rank` from 0, `level`); `grades[level]` is its grade, level 0
    being grade 0, and `judged[query, level]` counts the judgments. `returned` counts the
    documents that each query returned, -1 where the run lacks the query.
    """

    query_ids: Sequence[str]
    query: Ints
    rank: Ints
    level: NDArray[np.integer[Any]]
    returned: Ints
    judged: Ints
    grades: Ints
    unjudged: tuple[str, ...] = ()


def values(hits: Hits, metrics: Sequence[Metric]) -> Floats:
    """One row a metric, one column a query; the definitions are those of `ranking`."""
    table = np.empty((len(metrics), len(hits.returned)))
    depths = [
        Cutoff(1, of_relevant=True) if metric.measure == "Rprec" else metric.cutoff
        for metric in metrics
    ]
    for of_relevant, rows in _grouped(range(len(metrics)), lambda i: depths[i].of_relevant):
        numbers = {depths[i].number for i in rows}
        at = _Depths(hits, numbers, of_relevant, metrics[0].policy.relevant_from)
        for _, same in _grouped(rows, lambda i: _formula_key(metrics[i])):
            every = _with_undefined(at, metrics[same[0]])
            table[same] = every[[at.row[depths[i].number] for i in same]]
    return table


def _grouped(
    rows: Iterable[int], key: Callable[[int], Hashable]
) -> Iterable[tuple[Any, list[int]]]:
    groups: dict[Hashable, list[int]] = {}
    for i in rows:
        groups.setdefault(key(i), []).append(i)
    return groups.items()


def _formula_key(metric: Metric) -> Hashable:
    return metric.measure, metric.beta, id(metric.policy)


def _with_undefined(at: _Depths, metric: Metric) -> Floats:
    """The formula at all cutoffs, and what the policy says where nothing is relevant."""
    if metric.measure not in _FORMULAS:
        raise MetricError(f"{metric} needs requirements: see metrics.requirement_values")
    every = _FORMULAS[metric.measure](at, metric)
    of_gain = metric.measure == "nDCG" and not at.of_relevant
    nothing = at.hits.judged[:, 1:].sum(1) == 0 if of_gain else at.relevant == 0
    if metric.measure == "Judged" or not nothing.any():
        return every
    if metric.policy.no_relevant == "error":
        query = at.hits.query_ids[int(np.argmax(nothing))]
        raise MetricError(
            f"query {query!r}: no judged document is relevant; a question without an answer is "
            "reported apart, never in a relevance mean"
        )
    every[:, nothing] = 0.0 if metric.policy.no_relevant == "zero" else math.nan
    return every


class _Depths:
    """Running totals over hits at several cutoffs of one kind: ranks, or multiples of R.

    A hit belongs to the first cutoff that reaches it; totals of the later ones include it.
    """

    def __init__(
        self, hits: Hits, numbers: Collection[int], of_relevant: bool, relevant_from: int
    ) -> None:
        self.hits = hits
        self.first_relevant = int(np.searchsorted(hits.grades, relevant_from))
        self.relevant = hits.judged[:, self.first_relevant :].sum(1)
        self.of_relevant = of_relevant
        self.returned = np.maximum(hits.returned, 0)
        edges = np.array(sorted(number or math.inf for number in numbers))
        self.row = {0 if edge == math.inf else int(edge): i for i, edge in enumerate(edges)}
        self.depth = edges[:, None] * self.relevant if of_relevant else edges[:, None]
        step = hits.rank
        if of_relevant:  # rank < m R exactly where rank // R < m
            step = step // np.maximum(self.relevant, 1)[hits.query]
        reached_by = np.searchsorted(edges, np.arange(step.max(initial=0) + 1), side="right")
        self.cell = reached_by[step] * len(hits.returned) + hits.query

    def total(self, chosen: Any, weights: Floats | None = None) -> Floats:
        """(cutoffs, queries): the weights of the chosen hits, added up down to each cutoff."""
        shape = (len(self.depth) + 1, len(self.hits.returned))  # the last row: below all cutoffs
        sums = np.bincount(self.cell[chosen], weights, shape[0] * shape[1]).reshape(shape)
        running: Floats = sums[:-1].cumsum(0)
        return running

    def from_level(self, lowest: int) -> Any:
        """Indices of the hits of at least this level."""
        enough = self.hits.level >= lowest
        return slice(None) if enough.all() else np.flatnonzero(enough)

    def looked_at(self, policy: MetricPolicy) -> Floats:
        """The ranks that precision divides by."""
        uncut = np.isinf(self.depth)
        if policy.precision_denominator == "fixed_k" and not uncut.any():
            return self.depth
        returned: Floats = np.minimum(self.depth, self.returned)
        counts = uncut | (policy.precision_denominator == "returned")
        return np.where(counts, returned, self.depth)

    @cached_property
    def relevant_hits(self) -> Any:
        return self.from_level(self.first_relevant)

    @cached_property
    def found(self) -> Floats:
        return self.total(self.relevant_hits)

    @cached_property
    def first_of_query(self) -> Ints:
        """Among the relevant hits, the places where another query begins."""
        query = self.hits.query[self.relevant_hits]
        return np.flatnonzero(np.diff(query, prepend=-1))

    def ideal(self, levels: Ints, policy: MetricPolicy) -> Floats:
        """DCG of the best order, without sorting: grades laid out from the highest down."""
        most = int(levels[:, 1:].sum(1).max(initial=0))
        discount = np.concatenate(([0.0], np.cumsum(1 / np.log2(np.arange(most) + 2))))
        laid = np.zeros(len(levels), np.int64)
        best, before = np.zeros(np.broadcast_shapes(self.depth.shape, laid.shape)), np.zeros(1)
        for level in np.flatnonzero(levels[:, 1:].any(0))[::-1] + 1:
            laid = laid + levels[:, level]
            after = discount[np.minimum(self.depth, laid).astype(np.int64)]
            best += _gains(self.hits, policy)[level] * (after - before)
            before = after
        return best


def _gains(hits: Hits, policy: MetricPolicy) -> Floats:
    gains: Floats = hits.grades.astype(np.float64)
    return np.exp2(gains) - 1 if policy.gain == "exp2" else gains


# Counts divide by counts: where a denominator is 0 so is the numerator, hence maximum(..., 1).


def _precision(at: _Depths, metric: Metric) -> Floats:
    return at.found / np.maximum(at.looked_at(metric.policy), 1)


def _recall(at: _Depths, metric: Metric) -> Floats:
    share: Floats = at.found / np.maximum(at.relevant, 1)
    return share


def _f_beta(at: _Depths, metric: Metric) -> Floats:
    """(1 + b^2) P R / (b^2 P + R), with P and R written out as counts."""
    square = metric.beta**2
    denominator = at.looked_at(metric.policy) + square * at.relevant
    share = (1 + square) * at.found / np.where(denominator > 0, denominator, 1)
    return np.minimum(share, 1.0)


def _success(at: _Depths, metric: Metric) -> Floats:
    return (at.found > 0).astype(np.float64)


def _reciprocal_rank(at: _Depths, metric: Metric) -> Floats:
    first = np.full(len(at.returned), math.inf)
    ranks, query = at.hits.rank[at.relevant_hits], at.hits.query[at.relevant_hits]
    first[query[at.first_of_query]] = ranks[at.first_of_query] + 1
    depth = math.inf if metric.policy.rr_cutoff == "none" else at.depth
    return np.where(first <= depth, 1 / first, np.zeros_like(at.depth))


def _average_precision(at: _Depths, metric: Metric) -> Floats:
    rank = at.hits.rank[at.relevant_hits]
    many = np.diff(at.first_of_query, append=rank.size)
    nth = np.arange(1, rank.size + 1) - np.repeat(at.first_of_query, many)
    most: Floats = np.maximum(at.relevant, 1.0)
    if metric.policy.ap_denominator == "min_k_relevant":
        most = np.clip(at.depth, 1, most)
    return at.total(at.relevant_hits, nth / (rank + 1)) / most


def _ndcg(at: _Depths, metric: Metric) -> Floats:
    hits, gaining = at.hits, at.from_level(1)
    gain = _gains(hits, metric.policy)[hits.level[gaining]]
    dcg = at.total(gaining, gain / np.log2(hits.rank[gaining] + 2))
    levels = hits.judged
    if metric.policy.ideal == "retrieved":
        cell = hits.query[gaining] * len(hits.grades) + hits.level[gaining]
        levels = np.bincount(cell, minlength=levels.size).reshape(levels.shape)
    # an ideal is 0 or at least 1; rounding of the two sums must not lift a value above 1
    return np.minimum(dcg / np.maximum(at.ideal(levels, metric.policy), 1), 1.0)


def _bpref(at: _Depths, metric: Metric) -> Floats:
    """Each relevant hit counts 1 - min(n, R) / min(N, R), n judged not relevant above it."""
    hits, chosen = at.hits, at.relevant_hits
    not_relevant = hits.judged[:, : at.first_relevant].sum(1)
    is_below = (hits.level < at.first_relevant).astype(np.int64)
    above = np.cumsum(is_below) - is_below
    starts = np.flatnonzero(np.diff(hits.query, prepend=-1))
    before: Ints = np.repeat(above[starts], np.diff(starts, append=above.size))
    query = hits.query[chosen]
    bound = np.minimum(not_relevant, at.relevant)[query]
    share = 1 - np.minimum((above - before)[chosen], bound) / np.maximum(bound, 1)
    result: Floats = np.bincount(query, share, at.relevant.size) / np.maximum(at.relevant, 1)
    if metric.policy.no_relevant != "zero":
        result[not_relevant == 0] = math.nan
    return np.repeat(result[None], len(at.depth), axis=0)


def _judged(at: _Depths, metric: Metric) -> Floats:
    looked_at = np.minimum(at.depth, at.returned)
    share = at.total(slice(None)) / np.maximum(looked_at, 1)
    return np.where(looked_at > 0, share, math.nan)


_FORMULAS: Final[Mapping[str, Callable[[_Depths, Metric], Floats]]] = {
    "Precision": _precision,
    "Recall": _recall,
    "Rprec": _recall,
    "F": _f_beta,
    "Success": _success,
    "ReciprocalRank": _reciprocal_rank,
    "AP": _average_precision,
    "nDCG": _ndcg,
    "bpref": _bpref,
    "Judged": _judged,
}
