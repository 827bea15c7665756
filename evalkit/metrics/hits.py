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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from evalkit.errors import MetricError
from evalkit.metrics.policy import Cutoff, Metric, MetricPolicy

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_UNCUT: Final = 1 << 62  # a depth below all ranks


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
    queries = len(hits.returned)
    table = np.empty((len(metrics), queries))
    kinds: dict[bool, dict[tuple[Any, ...], list[int]]] = {}
    for i, metric in enumerate(metrics):
        same_formula = (metric.measure, metric.beta, id(metric.policy))
        kinds.setdefault(_cutoff(metric).of_relevant, {}).setdefault(same_formula, []).append(i)
    for of_relevant, formulas in kinds.items():
        edges = {_cutoff(metrics[i]).number or _UNCUT for rows in formulas.values() for i in rows}
        at = _Depths(hits, sorted(edges), of_relevant, metrics[0].policy)
        for rows in formulas.values():
            chosen = [at.edges.index(_cutoff(metrics[i]).number or _UNCUT) for i in rows]
            in_place = chosen == [*range(len(edges))] and rows[-1] - rows[0] == len(rows) - 1
            every = table[rows[0] : rows[-1] + 1] if in_place else np.empty((len(edges), queries))
            _fill(every, at, metrics[rows[0]])
            if not in_place:
                table[rows] = every[chosen]
    return table


def _cutoff(metric: Metric) -> Cutoff:
    return Cutoff(1, of_relevant=True) if metric.measure == "Rprec" else metric.cutoff


def _fill(every: Floats, at: _Depths, metric: Metric) -> None:
    """The formula at all cutoffs, and what the policy says where nothing is relevant."""
    if metric.measure not in _FORMULAS:
        raise MetricError(f"{metric} needs requirements: see metrics.requirement_values")
    _FORMULAS[metric.measure](at, metric, every)
    by_gain = metric.measure == "nDCG" and not metric.cutoff.of_relevant
    nothing = at.hits.judged[:, 1:].sum(1) == 0 if by_gain else at.relevant == 0
    if metric.measure == "Judged" or not nothing.any():
        return
    if metric.policy.no_relevant == "error":
        raise MetricError(
            f"query {at.hits.query_ids[int(np.argmax(nothing))]!r}: no judged document is "
            "relevant; a question without an answer is reported apart, never in a relevance mean"
        )
    every[:, nothing] = 0.0 if metric.policy.no_relevant == "zero" else math.nan


class _Depths:
    """Running totals over hits at several cutoffs of one kind: ranks, or multiples of R.

    A hit belongs to the first cutoff that reaches it; totals of the later ones include it.
    """

    def __init__(
        self, hits: Hits, edges: list[int], of_relevant: bool, policy: MetricPolicy
    ) -> None:
        self.hits = hits
        self.first_relevant = int(np.searchsorted(hits.grades, policy.relevant_from))
        self.relevant = hits.judged[:, self.first_relevant :].sum(1)
        self.returned = np.maximum(hits.returned, 0)
        self.edges, self.of_relevant = edges, of_relevant
        self.depth = np.array(edges)[:, None] * (self.relevant if of_relevant else 1)
        self.cell = self.cells(hits.query, hits.rank)

    def cells(self, query: Ints, rank: Ints) -> Ints:
        """The (cutoff, query) cell of each hit: the first cutoff that reaches it."""
        if self.of_relevant:  # rank < m R exactly where rank // R < m
            rank = rank // np.maximum(self.relevant, 1)[query]
        reached_by = np.searchsorted(self.edges, np.arange(rank.max(initial=0) + 1), side="right")
        cell: Ints = reached_by[rank] * len(self.returned) + query
        return cell

    def total(self, cell: Ints, weights: Floats) -> Floats:
        """(cutoffs, queries): the weights of hits, added up down to each cutoff."""
        shape = (len(self.edges) + 1, len(self.returned))  # the last row: below all cutoffs
        sums = np.bincount(cell, weights, shape[0] * shape[1]).astype(np.float64, copy=False)
        sums = sums.reshape(shape)  # bincount of no hits is whole numbers, hence astype
        for i in range(1, len(self.edges)):  # numpy's cumsum down the columns is ten times slower
            sums[i] += sums[i - 1]
        return sums[:-1]

    def ideal(self, levels: Ints, gains: Floats) -> Floats:
        """DCG of the best order of documents whose levels are counted: highest grades first."""
        highest_first = levels[:, :0:-1]
        query = np.repeat(np.arange(len(levels)), highest_first.sum(1))
        level = np.repeat(np.tile(np.arange(gains.size)[:0:-1], len(levels)), highest_first.ravel())
        starts = np.flatnonzero(np.diff(query, prepend=-1))
        rank = np.arange(query.size) - np.repeat(starts, np.diff(starts, append=query.size))
        return self.total(self.cells(query, rank), gains[level] / np.log2(rank + 2))

    def from_level(self, lowest: int) -> Any:
        """Indices of the hits of at least this level."""
        enough = self.hits.level >= lowest
        return slice(None) if enough.all() else np.flatnonzero(enough)

    def looked_at(self, policy: MetricPolicy) -> Ints:
        """The ranks that precision divides by."""
        uncut = self.depth == _UNCUT
        if policy.precision_denominator == "fixed_k" and not uncut.any():
            return self.depth
        counts = uncut | (policy.precision_denominator == "returned")
        returned = np.minimum(self.depth, self.returned)
        looked_at: Ints = np.where(counts, returned, self.depth)
        return looked_at

    @cached_property
    def relevant_hits(self) -> Any:
        return self.from_level(self.first_relevant)

    @cached_property
    def found(self) -> Floats:
        cell = self.cell[self.relevant_hits]
        return self.total(cell, np.ones(cell.size))

    @cached_property
    def first_of_query(self) -> Ints:
        """Among the relevant hits, the places where another query begins."""
        query = self.hits.query[self.relevant_hits]
        return np.flatnonzero(np.diff(query, prepend=-1))


# Formulas fill (cutoffs, queries). Denominators are at least 1: where one would be 0, so is what
# is divided.


def _precision(at: _Depths, metric: Metric, out: Floats) -> None:
    np.divide(at.found, np.maximum(at.looked_at(metric.policy), 1), out=out)


def _recall(at: _Depths, metric: Metric, out: Floats) -> None:
    np.divide(at.found, np.maximum(at.relevant, 1), out=out)


def _f_beta(at: _Depths, metric: Metric, out: Floats) -> None:
    """(1 + b^2) P R / (b^2 P + R), with P and R written out as counts."""
    square = metric.beta**2
    np.multiply(at.found, 1 + square, out=out)
    out /= np.maximum(at.looked_at(metric.policy), 1) + square * at.relevant
    if square % 1:  # rounding can lift a value above 1
        np.minimum(out, 1.0, out=out)


def _success(at: _Depths, metric: Metric, out: Floats) -> None:
    np.minimum(at.found, 1.0, out=out)


def _reciprocal_rank(at: _Depths, metric: Metric, out: Floats) -> None:
    first = np.full(len(at.returned), math.inf)
    rank, query = at.hits.rank[at.relevant_hits], at.hits.query[at.relevant_hits]
    first[query[at.first_of_query]] = rank[at.first_of_query] + 1
    out[:] = 1 / first
    if metric.policy.rr_cutoff == "k":
        out[first > at.depth] = 0.0


def _average_precision(at: _Depths, metric: Metric, out: Floats) -> None:
    rank = at.hits.rank[at.relevant_hits]
    many = np.diff(at.first_of_query, append=rank.size)
    nth = np.arange(1, rank.size + 1) - np.repeat(at.first_of_query, many)
    most: Ints = np.maximum(at.relevant, 1)
    if metric.policy.ap_denominator == "min_k_relevant":
        most = np.clip(at.depth, 1, most)
    np.divide(at.total(at.cell[at.relevant_hits], nth / (rank + 1)), most, out=out)


def _ndcg(at: _Depths, metric: Metric, out: Floats) -> None:
    hits, gaining = at.hits, at.from_level(1)
    gains: Floats = hits.grades.astype(np.float64)
    if metric.policy.gain == "exp2":
        gains = np.exp2(gains) - 1
    level, levels = hits.level[gaining], hits.judged
    dcg = at.total(at.cell[gaining], gains[level] / np.log2(hits.rank[gaining] + 2))
    if metric.policy.ideal == "retrieved":
        cell = hits.query[gaining] * len(gains) + level
        levels = np.bincount(cell, minlength=levels.size).reshape(levels.shape)
    ideal = at.ideal(levels, gains)  # 0 or at least 1
    np.divide(dcg, np.maximum(ideal, 1.0, out=ideal), out=out)
    np.minimum(out, 1.0, out=out)  # the two sums may be rounded apart


def _bpref(at: _Depths, metric: Metric, out: Floats) -> None:
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
    out[:] = np.bincount(query, share, at.relevant.size) / np.maximum(at.relevant, 1)
    if metric.policy.no_relevant != "zero":
        out[:, not_relevant == 0] = math.nan


def _judged(at: _Depths, metric: Metric, out: Floats) -> None:
    looked_at = np.minimum(at.depth, at.returned)
    np.divide(at.total(at.cell, np.ones(at.cell.size)), np.maximum(looked_at, 1), out=out)
    out[looked_at == 0] = math.nan


_FORMULAS: Final[Mapping[str, Callable[[_Depths, Metric, Floats], None]]] = {
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
