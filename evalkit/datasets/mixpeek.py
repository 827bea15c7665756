"""Mixpeek ground-truth data sets: JSON with query inputs and relevant documents or field values."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from evalkit import files
from evalkit.datasets.native import judged_whole
from evalkit.datasets.parsing import Row, read_json_rows
from evalkit.errors import LabelError
from evalkit.records import LabelledSet, Query

HIGHEST = 5
_HEAD = ("dataset_name", "description", "metadata", "relevance_field", "created_at", "updated_at",
         "query_count", "dataset_id")  # fmt: skip
_QUERY = ("query_id", "query_input", "relevant_documents", "relevance_scores", "metadata")


def read_mixpeek(path: Path) -> LabelledSet:
    """Reads a data set under Mixpeek's own rules, each broken one an error with its line.

    At least one query; every query with at least one relevant document; `relevance_scores`,
    where given, integers from 0 to 5 for all of them. Without scores every listed document has
    grade 1. With `relevance_field` the listed names are values of that field, not document ids.
    """
    values, rows = read_json_rows(path, "queries")
    head = Row(values, path, 1)
    head.only(*_HEAD)
    queries: dict[str, Query] = {}
    for line, row in rows:
        query = _read_query(Row(row, path, line))
        Row(row, path, line).new(query.query_id, queries, "query")
        queries[query.query_id] = query
    if not queries:
        head.refuse("a data set needs at least one query, found none")
    highest = HIGHEST if any("relevance_scores" in row for _, row in rows) else 1
    field = head.get("relevance_field", str, "")
    return judged_whole(head.id("dataset_name"), "mixpeek", (), queries.values(),
                        highest_grade=highest, relevance_field=field)  # fmt: skip


def write_mixpeek(labelled: LabelledSet, path: Path) -> None:
    """Writes a set in Mixpeek's form; an unsupported question has no place there and is refused."""
    queries = []
    for query in labelled.queries:
        if not query.answerable:
            found = f"{query.query_id!r} is unsupported, which Mixpeek's form cannot say"
            raise LabelError(found, path=str(path))
        row: dict[str, Any] = {
            "query_id": query.query_id,
            "query_input": dict(query.query_input) or {"text": query.text},
            "relevant_documents": list(query.grades),
        }
        if labelled.highest_grade > 1:
            row["relevance_scores"] = dict(query.grades)
        queries.append(row)
    head = {"dataset_name": labelled.name}
    if labelled.relevance_field:
        head["relevance_field"] = labelled.relevance_field
    files.write_json(path, {**head, "queries": queries})


def undeclared_input(query: Query, declared: Collection[str]) -> str:
    """Why the retriever cannot take this query's input, or nothing; the query then is skipped.

    >>> undeclared_input(Query("q", "", True, query_input={"txt": "x"}), ["text", "top_k"])
    "query_input has 'txt', which the retriever does not declare; it accepts text, top_k"
    """
    unknown = [name for name in query.query_input if name not in declared]
    if not unknown:
        return ""
    names = ", ".join(map(repr, unknown))
    accepted = ", ".join(declared)
    return f"query_input has {names}, which the retriever does not declare; it accepts {accepted}"


def _read_query(row: Row) -> Query:
    query_id = row.id("query_id")
    row.only(*_QUERY)
    given = row.get("query_input", dict)
    listed = [row.as_id(key, "relevant_documents") for key in row.get("relevant_documents", list)]
    if not listed:
        row.refuse(f"the query {query_id!r} has no relevant document; it needs at least one")
    if len(set(listed)) < len(listed):
        row.refuse(f"the query {query_id!r} lists a relevant document twice")
    scores = row.get("relevance_scores", dict, None)
    grades = dict.fromkeys(listed, 1) if scores is None else _read_scores(row, listed, scores)
    texts = [value for value in given.values() if isinstance(value, str)]
    text = texts[0] if len(texts) == 1 else json.dumps(given, ensure_ascii=False)
    return Query(query_id, text, answerable=True, grades=grades, query_input=given)


def _read_scores(row: Row, listed: list[str], scores: Mapping[str, Any]) -> dict[str, int]:
    if bare := [key for key in listed if key not in scores]:
        row.refuse(f"relevance_scores lack the relevant document {bare[0]!r}; give all a score")
    for key, score in scores.items():
        if type(score) is not int or not 0 <= score <= HIGHEST:
            row.refuse(f"the relevance score of {key!r} must be an integer 0 to 5, found {score!r}")
        if score and key not in listed:
            row.refuse(f"relevance_scores give {key!r} a score, but it is not a relevant document")
    return dict(scores)
