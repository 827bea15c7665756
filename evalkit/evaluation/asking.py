"""Asks every question at every cutoff and scores what came back.

The way of one value: `Query.grades` (datasets) -> `_search` (what came back, K by K) ->
`_values` (metrics) -> `aggregation.means` (over all answerable questions).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from evalkit import metrics
from evalkit.errors import (
    EligibilityError,
    EngineUnavailableError,
    ParameterError,
    RetrievalError,
)
from evalkit.metrics import POLICY, MetricPolicy
from evalkit.records import Chunk, Hit, LabelledSet, Query
from evalkit.retrieval import Retriever

if TYPE_CHECKING:
    import pandas as pd

RANKING_METRICS = ("Precision", "Recall", "ReciprocalRank", "nDCG")
EVIDENCE_METRICS = ("RequirementRecall", "CompleteAnswer")
OUTCOMES = ("scored", "zero_hit", "skipped", "failed", "not_run")
_BATCH = 64

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


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What one retriever's pass over a set gave, as the frames that are stored.

    `run`: query_id, doc_id, rank, score. `evidence`: the same with grade, title, text, payload.
    `results`: query_id, metric, cutoff, value, answerable questions only.
    `outcomes`: one row a question: status, reason, hits, top_score, second_score, found, complete.
    """

    mode: str
    axis: str
    run: pd.DataFrame
    evidence: pd.DataFrame
    results: pd.DataFrame
    outcomes: pd.DataFrame
    settings: Mapping[str, Any]


def evaluate_all(
    labelled: LabelledSet,
    chunks: Sequence[Chunk],
    retrievers: Sequence[Retriever],
    plan: Plan,
    progress: Callable[[str], Progress] | None = None,
) -> list[Evaluation]:
    """Evaluates one retriever after the other; `progress` makes the line that each one updates."""
    return [
        evaluate(
            labelled, chunks, each, plan, progress(f"Asking ({each.mode})") if progress else None
        )
        for each in retrievers
    ]


def evaluate(
    labelled: LabelledSet,
    chunks: Sequence[Chunk],
    retriever: Retriever,
    plan: Plan,
    progress: Progress | None = None,
) -> Evaluation:
    """Asks every question at every cutoff and scores what came back.

    Each cutoff is an independent query (an approximate index may return other prefixes); vectors
    are made once a question. A question that fails is recorded with its reason and the rest go on;
    an engine that does not answer, or a hit outside the eligible corpus, stops everything.
    """
    eligible = {chunk.doc_id for chunk in chunks if labelled.is_eligible(chunk.fields)}
    asked = _ask(labelled, retriever, plan, progress)
    for each in asked:
        _judge(each, labelled, eligible)
    scored = [each for each in asked if each.query.answerable and each.status in OUTCOMES[:2]]
    return Evaluation(
        mode=retriever.mode,
        axis=retriever.axis,
        run=_run_frame(asked),
        evidence=_evidence_frame(asked, labelled),
        results=_values(scored, plan),
        outcomes=_outcome_frame(asked, labelled, plan),
        settings=retriever.describe(),
    )


def _ask(
    labelled: LabelledSet, retriever: Retriever, plan: Plan, progress: Progress | None
) -> list[Asked]:
    asked = [Asked(query) for query in labelled.queries]
    stop_at = time.monotonic() + plan.deadline_s
    for start in range(0, len(asked), _BATCH):
        if time.monotonic() > stop_at:
            for each in asked[start:]:
                each.reason = f"the deadline of {plan.deadline_s:g} s passed before it was asked"
            break
        batch = asked[start : start + _BATCH]
        try:
            _search(batch, retriever, plan)
        except (EligibilityError, EngineUnavailableError):
            raise
        except RetrievalError:
            # One bad question must not take its neighbours along: ask each alone, keep the reason.
            for each in batch:
                _search_alone(each, retriever, plan)
        if progress:
            progress(min(start + _BATCH, len(asked)), len(asked))
    return asked


def _search(batch: Sequence[Asked], retriever: Retriever, plan: Plan) -> None:
    texts = [each.query.text for each in batch]
    for cutoff in sorted(plan.cutoffs):
        for each, hits in zip(batch, retriever.search(texts, cutoff), strict=True):
            each.hits[cutoff] = hits
    for each in batch:
        each.status = "scored" if each.deepest else "zero_hit"


def _search_alone(each: Asked, retriever: Retriever, plan: Plan) -> None:
    each.hits.clear()
    try:
        _search([each], retriever, plan)
    except (EligibilityError, EngineUnavailableError):
        raise
    except RetrievalError as problem:
        each.hits.clear()
        each.status, each.reason = "failed", str(problem)


def _judge(each: Asked, labelled: LabelledSet, eligible: set[str]) -> None:
    """Refuses rankings that no label can score: a duplicate, or a chunk the set does not know."""
    for hits in each.hits.values():
        ids = [hit.doc_id for hit in hits]
        unknown = [doc_id for doc_id in ids if doc_id not in eligible]
        repeated = sorted({doc_id for doc_id in ids if ids.count(doc_id) > 1})
        if unknown and labelled.complete:
            each.status, where = "failed", "not in the eligible corpus and has no grade"
            each.reason = f"returned {unknown[0]}, which is {where}"
        if repeated:
            each.status, each.reason = "failed", f"returned {repeated[0]} more than once"


def _values(scored: Sequence[Asked], plan: Plan) -> pd.DataFrame:
    """Values of every metric at every cutoff, each cutoff from its own independent ranking."""
    import pandas as pd

    judgments = {each.query.query_id: dict(each.query.grades) for each in scored}
    frames = []
    for cutoff in sorted(plan.cutoffs):
        rankings = {
            each.query.query_id: {hit.doc_id: hit.score for hit in each.hits[cutoff]}
            for each in scored
        }
        if scored:
            names = [f"{name}@{cutoff}" for name in plan.metrics]
            scores = metrics.evaluate(rankings, judgments, names, policy=plan.policy)
            frames.append(scores.frame())
        frames.append(_evidence_values(scored, cutoff))
    return pd.concat(frames, ignore_index=True)


def _evidence_values(scored: Sequence[Asked], cutoff: int) -> pd.DataFrame:
    import pandas as pd

    rows = [
        (
            each.query.query_id,
            name,
            str(cutoff),
            values[name],
        )
        for each in scored
        if each.query.requirements
        for values in [_facts_found(each, cutoff)]
        for name in EVIDENCE_METRICS
    ]
    return pd.DataFrame(rows, columns=["query_id", "metric", "cutoff", "value"])


def _facts_found(each: Asked, cutoff: int) -> dict[str, float]:
    ranking = [hit.doc_id for hit in each.hits[cutoff]]
    facts = [requirement.any_of for requirement in each.query.requirements]
    return metrics.requirement_values(cutoff, ranking, facts)


def _run_frame(asked: Sequence[Asked]) -> pd.DataFrame:
    import pandas as pd

    rows = [
        (each.query.query_id, hit.doc_id, hit.rank, hit.score)
        for each in asked
        for hit in each.deepest
    ]
    return pd.DataFrame(rows, columns=["query_id", "doc_id", "rank", "score"])


def _evidence_frame(asked: Sequence[Asked], labelled: LabelledSet) -> pd.DataFrame:
    import pandas as pd

    unjudged = 0 if labelled.complete else None
    rows = [
        {
            "query_id": each.query.query_id,
            "rank": hit.rank,
            "score": hit.score,
            "grade": each.query.grades.get(hit.doc_id, unjudged),
            "doc_id": hit.doc_id,
            "title": str(hit.payload.get("title", "")),
            "text": hit.text,
            "payload": json.dumps(dict(hit.payload), sort_keys=True, ensure_ascii=False),
        }
        for each in asked
        for hit in each.deepest
    ]
    columns = ["query_id", "rank", "score", "grade", "doc_id", "title", "text", "payload"]
    return pd.DataFrame(rows, columns=columns).astype({"grade": "Int64"})


def _outcome_frame(asked: Sequence[Asked], labelled: LabelledSet, plan: Plan) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for each in asked:
        scores = [hit.score for hit in each.deepest]
        ids = {hit.doc_id for hit in each.deepest}
        relevant = {
            doc_id for doc_id, grade in each.query.grades.items() if grade >= labelled.relevant_from
        }
        rows.append(
            {
                "query_id": each.query.query_id,
                "text": each.query.text,
                "category": each.query.category,
                "topic": each.query.topic,
                "split": each.query.split,
                "answerable": each.query.answerable,
                "status": each.status,
                "reason": each.reason,
                "hits": len(scores),
                "top_score": scores[0] if scores else None,
                "second_score": scores[1] if len(scores) > 1 else None,
                "found": bool(relevant & ids),
                "complete": _is_complete(each.query, ids, relevant),
                "prefix_stable": each.is_prefix_stable,
            }
        )
    frame = pd.DataFrame(rows)
    return frame.astype({"top_score": "float64", "second_score": "float64"})


def _is_complete(query: Query, ids: set[str], relevant: set[str]) -> bool:
    """Every required fact has a chunk; without requirements, every relevant chunk is there."""
    if query.requirements:
        return all(ids.intersection(needed.any_of) for needed in query.requirements)
    return bool(relevant) and relevant <= ids


def ideal(labelled: LabelledSet, plan: Plan) -> pd.DataFrame:
    """Values of the best ranking each question allows: the ceiling of every metric.

    Precision@5 cannot exceed 2/5 for a question with two relevant chunks, so a mean is high or
    low only beside the mean of these. Requirement metrics have an ideal of their own: the chunks
    that cover most facts, not those of the highest grade.
    """
    import pandas as pd

    best, rows = [], []
    for query in (query for query in labelled.queries if query.answerable):
        order = sorted(query.grades, key=lambda doc_id: -query.grades[doc_id])
        ranked = [Hit(doc_id, -float(rank), rank) for rank, doc_id in enumerate(order, start=1)]
        hits = {cutoff: ranked[:cutoff] for cutoff in plan.cutoffs}
        best.append(Asked(replace(query, requirements=()), hits, "scored"))
        if query.requirements:
            for cutoff in plan.cutoffs:
                share = _most_facts(query, cutoff) / len(query.requirements)
                rows.append((query.query_id, "RequirementRecall", str(cutoff), share))
                rows.append((query.query_id, "CompleteAnswer", str(cutoff), float(share == 1)))
    facts = pd.DataFrame(rows, columns=["query_id", "metric", "cutoff", "value"])
    return pd.concat([_values(best, plan), facts], ignore_index=True)


def _most_facts(query: Query, cutoff: int) -> int:
    """The largest number of facts that `cutoff` chunks can cover."""
    facts = [set(requirement.any_of) for requirement in query.requirements]
    chunks = sorted(set().union(*facts))
    if cutoff >= len(facts):
        return len(facts)
    return max(
        sum(bool(fact.intersection(chosen)) for fact in facts)
        for chosen in combinations(chunks, min(cutoff, len(chunks)))
    )
