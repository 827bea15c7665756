"""Golden sets: Kioku's `{queries: [{id, query, relevant: [{path, grade}]}]}`, and plain lists.

A plain golden set is a JSON list, or JSON Lines, of `{id, question, relevant: [ids]}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalkit import files
from evalkit.datasets.native import judged_whole
from evalkit.datasets.parsing import Row, markdown_files, read_json_rows, read_jsonl, read_text
from evalkit.errors import DataError, LabelError
from evalkit.records import Document, LabelledSet, Query

GRADES = (1, 3)


def read_golden(path: Path, vault: Path | None = None) -> LabelledSet:
    """Reads a golden set, its notes from `vault` where one is given.

    A listed note without a grade has grade 1; an empty `relevant` is a no-answer probe. In
    Kioku's form a path is matched as Kioku does (case, backslashes and a leading slash do not
    count) and becomes the note's own path; plain ids stay exactly as written.
    """
    notes = {
        name: Document(name, file.stem, read_text(file))
        for name, file in (markdown_files(vault) if vault else [])
    }
    own = {plain_path(key): key for key in notes}
    if path.suffixes[:1] == [".jsonl"]:
        rows = list(read_jsonl(path))
    else:
        rows = read_json_rows(path, "queries")[1]
    queries: dict[str, Query] = {}
    for line, values in rows:
        row = Row(values, path, line)
        query = _read_query(row, own)
        row.new(query.query_id, queries, "query")
        queries[query.query_id] = query
    if not queries:
        raise DataError("a golden set needs at least one query, found none", path=str(path))
    name = path.name.split(".")[0]
    if not any("query" in values for _, values in rows):
        return judged_whole(name, "golden", notes.values(), queries.values())
    lowest, highest = GRADES
    return judged_whole(name, "kioku", notes.values(), queries.values(),
                        lowest_grade=lowest, highest_grade=highest)  # fmt: skip


def write_kioku(labelled: LabelledSet, path: Path) -> None:
    """Writes the set as a Kioku golden set; unsupported questions become probes."""
    for query in labelled.queries:
        for key, grade in query.grades.items():
            if not GRADES[0] <= grade <= GRADES[1]:
                found = f"{query.query_id!r} grades {key!r} {grade}; Kioku's grades are 1 to 3"
                raise LabelError(found, path=str(path))
    rows = [
        {"id": query.query_id, "query": query.text,
         "relevant": [{"path": key, "grade": grade} for key, grade in query.grades.items()]}
        for query in labelled.queries
    ]  # fmt: skip
    files.write_json(path, {"queries": rows})


def plain_path(path: str) -> str:
    """A path as Kioku compares it.

    >>> plain_path(" /Salud\\\\Burnout Laboral.md")
    'salud/burnout laboral.md'
    """
    return path.strip().replace("\\", "/").lstrip("/").lower()


def _read_query(row: Row, own: Mapping[str, str]) -> Query:
    row.only("id", "query", "question", "relevant", "category")
    query_id = row.id("id")
    text = row.get("query", str, None) or row.get("question", str)
    if not text.strip():
        row.refuse(f"the query {query_id!r} has an empty text")
    if not isinstance(row.values.get("relevant"), list):
        row.refuse(f"the query {query_id!r} needs 'relevant' to be a list, empty for a probe")
    grades: dict[str, int] = {}
    for item in row.get("relevant", list):
        key, grade = _read_relevant(item, row, own)
        row.new(key, grades, "relevant note")
        grades[key] = grade
    category = row.get("category", str, "")
    return Query(query_id, text, answerable=bool(grades), category=category, grades=grades)


def _read_relevant(item: Any, row: Row, own: Mapping[str, str]) -> tuple[str, int]:
    if not isinstance(item, dict):
        return row.as_id(item, "relevant"), 1
    entry = Row(item, row.path, row.line)
    entry.only("path", "grade")
    written = entry.get("path", str)
    key = own.get(plain_path(written), written.strip().replace("\\", "/").lstrip("/"))
    return entry.as_id(key, "path"), entry.get("grade", int, 1)
