"""The plain records that pass between rooms. Frozen; no engine, no file, no arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class ChunkKey(NamedTuple):
    """Identity of a chunk, exact in all three parts; as text `document#chunk@version`.

    The same chunk id in two documents, or under two chunking versions, is two chunks.

    >>> str(ChunkKey("worker-shutdown", "shutdown/p0", "v1"))
    'worker-shutdown#shutdown/p0@v1'
    """

    document_id: str
    chunk_id: str
    chunking: str

    def __str__(self) -> str:
        return f"{self.document_id}#{self.chunk_id}@{self.chunking}"


@dataclass(frozen=True, slots=True)
class Document:
    """A source text; `fields` hold its front matter, such as document_type."""

    document_id: str
    title: str
    text: str
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chunk:
    """The passage that is indexed and judged; `doc_id` is the judged unit's id everywhere.

    `doc_id` is the text of its ChunkKey; in a set that judges whole documents
    (`chunking = "document"`) it is the document's own id, as written in its files.
    """

    doc_id: str
    document_id: str
    chunk_id: str
    title: str
    text: str
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Requirement:
    """A fact the answer needs, satisfied by any one of the chunks it lists."""

    fact: str
    any_of: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """One information need. `grades` holds the judgments written for it, by doc_id.

    An unsupported query (`answerable` false) has no relevant chunk and never enters a
    relevance mean.
    """

    query_id: str
    text: str
    answerable: bool
    category: str = ""
    split: str = ""
    topic: str = ""
    grades: Mapping[str, int] = field(default_factory=dict)
    requirements: tuple[Requirement, ...] = ()
    query_input: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LabelledSet:
    """Documents, questions and judgments, with the rules they were written under.

    `eligibility` are the field values a document must have to be retrieved at all;
    `complete` claims that every eligible chunk was judged for every question, so that
    a chunk without a written grade is grade 0 and not unjudged.
    `form` is the form it was read from (native, beir, trec, mixpeek, kioku, csv).
    `fingerprints` are SHA-256 over canonical forms: corpus, queries, judgments.
    """

    name: str
    version: str
    documents: tuple[Document, ...]
    queries: tuple[Query, ...]
    chunking: str
    highest_grade: int
    lowest_grade: int = 0
    relevant_from: int = 1
    complete: bool = False
    eligibility: Mapping[str, str] = field(default_factory=dict)
    relevance_field: str = ""
    language: str = ""
    source: str = ""
    licence: str = ""
    form: str = "native"
    fingerprints: Mapping[str, str] = field(default_factory=dict)

    def is_eligible(self, fields: Mapping[str, Any]) -> bool:
        """Whether a document or payload with these fields may be retrieved."""
        return all(fields.get(name) == value for name, value in self.eligibility.items())


@dataclass(frozen=True, slots=True)
class Hit:
    """One retrieved chunk, best first from rank 1, with the evidence a reviewer reads."""

    doc_id: str
    score: float
    rank: int
    text: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)
