"""The ways of computing the metrics, behind one call, so that each test holds for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
import pytest

from evalkit.metrics import MetricPolicy, grade_run, parse_metrics

Values = dict[str, dict[str, float]]
Rows = Mapping[str, Sequence[Sequence[Any]]]


def plainly(
    run: Rows, judgments: Any, names: Sequence[str], policy: MetricPolicy, **options: bool
) -> Values:
    """By the plain definitions; `names` come back as they were asked for."""
    rows = {query: [(doc, score) for doc, score in ranked] for query, ranked in run.items()}
    metrics = parse_metrics(names, policy)
    found = grade_run(rows, judgments, metrics, **options).values
    return {
        query: {name: of[str(metric)] for name, metric in zip(names, metrics, strict=True)}
        for query, of in found.items()
    }


def by_engine(
    run: Rows, judgments: Any, names: Sequence[str], policy: MetricPolicy, **options: bool
) -> Values:
    """By the vectorised engine, from dicts, which cannot hold a chunk twice."""
    rows = {query: {doc: score for doc, score in ranked} for query, ranked in run.items()}
    if any(len(rows[query]) < len(run[query]) for query in run):
        pytest.skip("a dict cannot hold a chunk twice")
    from evalkit.metrics.engine import evaluate

    return named(evaluate(rows, judgments, names, policy=policy, **options), names, policy)


def by_frames(
    run: Rows, judgments: Any, names: Sequence[str], policy: MetricPolicy, **options: bool
) -> Values:
    """By the vectorised engine, from frames, which hold rows as they came."""
    rows = [
        (query, doc, rank, score)
        for query, ranked in run.items()
        for rank, (doc, score) in enumerate(ranked, 1)
    ]
    if policy.missing_query != "zero" and not all(run.values()):
        pytest.skip("a frame cannot hold a ranking without rows")
    labels = [(query, doc, grade) for query, of in judgments.items() for doc, grade in of.items()]
    table = pd.DataFrame(rows, columns=["query_id", "doc_id", "rank", "score"])
    qrels = pd.DataFrame(labels, columns=["query_id", "doc_id", "grade"])
    for frame in (table, qrels):
        frame[["query_id", "doc_id"]] = frame[["query_id", "doc_id"]].astype("str")
    table["score"] = table["score"].astype(float)
    from evalkit.metrics.engine import evaluate

    return named(evaluate(table, qrels, names, policy=policy, **options), names, policy)


def named(scores: Any, names: Sequence[str], policy: MetricPolicy) -> Values:
    """The engine's table by question and asked name; skipped questions are not in it."""
    skipped = set(scores.missing) if policy.missing_query == "skip" else set()
    table = zip(scores.query_ids, scores.values.tolist(), strict=True)
    return {
        query: dict(zip(names, row, strict=True)) for query, row in table if query not in skipped
    }


@pytest.fixture(
    scope="session", params=[plainly, by_engine, by_frames], ids=["plain", "dicts", "frames"]
)
def grade(request: pytest.FixtureRequest) -> Callable[..., Values]:
    """grade(run, judgments, names, policy) -> values by question and asked name."""
    way: Callable[..., Values] = request.param
    return way
