"""TREC text files: runs (six columns) and judgments (four).

Read as Arrow columns at the speed of C. Lines that Arrow would misread (mixed blanks, comments,
words after the tag) go through a careful reader, which also finds the line of every refusal.
Fields are separated by blanks and tabs only: a no-break space belongs to the id it stands in.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from evalkit import files
from evalkit.datasets.check import Finding
from evalkit.datasets.parsing import decode, read_bytes
from evalkit.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
BLOCK = 8 << 20  # bytes Arrow parses at once: a few per core keep both busy


class Layout(NamedTuple):
    """The columns of a file: their names, the types kept, and whether words may follow the last."""

    columns: tuple[str, ...]
    types: Mapping[str, pa.DataType]
    kept: tuple[str, ...]
    open_ended: bool


_TEXTS = {"query_id": pa.string(), "iteration": pa.string(), "doc_id": pa.string()}
RUN = Layout(
    ("query_id", "iteration", "doc_id", "rank", "score", "tag"),
    {**_TEXTS, "rank": pa.int64(), "score": pa.float64()},
    ("query_id", "doc_id", "rank", "score"),
    open_ended=True,  # trec_eval's own test runs carry words after the tag
)
QRELS = Layout(
    ("query_id", "iteration", "doc_id", "grade"),
    {**_TEXTS, "grade": pa.int64()},
    ("query_id", "doc_id", "grade"),
    open_ended=False,
)


def read_run_columns(path: Path) -> pa.Table:
    """A run file as the columns query_id, doc_id, rank, score, rows in the file's order."""
    return _read_columns(path, RUN)


def read_qrels_columns(path: Path) -> pa.Table:
    """A judgment file as the columns query_id, doc_id, grade, rows in the file's order."""
    return _read_columns(path, QRELS)


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Judgments by query and document; a pair that stands twice is an error with its line."""
    columns = read_qrels_columns(path)
    qrels: dict[str, dict[str, int]] = {}
    rows = zip(*(column.to_pylist() for column in columns.columns), strict=True)
    for row, (query, document, grade) in enumerate(rows):
        judged = qrels.setdefault(query, {})
        if document in judged:
            found = f"the pair {query!r} {document!r} is judged twice"
            raise DataError(found, path=str(path), line=_line_of(path, row, QRELS))
        judged[document] = grade
    return qrels


def run_findings(run: pa.Table, path: Path) -> list[Finding]:
    """A warning where the rank column contradicts the scores: the scores are the order used.

    trec_eval ignores the ranks as well; a file in which the two disagree was most often joined
    from several lists, and means something else than its writer thinks.
    """
    rows, in_order = _disagreements(run)
    order: Any = None
    if not in_order:  # bring it into rank order first
        order = pc.sort_indices(run, [("query_id", "ascending"), ("rank", "ascending")])
        rows, _ = _disagreements(run.take(order))
    if not rows:
        return []
    worst = rows[0] if order is None else order[rows[0]].as_py()
    query = run["query_id"][worst].as_py()
    line = _line_of(path, worst, RUN)
    return [
        Finding(
            "warning",
            f"{path}:{line}: ranks and scores disagree for {query!r} ({len(rows)} such rows in the "
            "file); the order used is that of the scores, as in trec_eval",
            query,
        )
    ]


def write_run(path: Path, run: pd.DataFrame, tag: str) -> None:
    """Writes a run whose scores reproduce its ranks under trec_eval, 32-bit versions included.

    A score that does not lie below the one before it (a tie, or an engine's own order) becomes
    the next smaller 32-bit number; all others are written to the last digit.
    """
    ordered = run.sort_values("rank", kind="stable")
    ordered = ordered.sort_values(
        "query_id", kind="stable", key=lambda ids: ids.map(_first_seen(run["query_id"]))
    )
    queries, documents = ordered["query_id"].tolist(), ordered["doc_id"].tolist()
    _refuse_unwritable([tag, *set(queries), *set(documents)], path)
    scores = ordered["score"].to_numpy(dtype=float)
    if not (np.abs(scores) < np.finfo(np.float32).max).all():
        raise DataError("cannot write a score that is not a finite 32-bit number", path=str(path))
    starts = [row for row in range(len(queries)) if row == 0 or queries[row] != queries[row - 1]]
    written = itertools.chain.from_iterable(
        falling(scores[start:end]) for start, end in itertools.pairwise([*starts, len(queries)])
    )
    rows = zip(queries, documents, ordered["rank"].tolist(), written, strict=True)
    files.write_text(path, "".join(f"{q} Q0 {d} {r} {s!r} {tag}\n" for q, d, r, s in rows))


def write_qrels(path: Path, qrels: Mapping[str, Mapping[str, int]]) -> None:
    """Writes judgments as `query_id 0 doc_id grade` lines."""
    _refuse_unwritable([*qrels, *itertools.chain.from_iterable(qrels.values())], path)
    lines = (f"{q} 0 {d} {grade}\n" for q, judged in qrels.items() for d, grade in judged.items())
    files.write_text(path, "".join(lines))


def falling(scores: Sequence[float] | np.ndarray[Any, Any]) -> list[float]:
    """The scores, each made smaller where that is needed to fall strictly as 32-bit numbers.

    >>> falling([0.9, 0.5, 0.25])
    [0.9, 0.5, 0.25]
    >>> falling([1.0, 1.0]) == [1.0, 1.0 - 2**-24]
    True
    """
    exact = np.asarray(scores, dtype=np.float64)
    short = exact.astype(np.float32)
    if (short[1:] < short[:-1]).all():
        return [float(score) for score in exact]
    written, last = [], np.float32(np.inf)
    for score, rounded in zip(exact.tolist(), short, strict=True):
        if rounded >= last:
            rounded = np.nextafter(last, np.float32(-np.inf))
            score = float(rounded)
        last = rounded
        written.append(score)
    return written


def _read_columns(path: Path, layout: Layout) -> pa.Table:
    data = read_bytes(path)
    for prepare in (bytes, _single_blanks):
        table = _by_arrow(prepare(data), layout)
        if table is not None:
            return table
    rows = [fields for _, fields in _by_line(data, path, layout)]
    if not rows:
        raise DataError("holds no row", path=str(path))
    texts: dict[str, Any] = dict(zip(layout.columns, zip(*rows, strict=True), strict=False))
    for name, made in (("rank", int), ("grade", int), ("score", float)):
        if name in texts:
            texts[name] = tuple(map(made, texts[name]))
    return pa.table({name: pa.array(texts[name], layout.types[name]) for name in layout.kept})


def _by_arrow(data: bytes, layout: Layout) -> pa.Table | None:
    """The table, or None where Arrow's reading is not surely the file's meaning.

    One separator throughout, no NUL, every line with all its columns, none of the first five
    empty: then each field stands in its own column, and nothing was shifted.
    """
    tabbed = b"\t" in data
    if (tabbed and b" " in data) or b"\0" in data:
        return None
    read = pcsv.ReadOptions(column_names=list(layout.columns), block_size=BLOCK)
    parse = pcsv.ParseOptions(delimiter="\t" if tabbed else " ", quote_char=False)
    convert = pcsv.ConvertOptions(
        column_types=dict(layout.types), include_columns=list(layout.types), null_values=[]
    )
    try:
        source: Any = pa.BufferReader(data)
        table = pcsv.read_csv(
            source, read_options=read, parse_options=parse, convert_options=convert
        )
    except pa.ArrowInvalid:
        return None
    sound = table.num_rows > 0 and all(
        pc.min(pc.binary_length(table[name])).as_py() > 0 for name in _TEXTS
    )
    if sound and "score" in layout.kept:
        sound = pc.all(pc.is_finite(table["score"])).as_py()
    if sound and b"#" in data:  # a comment, or an id that trec_eval 10 takes for one
        sound = not pc.any(pc.starts_with(table["query_id"], "#")).as_py()
    return table.select(list(layout.kept)) if sound else None


def _single_blanks(data: bytes) -> bytes:
    """The lines with one blank between fields and none around them."""
    data = data.removeprefix(b"\xef\xbb\xbf").replace(b"\t", b" ").replace(b"\r\n", b"\n")
    while b"  " in data:
        data = data.replace(b"  ", b" ")
    return data.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip(b" ")


def _by_line(data: bytes, path: Path, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """The fields of every line that is not blank or a comment; what is odd is refused."""
    text = decode(data, path).replace("\r\n", "\n").replace("\r", "\n")
    for line, written in enumerate(text.split("\n"), 1):
        fields = [field for field in re.split("[ \t]+", written) if field]
        if not fields:
            continue
        problem = _problem(fields, layout)
        if fields[0].startswith("#"):
            if not problem:
                found = (
                    f"begins with '#' and reads as a row: is it a comment, or {fields[0]!r} an id"
                )
                raise DataError(f"{found}? trec_eval 9 and 10 differ", path=str(path), line=line)
            continue
        if problem:
            raise DataError(problem, path=str(path), line=line)
        yield line, fields


def _problem(fields: list[str], layout: Layout) -> str:
    wanted, names = len(layout.columns), " ".join(layout.columns)
    if len(fields) < wanted or (len(fields) > wanted and not layout.open_ended):
        return f"expected {wanted} fields ({names}), found {len(fields)}"
    values = dict(zip(layout.columns, fields, strict=False))
    for name in ("rank", "grade"):
        if name in values and not INTEGER.fullmatch(values[name]):
            return f"the {name} must be an integer, found {values[name]!r}"
    score = values.get("score", "0")
    if not NUMBER.fullmatch(score) or not math.isfinite(float(score)):
        return f"the score must be a finite number, found {score!r}"
    if len(fields) > wanted and NUMBER.fullmatch(fields[wanted - 1]):
        return f"found {len(fields)} fields ({names}): an id in a TREC file cannot hold a blank"
    return ""


def _line_of(path: Path, row: int, layout: Layout) -> int:
    records = _by_line(read_bytes(path), path, layout)
    return next(itertools.islice(records, row, None))[0]


def _disagreements(run: pa.Table) -> tuple[list[int], bool]:
    """Rows that score higher than the row before them, of the same query; whether that is telling.

    It is where each query stands in one block, in rank order.
    """
    before, after = run.slice(0, run.num_rows - 1), run.slice(1)
    same = pc.equal(before["query_id"], after["query_id"])
    fell = pc.less_equal(after["rank"], before["rank"])
    heads = after["query_id"].filter(pc.invert(same))
    first = run["query_id"][0]
    distinct = heads.unique()
    blocks = len(distinct) == len(heads) and not pc.any(pc.equal(distinct, first)).as_py()
    wrong = pc.and_(same, pc.greater(after["score"], before["score"]))
    rows: list[Any] = pc.indices_nonzero(wrong).to_pylist()
    return [row + 1 for row in rows], blocks and not pc.any(pc.and_(same, fell)).as_py()


def _first_seen(ids: Iterable[str]) -> dict[str, int]:
    return {key: place for place, key in enumerate(dict.fromkeys(ids))}


def _refuse_unwritable(ids: Iterable[str], path: Path) -> None:
    for key in ids:
        if not key or key.startswith("#") or re.search(r"[\s\0]", key, re.ASCII):
            found = f"a TREC file cannot hold the id {key!r}: empty, a blank in it, or a first '#'"
            raise DataError(found, path=str(path))
