"""Questions x retriever x metrics -> rankings with evidence, values, outcomes and means."""

from evalkit.evaluation.aggregation import Miss, counts, means, status, worst
from evalkit.evaluation.asking import OUTCOMES, RANKING_METRICS, Asked, Plan
from evalkit.evaluation.describing import (
    collection,
    completion_sentences,
    corpus,
    engines,
    options,
    prefix_sentence,
    questions,
    recall_against_facts,
    sensitivity,
    under_two_policies,
)
from evalkit.evaluation.evaluating import Evaluation, evaluate, evaluate_all
from evalkit.evaluation.fidelity import index_loss
from evalkit.evaluation.scoring import score
from evalkit.evaluation.values import EVIDENCE_METRICS, ideal

__all__ = [
    "EVIDENCE_METRICS",
    "OUTCOMES",
    "RANKING_METRICS",
    "Asked",
    "Evaluation",
    "Miss",
    "Plan",
    "collection",
    "completion_sentences",
    "corpus",
    "counts",
    "engines",
    "evaluate",
    "evaluate_all",
    "ideal",
    "index_loss",
    "means",
    "options",
    "prefix_sentence",
    "questions",
    "recall_against_facts",
    "score",
    "sensitivity",
    "status",
    "under_two_policies",
    "worst",
]
