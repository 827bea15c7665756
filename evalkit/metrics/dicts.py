"""The hits of runs and judgments in dicts, found without ranking a document.

Few judgments are looked up in the long rankings; many are met by walking the rankings. Scores
are read only to learn how many documents beat a hit, and ids are compared only within ties
where that can change a value. Every way ends in `laid`: one byte for each rank of each ranking,
the level of the hit that stands there or `nothing`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import chain, compress, repeat
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from evalkit.errors import DataError, MetricError
from evalkit.metrics.hits import Floats, Hits, Ints
from evalkit.metrics.policy import MetricPolicy
from evalkit.metrics.ranking import HIGHEST_GRADE
from evalkit.metrics.ranks import blocks, place_of, sorted_rows, tied_groups

Run = Mapping[str, Mapping[str, float]]
Judgments = Mapping[str, Mapping[str, int]]
Levels = NDArray[np.uint8]

_UNJUDGED: Final = 255  # a level that no grade has
_MANY: Final = 5  # looking up one judgment costs as much as walking so many ranks
_ABSENT: Final = struct.unpack("<d", b"absent\xf8\x7f")[0]  # a nan that no score is, by its bits
_BLOCK: Final = 1 << 17  # ranks looked at together, few enough to stay in the cache


def hits_in_dicts(run: Run, qrels: Judgments, policy: MetricPolicy, need_all: bool) -> Hits:
    """The hits of {query: {doc: score}} among {query: {doc: grade}}.

    Documents judged not relevant are hits only if `need_all`.
    """
    query_ids, rankings = [*qrels], [run.get(query, {}) for query in qrels]
    _require_mappings("{doc: score}", query_ids, rankings)
    _require_mappings("{doc: grade}", query_ids, [*qrels.values()])
    n, length = len(query_ids), _lengths(rankings)
    judged, level, grades = _levels(qrels)
    query = np.repeat(np.arange(n), _lengths(judged))
    counts = np.bincount(query * grades.size + level, minlength=n * grades.size)
    if not need_all:
        wanted = np.flatnonzero(level)
        query, level = query[wanted], level[wanted]
    first = np.searchsorted(query, np.arange(n + 1))
    hits = [(query[:0], query[:0], level[:0])]
    for a, b, _ in blocks(length, _BLOCK):
        here = slice(first[a], first[b])
        part = _Block(query_ids[a:b], rankings[a:b], judged[a:b], length[a:b], need_all)
        found = part.hits(query[here] - a, level[here], by_score=policy.order == "trec_eval")
        hits.append((found[0] + a, *found[1:]))
    hit_query, hit_rank, hit_level = map(np.concatenate, zip(*hits, strict=True))
    length[[i for i, query_id in enumerate(query_ids) if query_id not in run]] = -1
    return Hits(
        query_ids=query_ids,
        query=hit_query,
        rank=hit_rank,
        level=hit_level,
        returned=length,
        judged=counts.reshape(n, grades.size),
        grades=grades,
        unjudged=tuple([query_id for query_id in run if query_id not in qrels]),
    )


def require_grade(grade: Any, where: str) -> None:
    """Refuse a grade that is not a whole number, or too high to have a gain."""
    is_number = isinstance(grade, (int, float, np.integer, np.floating))
    if not is_number or float(grade) % 1 or grade > HIGHEST_GRADE:
        raise MetricError(f"{where}: grade {grade!r} is not a whole number up to {HIGHEST_GRADE}")


def _require_mappings(what: str, query_ids: Sequence[str], rows: Sequence[Any]) -> None:
    wrong = {kind for kind in {*map(type, rows)} if not issubclass(kind, Mapping)}
    for query, row in zip(query_ids, rows, strict=True) if wrong else ():
        if type(row) in wrong:
            raise DataError(f"query {query!r}: expected {what}, found {type(row).__name__}")


def _lengths(sized: Sequence[Sized]) -> Ints:
    return np.fromiter(map(len, sized), np.int64, len(sized))


def _levels(qrels: Judgments) -> tuple[Sequence[Mapping[str, int]], Levels, Ints]:
    """Judgments with levels for grades, all those levels, and the grade of each level.

    Grades that fit in a byte are their own levels. Otherwise they are numbered upwards, and
    those below 0, which say "not judged", are left out.
    """
    judged: Sequence[Mapping[str, int]] = [*qrels.values()]
    try:
        level = np.frombuffer(b"".join([bytes(row.values()) for row in judged]), np.uint8)
        if level.max(initial=0) < _UNJUDGED:
            return judged, level, np.arange(int(level.max(initial=0)) + 1)
    except (TypeError, ValueError):
        pass  # not all are whole numbers from 0 to 255
    for query, row in qrels.items():
        for doc, grade in row.items():
            require_grade(grade, f"query {query!r}, document {doc!r}")
    grades = sorted({0}.union(int(grade) for row in judged for grade in row.values() if grade > 0))
    if len(grades) > _UNJUDGED:
        raise MetricError(f"{len(grades)} different grades: at most {_UNJUDGED} can be told apart")
    number = {grade: i for i, grade in enumerate(grades)}
    judged = [{doc: number[grade] for doc, grade in row.items() if grade >= 0} for row in judged]
    level = np.frombuffer(b"".join([bytes(row.values()) for row in judged]), np.uint8)
    return judged, level, np.array(grades)


def _refuse_nan(query: str, ranking: Mapping[str, float]) -> None:
    """A score that is not a number is refused, even where scores decide nothing."""
    try:
        if not math.isnan(sum(ranking.values())) or not any(map(math.isnan, ranking.values())):
            return
    except TypeError:
        pass  # a text, or None
    raise MetricError(f"query {query!r}: a score is not a number, so it has no order")


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """Some rankings beside their judgments, each judgment as the level of its grade."""

    query_ids: Sequence[str]
    rankings: Sequence[Mapping[str, float]]
    judged: Sequence[Mapping[str, int]]
    length: Ints
    need_all: bool

    @property
    def nothing(self) -> int:
        """The level that says "no hit": that of grade 0, unless grade 0 is a hit."""
        return _UNJUDGED if self.need_all else 0

    def wanted(self) -> Iterator[Iterable[str]]:
        """The documents of each query that are hits if they were returned."""
        for levels in self.judged:
            yield levels if self.need_all else compress(levels, levels.values())

    def hits(self, query: Ints, level: Levels, *, by_score: bool) -> tuple[Ints, Ints, Levels]:
        """Query, rank and level of the hits, given query and level of the wanted documents."""
        many, length = _MANY * query.size > self.length.sum(), self.length
        if by_score and many:
            laid = self.walk_by_score()
        elif by_score:
            laid, length = self.look_up(query, level)
        elif many:
            laid = self.walk(self.rankings)
            for query_id, ranking in zip(self.query_ids, self.rankings, strict=True):
                _refuse_nan(query_id, ranking)
        else:
            laid = self.place()
        at, end = np.flatnonzero(laid != self.nothing), np.cumsum(length)
        hit_query = np.repeat(np.arange(end.size), np.diff(np.searchsorted(at, end), prepend=0))
        return hit_query, at - (end - length)[hit_query], laid[at]

    def walk(self, documents: Sequence[Iterable[str]]) -> Levels:
        """The level of each query's documents, in their order."""
        nothing, pairs = repeat(self.nothing), zip(self.judged, documents, strict=True)
        walked = [bytes(map(levels.get, ids, nothing)) for levels, ids in pairs]
        return np.frombuffer(bytearray(b"".join(walked)), np.uint8)

    def walk_by_score(self) -> Levels:
        """As `walk`, in the order of scores and, within ties, of ids."""
        scores = self.scores(self.length)
        flat, rising = sorted_rows(scores, self.length)
        documents: list[Sequence[str] | Mapping[str, float]] = [*self.rankings]
        begin, end, query = tied_groups(flat, self.length)
        start = np.cumsum(self.length) - self.length
        begin, end = begin - start[query], end - start[query]
        docs, last = [""], -1
        for i, a, b in np.column_stack((query, begin, end)).tolist():
            if i != last:
                docs, last = self.by_score(i, rising), i
                documents[i] = docs
            docs[a:b] = sorted(docs[a:b], reverse=True)
        laid = self.walk(documents)
        for i in rising.difference(query.tolist()):  # without ties the levels can be moved alone
            row = slice(start[i], start[i] + self.length[i])
            laid[row] = laid[row][np.argsort(-scores[row])]
        return laid

    def by_score(self, query: int, rising: Collection[int]) -> list[str]:
        """A query's documents by score, tied ones in any order."""
        ranking = self.rankings[query]
        if query in rising:
            return sorted(ranking, key=ranking.__getitem__, reverse=True)
        return [*ranking]

    def place(self) -> Levels:
        """As `walk`, for few judgments: only they are looked for."""
        laid = bytearray([self.nothing]) * int(self.length.sum())
        starts = (np.cumsum(self.length) - self.length).tolist()
        sides = zip(self.query_ids, self.rankings, self.judged, self.wanted(), starts, strict=True)
        for query, ranking, levels, wanted, start in sides:
            found = [*filter(ranking.__contains__, wanted)]
            if found:
                _refuse_nan(query, ranking)
                docs = [*ranking]
            for doc in found:
                laid[start + docs.index(doc)] = levels[doc]
        return np.frombuffer(laid, np.uint8)

    def look_up(self, query: Ints, level: Levels) -> tuple[Levels, Ints]:
        """As `place`, by score: a hit stands below the scores that are above its own.

        Rankings without a hit are not read, and have length 0 in what is laid out.
        """
        pairs = zip(self.rankings, self.wanted(), strict=True)
        found = (map(ranking.get, wanted, repeat(_ABSENT)) for ranking, wanted in pairs)
        score = np.fromiter(chain.from_iterable(found), np.float64, query.size)
        hit = np.flatnonzero(score.view(np.int64) != np.float64(_ABSENT).view(np.int64))
        length = np.where(np.bincount(query[hit], minlength=self.length.size), self.length, 0)
        flat, rising = sorted_rows(self.scores(length), length)
        laid = np.full(flat.size, self.nothing, np.uint8)
        laid[place_of(flat, length, query[hit], score[hit])] = level[hit]
        self.settle_ties(laid, flat, length, rising)
        return laid, length

    def scores(self, length: Ints) -> Floats:
        """The scores of all rankings whose length is not 0, one after the other."""
        read = compress(self.rankings, length.tolist())
        try:  # struct takes floats out of their objects faster than numpy does
            packed = [struct.pack(f"{len(ranking)}d", *ranking.values()) for ranking in read]
        except struct.error:
            packed = [struct.pack("d", math.nan)]
        flat = np.frombuffer(b"".join(packed), np.float64)
        if np.isnan(flat.max(initial=-math.inf)):
            for query, ranking in zip(self.query_ids, self.rankings, strict=True):
                _refuse_nan(query, ranking)
        return flat

    def settle_ties(
        self, laid: Levels, flat: Floats, length: Ints, rising: Collection[int]
    ) -> None:
        """Where a hit was laid at the head of a tie, lay out the tie by id, descending."""
        begin, end, query = tied_groups(flat, length)
        if not begin.size:
            return
        held = laid[begin] != self.nothing
        begin, end, query = begin[held], end[held], query[held]
        start = (np.cumsum(length) - length)[query]
        cells: Any = memoryview(laid)  # type: ignore[arg-type]
        docs, last, nothing = [""], -1, repeat(self.nothing)
        places = np.column_stack((query, begin - start, end - start, begin, end))
        for i, a, b, first, stop in places.tolist():
            if i != last:
                docs, last, level_of = self.by_score(i, rising), i, self.judged[i].get
            cells[first:stop] = bytes(map(level_of, sorted(docs[a:b], reverse=True), nothing))
