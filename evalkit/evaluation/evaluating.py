"""One retriever's pass over a set, as the frames that are stored.

The way of one value: `Query.grades` (datasets) -> `asking.ask` (what came back, K by K) ->
`values.values` (metrics) -> `aggregation.means` (over all answerable questions).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalkit import metrics
from evalkit.evaluation.asking import OUTCOMES, Asked, Plan, Progress, ask
from evalkit.evaluation.values import values
from evalkit.records import Chunk, LabelledSet, Query
from evalkit.retrieval import Retriever

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What one retriever's pass over a set gave, as the frames that are stored.

    `run`: query_id, doc_id, rank, score. `evidence`: the same with grade, title, text, payload.
    `results`: query_id, metric, cutoff, value, answerable questions only.
    `outcomes`: one row a question: status, reason, hits, top_score, second_score, found, complete,
    completed_at (the rank of its last required fact).
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
    asked = ask(labelled, retriever, plan, progress)
    for each in asked:
        _judge(each, labelled, eligible)
    scored = [each for each in asked if each.query.answerable and each.status in OUTCOMES[:2]]
    return Evaluation(
        mode=retriever.mode,
        axis=retriever.axis,
        run=_run_frame(asked),
        evidence=_evidence_frame(asked, labelled),
        results=values(scored, plan, complete=labelled.complete),
        outcomes=_outcome_frame(asked, labelled),
        settings=retriever.describe(),
    )


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


def _outcome_frame(asked: Sequence[Asked], labelled: LabelledSet) -> pd.DataFrame:
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
                "completed_at": _completed_at(each),
                "prefix_stable": each.is_prefix_stable,
            }
        )
    frame = pd.DataFrame(rows)
    numbers = ["top_score", "second_score", "completed_at"]
    return frame.astype(dict.fromkeys(numbers, "float64"))


def _completed_at(each: Asked) -> float:
    """The rank at which the last required fact was found; nan where one is missing or none is."""
    facts = [requirement.any_of for requirement in each.query.requirements]
    ids = [hit.doc_id for hit in each.deepest]
    return metrics.rank_of_completion(ids, facts) if facts else float("nan")


def _is_complete(query: Query, ids: set[str], relevant: set[str]) -> bool:
    """Every required fact has a chunk; without requirements, every relevant chunk is there."""
    if query.requirements:
        return all(ids.intersection(needed.any_of) for needed in query.requirements)
    return bool(relevant) and relevant <= ids
