"""Runs, judgments and labelled sets as tables: CSV with a header, and Parquet. Ids are text."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from evalkit import files
from evalkit.datasets import beir, trec
from evalkit.datasets.check import Finding, near_matches
from evalkit.datasets.native import SPLITS, judged_whole
from evalkit.datasets.parsing import Row, decode, id_problem, read_bytes
from evalkit.errors import DataError
from evalkit.records import Document, LabelledSet, Query

TYPES: dict[str, Any] = {
    "query_id": pa.string(), "doc_id": pa.string(), "rank": pa.int64(), "score": pa.float64(),
    "grade": pa.int64(),
}  # fmt: skip
RUN = ("query_id", "doc_id", "rank", "score")
QRELS = ("query_id", "doc_id", "grade")
SAME = {"relevance": "grade"}  # other names of a column, taken as ours
SAMPLE = 20_000  # rows of a run whose documents are compared for near-matching ids
QUERIES = ("query_id", "text", "category", "topic", "split", "answerable")
_TRUTH = {"true": True, "false": False}
NUMBERS = {"rank": trec.INTEGER, "grade": trec.INTEGER, "score": trec.NUMBER}


def read_run_columns(path: Path) -> pa.Table:
    """A run as query_id, doc_id, rank, score: .csv, .parquet, anything else as a TREC file.

    Without a rank column the rows of a query are taken in the order of the file.
    """
    if ".parquet" in path.suffixes or ".csv" in path.suffixes:
        return _ranked(_read_table(path, RUN, optional=("rank",)))
    return trec.read_run_columns(path)


def read_qrels_columns(path: Path) -> pa.Table:
    """Judgments as query_id, doc_id, grade: .csv, .parquet, BEIR's .tsv, else a TREC file."""
    if ".parquet" in path.suffixes or ".csv" in path.suffixes:
        return _read_table(path, QRELS)
    first = read_bytes(path)[:4096].decode("utf-8", "replace").split("\n")[0]
    if ".tsv" in path.suffixes and first.count("\t") != trec.QRELS.columns.index("grade"):
        return _columns_of(beir.read_qrels(path))
    return trec.read_qrels_columns(path)


def join_findings(run: pa.Table, qrels: pa.Table) -> list[Finding]:
    """Warnings of ids that nearly match between a run and its judgments: a join misses them.

    All queries are compared; of the documents those of the run's first rows, for whatever writes
    ids in two ways does so from the start.
    """
    queries: list[Any] = run["query_id"].unique().to_pylist()
    judged: list[Any] = qrels["query_id"].unique().to_pylist()
    sample = run.slice(0, SAMPLE)
    near_rows = qrels.filter(pc.is_in(qrels["query_id"], sample["query_id"].unique()))
    documents: list[Any] = sample["doc_id"].unique().to_pylist()
    others: list[Any] = near_rows["doc_id"].unique().to_pylist()
    pairs = [("query", pair) for pair in near_matches(queries, judged)]
    pairs += [("document", pair) for pair in near_matches(documents, others)]
    return [
        Finding("warning", f"the {what} {mine!r} of the run is {theirs!r} in the judgments: "
                "ids are compared exactly, so the two do not match")
        for what, (mine, theirs) in pairs
    ]  # fmt: skip


def write_table(path: Path, table: pa.Table) -> None:
    """Writes a table as Parquet or CSV, by the name's ending; scores to the last digit."""
    if path.suffix == ".parquet":
        with files.replacing(path) as scratch:
            pq.write_table(table, scratch)
        return
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    _write_csv(path, tuple(table.column_names), rows)


def read_csv_set(folder: Path) -> LabelledSet:
    """A labelled set from queries.csv, qrels.csv and, where there is one, corpus.csv."""
    documents: dict[str, Document] = {}
    if (corpus := folder / "corpus.csv").exists():
        for row in _csv_rows(corpus, ("document_id", "text"), None):
            key, fields = row.id("document_id"), dict(row.values)
            row.new(key, documents, "document")
            del fields["document_id"]
            documents[key] = Document(key, fields.pop("title", ""), fields.pop("text"), fields)
    qrels = _grouped(_read_table(folder / "qrels.csv", QRELS))
    queries: dict[str, Query] = {}
    for row in _csv_rows(folder / "queries.csv", ("query_id", "text"), QUERIES[2:]):
        key = row.id("query_id")
        row.new(key, queries, "query")
        said = {name: _TRUTH.get(value, value) if name == "answerable" else value
                for name, value in row.values.items() if value}  # fmt: skip
        if said.get("split", "") not in SPLITS:
            row.refuse(f"'split' must be one of {SPLITS}, found {said['split']!r}")
        queries[key] = beir.read_query(row, key, Row(said, row.path, row.line), qrels.get(key, {}))
    for key, judged in qrels.items():
        lost = [name for name in judged if documents and name not in documents]
        if lost or key not in queries:
            where = f"{lost[0]!r}, not in corpus.csv" if lost else f"{key!r}, not in queries.csv"
            raise DataError(f"judges {where}", path=str(folder / "qrels.csv"))
    return judged_whole(folder.resolve().name, "csv", documents.values(), queries.values())


def _read_table(path: Path, columns: tuple[str, ...], optional: tuple[str, ...] = ()) -> pa.Table:
    needed = tuple(name for name in columns if name not in optional)
    if ".parquet" in path.suffixes:
        return _read_parquet(path, columns, needed)
    seen = set[tuple[str, str]]()
    values: dict[str, list[Any]] = {name: [] for name in columns}
    for row in _csv_rows(path, needed, optional):
        pair = row.id("query_id"), row.id("doc_id")
        if pair in seen:
            row.refuse(f"the pair {pair[0]!r} {pair[1]!r} stands twice")
        seen.add(pair)
        for name, value in row.values.items():
            if name in NUMBERS and not NUMBERS[name].fullmatch(value):
                row.refuse(f"the {name} must be a number, found {value!r}")
            made = float if name == "score" else int if name in NUMBERS else str
            values[name].append(made(value))
    if not seen:
        raise DataError("holds no row", path=str(path))
    kept = [name for name in columns if values[name]]
    return pa.table({name: pa.array(values[name], TYPES[name]) for name in kept})


def _csv_rows(
    path: Path, needed: tuple[str, ...], optional: tuple[str, ...] | None
) -> Iterator[Row]:
    """The rows after the header; `optional` None lets any other column in."""
    text = io.StringIO(decode(read_bytes(path), path), newline="")
    reader = csv.reader(text, strict=True)
    header: list[str] = []
    try:
        for fields in reader:
            row = Row({}, path, reader.line_num)
            if not fields:
                continue
            if not header:
                header = _header(fields, row, needed, optional)
                continue
            if len(fields) != len(header):
                row.refuse(f"found {len(fields)} fields, the header has {len(header)}")
            yield Row(dict(zip(header, fields, strict=True)), path, reader.line_num)
    except csv.Error as error:
        raise DataError(f"not CSV: {error}", path=str(path), line=reader.line_num) from None
    if not header:
        raise DataError("is empty: expected a header line", path=str(path))


def _header(
    fields: list[str], row: Row, needed: tuple[str, ...], optional: tuple[str, ...] | None
) -> list[str]:
    names = [SAME.get(name, name) for name in fields]
    lacking = [name for name in needed if name not in names]
    unknown = [name for name in names if optional is not None and name not in (*needed, *optional)]
    if lacking or unknown or len(set(names)) < len(names):
        wanted = ", ".join(needed) + (f" [{', '.join(optional)}]" if optional else "")
        row.refuse(f"the header must name {wanted}, found {', '.join(fields)}")
    return names


def _read_parquet(path: Path, columns: tuple[str, ...], needed: tuple[str, ...]) -> pa.Table:
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(f"not Parquet: {str(error).splitlines()[0]}", path=str(path)) from None
    table = table.rename_columns([SAME.get(name, name) for name in table.column_names])
    if lacking := [name for name in needed if name not in table.column_names]:
        raise DataError(f"has no column {lacking[0]!r}", path=str(path))
    made: dict[str, Any] = {}
    for name in (name for name in columns if name in table.column_names):
        column, is_text = table[name], TYPES[name] == pa.string()
        if is_text and not any(kind in str(column.type) for kind in ("string", "dictionary")):
            found = f"{name!r} is {column.type}; ids are text: write them as strings"
            raise DataError(found, path=str(path))
        try:
            made[name] = column.cast(TYPES[name])
        except pa.ArrowInvalid as error:
            raise DataError(f"{name!r}: {error}", path=str(path)) from None
        if made[name].null_count or (name == "score" and not _all_finite(made[name])):
            raise DataError(f"{name!r} has an empty cell or a NaN", path=str(path))
        for key in made[name].unique().to_pylist() if is_text else []:
            if problem := id_problem(str(key)):
                raise DataError(f"the id {key!r} {problem}", path=str(path))
    return pa.table(made)


def _all_finite(scores: Any) -> bool:
    return bool(pc.all(pc.is_finite(scores), min_count=0).as_py())


def _ranked(run: pa.Table) -> pa.Table:
    if "rank" in run.column_names:
        return run.select(list(RUN))
    counts: dict[str, int] = {}
    ranks = []
    queries: list[Any] = run["query_id"].to_pylist()
    for query in queries:
        counts[query] = counts.get(query, 0) + 1
        ranks.append(counts[query])
    return run.append_column("rank", pa.array(ranks, pa.int64())).select(list(RUN))


def _columns_of(qrels: Mapping[str, Mapping[str, int]]) -> pa.Table:
    rows = [(q, d, grade) for q, judged in qrels.items() for d, grade in judged.items()]
    columns = zip(QRELS, zip(*rows, strict=True), strict=True)
    return pa.table({name: pa.array(values, TYPES[name]) for name, values in columns})


def _grouped(table: pa.Table) -> dict[str, dict[str, int]]:
    qrels: dict[str, dict[str, int]] = {}
    for query, document, grade in zip(*(table[n].to_pylist() for n in QRELS), strict=True):
        qrels.setdefault(query, {})[document] = grade
    return qrels


def _write_csv(path: Path, header: tuple[str, ...], rows: Iterator[Any]) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    files.write_text(path, text.getvalue())
