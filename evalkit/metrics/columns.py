"""The hits of runs and judgments in columns: pandas frames and Arrow tables.

A row is joined with its judgment by a 64-bit key of (query, doc), in tables small enough for
the processor's cache. Then every match, and every suspected repeat, is compared as text; should
two ids ever share a key, the join is done again with keys that are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evalkit.errors import DataError, MetricError
from evalkit.metrics import texts
from evalkit.metrics.dicts import require_grade
from evalkit.metrics.hits import Hits, Ints
from evalkit.metrics.policy import MetricPolicy
from evalkit.metrics.ranking import HIGHEST_GRADE
from evalkit.metrics.ranks import blocks, place_of, sorted_rows, tied_groups
from evalkit.metrics.texts import ODD, Keys, Texts

_BLOCK: Final = 1 << 15  # rows joined at once


@dataclass(frozen=True, slots=True, eq=False)
class Qrels:
    """Judgments prepared once for any number of runs; each query's rows stand together.

    Row i says that `doc[i]` has grade `grades[level[i]]` for the query numbered `query[i]`.
    Grades below 0 say "not judged" and are left out.
    """

    query_ids: Texts
    query: Ints
    doc: Texts
    level: Ints
    grades: Ints
    keys: Keys

    @classmethod
    def of(cls, table: Any) -> Qrels:
        """Prepare a frame or table with the columns query_id, doc_id, grade."""
        names, ends = texts.runs(texts.texts(table["query_id"], "query_id"))
        query_ids = pc.unique(names)
        query = np.repeat(texts.index_in(names, query_ids), np.diff(ends, prepend=0))
        doc, grade = texts.texts(table["doc_id"], "doc_id"), _whole(table["grade"])
        if grade.min(initial=0) < 0 or (query[1:] < query[:-1]).any():
            rows = _stable_order(query)
            rows = rows[grade[rows] >= 0]
            query, doc, grade = query[rows], texts.take(doc, rows), grade[rows]
        grades = np.arange(grade.max(initial=0) + 1)
        if grades.size > np.iinfo(np.uint8).max:
            grades = np.union1d(grade, [0])
            grade = np.searchsorted(grades, grade)
        keys = _keyed(texts.hashed(doc), query)
        for _, _, here in blocks(np.bincount(query, minlength=len(query_ids)), _BLOCK):
            _, repeats = _match(keys[here], keys[:0])
            again, before = repeats + here.start
            for i in again[texts.equal(doc, again, doc, before)][:1].tolist():
                raise DataError(
                    f"query {query_ids[query[i]].as_py()!r}: document {doc[i].as_py()!r} is "
                    "judged twice: keep one judgment"
                )
        return cls(query_ids, query, doc, grade, grades, keys)


class _Rows(NamedTuple):
    """A run's rows for judged queries, each query's together: `length[i]` rows for `query[i]`.

    `order` holds the rows' places in the columns, None where all stand as they came.
    """

    query: Ints
    length: Ints
    order: Ints | None
    score: NDArray[np.float64]
    doc: Texts

    def place(self, rows: Any) -> Any:
        """Where in the columns these rows stand."""
        return rows if self.order is None else self.order[rows]


def hits_in_columns(run: Any, qrels: Qrels, policy: MetricPolicy, need_all: bool) -> Hits:
    """The hits of a frame or table with the columns query_id, doc_id, score[, rank].

    Under `order="as_returned"` the rank column orders them, or without one the rows as given.
    """
    names, ends = texts.runs(texts.texts(run["query_id"], "query_id"))
    query = texts.index_in(names, qrels.query_ids)
    rows = _rows(run, query, ends, policy)
    if np.isnan(rows.score.max(initial=-np.inf)):
        place = rows.place(int(np.flatnonzero(np.isnan(rows.score))[0]))
        raise MetricError(f"{_where(names, ends, rows, place)}: the score is not a number")
    row, judgment, repeats = _joined(rows, qrels, need_all)
    if repeats.size and policy.duplicates == "error":
        where = _where(names, ends, rows, rows.place(int(repeats[0, 0])))
        raise MetricError(
            f"{where} is returned more than once: remove the repeats, or use "
            "duplicates='first_wins'"
        )
    if repeats.size:
        kept = _without_repeats(run, rows, repeats, policy)
        return hits_in_columns(kept, qrels, policy, need_all)
    cell = _by_score(rows, row) if policy.order == "trec_eval" else row
    if (cell[1:] < cell[:-1]).any():
        sort = np.argsort(cell)
        cell, judgment = cell[sort], judgment[sort]
    end = np.cumsum(rows.length)
    start = (end - rows.length)[np.searchsorted(end, cell, side="right")]
    returned = np.full(len(qrels.query_ids), -1)
    returned[rows.query] = rows.length
    unjudged = texts.take(names, np.flatnonzero(query < 0)).to_pylist()
    shape = (len(qrels.query_ids), qrels.grades.size)
    counts = np.bincount(qrels.query * shape[1] + qrels.level, minlength=shape[0] * shape[1])
    return Hits(
        query_ids=qrels.query_ids.to_pylist(),
        query=qrels.query[judgment],
        rank=cell - start,
        level=qrels.level[judgment],
        returned=returned,
        judged=counts.reshape(shape),
        grades=qrels.grades,
        unjudged=tuple(dict.fromkeys(unjudged)),
    )


def _where(names: Texts, ends: Ints, rows: _Rows, place: int) -> str:
    query = names[int(np.searchsorted(ends, place, side="right"))]
    return f"query {query.as_py()!r}, document {rows.doc[place].as_py()!r}"


def _whole(column: Any) -> Ints:
    grade = texts.numbers(column, "grade")
    for suspect in [*grade[grade % 1 != 0][:1], *grade[grade > HIGHEST_GRADE][:1]]:
        require_grade(suspect.item(), "column grade")
    return grade.astype(np.int64)


def _rows(run: Any, query: Ints, ends: Ints, policy: MetricPolicy) -> _Rows:
    """The rows of judged queries, brought together where they are scattered or out of rank."""
    doc = texts.texts(run["doc_id"], "doc_id")
    score = texts.numbers(run["score"], "score").astype(np.float64, copy=False)
    length = np.diff(ends, prepend=0)
    ranked = policy.order == "as_returned" and "rank" in getattr(run, "column_names", run)
    rank = texts.numbers(run["rank"], "rank") if ranked else None
    together = query.min(initial=0) >= 0 and np.bincount(query).max(initial=1) == 1
    if together and (rank is None or _ascends(rank, ends)):
        return _Rows(query, length, None, score, doc)
    query = np.repeat(query, length)
    order = np.flatnonzero(query >= 0)
    if rank is not None:
        order = order[np.argsort(rank[order], kind="stable")]
    order = order[_stable_order(query[order])]
    query = query[order]
    ends = np.flatnonzero(np.diff(query, append=-1)) + 1
    if rank is not None and not _ascends(rank[order], ends):
        same = np.flatnonzero((np.diff(rank[order]) == 0) & (np.diff(query) == 0))[0]
        ids = [doc[int(order[i])].as_py() for i in (same, same + 1)]
        raise DataError(
            f"documents {ids[0]!r} and {ids[1]!r} have the same rank {rank[order[same]]}: give "
            "each its own, or sort by score with order='trec_eval'"
        )
    return _Rows(query[ends - 1], np.diff(ends, prepend=0), order, score[order], doc)


def _ascends(rank: NDArray[Any], ends: Ints) -> bool:
    rises = rank[1:] > rank[:-1]
    rises[ends[:-1] - 1] = True
    return bool(rises.all())


def _stable_order(numbers: Ints) -> Ints:
    """Indices that sort whole numbers below 2^32: numpy sorts 16 bits in linear time."""
    order = np.argsort((numbers & 0xFFFF).astype(np.uint16), kind="stable")
    if numbers.max(initial=0) > 0xFFFF:
        order = order[np.argsort((numbers[order] >> 16).astype(np.uint16), kind="stable")]
    return order


def _joined(
    rows: _Rows, qrels: Qrels, need_all: bool, exact: bool = False
) -> tuple[Ints, Ints, Ints]:
    """Rows with the judgment of each, in order; and pairs of rows that hold one document."""
    doc_key, sought, spread = None, qrels.keys, ODD[1]
    if exact:
        number, spread = _numbered(rows, qrels), np.uint64(1 << 32)  # above all numbers
        doc_key, sought = number, _keyed(number[len(rows.doc) :], qrels.query, 1, spread)
    elif rows.order is not None:
        doc_key = texts.hashed(rows.doc)
    wanted = np.arange(qrels.query.size) if need_all else np.flatnonzero(qrels.level)
    first = np.searchsorted(qrels.query[wanted], np.arange(len(qrels.query_ids) + 1))
    found, repeats = [np.zeros((2, 0), np.int64)], [np.zeros((2, 0), np.int64)]
    for a, b, here in blocks(rows.length, _BLOCK):
        key = texts.hashed(rows.doc[here]) if doc_key is None else doc_key[rows.place(here)]
        key = _keyed(key, rows.query[a:b], rows.length[a:b], spread)
        begin, many = first[rows.query[a:b]], np.diff(first)[rows.query[a:b]]
        judgments = wanted[
            np.repeat(begin - (np.cumsum(many) - many), many) + np.arange(many.sum())
        ]
        row, repeated = _match(key, sought[judgments])
        hit = np.flatnonzero(row >= 0)
        hit = hit[np.argsort(row[hit])]
        found.append(np.stack((row[hit] + here.start, judgments[hit])))
        repeats.append(repeated + here.start)
    (row, judgment), pairs = np.hstack(found), np.hstack(repeats)
    same = texts.equal(rows.doc, rows.place(row), qrels.doc, judgment)
    same_again = texts.equal(rows.doc, rows.place(pairs[0]), rows.doc, rows.place(pairs[1]))
    if not exact and not (same.all() and same_again.all()):
        return _joined(rows, qrels, need_all, exact=True)
    return row, judgment, pairs


def _keyed(doc: Keys, query: Ints, length: Ints | int = 1, spread: np.uint64 = ODD[1]) -> Keys:
    """Keys of (query, doc): within a query as different as those of the documents."""
    key = np.repeat(query.view(np.uint64) * spread, length)
    key ^= doc
    key *= ODD[0]
    return key


def _match(keys: Keys, wanted: Keys) -> tuple[Ints, Ints]:
    """The row of each wanted key, -1 if it has none; and pairs of rows that share a key.

    Rows are written into a table at their key's slot. Of several in one slot the last stays;
    the others are written again at the slots of another mix of their keys, until all stand.
    """
    found, pairs = np.full(wanted.size, -1), [np.zeros((2, 0), np.int64)]
    bits = (2 * keys.size).bit_length()
    shift, table = np.uint64(64 - bits), np.zeros(1 << bits, np.int32)
    rows, seeking = np.arange(keys.size, dtype=np.int32), np.arange(wanted.size)
    mix, sought = keys, wanted
    while rows.size:
        slot = (mix >> shift).view(np.int64)
        table[slot] = rows
        standing = table.take(slot)
        there = table.take((sought >> shift).view(np.int64))
        is_found = keys.take(there) == wanted.take(seeking)
        found[seeking[is_found]] = there[is_found]
        seeking, sought = seeking[~is_found], sought[~is_found] * ODD[2]
        lost = np.flatnonzero(standing != rows)
        is_repeat = keys[standing[lost]] == keys[rows[lost]]
        if is_repeat.any():
            pair = np.stack((rows[lost[is_repeat]], standing[lost[is_repeat]]))
            pairs.append(pair.astype(np.int64))
            lost = lost[~is_repeat]
        rows, mix = rows[lost], mix[lost] * ODD[2]
    return found, np.hstack(pairs)


def _numbered(rows: _Rows, qrels: Qrels) -> Keys:
    """A number for each text of both sides, which no two texts share."""
    both = pa.concat_arrays([rows.doc, qrels.doc.cast(rows.doc.type)])
    encoded: Any = pc.dictionary_encode(both)
    return texts.numbers(encoded.indices, "doc_id").astype(np.uint64)


def _without_repeats(run: Any, rows: _Rows, pairs: Ints, policy: MetricPolicy) -> dict[str, Any]:
    """The columns without the rows that return a document again, below its first rank."""
    involved = np.unique(pairs)
    if policy.order == "trec_eval":
        involved = involved[np.argsort(-rows.score[involved], kind="stable")]
    group = np.searchsorted(np.cumsum(rows.length), involved, side="right")
    docs = texts.take(rows.doc, rows.place(involved)).to_pylist()
    first: dict[tuple[int, str], int] = {}
    for of_query, doc, row in zip(group.tolist(), docs, involved.tolist(), strict=True):
        first.setdefault((of_query, doc), row)
    dropped = np.setdiff1d(involved, np.array([*first.values()]))
    kept = np.delete(np.arange(len(rows.doc)), rows.place(dropped))
    columns = {"query_id": texts.texts(run["query_id"], "query_id"), "doc_id": rows.doc}
    left = {name: texts.take(column, kept) for name, column in columns.items()}
    names = [name for name in ("score", "rank") if name in getattr(run, "column_names", run)]
    return left | {name: texts.numbers(run[name], name)[kept] for name in names}


def _by_score(rows: _Rows, row: Ints) -> Ints:
    """Where these rows stand when each query's are sorted by score, then id, both descending."""
    flat, rising = sorted_rows(rows.score, rows.length)
    end = np.cumsum(rows.length)
    group = np.searchsorted(end, row, side="right")
    cell = place_of(flat, rows.length, group, rows.score[row]) if rising else row.copy()
    begin, close, _ = tied_groups(flat, rows.length)
    tie = np.searchsorted(begin, cell, side="right") - 1
    tied = np.flatnonzero(cell < np.append(close, 0)[tie])
    if tied.size:
        held = np.unique(tie[tied])
        member, settled = _settled(rows, begin[held], close[held], rising)
        sort = np.argsort(member)
        cell[tied] = settled[sort[np.searchsorted(member, row[tied], sorter=sort)]]
    return cell


def _settled(rows: _Rows, begin: Ints, close: Ints, rising: set[int]) -> tuple[Ints, Ints]:
    """The rows that stand in these ties, and the place of each, by id descending."""
    end = np.cumsum(rows.length)
    group = np.searchsorted(end, begin, side="right")
    start, stop = (end - rows.length)[group], end[group]
    members: list[int] = []
    by_score, last_group = np.zeros(0, np.int64), -1
    for a, b, g, first, last in np.column_stack((begin, close, group, start, stop)).tolist():
        if g not in rising:
            members += range(a, b)
            continue
        if g != last_group:
            by_score, last_group = np.argsort(-rows.score[first:last]) + first, g
        members += by_score[a - first : b - first].tolist()
    member, size = np.array(members), close - begin
    ids: list[str] = texts.take(rows.doc, rows.place(member)).to_pylist()
    by_id: list[int] = []
    for n in size.tolist():
        by_id += sorted(range(len(by_id), len(by_id) + n), key=ids.__getitem__, reverse=True)
    place = np.empty(member.size, np.int64)
    place[by_id] = np.arange(member.size) + np.repeat(begin - (np.cumsum(size) - size), size)
    return member, place
