"""The native form: a folder with set.toml, documents/ or corpus.jsonl, and queries.jsonl."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from evalkit import files
from evalkit.datasets.parsing import Row, markdown_files, read_jsonl, read_text
from evalkit.errors import DataError, LabelError
from evalkit.records import Document, LabelledSet, Query, Requirement

SPLITS = ("development", "held-out", "")
WHOLE = "document"  # the chunking of a set that indexes and judges whole documents
# Under these rules judgments name whole documents; a cut one counts by its best chunk.
JUDGED_WHOLE = (WHOLE, "notes-headings-4000c-v1")


def read_native(folder: Path) -> LabelledSet:
    """Reads a native folder; a judgment key `document#chunk` gets the set's chunking appended."""
    frame = _read_header(folder / "set.toml")
    corpus = folder / "corpus.jsonl"
    documents = (
        _read_corpus(corpus)
        if corpus.exists()
        else tuple(
            _read_document(name.removesuffix(".md"), path)
            for name, path in markdown_files(folder / "documents")
        )
    )
    known = {document.document_id for document in documents}
    queries = _read_queries(folder / "queries.jsonl", frame, known)
    return sealed(replace(frame, documents=documents, queries=queries))


def sealed(labelled: LabelledSet) -> LabelledSet:
    """The set with its three fingerprints, taken over the native form of what it holds.

    The order of documents and of queries does not count; every other change does.
    """
    queries = [query_row(query) for query in labelled.queries]
    judgments = {
        row["query_id"]: (row.pop("judgments"), row.pop("requirements")) for row in queries
    }
    scale = [labelled.lowest_grade, labelled.highest_grade, labelled.relevant_from]
    rules = [scale, labelled.complete, labelled.relevance_field, labelled.chunking]
    corpus = sorted(map(document_row, labelled.documents), key=lambda row: str(row["document_id"]))
    prints = {
        "corpus": files.fingerprint([dict(labelled.eligibility), corpus]),
        "queries": files.fingerprint(sorted(queries, key=lambda row: str(row["query_id"]))),
        "judgments": files.fingerprint([rules, judgments]),
    }
    return replace(labelled, fingerprints=prints)


def judged_whole(
    name: str, form: str, documents: Iterable[Document], queries: Iterable[Query], **rules: Any
) -> LabelledSet:
    """A sealed set that judges whole documents, its scale taken from the grades unless given."""
    asked = tuple(queries)
    grades = [grade for query in asked for grade in query.grades.values()]
    scale = {"lowest_grade": min([0, *grades]), "highest_grade": max([1, *grades])}
    return sealed(
        LabelledSet(
            name=name,
            version="unversioned",
            documents=tuple(documents),
            queries=asked,
            chunking=WHOLE,
            form=form,
            **{**scale, **rules},
        )
    )


def write_native(labelled: LabelledSet, folder: Path) -> None:
    """Writes a set as a native folder, documents in corpus.jsonl; reading it gives the set back."""
    head = {name: getattr(labelled, name) for name in _TEXTS if getattr(labelled, name)}
    lines = [f"{name} = {_quoted(value)}" for name, value in head.items()]
    lines.append(f"complete = {str(labelled.complete).lower()}")
    lines += ["", "[grades]", f"lowest = {labelled.lowest_grade}"]
    lines += [f"highest = {labelled.highest_grade}", f"relevant_from = {labelled.relevant_from}"]
    if labelled.eligibility:
        lines += ["", "[eligibility]"]
        lines += [f"{_quoted(name)} = {_quoted(v)}" for name, v in labelled.eligibility.items()]
    tail = "" if labelled.chunking in JUDGED_WHOLE else "@" + labelled.chunking
    rows = [_without(query_row(query), tail) for query in labelled.queries]
    files.write_text(folder / "set.toml", "\n".join(lines) + "\n")
    files.write_text(folder / "corpus.jsonl", json_lines(map(document_row, labelled.documents)))
    files.write_text(folder / "queries.jsonl", json_lines(rows))


def document_row(document: Document) -> dict[str, Any]:
    """A document as a line of corpus.jsonl."""
    return {
        "document_id": document.document_id,
        "title": document.title,
        "text": document.text,
        "fields": dict(document.fields),
    }


def query_row(query: Query) -> dict[str, Any]:
    """A query as a line of queries.jsonl, its judgments under their full doc_ids."""
    return {
        "query_id": query.query_id,
        "text": query.text,
        "query_input": dict(query.query_input),
        "category": query.category,
        "topic": query.topic,
        "split": query.split,
        "answerable": query.answerable,
        "judgments": dict(query.grades),
        "requirements": [
            {"fact": needed.fact, "any_of": list(needed.any_of)} for needed in query.requirements
        ],
    }


def json_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    """One compact JSON object a line."""
    return "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)


_TEXTS = ("name", "version", "language", "source", "licence", "chunking", "relevance_field", "form")


def _read_header(path: Path) -> LabelledSet:
    try:
        row = Row(tomllib.loads(read_text(path)), path, None)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DataError(f"not TOML: {error}", path=str(path)) from None
    row.only(*_TEXTS, "complete", "grades", "eligibility")
    grades = Row(row.get("grades", dict), path, None)
    grades.only("lowest", "highest", "relevant_from")
    eligibility = row.get("eligibility", dict, {})
    if not all(isinstance(value, str) for value in eligibility.values()):
        row.refuse("[eligibility] must name texts that a document's front matter must equal")
    frame = LabelledSet(
        name=row.id("name"),
        version=row.id("version"),
        chunking=row.id("chunking"),
        documents=(),
        queries=(),
        lowest_grade=grades.get("lowest", int, 0),
        highest_grade=grades.get("highest", int),
        relevant_from=grades.get("relevant_from", int, 1),
        complete=row.get("complete", bool, False),
        eligibility=eligibility,
        **{name: row.get(name, str, "") for name in ("relevance_field", *_TEXTS[2:5])},
        form=row.get("form", str, "native"),
    )
    if not frame.lowest_grade < frame.relevant_from <= frame.highest_grade:
        row.refuse("[grades] must satisfy lowest < relevant_from <= highest")
    return frame


def _read_corpus(path: Path) -> tuple[Document, ...]:
    documents: dict[str, Document] = {}
    for line, values in read_jsonl(path):
        row = Row(values, path, line)
        row.only("document_id", "title", "text", "fields")
        key, fields = row.id("document_id"), row.get("fields", dict, {})
        row.new(key, documents, "document")
        if not all(isinstance(value, str) for value in fields.values()):
            row.refuse("'fields' must hold texts only")
        documents[key] = Document(key, row.get("title", str, ""), row.get("text", str), fields)
    return tuple(documents.values())


def _read_document(key: str, path: Path) -> Document:
    row, text = Row({}, path, 1), read_text(path)
    fields: dict[str, str] = {}
    if not text.startswith("---\n"):
        row.refuse("expected front matter: a line ---, lines `key: value`, a line ---")
    head, fence, body = text[4:].partition("\n---\n")
    if not fence:
        row.refuse("the front matter is not closed by a line ---")
    for line, entry in enumerate(head.split("\n"), 2):
        name, colon, value = entry.partition(":")
        if not colon or not name.strip() or name.strip() in fields:
            wrong = "a key that stands twice" if colon and name.strip() else "no `key: value`"
            raise DataError(f"front matter with {wrong}: {entry!r}", path=str(path), line=line)
        fields[name.strip()] = value.strip()
    if not (title := fields.pop("title", "")):
        row.refuse("the front matter has no title")
    return Document(key, title, body.strip("\n") + "\n", fields)


def _read_queries(path: Path, frame: LabelledSet, known: set[str]) -> tuple[Query, ...]:
    queries: dict[str, Query] = {}
    for line, values in read_jsonl(path):
        row = Row(values, path, line)
        query = _read_query(row, frame, known)
        row.new(query.query_id, queries, "query")
        queries[query.query_id] = query
    if not queries:
        raise DataError("holds no query", path=str(path))
    return tuple(queries.values())


def _read_query(row: Row, frame: LabelledSet, known: set[str]) -> Query:
    row.only("query_id", "text", "query_input", "category", "topic", "split", "answerable",
             "judgments", "requirements", "note")  # fmt: skip
    row.get("note", str, "")
    query_id = row.id("query_id")
    given = row.get("query_input", dict, {})
    text = row.get("text", str, "") if given else row.get("text", str)
    split = row.get("split", str, "")
    if not text.strip() and not given:
        row.refuse("'text' is empty: a query needs a text or a query_input")
    if split not in SPLITS:
        row.refuse(f"'split' must be one of {SPLITS}, found {split!r}")
    judgments = row.get("judgments", dict, {})
    return Query(
        query_id=query_id,
        text=text,
        answerable=row.get("answerable", bool),
        category=row.get("category", str, ""),
        split=split,
        topic=row.get("topic", str, ""),
        grades={
            _doc_id(key, row, frame, known): grade_on_scale(key, grade, row, frame)
            for key, grade in judgments.items()
        },
        requirements=tuple(
            read_requirement(item, row, frame, known) for item in row.get("requirements", list, [])
        ),
        query_input=given,
    )


def read_requirement(item: Any, within: Row, frame: LabelledSet, known: set[str]) -> Requirement:
    """One of a query's requirements: a fact, and the chunks each of which satisfies it."""
    if not isinstance(item, dict):
        within.refuse('each of \'requirements\' must be {"fact": ..., "any_of": [...]}')
    row = Row(item, within.path, within.line)
    row.only("fact", "any_of")
    keys = [_doc_id(key, row, frame, known) for key in row.get("any_of", list)]
    if not keys or len(set(keys)) < len(keys):
        row.refuse("'any_of' must list at least one chunk, and none twice")
    return Requirement(row.id("fact"), tuple(keys))


def _doc_id(key: Any, row: Row, frame: LabelledSet, known: set[str]) -> str:
    """The doc_id of a judged unit, from `document#chunk` or a whole document's id."""
    row.as_id(key, "judgments")
    if frame.relevance_field:
        return str(key)
    whole = frame.chunking in JUDGED_WHOLE
    document, mark, chunk = (key, "", "") if whole else key.partition("#")
    if not whole and not (mark and chunk):
        row.refuse(f"the judgment {key!r} must be written document#chunk")
    if known and document not in known:
        found = f"the judgment {key!r} names the document {document!r}, which is not in the set"
        raise LabelError(found, path=str(row.path), line=row.line)
    return key if whole else f"{key}@{frame.chunking}"


def grade_on_scale(key: str, grade: Any, row: Row, frame: LabelledSet) -> int:
    """The grade if it is an integer on the set's scale; anything else is refused."""
    if type(grade) is int and frame.lowest_grade <= grade <= frame.highest_grade:
        return grade
    scale = f"{frame.lowest_grade} to {frame.highest_grade}"
    found = f"the grade of {key!r} must be an integer from {scale}, found {grade!r}"
    raise LabelError(found, path=str(row.path), line=row.line)


def _without(row: dict[str, Any], tail: str) -> dict[str, Any]:
    row["judgments"] = {key.removesuffix(tail): grade for key, grade in row["judgments"].items()}
    for needed in row["requirements"]:
        needed["any_of"] = [key.removesuffix(tail) for key in needed["any_of"]]
    return row


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
