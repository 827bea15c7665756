"""One question or a whole run graded by the plain definitions, with its refusals and reasons.

This is the readable path: `evalkit.metrics.engine` computes the same numbers for whole runs at
once, and the tests hold the two together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from evalkit.errors import MetricError
from evalkit.metrics import evidence, ranking
from evalkit.metrics.policy import EVIDENCE_MEASURES, Metric, MetricPolicy
from evalkit.metrics.ranking import Grades
from evalkit.records import Hit

Scored = Sequence[tuple[str, float]]  # one ranking with its scores, as returned

_FORMULAS: Final[Mapping[str, Callable[..., float]]] = {
    "Precision": ranking.precision,
    "Recall": ranking.recall,
    "Success": ranking.success,
    "ReciprocalRank": ranking.reciprocal_rank,
    "AP": ranking.average_precision,
    "nDCG": ranking.ndcg,
    "Rprec": ranking.r_precision,
    "bpref": ranking.bpref,
    "Judged": ranking.judged,
}


def value(metric: Metric, ids: Sequence[str], grades: Grades, facts: evidence.Facts = ()) -> float:
    """The metric of one ranking; nan where it is undefined.

    >>> from evalkit.metrics.policy import parse_metric
    >>> value(parse_metric("Recall@1R"), ["a", "x", "b"], {"a": 1, "b": 1})
    0.5
    """
    relevant = ranking.relevant_count(grades, metric.policy)
    if metric.cutoff.of_relevant and not relevant:
        return ranking.without_relevant(metric.policy)
    k = metric.cutoff.depth(relevant)
    if metric.measure in EVIDENCE_MEASURES:
        return evidence.requirement_values(k, ids, facts)[metric.measure]
    if metric.measure == "F":
        return ranking.f_beta(ids, grades, k, metric.policy, beta=metric.beta)
    return _FORMULAS[metric.measure](ids, grades, k, metric.policy)


def ceiling(metric: Metric, grades: Grades) -> float:
    """The best value any ranking could reach: the relevant chunks alone, best grade first.

    >>> from evalkit.metrics.policy import parse_metric
    >>> ceiling(parse_metric("Precision@5"), {"a": 1, "b": 2, "x": 0})
    0.4
    """
    lowest = 1 if metric.measure == "nDCG" else metric.policy.relevant_from
    best = sorted((doc for doc in grades if grades[doc] >= lowest), key=lambda doc: -grades[doc])
    return value(metric, best, grades)


def in_order(scored: Scored, policy: MetricPolicy) -> Scored:
    """The ranking as it is graded: as returned, or score then id, both descending.

    >>> in_order([("d1", 1.0), ("d2", 1.0)], MetricPolicy(order="trec_eval"))
    [('d2', 1.0), ('d1', 1.0)]
    """
    for doc, score in scored:
        if math.isnan(score):
            raise MetricError(f"the score of chunk {doc!r} is not a number: it cannot be ordered")
    if policy.order == "trec_eval":
        return sorted(scored, key=lambda pair: (pair[1], pair[0]), reverse=True)
    return scored


def single_ranking(query_id: str, hits: Sequence[Hit]) -> list[str]:
    """Ids of hits that are one whole ranking: ranks 1 to n, each once, in order."""
    ranks = [hit.rank for hit in hits]
    if ranks != list(range(1, len(hits) + 1)):
        raise MetricError(
            f"question {query_id!r} holds ranks {ranks[:10]}, not one ranking from 1: "
            "grade one retrieval at a time"
        )
    return [hit.doc_id for hit in hits]


def check_grades(grades: Grades, lowest: int, highest: int) -> None:
    """Refuse grades that are not whole numbers within the set's declared scale."""
    for doc, grade in grades.items():
        if type(grade) is not int or not lowest <= grade <= highest:
            raise MetricError(
                f"chunk {doc!r} has grade {grade!r}, outside the scale {lowest} to {highest}"
            )


def reason(metric: Metric, returned: int, grades: Grades) -> str:
    """Why the value is what it is, in one sentence, for the report."""
    relevant = ranking.relevant_count(grades, metric.policy)
    if not relevant:
        return "No value: no judged chunk is relevant."
    if metric.measure == "bpref" and not any(
        0 <= grade < metric.policy.relevant_from for grade in grades.values()
    ):
        return "Not computable: no chunk is judged not relevant."
    k = metric.cutoff.depth(relevant)
    return (
        f"Scored {returned} results."
        if k is None
        else f"Scored {min(k, returned)} results at K={k}."
    )


@dataclass(frozen=True, slots=True)
class RunValues:
    """Values by question and metric name; the judged questions the run lacks, and the reverse."""

    values: Mapping[str, Mapping[str, float]]
    missing: tuple[str, ...]
    unjudged: tuple[str, ...]


def grade_run(
    run: Mapping[str, Scored],
    judgments: Mapping[str, Grades],
    metrics: Sequence[Metric],
    *,
    complete: bool = False,
) -> RunValues:
    """Every judged question's values; questions without judgments are listed, never scored.

    `complete` says the set claims complete judgments, so that an unjudged chunk is refused
    under `unjudged="error_if_complete"`.
    """
    if judgments and run and not set(run) & set(judgments):
        raise MetricError(
            f"0 of {len(judgments)} judged questions are in the run: judged ids such as "
            f"{', '.join(sorted(judgments)[:3])}; run ids such as {', '.join(sorted(run)[:3])}"
        )
    missing = tuple(query for query in judgments if query not in run)
    values = {}
    for query, grades in judgments.items():
        kept = [metric for metric in metrics if query in run or _counts_missing(query, metric)]
        if kept:
            values[query] = _values(query, run.get(query, ()), grades, kept, complete)
    return RunValues(values, missing, tuple(query for query in run if query not in judgments))


def _counts_missing(query: str, metric: Metric) -> bool:
    if metric.policy.missing_query == "error":
        raise MetricError(f"question {query!r} is judged but has no ranking: run it, or remove it")
    return metric.policy.missing_query == "zero"


def _values(
    query: str, scored: Scored, grades: Grades, metrics: Iterable[Metric], complete: bool
) -> dict[str, float]:
    found = {}
    for metric in metrics:
        policy = metric.policy
        if complete and policy.unjudged == "error_if_complete":
            policy = replace(policy, unjudged="error")
        try:
            ids = [doc for doc, _ in in_order(scored, policy)]
            found[str(metric)] = value(replace(metric, policy=policy), ids, grades)
        except MetricError as error:
            raise MetricError(f"question {query!r}, {metric}: {error}") from None
    return found


def require_values(query_id: str, values: Mapping[str, float], metrics: Sequence[Metric]) -> None:
    """Refuse a question whose values are not exactly the declared metrics, each a number."""
    declared = [str(metric) for metric in metrics]
    wrong = [name for name in declared if math.isnan(values.get(name, math.nan))]
    wrong += [name for name in values if name not in declared]
    if wrong:
        raise MetricError(
            f"unscored question {query_id!r}: {', '.join(wrong)} missing or not asked"
        )


@dataclass(frozen=True, slots=True)
class Average:
    """A mean over questions, with how many it counts and how many have no value."""

    value: float
    count: int
    undefined: int = 0


def average(metric: Metric, values: Iterable[Mapping[str, float]]) -> Average:
    """The macro mean of one metric; undefined values are left out and counted.

    Under `f_average="f_of_means"` it is F of mean precision and mean recall, which must be
    among the values.
    """
    questions = list(values)
    if metric.measure == "F" and metric.policy.f_average == "f_of_means":
        p, r = (average(replace(metric, measure=m), questions) for m in ("Precision", "Recall"))
        return replace(p, value=ranking.harmonic_mean(p.value, r.value, metric.beta))
    defined = [v for v in (q[str(metric)] for q in questions) if not math.isnan(v)]
    mean = math.fsum(defined) / len(defined) if defined else math.nan
    return Average(mean, len(defined), len(questions) - len(defined))


def micro_average(
    metric: Metric, run: Mapping[str, Sequence[str]], judgments: Mapping[str, Grades]
) -> float:
    """Precision, recall or F of all questions' counts together; reported as `Micro...`.

    Questions with many relevant chunks weigh more, unlike in the macro mean.
    """
    pooled = [
        (*ranking.hits(run.get(query, ()), grades, metric.cutoff.depth(n), metric.policy), n)
        for query, grades in judgments.items()
        if (n := ranking.relevant_count(grades, metric.policy))
    ]
    found, looked_at, relevant = (sum(column) for column in zip(*pooled, strict=True))
    p, r = found / looked_at if looked_at else 0.0, found / relevant
    if metric.measure == "F":
        return ranking.harmonic_mean(p, r, metric.beta)
    if metric.measure not in ("Precision", "Recall"):
        raise MetricError(f"{metric} has no micro average: only precision, recall and F count")
    return p if metric.measure == "Precision" else r
