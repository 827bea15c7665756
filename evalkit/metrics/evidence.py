"""Whether the evidence is complete, and grading by another unit than the chunk.

Requirements are facts the answer needs, each held by any one of several chunks. Grouped grading
ranks the values of a payload field, or whole documents, before any metric is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalkit.errors import MetricError

Facts = Sequence[Sequence[str]]  # for each fact the chunks of which any one holds it


def requirement_recall(ranking: Sequence[str], facts: Facts, k: int | None = None) -> float:
    """Share of the facts the answer needs that the first k chunks hold.

        a fact is held when any one of the chunks it lists is among the first k

    Chunk recall asks for every listed chunk, although one passage a fact is enough: a question
    that either of two chunks answers in full has chunk recall 1/2 and requirement recall 1.
    Undefined (nan) where no fact is written.

    >>> requirement_recall(["p1", "x"], [["p0", "p1"], ["p2"]], k=2)
    0.5
    """
    ranks = _fact_ranks(ranking, facts, k)
    return sum(rank < math.inf for rank in ranks) / len(ranks) if ranks else math.nan


def complete_answer(ranking: Sequence[str], facts: Facts, k: int | None = None) -> float:
    """1 if the first k chunks hold every fact the answer needs, else 0; its mean is a rate.

    >>> complete_answer(["p1", "x", "p2"], [["p0", "p1"], ["p2"]], k=2)
    0.0
    """
    ranks = _fact_ranks(ranking, facts, k)
    return float(max(ranks) < math.inf) if ranks else math.nan


def rank_of_completion(ranking: Sequence[str], facts: Facts, k: int | None = None) -> float:
    """The rank at which the last missing fact is found: a rank, not a share; lower is better.

    Undefined (nan) where a fact is not found at all, so read it beside the complete-answer
    rate, which says of how many questions it speaks.

    >>> rank_of_completion(["p2", "x", "p0", "p3"], [["p0"], ["p2", "p3"]])
    3.0
    """
    last = max(_fact_ranks(ranking, facts, k), default=math.inf)
    return last if last < math.inf else math.nan


def requirement_values(k: int | None, ranking: Sequence[str], facts: Facts) -> dict[str, float]:
    """The three requirement metrics of one question, by name without the cutoff."""
    return {
        "RequirementRecall": requirement_recall(ranking, facts, k),
        "CompleteAnswer": complete_answer(ranking, facts, k),
        "RankOfCompletion": rank_of_completion(ranking, facts, k),
    }


def _fact_ranks(ranking: Sequence[str], facts: Facts, k: int | None) -> list[float]:
    """For each fact the rank of the first chunk that holds it, infinite if none does."""
    if k is not None and k < 1:
        raise MetricError(f"cutoff {k!r}: give a whole number of ranks of at least 1")
    for fact in facts:
        if isinstance(fact, str) or not fact:
            raise MetricError(f"requirement {fact!r}: give the list of chunks that hold the fact")
    rank_of: dict[str, float] = {}
    for rank, doc in enumerate(ranking[:k], 1):
        rank_of.setdefault(doc, float(rank))
    return [min(rank_of.get(doc, math.inf) for doc in fact) for fact in facts]


@dataclass(frozen=True, slots=True)
class Grouping:
    """A ranking of field values: the first rank of each counts, and ranks close up.

    `positions` are the 0-based places, in the ranking given, of the chunk each value was first
    seen in. `skip_reason` is text where results came back and none carries the field: such a
    question is skipped with this reason, not scored 0.
    """

    values: tuple[str, ...]
    positions: tuple[int, ...]
    without_field: int
    skip_reason: str = ""


def group_by_field(
    payloads: Sequence[Mapping[str, Any]], field: str, k: int | None = None
) -> Grouping:
    """Rank the values of a payload field (`metadata.frame_key` reads into nested payloads).

    A chunk without the field keeps a rank of its own and matches nothing: no label, and no
    other chunk without it. With `k` the first k values are kept; fetch more chunks while there
    are fewer.

    >>> rows = [{"m": {"id": "B"}}, {"m": {"id": "B"}}, {}, {"m": {"id": "A"}}]
    >>> group_by_field(rows, "m.id").values
    ('B', '(no m.id at 3)', 'A')
    """
    first: dict[str, int] = {}
    without = 0
    for position, payload in enumerate(payloads):
        found = field_value(payload, field)
        without += found is None
        first.setdefault(f"(no {field} at {position + 1})" if found is None else found, position)
    none_has_it = payloads and without == len(payloads)
    reason = f"no result carries the field {field!r}" if none_has_it else ""
    return Grouping(tuple(first)[:k], tuple(first.values())[:k], without, reason)


def field_value(payload: Mapping[str, Any], field: str) -> str | None:
    """The text at a dotted path; None where it is missing, null or empty. 7 reads as "7"."""
    found: Any = payload
    if field in payload:
        found = payload[field]
    else:
        for part in field.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    if found is None or found == "":
        return None
    if isinstance(found, bool) or not isinstance(found, str | int):
        raise MetricError(
            f"field {field!r} holds {found!r}: a chunk's label is one text or whole number"
        )
    return str(found)


def best_chunk_by_document(
    scored: Iterable[tuple[str, float]], document_of: Callable[[str], str]
) -> list[tuple[str, float]]:
    """Documents ranked by the score of their best chunk; equal ones keep the returned order.

    Collapse first, then cut: the cutoff counts documents, so fetch enough chunks to fill it.

    >>> best_chunk_by_document([("A#1", 0.9), ("A#2", 0.8), ("B#1", 0.7)], lambda c: c[0])
    [('A', 0.9), ('B', 0.7)]
    """
    best: dict[str, float] = {}
    for chunk, score in scored:
        document = document_of(chunk)
        best[document] = max(score, best.get(document, -math.inf))
    return sorted(best.items(), key=lambda pair: -pair[1])
