"""What a collection holds: identities, payloads, the manifest, and the proof that all arrived."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from typing import Any

import numpy as np

from evalkit.errors import EmbeddingError, RetrievalError
from evalkit.files import fingerprint
from evalkit.records import Chunk, LabelledSet
from evalkit.retrieval.chunking import WHOLE, evidence
from evalkit.retrieval.embedding import EmbedderSpec, Vectors
from evalkit.retrieval.qdrant import KEYWORD, Fields, QdrantCollection, Sparse

NAMESPACE = uuid.UUID("6d3f5c1e-8a47-5b0e-9c55-1c0f0e5a7b21")
FORMAT = 1
LOAD = 512  # points handed to the engine at once


@dataclass(frozen=True, slots=True)
class Contents:
    """Chunks and their vectors, row by row, with the manifest that describes them.

    `words`, where an engine is to fuse rankings itself: sparse vectors by doc_id and chunk_id.
    """

    chunks: tuple[Chunk, ...]
    vectors: Vectors
    manifest: Mapping[str, Any]
    words: Mapping[tuple[str, str], Sparse] = field(default_factory=dict)

    def sparse(self, chunk: Chunk) -> Sparse:
        """The chunk's words; none for a chunk that is not eligible."""
        return self.words.get((chunk.doc_id, chunk.chunk_id), ([], []))


def collection_name(set_name: str, spec: EmbedderSpec) -> str:
    """A set's collection under one embedder; other weights or prompts give another name."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", f"{set_name}-{spec.name}").strip("-").lower()
    return f"{words}-{spec.generation[:8]}"


def payload(chunk: Chunk, chunking: str) -> dict[str, Any]:
    """What is stored beside a vector: identity, evidence, and the fields filtered on."""
    return evidence(chunk) | {"chunking_version": chunking}


def point_id(chunk: Chunk, chunking: str) -> str:
    """A UUID of the chunk's exact key: engines take no text ids."""
    return str(uuid.uuid5(NAMESPACE, f"{chunk.document_id}#{chunk.chunk_id}@{chunking}"))


def required_fields(labelled: LabelledSet) -> tuple[str, ...]:
    """The payload fields that every point must carry as text."""
    return ("doc_id", "document_id", "chunk_id", "chunking_version", "text", *labelled.eligibility)


def conditions(labelled: LabelledSet) -> dict[str, str]:
    """What the engine filters on: eligibility, and the chunking where there is one to mix up."""
    version = {} if labelled.chunking == WHOLE else {"chunking_version": labelled.chunking}
    return version | dict(labelled.eligibility)


def describe_contents(
    labelled: LabelledSet, chunks: Sequence[Chunk], vectors: Vectors, spec: EmbedderSpec
) -> dict[str, Any]:
    """The manifest of a collection: what is in it, made from what, and digests of both."""
    ids = [point_id(chunk, labelled.chunking) for chunk in chunks]
    if len(set(ids)) < len(ids):
        raise RetrievalError("two chunks have one identity; a collection holds each chunk once")
    for chunk in chunks:
        stored = payload(chunk, labelled.chunking)
        for name in required_fields(labelled):
            if not isinstance(stored.get(name), str):
                raise RetrievalError(f"chunk {chunk.doc_id} lacks the text field {name!r}")
    return {
        "format": FORMAT,
        "name": collection_name(labelled.name, spec),
        "set": {"name": labelled.name, "version": labelled.version},
        "chunking": labelled.chunking,
        "points": len(chunks),
        "eligible": sum(labelled.is_eligible(chunk.fields) for chunk in chunks),
        "filter": conditions(labelled),
        "embedder": spec.describe(),
        "distance": spec.distance,
        "dimension": spec.dimension,
        "chunks_sha256": chunks_digest(chunks),
        "vectors_sha256": vectors_digest(vectors),
        "packages": {name: _version(name) for name in ("qdrant-client", "numpy", "onnxruntime")},
    }


def check_against(
    manifest: Mapping[str, Any], labelled: LabelledSet, chunks: Sequence[Chunk], spec: EmbedderSpec
) -> None:
    """Refuses a collection that was made from other chunks, by other rules or another model."""
    name = manifest.get("name")
    failed = manifest.get("failed", {})
    expected = chunks_digest([chunk for chunk in chunks if chunk.doc_id not in failed])
    if manifest.get("embedder", {}).get("generation") != spec.generation:
        raise EmbeddingError(
            f"collection {name!r} is not of the embedder its name says; index again"
        )
    if manifest.get("chunking") != labelled.chunking or manifest.get("chunks_sha256") != expected:
        raise RetrievalError(
            f"collection {name!r} holds {manifest.get('points')} chunks that are not the "
            f"{len(chunks)} of set {labelled.name!r} as it is now; run the index notebook"
        )


def layout(contents: Contents) -> dict[str, Any]:
    """The options of a collection that takes these contents."""
    from qdrant_client import models

    size, distance = int(contents.manifest["dimension"]), contents.manifest["distance"]
    sparse = {KEYWORD: models.SparseVectorParams()} if contents.words else None
    return {
        "vectors_config": models.VectorParams(size=size, distance=models.Distance(distance)),
        "sparse_vectors_config": sparse,
    }


def batch(contents: Contents, part: slice) -> Any:
    """Some of the points, as the client takes them."""
    from qdrant_client import models

    chunks, chunking = contents.chunks[part], str(contents.manifest["chunking"])
    vectors: Any = contents.vectors[part].tolist()
    if contents.words:
        rows = [contents.sparse(chunk) for chunk in chunks]
        sparse = [models.SparseVector(indices=words, values=shares) for words, shares in rows]
        vectors = {"": vectors, KEYWORD: sparse}
    return models.Batch(
        ids=[point_id(chunk, chunking) for chunk in chunks],
        payloads=[payload(chunk, chunking) for chunk in chunks],
        vectors=vectors,
    )


def load(contents: Contents, conditions: Mapping[str, str]) -> QdrantCollection:
    """The contents inside Qdrant's in-memory engine."""
    from qdrant_client import QdrantClient

    manifest = contents.manifest
    name = str(manifest["name"])
    client = QdrantClient(":memory:")
    client.create_collection(name, **layout(contents))
    for start in range(0, len(contents.chunks), LOAD):
        client.upsert(name, batch(contents, slice(start, start + LOAD)), wait=True)
    opened = over(client, manifest, conditions, "in memory")
    opened.scans = True
    return opened


def remember_filters(collection: QdrantCollection) -> QdrantCollection:
    """Has the in-memory engine decide each filter once, for a collection that is only read.

    It walks every payload for every question otherwise: 11 ms a question at 366 points, most of
    a run. The engine's own method still decides; it is private, so without it nothing changes.
    """
    local = getattr(collection.client, "_client", None)
    points = getattr(local, "collections", {}).get(collection.name)
    decide = getattr(points, "_payload_and_non_deleted_mask", None)
    if points is None or decide is None:
        return collection
    known: dict[tuple[str, str | None, int, int], Any] = {}

    def remembered(payload_filter: Any, vector_name: str | None = None) -> Any:
        if payload_filter is None:
            return decide(payload_filter, vector_name)
        state = len(points.payload), int(points.deleted.sum())
        key = (payload_filter.model_dump_json(), vector_name, *state)
        if key not in known:
            known[key] = decide(payload_filter, vector_name)
        return known[key].copy()

    points._payload_and_non_deleted_mask = remembered
    return collection


def over(
    client: Any, manifest: Mapping[str, Any], must: Mapping[str, str], engine: str
) -> QdrantCollection:
    """A collection of ours behind some client of the engine, as its manifest describes it."""
    kept = ("points", "eligible", "chunks_sha256", "vectors_sha256", "distance", "embedder")
    return QdrantCollection(
        client,
        str(manifest["name"]),
        int(manifest["dimension"]),
        dict(must),
        Fields(others=tuple(dict.fromkeys(("document_id", "chunk_id", "chunking_version", *must)))),
        settings={"engine": engine} | {key: manifest[key] for key in kept},
    )


def verified(collection: QdrantCollection, contents: Contents) -> QdrantCollection:
    """The collection, read back: exact counts, every identity, payload and vector as sent.

    Under cosine an engine may keep vectors at length 1, so directions are compared; contents
    without vectors leave that comparison out.
    """
    with_vectors = bool(len(contents.vectors))
    manifest = contents.manifest
    counts = (collection.count(), collection.count(eligible=True))
    if counts != (manifest["points"], manifest["eligible"]):
        raise RetrievalError(
            f"collection {collection.name!r} holds {counts[0]} points, {counts[1]} eligible, where "
            f"{manifest['points']} and {manifest['eligible']} were sent"
        )
    chunking = str(manifest["chunking"])
    rows = {point_id(chunk, chunking): i for i, chunk in enumerate(contents.chunks)}
    seen: set[str] = set()
    for point in collection.points(vectors=with_vectors):
        row = rows.get(str(point.id))
        if row is None or point.payload != payload(contents.chunks[row], chunking):
            raise RetrievalError(
                f"point {point.id} of {collection.name!r} is not what was sent: {point.payload}"
            )
        if with_vectors and not _unchanged(collection, point, contents, row):
            raise RetrievalError(f"the vector of {contents.chunks[row].doc_id} came back changed")
        seen.add(str(point.id))
    if len(seen) != len(rows):
        raise RetrievalError(f"{len(rows) - len(seen)} points of {collection.name!r} are missing")
    return collection


def _unchanged(collection: QdrantCollection, point: Any, contents: Contents, row: int) -> bool:
    if contents.words:
        words, shares = contents.sparse(contents.chunks[row])
        came = point.vector[KEYWORD]
        if list(came.indices) != words or not np.allclose(came.values, shares, rtol=1e-6):
            return False
    return same_direction(collection.dense(point), contents.vectors[row])


def same_direction(stored: Any, fresh: Any, least: float = 0.99999) -> bool:
    """Whether the cosine of two vectors is at least `least`.

    >>> same_direction([0.6, 0.8], [3, 4]), same_direction([0.8, 0.6], [3, 4])
    (True, False)
    """
    a, b = np.asarray(stored, dtype=np.float64), np.asarray(fresh, dtype=np.float64)
    if a.shape != b.shape:
        return False
    return bool(a @ b >= least * np.linalg.norm(a) * np.linalg.norm(b))


def words_digest(words: Mapping[tuple[str, str], Sparse]) -> str:
    """SHA-256 of the sparse vectors; '' where there are none."""
    return fingerprint([[*key, *words[key]] for key in sorted(words)]) if words else ""


def chunks_digest(chunks: Sequence[Chunk]) -> str:
    """SHA-256 of the chunks in their order."""
    return fingerprint([asdict(chunk) for chunk in chunks])


def vectors_digest(vectors: Vectors) -> str:
    """SHA-256 of the vectors' numbers and shape; '' where there are none to compare."""
    if not len(vectors):
        return ""
    numbers = hashlib.sha256(vectors.astype("<f4").tobytes()).hexdigest()
    return fingerprint([list(vectors.shape), numbers])


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
