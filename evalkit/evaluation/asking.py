"""Asks every question at every cutoff and keeps what came back, or why nothing did."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from evalkit import metrics
from evalkit.errors import (
    EligibilityError,
    EngineUnavailableError,
    ParameterError,
    RetrievalError,
    SkippedQueryError,
)
from evalkit.metrics import POLICY, MetricPolicy
from evalkit.records import Hit, LabelledSet, Query
from evalkit.retrieval import Retriever

RANKING_METRICS = ("Precision", "Recall", "ReciprocalRank", "nDCG")
OUTCOMES = ("scored", "zero_hit", "skipped", "failed", "not_run")
_BATCH = 64
_DEEPEST = 10_000  # chunks fetched at most to fill k groups

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """How questions are asked and scored; the same for every retriever of an execution."""

    cutoffs: tuple[int, ...] = (1, 3, 5)
    metrics: tuple[str, ...] = RANKING_METRICS
    policy: MetricPolicy = POLICY
    deadline_s: float = 600.0

    @classmethod
    def of(
        cls, cutoffs: Sequence[int], names: Sequence[str], policy: str, deadline_s: float
    ) -> Plan:
        """A plan from a notebook's parameters; `policy` is the name of a preset."""
        return cls(tuple(cutoffs), tuple(names), metrics.preset(policy), deadline_s)

    @property
    def main(self) -> str:
        """The last metric named, as the policy labels it (nDCG_lin): the one looked at closely."""
        return metrics.parse_metric(self.metrics[-1], self.policy).label

    def __post_init__(self) -> None:
        if not self.cutoffs or min(self.cutoffs) < 1 or len(set(self.cutoffs)) < len(self.cutoffs):
            raise ParameterError(
                f"cutoffs {list(self.cutoffs)}: give distinct depths from 1 up, such as 1, 3, 5."
            )


@dataclass(slots=True)
class Asked:
    """One question and what came back for it at each cutoff; `reason` says why nothing did."""

    query: Query
    hits: dict[int, list[Hit]] = field(default_factory=dict)
    status: str = "not_run"
    reason: str = ""

    @property
    def deepest(self) -> list[Hit]:
        """The ranking of the largest cutoff that was asked."""
        return self.hits[max(self.hits)] if self.hits else []

    @property
    def is_prefix_stable(self) -> bool:
        """Whether each shorter ranking begins the deepest; an approximate index may differ."""
        ids = [hit.doc_id for hit in self.deepest]
        return all([hit.doc_id for hit in hits] == ids[: len(hits)] for hits in self.hits.values())


def ask(
    labelled: LabelledSet, retriever: Retriever, plan: Plan, progress: Progress | None
) -> list[Asked]:
    """Every question's hits at every cutoff, in batches; failures stay with their question.

    An engine that does not answer, or a hit outside the eligible corpus, stops everything.
    """
    asked = [Asked(query) for query in labelled.queries]
    stop_at = time.monotonic() + plan.deadline_s
    for start in range(0, len(asked), _BATCH):
        if time.monotonic() > stop_at:
            for each in asked[start:]:
                each.reason = f"the deadline of {plan.deadline_s:g} s passed before it was asked"
            break
        batch = asked[start : start + _BATCH]
        together = not labelled.relevance_field and not any(e.query.query_input for e in batch)
        if not together or not _search(batch, retriever, plan):
            for each in batch:
                _search_alone(each, labelled, retriever, plan)
        if progress:
            progress(min(start + _BATCH, len(asked)), len(asked))
    return asked


def _search(batch: Sequence[Asked], retriever: Retriever, plan: Plan) -> bool:
    """Asks a batch at once; False where one question spoils it and each must be asked alone."""
    texts = [each.query.text for each in batch]
    try:
        for cutoff in sorted(plan.cutoffs):
            for each, hits in zip(batch, retriever.search(texts, cutoff), strict=True):
                each.hits[cutoff] = hits
    except (EligibilityError, EngineUnavailableError):
        raise
    except RetrievalError:
        return False
    for each in batch:
        each.status = "scored" if each.deepest else "zero_hit"
    return True


def _search_alone(each: Asked, labelled: LabelledSet, retriever: Retriever, plan: Plan) -> None:
    """Asks one question, so that a fault stays with it: skipped or failed, with the reason."""
    each.hits.clear()
    try:
        for cutoff in sorted(plan.cutoffs):
            each.hits[cutoff] = _hits(each.query, labelled, retriever, cutoff)
        each.status = "scored" if each.deepest else "zero_hit"
    except (EligibilityError, EngineUnavailableError):
        raise
    except RetrievalError as problem:
        each.hits.clear()
        skipped = isinstance(problem, SkippedQueryError)
        each.status, each.reason = "skipped" if skipped else "failed", str(problem)


def _hits(query: Query, labelled: LabelledSet, retriever: Retriever, k: int) -> list[Hit]:
    """The k best chunks, or under a relevance field the k best values, deeper until k are there."""
    field_name, depth = labelled.relevance_field, k
    while True:
        hits = _fetch(query, retriever, depth)
        if not field_name:
            return hits
        groups = metrics.group_by_field([hit.payload for hit in hits], field_name, k)
        if groups.skip_reason:
            raise SkippedQueryError(groups.skip_reason)
        if len(groups.values) == k or len(hits) < depth or depth >= _DEEPEST:
            return [
                replace(hits[position], doc_id=value, rank=rank)
                for rank, (value, position) in enumerate(
                    zip(groups.values, groups.positions, strict=True), start=1
                )
            ]
        depth *= 2


def _fetch(query: Query, retriever: Retriever, k: int) -> list[Hit]:
    if not query.query_input:
        return retriever.search([query.text], k)[0]
    by_input = getattr(retriever, "search_inputs", None)
    if by_input is None:
        raise SkippedQueryError(
            f"{retriever.mode} takes a question as text and not {', '.join(query.query_input)}"
        )
    found: list[list[Hit]] = by_input([query.query_input], k)
    return found[0]
