"""Questions x retriever x metrics -> rankings with evidence, values, outcomes and means."""

from evalkit.evaluation.aggregation import Miss, counts, means, status, worst
from evalkit.evaluation.asking import (
    OUTCOMES,
    RANKING_METRICS,
    Asked,
    Evaluation,
    Plan,
    evaluate,
    ideal,
)

__all__ = [
    "OUTCOMES",
    "RANKING_METRICS",
    "Asked",
    "Evaluation",
    "Miss",
    "Plan",
    "counts",
    "evaluate",
    "ideal",
    "means",
    "status",
    "worst",
]
