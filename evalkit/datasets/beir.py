"""BEIR folders: corpus.jsonl, queries.jsonl, qrels/<split>.tsv; each may be gzip."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalkit import files
from evalkit.datasets.native import (
    SPLITS,
    WHOLE,
    json_lines,
    judged_whole,
    query_row,
    read_requirement,
)
from evalkit.datasets.parsing import Row, id_problem, read_jsonl, read_lines
from evalkit.datasets.trec import INTEGER
from evalkit.errors import DataError
from evalkit.records import Document, LabelledSet, Query

HEADER = ["query-id", "corpus-id", "score"]
OWN = ("category", "topic", "split", "answerable", "requirements", "query_input")


def read_beir(folder: Path, split: str = "test") -> LabelledSet:
    """Reads a BEIR folder with the judgments of one split; documents are judged whole.

    A query is of the split if the split judges it, or if its metadata calls it unanswerable and
    names no other split. Answerable is what the metadata say, else whether a grade is positive.
    The language is what the queries' metadata say, and English, as in BEIR, where they say none.
    """
    qrels_path = _file(folder / "qrels", f"{split}.tsv")
    documents = _read_corpus(_file(folder, "corpus.jsonl"))
    known = {document.document_id for document in documents}
    qrels = read_qrels(qrels_path, known)
    others = {path.name.split(".")[0] for path in (folder / "qrels").glob("*.tsv*")} - {split}
    queries: dict[str, Query] = {}
    left_out, languages = set[str](), set[str]()
    for line, values in read_jsonl(path := _file(folder, "queries.jsonl")):
        row = Row(values, path, line)
        key, data = row.id("_id"), row.get("metadata", dict, {})
        row.new(key, queries.keys() | left_out, "query")
        query = read_query(row, key, Row(data, path, line), qrels.get(key, {}))
        if key in qrels or (data.get("answerable") is False and data.get("split") not in others):
            queries[key] = query
            languages.add(Row(data, path, line).get("language", str, "en"))
        else:
            left_out.add(key)
    if lost := [key for key in qrels if key not in queries]:
        raise DataError(f"judges {lost[0]!r}, which is not in queries.jsonl", path=str(qrels_path))
    language = ", ".join(sorted(languages))
    name = folder.resolve().name
    return judged_whole(name, "beir", documents, queries.values(), language=language)


def read_qrels(path: Path, known: set[str] | None = None) -> dict[str, dict[str, int]]:
    """BEIR judgments: a header line, then query, document and grade between tabs, no quoting."""
    qrels: dict[str, dict[str, int]] = {}
    for place, (line, text) in enumerate(read_lines(path)):
        row, fields = Row({}, path, line), text.split("\t")
        if len(fields) != len(HEADER):
            row.refuse(f"found {len(fields)} columns, expected 3: {' '.join(HEADER)}")
        if place == 0:
            if fields != HEADER:
                row.refuse(f"the first line must be the header {' '.join(HEADER)}, found {fields}")
            continue
        query, document, grade = fields
        row.as_id(query, HEADER[0])
        row.as_id(document, HEADER[1])
        if not INTEGER.fullmatch(grade):
            row.refuse(f"the score must be an integer, found {grade!r}")
        if known is not None and document not in known:
            row.refuse(f"judges {document!r}, which is not in corpus.jsonl")
        if document in qrels.setdefault(query, {}):
            row.refuse(f"the pair {query!r} {document!r} is judged twice")
        qrels[query][document] = int(grade)
    if not qrels:
        raise DataError("holds no judgment", path=str(path))
    return qrels


def write_beir(labelled: LabelledSet, folder: Path, split: str = "test") -> None:
    """Writes documents, queries and judgments; what BEIR has no place for goes to metadata."""
    for query in labelled.queries:
        for key in (query.query_id, *query.grades):
            if problem := id_problem(key):
                raise DataError(f"the id {key!r} {problem}", path=str(folder))
    corpus = [
        {"_id": each.document_id, "title": each.title, "text": each.text,
         "metadata": dict(each.fields)}
        for each in labelled.documents
    ]  # fmt: skip
    queries = []
    for query in labelled.queries:
        row = query_row(query)
        metadata = {name: row[name] for name in OWN}
        if labelled.language:
            metadata["language"] = labelled.language
        queries.append({"_id": query.query_id, "text": query.text, "metadata": metadata})
    lines = ["\t".join(HEADER)]
    for query in labelled.queries:
        lines += [f"{query.query_id}\t{key}\t{grade}" for key, grade in query.grades.items()]
    files.write_text(folder / "corpus.jsonl", json_lines(corpus))
    files.write_text(folder / "queries.jsonl", json_lines(queries))
    files.write_text(folder / "qrels" / f"{split}.tsv", "\n".join(lines) + "\n")


def _file(folder: Path, name: str) -> Path:
    found = [path for path in (folder / name, folder / f"{name}.gz") if path.exists()]
    if not found:
        raise DataError("no such file, with or without .gz", path=str(folder / name))
    return found[0]


def _read_corpus(path: Path) -> tuple[Document, ...]:
    documents: dict[str, Document] = {}
    for line, values in read_jsonl(path):
        row = Row(values, path, line)
        key = row.id("_id")
        row.new(key, documents, "document")
        fields = {name: _as_text(value) for name, value in row.get("metadata", dict, {}).items()}
        documents[key] = Document(key, row.get("title", str, ""), row.get("text", str), fields)
    if not documents:
        raise DataError("holds no document", path=str(path))
    return tuple(documents.values())


def read_query(row: Row, key: str, data: Row, grades: Mapping[str, int]) -> Query:
    """A query with what its metadata say of it; answerable, unless they say, if judged positive."""
    given = data.get("query_input", dict, {})
    text = row.get("text", str)
    if not text.strip() and not given:
        row.refuse("'text' is empty")
    split = data.get("split", str, "")
    frame = LabelledSet("", "", (), (), WHOLE, 1)
    return Query(
        query_id=key,
        text=text,
        answerable=data.get("answerable", bool, any(grade > 0 for grade in grades.values())),
        category=data.get("category", str, ""),
        split=split if split in SPLITS else "",  # "test" and "train" name the judgment file
        topic=data.get("topic", str, ""),
        grades=grades,
        requirements=tuple(
            read_requirement(item, data, frame, set())
            for item in data.get("requirements", list, [])
        ),
        query_input=given,
    )


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
