"""Questions with one number each, that a threshold of acceptance can be held against.

The number has an axis, named wherever it goes ("cosine top score", "bm25 margin"): a
threshold of one axis says nothing on another. A question for which nothing was retrieved
has no number, which is nan and never 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from evalkit.errors import DataError, MetricError
from evalkit.records import Query

Keeps = Literal["ranking", "hits"]
Signal = Literal["top score", "margin", "standing"]

GAINS = ("recall", "precision", "complete", "required", "results")
_NOTHING = dict.fromkeys(("evidence", *GAINS), 0.0)
_STEP = ("question", "score", "accepted", "evidence", *GAINS)
# what a threshold means on axes whose numbers are no similarities
_SCALES = {
    "rrf": "rank scores: sums of 1 / (constant + rank), no similarities",
    "dbsf": "fused scores, normalised anew for each question, no similarities",
}


@dataclass(frozen=True, slots=True)
class ScoredQuestions:
    """Questions with the one number each that a threshold is held against.

    `frame`, one row a question: `query_id, split, answerable, score` (nan: nothing
    retrieved) and what a reader gets on acceptance: `evidence` (1 when a relevant chunk is
    within the cutoff), `recall`, `precision`, `complete` (1 when all requirements are met;
    `required` is 1 where any are written), `results` (number kept).
    `steps` is empty when acceptance keeps the whole ranking; when it keeps the hits at or
    above the threshold, a row says what keeping one more hit adds: `question` (row number
    in `frame`), `score`, `accepted` (1 at the first hit) and the columns above.
    """

    axis: str
    cutoff: int
    keeps: Keeps
    frame: pd.DataFrame
    steps: pd.DataFrame
    label: str = "all"

    @property
    def scale(self) -> str:
        """What the scores are where they are no similarities; empty where they are."""
        return _SCALES.get(self.axis.split(" ")[0], "")

    def part(self, split: str) -> ScoredQuestions:
        """Only the questions of one split, such as "development" or "held-out"."""
        rows = np.flatnonzero((self.frame["split"] == split).to_numpy())
        if rows.size == 0:
            found = sorted(set(self.frame["split"]))
            raise MetricError(f"no question is in the split {split!r}; splits here: {found}")
        steps = self.steps
        if self.keeps == "hits":
            number = np.full(len(self.frame), -1)
            number[rows] = np.arange(rows.size)
            steps = steps.assign(question=number[steps["question"].to_numpy(int)])
            steps = steps[steps["question"] >= 0].reset_index(drop=True)
        frame = self.frame.iloc[rows].reset_index(drop=True)
        return replace(self, frame=frame, steps=steps, label=split)


def scored_questions(
    run: pd.DataFrame,
    queries: Sequence[Query],
    *,
    axis: str,
    cutoff: int,
    signal: Signal | pd.Series = "top score",
    keeps: Keeps = "ranking",
    relevant_from: int = 1,
) -> ScoredQuestions:
    """Scores each question from its ranking, and says what its first `cutoff` hits hold.

    `run` has `query_id, doc_id, rank, score`, retrieved without a score threshold; `axis`
    is what the retriever's score is ("cosine", "bm25", "rrf"). `queries` are those that
    were answered, also with nothing; a failed one does not belong here. The signals:

        top score    s1
        margin       s1 - s2
        standing     (s1 - mean) / standard deviation of the first `cutoff` scores

    or a Series by query_id, whose axis is named by `axis` alone. A margin needs two hits and
    a standing two different scores: a question with fewer has none, and is not accepted.
    """
    if cutoff < 1:
        raise MetricError(f"the cutoff is at least 1, got {cutoff}")
    if keeps == "hits" and not (isinstance(signal, str) and signal == "top score"):
        raise MetricError("hits can be kept by their own score only: signal='top score'")
    rankings = _rankings(run, {query.query_id for query in queries}, cutoff)
    rows: list[dict[str, Any]] = []
    steps: list[dict[str, Any]] = []
    for number, query in enumerate(queries):
        docs, scores = rankings.get(query.query_id, ([], np.empty(0)))
        gains = _gains(query, docs, relevant_from)
        row = {"query_id": query.query_id, "split": query.split, "answerable": query.answerable}
        row["score"] = (
            _signal(signal, scores)
            if isinstance(signal, str)
            else float(signal.get(query.query_id, np.nan))
        )
        rows.append(row | (gains[-1] if gains else _NOTHING))
        if keeps == "hits":
            steps += _steps(number, query.query_id, gains, scores)
    name = axis if not isinstance(signal, str) else f"{axis} {signal}"
    if name == f"{axis} standing":
        name += f"@{cutoff}"
    parts = pd.DataFrame(steps, columns=list(_STEP), dtype=np.float64)
    return ScoredQuestions(name, cutoff, keeps, pd.DataFrame(rows), parts)


def from_arrays(
    axis: str, score: ArrayLike, answerable: ArrayLike, evidence: ArrayLike | None = None
) -> ScoredQuestions:
    """Scored questions without rankings: one score and one or two flags each; nan is no score.

    Without `evidence` an accepted answerable question counts as accepted with it. Scores
    of float32 stay float32, which is also the fastest to sweep.
    """
    columns = {"score": np.asarray(score), "answerable": np.asarray(answerable, bool)}
    flags = columns["answerable"] if evidence is None else np.asarray(evidence, bool)
    columns["evidence"] = flags
    if len({column.shape for column in columns.values()}) > 1:
        raise MetricError("score, answerable and evidence are not of one length")
    return ScoredQuestions(axis, 0, "ranking", pd.DataFrame(columns, copy=False), pd.DataFrame())


def agreement(run: pd.DataFrame, other: pd.DataFrame, cutoff: int) -> pd.Series:
    """Share of the first `cutoff` chunks that two retrievers both return, by query_id.

    A rank statistic: it needs no common scale of scores. A question for which either
    returned nothing has no agreement, and is left out.
    """
    first, second = (frame[frame["rank"] <= cutoff] for frame in (run, other))
    both = first[["query_id", "doc_id"]].merge(second[["query_id", "doc_id"]])
    common = sorted(set(first["query_id"]) & set(second["query_id"]))
    shared = both.groupby("query_id").size().reindex(common, fill_value=0)
    return shared / cutoff


def _rankings(
    run: pd.DataFrame, known: set[str], cutoff: int
) -> dict[str, tuple[list[str], NDArray[np.float64]]]:
    unknown = set(run["query_id"]) - known
    if unknown:
        raise DataError(f"the run answers questions that were not given: {sorted(unknown)[:5]}")
    if not np.isfinite(run["score"].to_numpy(np.float64)).all():
        raise MetricError("the run holds a score that is no number; nothing can be accepted on it")
    top = run[run["rank"] <= cutoff].sort_values(["query_id", "rank"], kind="stable")
    return {
        str(query_id): (group["doc_id"].tolist(), group["score"].to_numpy(np.float64))
        for query_id, group in top.groupby("query_id", sort=False)
    }


def _gains(query: Query, docs: Sequence[str], relevant_from: int) -> list[dict[str, float]]:
    """What keeping the first 1, 2, ... hits gives the reader of one question."""
    if len(set(docs)) < len(docs):
        raise MetricError(f"{query.query_id}: the ranking holds a chunk twice")
    relevant = {doc for doc, grade in query.grades.items() if grade >= relevant_from}
    relevant = relevant or {doc for need in query.requirements for doc in need.any_of}
    if query.answerable and not relevant:
        raise MetricError(f"{query.query_id}: answerable, but no chunk is relevant to it")
    gains = []
    kept: set[str] = set()
    for doc in docs:
        kept.add(doc)
        found = len(kept & relevant)
        gains.append(
            {
                "evidence": float(found > 0),
                "recall": found / len(relevant) if relevant else 0.0,
                "precision": found / len(kept),
                "complete": float(
                    bool(query.requirements)
                    and all(kept.intersection(need.any_of) for need in query.requirements)
                ),
                "required": float(bool(query.requirements)),
                "results": float(len(kept)),
            }
        )
    return gains


def _steps(
    number: int, query_id: str, gains: list[dict[str, float]], scores: NDArray[np.float64]
) -> list[dict[str, float]]:
    if (np.diff(scores) > 0).any():
        raise MetricError(
            f"{query_id}: scores rise along the ranking, so a threshold does not keep its first "
            "hits; use keeps='ranking'"
        )
    steps = []
    before = _NOTHING
    for gain, score in zip(gains, scores.tolist(), strict=True):
        added = {name: gain[name] - before[name] for name in _NOTHING}
        first = float(before is _NOTHING)
        steps.append({"question": number, "score": score, "accepted": first} | added)
        before = gain
    return steps


def _signal(signal: Signal, scores: NDArray[np.float64]) -> float:
    if signal == "top score":
        return float(scores[0]) if scores.size else np.nan
    if signal == "margin":
        return float(scores[0] - scores[1]) if scores.size > 1 else np.nan
    if signal == "standing":
        spread = float(scores.std()) if scores.size else 0.0
        return float((scores[0] - scores.mean()) / spread) if spread > 0 else np.nan
    raise MetricError(f"no signal is called {signal!r}: top score, margin, standing or a Series")
