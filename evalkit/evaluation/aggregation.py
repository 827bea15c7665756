"""Values -> means with their counts, ceilings and intervals; the questions worth reading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from evalkit.evaluation.asking import OUTCOMES
from evalkit.evaluation.evaluating import Evaluation
from evalkit.metrics import uncertainty
from evalkit.records import Chunk, LabelledSet

if TYPE_CHECKING:
    import pandas as pd

_KEYS = ["metric", "cutoff"]


def means(
    results: pd.DataFrame,
    outcomes: pd.DataFrame,
    ceilings: pd.DataFrame,
    by: Sequence[str] = (),
) -> pd.DataFrame:
    """Macro means over the answerable questions, each question counting once.

        mean = sum of values / count;   ceiling = the same mean over the ideal rankings

    Columns: `by`, metric, cutoff, mean, low, high, ceiling, count, of. `count` questions have a
    value, of `of` answerable ones that the metric is defined for; where they differ, the execution
    failed. The interval is the 95 % BCa bootstrap over questions (10,000 resamples, seed 0).
    """
    about = outcomes[["query_id", *by]]
    keys = [*by, *_KEYS]
    possible = ceilings.merge(about, on="query_id")
    scored = results.merge(about, on="query_id")
    # Grouping by what the labels allow, not by what came back: a slice with no value stays visible.
    total = possible.groupby(keys, sort=False)["value"].agg(ceiling="mean", of="count")
    groups = {key: found.dropna() for key, found in scored.groupby(keys, sort=False)["value"]}
    values = {
        key: groups[key].to_numpy(float) if key in groups else np.empty(0) for key in total.index
    }
    intervals = _intervals(values)
    rows = [
        (*key, *intervals[key], ceiling, len(values[key]), of)
        for key, ceiling, of in total.itertuples()
    ]
    columns = [*keys, "mean", "low", "high", "ceiling", "count", "of"]
    import pandas as pd

    return pd.DataFrame(rows, columns=columns)


def _intervals(values: Mapping[Any, Any]) -> dict[Any, tuple[float, float, float]]:
    """Mean and interval by key. Groups of one size share their resamples, which are seeded: the
    same values give the same interval in every run.
    """
    sizes: dict[int, list[Any]] = {}
    for key, column in values.items():
        sizes.setdefault(len(column), []).append(key)
    found: dict[Any, tuple[float, float, float]] = {}
    for size, keys in sizes.items():
        columns = np.column_stack([values[key] for key in keys])
        middle = columns.mean(axis=0) if size else np.full(len(keys), np.nan)
        low = high = np.full(len(keys), np.nan)  # one question has a value and no interval
        if size > 1:
            low, high = uncertainty.mean_intervals(columns, np.random.default_rng(0))
        ends = zip(middle.tolist(), low.tolist(), high.tolist(), strict=True)
        found |= dict(zip(keys, ends, strict=True))
    return found


def counts(outcomes: pd.DataFrame) -> dict[str, int]:
    """How many questions had each of the five outcomes, answerable and unsupported together."""
    found = outcomes["status"].value_counts()
    return {status: int(found.get(status, 0)) for status in OUTCOMES}


def status(outcomes: pd.DataFrame) -> str:
    """`completed`, or `failed` where a question failed, was not asked, or all were skipped."""
    found = counts(outcomes)
    broken = found["failed"] + found["not_run"] > 0 or found["skipped"] == len(outcomes)
    return "failed" if broken else "completed"


@dataclass(frozen=True, slots=True)
class Miss:
    """One question read closely: what was returned, what was missing, the ideal order beside it."""

    query_id: str
    text: str
    metric: str
    value: float
    returned: pd.DataFrame
    missing: pd.DataFrame


def worst(
    evaluation: Evaluation,
    labelled: LabelledSet,
    chunks: Sequence[Chunk],
    *,
    metric: str = "nDCG",
    most: int = 5,
) -> Iterator[Miss]:
    """The questions with the lowest values at the deepest cutoff, lowest first, then by id.

    A question at its ceiling is not a miss and never listed.
    """
    results = evaluation.results
    values = results[results["metric"] == metric]
    deepest = values["cutoff"].astype(int).max()
    values = values[(values["cutoff"] == str(deepest)) & (values["value"] < 1)]
    ordered = values.sort_values(["value", "query_id"]).head(most)
    queries = {query.query_id: query for query in labelled.queries}
    for query_id, value in zip(ordered["query_id"], ordered["value"], strict=True):
        query = queries[query_id]
        evidence = evaluation.evidence[evaluation.evidence["query_id"] == query_id]
        best = sorted(query.grades.items(), key=lambda item: -item[1])
        ideal = [f"{doc_id.rsplit('@', 1)[0]} ({grade})" for doc_id, grade in best]
        returned = evidence[["rank", "score", "grade", "doc_id", "text"]].assign(
            ideal=(ideal + [""] * len(evidence))[: len(evidence)]
        )
        yield Miss(
            query_id=query_id,
            text=query.text,
            metric=f"{metric}@{deepest}",
            value=float(value),
            returned=returned,
            missing=_missing(set(evidence["doc_id"]), query.grades, chunks, labelled),
        )


def _missing(
    returned: set[str], grades: Any, chunks: Sequence[Chunk], labelled: LabelledSet
) -> pd.DataFrame:
    import pandas as pd

    texts = {chunk.doc_id: chunk.text for chunk in chunks}
    rows = [
        (grade, doc_id, texts.get(doc_id, ""))
        for doc_id, grade in sorted(grades.items(), key=lambda item: -item[1])
        if grade >= labelled.relevant_from and doc_id not in returned
    ]
    return pd.DataFrame(rows, columns=["grade", "doc_id", "text"])
