"""Whole runs scored at once, from dicts or tables: the default path of evaluation.

`dicts` and `columns` find the hits of a run, `hits` turns them into values; here the two meet,
and what only a whole run can show is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from evalkit.errors import DataError, MetricError
from evalkit.metrics.dicts import Judgments, Run, hits_in_dicts
from evalkit.metrics.grading import Average
from evalkit.metrics.hits import Floats, Hits, Ints, values
from evalkit.metrics.policy import POLICY, Metric, MetricPolicy, parse_metrics
from evalkit.metrics.ranking import harmonic_mean

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from evalkit.metrics.columns import Qrels


def evaluate(
    run: Run | pd.DataFrame | pa.Table,
    qrels: Judgments | pd.DataFrame | pa.Table | Qrels,
    metrics: Sequence[str],
    *,
    policy: MetricPolicy = POLICY,
    complete: bool = False,
) -> Scores:
    """Every metric of every judged query, from dicts, pandas frames or Arrow tables.

    `run` is {query: {doc: score}} or has the columns `query_id, doc_id, score[, rank]`; `qrels`
    is {query: {doc: grade}}, or has `query_id, doc_id, grade`, or is `columns.Qrels`, prepared
    once for many runs. `complete` says the set claims complete judgments, so that an unjudged
    document is refused under `unjudged="error_if_complete"`.

    >>> evaluate({"q": {"x": 2.0, "a": 1.0}}, {"q": {"a": 1}}, ["MRR", "P@5"]).values.tolist()
    [[0.5, 0.2]]
    """
    asked, names = asked_for(tuple(metrics), policy)
    need_all = needs_all_judged(asked, complete)
    if isinstance(run, Mapping) and isinstance(qrels, Mapping):
        return score(hits_in_dicts(run, qrels, policy, need_all), asked, names, complete)
    if isinstance(run, Mapping) or isinstance(qrels, Mapping):
        raise DataError("run and judgments are of two kinds: give two dicts, or two tables")
    from evalkit.metrics import columns  # pyarrow is loaded only for those who use tables

    prepared = qrels if isinstance(qrels, columns.Qrels) else columns.Qrels.of(qrels)
    hits = columns.hits_in_columns(run, prepared, policy, need_all)
    return score(hits, asked, names, complete)


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Values of all queries: one row a judged query, one column a metric; nan is undefined.

    `missing` are judged queries that the run lacks, `unjudged` the reverse: listed, not scored.
    """

    query_ids: Sequence[str]
    metrics: tuple[Metric, ...]
    names: tuple[str, ...]
    values: Floats
    missing: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()
    of_means: Mapping[str, float] | None = None

    def means(self) -> dict[str, Average]:
        """Mean over queries of each metric, with how many it counts and how many are undefined."""
        columns, n = self.values.T, len(self.query_ids)
        means = {}
        for name, column, total in zip(self.names, columns, columns.sum(1).tolist(), strict=True):
            count = n
            if math.isnan(total):
                defined = column[~np.isnan(column)]
                total, count = float(defined.sum()), defined.size
            mean = (self.of_means or {}).get(name, total / count if count else math.nan)
            means[name] = Average(mean, count, n - count)
        return means

    def frame(self) -> pd.DataFrame:
        """Tidy values: `query_id, metric, cutoff, value`, a query's metrics together."""
        import pandas as pd

        columns = {
            "query_id": np.repeat(np.array(self.query_ids, object), len(self.metrics)),
            "metric": [metric.label for metric in self.metrics] * len(self.query_ids),
            "cutoff": [str(metric.cutoff) for metric in self.metrics] * len(self.query_ids),
            "value": self.values.ravel(),
        }
        return pd.DataFrame(columns)


@lru_cache(maxsize=64)
def asked_for(
    names: tuple[str, ...], policy: MetricPolicy
) -> tuple[tuple[Metric, ...], tuple[str, ...]]:
    """Metrics and their printed names; a sweep asks for the same ones again and again."""
    metrics = parse_metrics(names, policy)
    return metrics, tuple(map(str, metrics))


def needs_all_judged(metrics: Sequence[Metric], complete: bool) -> bool:
    """Whether documents judged not relevant matter too, and not only the relevant ones."""
    return _refuses_unjudged(metrics[0].policy, complete) or any(
        metric.measure in ("bpref", "Judged") for metric in metrics
    )


def score(
    hits: Hits, metrics: tuple[Metric, ...], names: tuple[str, ...], complete: bool
) -> Scores:
    """The values of hits, and the refusals that need the whole run to be seen."""
    policy = metrics[0].policy
    lacking = np.flatnonzero(hits.returned < 0)
    missing = tuple([hits.query_ids[i] for i in lacking.tolist()])
    if missing and len(missing) == len(hits.query_ids) and hits.unjudged:
        raise MetricError(
            f"0 of {len(missing)} judged queries are in the run: judged ids such as "
            f"{', '.join(missing[:3])}; run ids such as {', '.join(hits.unjudged[:3])}"
        )
    if missing and policy.missing_query == "error":
        raise MetricError(f"query {missing[0]!r} is judged but has no ranking: run it or remove it")
    if _refuses_unjudged(policy, complete):
        known = np.bincount(hits.query, minlength=len(hits.returned))
        for i in np.flatnonzero(known < hits.returned)[:1].tolist():
            raise MetricError(
                f"query {hits.query_ids[i]!r} returned {hits.returned[i] - known[i]} documents "
                "without a judgment: judge them, or use unjudged='irrelevant'"
            )
    table = values(hits, metrics)
    if policy.missing_query == "skip":
        table[:, lacking] = np.nan
    return Scores(
        query_ids=hits.query_ids,
        metrics=metrics,
        names=names,
        values=table.T,
        missing=missing,
        unjudged=hits.unjudged,
        of_means=_f_of_means(hits, metrics, lacking),
    )


def _refuses_unjudged(policy: MetricPolicy, complete: bool) -> bool:
    return policy.unjudged == "error" or (complete and policy.unjudged == "error_if_complete")


def _f_of_means(hits: Hits, metrics: Sequence[Metric], lacking: Ints) -> dict[str, float]:
    found = {}
    for metric in metrics:
        if metric.measure == "F" and metric.policy.f_average == "f_of_means":
            pair = values(hits, [replace(metric, measure=m) for m in ("Precision", "Recall")])
            if metric.policy.missing_query == "skip":
                pair[:, lacking] = np.nan
            defined = pair[:, ~np.isnan(pair[1])]
            p, r = defined.mean(1).tolist() if defined.size else (math.nan, math.nan)
            found[str(metric)] = harmonic_mean(p, r, metric.beta)
    return found
