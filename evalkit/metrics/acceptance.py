"""Accepting and abstaining: what happens to every question at every distinct threshold.

A question is accepted when its score is at or above the threshold. There are five outcomes,
and at each threshold they add up to all questions:

    answerable    accepted with the evidence | accepted without it | abstained
    unsupported   accepted | abstained

Thresholds lie halfway between neighbouring observed scores, so that "at or above" and
"above" (Qdrant's rule for score_threshold) accept the same questions; the two ends are
-inf, "accept anything non-empty", and inf, "accept nothing". A question without a score
(nothing was retrieved) is never accepted: a missing score is not 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from evalkit.errors import MetricError
from evalkit.metrics.scored import GAINS, ScoredQuestions

OUTCOMES = (
    "accepted_with_evidence",
    "accepted_without_evidence",
    "abstained_answerable",
    "accepted_unsupported",
    "abstained_unsupported",
)


@dataclass(frozen=True, slots=True)
class Sweep:
    """All outcomes at every distinct threshold of one axis, lowest threshold first.

    `frame` has `threshold`, the five outcome counts (`OUTCOMES`) and the rates
    `false_acceptance` (of unsupported), `false_abstention` (of answerable) and
    `evidence_among_accepted`; where rankings were given also, over accepted answerable
    questions, `recall_accepted`, `precision_accepted`, `complete_accepted` (of those with
    requirements), and `recall_answerable` (an abstention counts 0), `results_kept` (mean
    over all questions) and `results_kept_unsupported`. A rate of nothing is nan, never 1.
    `scores` are the distinct observed scores between whose values the thresholds lie.
    """

    axis: str
    scale: str
    cutoff: int
    keeps: str
    label: str
    answerable: int
    unsupported: int
    without_score: int
    scores: NDArray[Any]
    frame: pd.DataFrame


def sweep(questions: ScoredQuestions) -> Sweep:
    """Counts the outcomes at every distinct threshold, in O(n log n).

    >>> from evalkit.metrics.scored import from_arrays
    >>> frame = sweep(from_arrays("cosine top score", [.9, .7, .5], [True, False, True])).frame
    >>> frame[["threshold", "false_acceptance", "false_abstention"]].round(2).values.tolist()
    [[-inf, 1.0, 0.0], [0.6, 1.0, 0.5], [0.8, 0.0, 0.5], [inf, 0.0, 1.0]]
    """
    scores, kept = _kept_from(questions)
    frame = _rates(kept, midpoints(scores), questions)
    answerable = int(questions.frame["answerable"].sum())
    return Sweep(
        axis=questions.axis,
        scale=questions.scale,
        cutoff=questions.cutoff,
        keeps=questions.keeps,
        label=questions.label,
        answerable=answerable,
        unsupported=len(questions.frame) - answerable,
        without_score=int(questions.frame["score"].isna().sum()),
        scores=scores,
        frame=frame,
    )


def outcomes_at(questions: ScoredQuestions, thresholds: ArrayLike) -> pd.DataFrame:
    """The rows of a sweep at thresholds of the caller's own, in their order."""
    given = np.asarray(thresholds, np.float64)
    if np.isnan(given).any():
        raise MetricError("a threshold is not a number")
    scores, kept = _kept_from(questions)
    at = np.searchsorted(scores.astype(np.float64), given, side="left")
    return _rates({name: column[at] for name, column in kept.items()}, given, questions)


def decisions(questions: ScoredQuestions, threshold: float) -> pd.DataFrame:
    """Each question at one threshold: its outcome, and what its reader would be given.

    Adds to the questions `above` (score minus threshold), `accepted` and `outcome`; what is
    kept (`evidence`, `recall`, ...) is 0 for an abstention.
    """
    frame = questions.frame.copy()
    frame["above"] = frame["score"] - threshold
    frame["accepted"] = frame["score"] >= threshold
    gains = [name for name in ("evidence", *GAINS) if name in frame and name != "required"]
    if questions.keeps == "hits":
        kept = questions.steps[questions.steps["score"] >= threshold]
        sums = kept.groupby("question")[gains].sum().reindex(range(len(frame)), fill_value=0.0)
        frame[gains] = sums[gains]
    frame[gains] = frame[gains].astype(np.float64).where(frame["accepted"], 0.0)
    held = frame["evidence"] > 0.5
    frame["outcome"] = np.select(
        [
            frame["answerable"] & frame["accepted"] & held,
            frame["answerable"] & frame["accepted"],
            frame["answerable"],
            frame["accepted"],
        ],
        OUTCOMES[:4],
        OUTCOMES[4],
    )
    return frame


def midpoints(scores: NDArray[Any]) -> NDArray[np.float64]:
    """Thresholds that part ascending distinct scores: -inf, the midpoints, inf.

    Between two neighbouring float64 values lies none; the upper one is the threshold there.
    """
    wide = scores.astype(np.float64, copy=False)
    thresholds = np.empty(wide.size + 1)
    thresholds[0], thresholds[-1] = -np.inf, np.inf
    if wide.size:
        middle = np.multiply(wide[1:], 0.5, out=thresholds[1:-1])
        middle += wide[:-1] * 0.5
        if (same := middle <= wide[:-1]).any():
            middle[same] = wide[1:][same]
    return thresholds


# Each column is summed from the highest score down; position j of a result is the sum over
# all with a score at or above `scores[j]`, the last position (nothing kept) is 0.


def _kept_from(questions: ScoredQuestions) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
    table = questions.steps if questions.keeps == "hits" else questions.frame
    score = table["score"].to_numpy()
    answerable = questions.frame["answerable"].to_numpy(bool)
    if questions.keeps == "hits":
        answerable = answerable[table["question"].to_numpy(int)]
    if np.isinf(score).any():
        raise MetricError("a score is infinite; a threshold cannot lie above it")
    if len(questions.frame) == 0:
        raise MetricError("no question to sweep")
    order = _ascending(score)
    ordered = score[order]
    new = np.ones(order.size, bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    first = np.flatnonzero(new)
    sums = {}
    for name, column in _columns(table, answerable).items():
        sums[name] = _sum_from(column[order], first)
    return ordered if first.size == ordered.size else ordered[first], sums


def _ascending(score: NDArray[Any]) -> NDArray[np.int64]:
    """Positions of the scores from the lowest up, those that are nan left out."""
    with np.errstate(over="ignore"):
        narrow = score.astype(np.float32, copy=False)
    missing = np.isnan(score)
    if score.size >= 2**31 or not (narrow == score).all(where=~missing):
        return np.argsort(score)[: score.size - int(missing.sum())]  # nan sorts last
    # what fits in float32, such as the scores of a vector store, is sorted as one integer:
    # its bits, those of a negative number turned over so that they rise with it, then its place
    bits = narrow.view(np.int32)
    keys = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).astype(np.int64)
    keys <<= 32
    keys |= np.arange(score.size)
    keys.sort()
    order = np.bitwise_and(keys, 0xFFFFFFFF, out=keys)
    return order[~missing[order]] if missing.any() else order


def _columns(table: pd.DataFrame, answerable: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
    evidence = table["evidence"].to_numpy(np.int8)
    accepted = np.ones(answerable.size, np.int8)
    if "accepted" in table:
        accepted = table["accepted"].to_numpy(np.int8)
    columns = {
        "answerable": accepted * answerable,
        "evidence": evidence * answerable,
        "unsupported": accepted * ~answerable,
    }
    for name in GAINS:
        if name in table:
            columns[name] = table[name].to_numpy() * answerable
    if "results" in table:
        columns["results_unsupported"] = table["results"].to_numpy() * ~answerable
    return columns


def _sum_from(ordered: NDArray[Any], first: NDArray[np.int64]) -> NDArray[Any]:
    whole = np.int32 if ordered.size < 2**31 else np.int64
    sums = np.zeros(ordered.size + 1, whole if ordered.dtype.kind in "biu" else np.float64)
    # from the last score down to the first, written where it belongs
    np.cumsum(ordered[::-1], dtype=sums.dtype, out=sums[-2::-1] if ordered.size else sums[:0])
    return sums if first.size == ordered.size else sums[np.append(first, ordered.size)]


def _rates(
    kept: Mapping[str, NDArray[Any]], thresholds: NDArray[np.float64], questions: ScoredQuestions
) -> pd.DataFrame:
    n = len(questions.frame)
    n_answerable = int(questions.frame["answerable"].sum())
    right, accepted, wrong = kept["evidence"], kept["answerable"], kept["unsupported"]
    columns: dict[str, NDArray[Any]] = {"threshold": thresholds}
    columns |= dict(
        zip(
            OUTCOMES,
            (right, accepted - right, n_answerable - accepted, wrong, n - n_answerable - wrong),
            strict=True,
        )
    )
    with np.errstate(invalid="ignore", divide="ignore"):  # of none: nan
        columns["false_acceptance"] = np.divide(wrong, n - n_answerable)
        columns["false_abstention"] = np.divide(n_answerable - accepted, n_answerable)
        columns["evidence_among_accepted"] = right / (accepted + wrong)
        if "results" in kept:
            columns["recall_accepted"] = kept["recall"] / accepted
            columns["precision_accepted"] = kept["precision"] / accepted
            columns["complete_accepted"] = kept["complete"] / kept["required"]
            columns["recall_answerable"] = np.divide(kept["recall"], n_answerable)
            both = kept["results"] + kept["results_unsupported"]
            columns["results_kept"] = both / n
            columns["results_kept_unsupported"] = np.divide(
                kept["results_unsupported"], n - n_answerable
            )
    return pd.DataFrame(columns, copy=False)
