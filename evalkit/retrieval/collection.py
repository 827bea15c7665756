"""Collections kept in files: vectors, chunks and a manifest, built beside and then switched.

    collections/<name>/current.json       which build is served, and its manifest's digest
    collections/<name>/<build>/vectors.npz, chunks.jsonl, manifest.json

A reader checks every digest and loads the vectors into Qdrant's in-memory engine, so that any
number of kernels can work at once. Nothing is unpickled and reading never writes.
"""

from __future__ import annotations

import json
import re
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from evalkit.errors import EmbeddingError, RetrievalError
from evalkit.files import file_digest, fingerprint, replacing, write_json, write_text
from evalkit.records import Chunk, LabelledSet
from evalkit.retrieval.chunking import WHOLE, evidence
from evalkit.retrieval.embedding import EmbedderSpec, Vectors, checked
from evalkit.retrieval.qdrant import Fields, QdrantCollection

NAMESPACE = uuid.UUID("6d3f5c1e-8a47-5b0e-9c55-1c0f0e5a7b21")
FORMAT = 1
LOAD = 512  # points handed to the engine at once


@dataclass(frozen=True, slots=True)
class Contents:
    """Chunks and their vectors, row by row, with the manifest that describes them."""

    chunks: tuple[Chunk, ...]
    vectors: Vectors
    manifest: Mapping[str, Any]


Write = Callable[[Path, Contents], None]
Opened = Callable[[Path, Contents], QdrantCollection]


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
    rows = [_row(chunk) for chunk in chunks]
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
        "chunks_sha256": fingerprint(rows),
        "vectors_sha256": fingerprint(
            {"shape": list(vectors.shape), "sha256": _bytes_digest(vectors)}
        ),
        "packages": {name: _version(name) for name in ("qdrant-client", "numpy", "onnxruntime")},
    }


def check_against(
    manifest: Mapping[str, Any], labelled: LabelledSet, chunks: Sequence[Chunk], spec: EmbedderSpec
) -> None:
    """Refuses a collection that was made from other chunks, by other rules or another model."""
    name = manifest.get("name")
    failed = manifest.get("failed", {})
    expected = fingerprint([_row(chunk) for chunk in chunks if chunk.doc_id not in failed])
    if manifest.get("embedder", {}).get("generation") != spec.generation:
        raise EmbeddingError(
            f"collection {name!r} is not of the embedder its name says; index again"
        )
    if manifest.get("chunking") != labelled.chunking or manifest.get("chunks_sha256") != expected:
        raise RetrievalError(
            f"collection {name!r} holds {manifest.get('points')} chunks that are not the "
            f"{len(chunks)} of set {labelled.name!r} as it is now; run the index notebook"
        )


def build(
    store: Path, contents: Contents, *, write: Write | None = None, opened: Opened | None = None
) -> Path:
    """Writes a fresh build, reads it back through the engine, then switches to it.

    A failure or a kill leaves the build served before untouched; what an earlier kill left
    behind is swept here, under the lock that keeps a second writer out.
    """
    from filelock import FileLock, Timeout

    folder = store / str(contents.manifest["name"])
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / ".lock", timeout=60):
            served = _pointer(folder).get("build", "")
            _sweep(folder, keep=served)
            target = folder / uuid.uuid4().hex[:12]
            (write or _write)(target, contents)
            verified((opened or _reloaded)(target, contents), contents)
            manifest_digest = file_digest(target / "manifest.json")
            pointer = {"build": target.name, "manifest_sha256": manifest_digest}
            write_json(folder / "current.json", pointer)
    except Timeout:
        raise RetrievalError(
            f"another process has been indexing {folder.name!r} for over a minute; wait for it"
        ) from None
    return target


def read_current(store: Path, name: str, spec: EmbedderSpec) -> Contents:
    """The served build of a collection, every digest checked; errors say what to do."""
    return read_build(current_build(store, name, spec))


def current_build(store: Path, name: str, spec: EmbedderSpec) -> Path:
    """The folder of the served build, its manifest unchanged since the switch."""
    pointer = _pointer(store / name)
    if not pointer:
        raise _missing(store, name, spec)
    folder = store / name / str(pointer.get("build"))
    if not (folder / "manifest.json").is_file() or (
        file_digest(folder / "manifest.json") != pointer.get("manifest_sha256")
    ):
        raise RetrievalError(f"{folder}/manifest.json is missing or was changed; index again")
    return folder


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a build, of the format this version writes."""
    try:
        manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text("utf-8"))
        if manifest["format"] != FORMAT:
            raise RetrievalError(f"{folder} has format {manifest['format']}; index again")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RetrievalError(f"{folder} is damaged or foreign ({error}); index again") from error
    return manifest


def _missing(store: Path, name: str, spec: EmbedderSpec) -> RetrievalError:
    there = sorted(path.parent.name for path in store.glob("*/current.json"))
    for other in there:
        if other.rpartition("-")[0] == name.rpartition("-")[0]:
            manifest = read_manifest(store / other / str(_pointer(store / other)["build"]))
            return EmbeddingError(
                f"collection {other!r} was embedded with other weights, prompts or length "
                f"({manifest['dimension']} dimensions) than {spec.name!r} has now "
                f"({spec.dimension} dimensions); vectors of two are never mixed: run the index "
                "notebook"
            )
    return RetrievalError(
        f"there is no collection {name!r} in {store} (there: {', '.join(there) or 'none'}); "
        "run the index notebook first"
    )


def read_build(folder: Path) -> Contents:
    """Manifest, chunks and vectors of a build; refused unless they match one another."""
    manifest = read_manifest(folder)
    try:
        lines = (folder / "chunks.jsonl").read_text("utf-8").splitlines()
        chunks = tuple(Chunk(**json.loads(line)) for line in lines)
        with np.load(folder / "vectors.npz", allow_pickle=False) as archive:
            vectors = np.asarray(archive["vectors"], dtype=np.float32)
        checked(vectors, [chunk.doc_id for chunk in chunks], int(manifest["dimension"]))
        found = {
            "chunks_sha256": fingerprint([_row(chunk) for chunk in chunks]),
            "vectors_sha256": fingerprint(
                {"shape": list(vectors.shape), "sha256": _bytes_digest(vectors)}
            ),
        }
    except (OSError, ValueError, KeyError, TypeError, EmbeddingError) as error:
        raise RetrievalError(f"{folder} is damaged or foreign ({error}); index again") from error
    for name, digest in found.items():
        if manifest.get(name) != digest:
            raise RetrievalError(f"{folder} was changed after it was built ({name}); index again")
    return Contents(chunks, vectors, manifest)


def load(contents: Contents, conditions: Mapping[str, str]) -> QdrantCollection:
    """The contents inside Qdrant's in-memory engine."""
    from qdrant_client import QdrantClient, models

    manifest = contents.manifest
    name, chunking = str(manifest["name"]), str(manifest["chunking"])
    client = QdrantClient(":memory:")
    client.create_collection(
        name,
        vectors_config=models.VectorParams(
            size=int(manifest["dimension"]), distance=models.Distance(manifest["distance"])
        ),
    )
    for start in range(0, len(contents.chunks), LOAD):
        part = contents.chunks[start : start + LOAD]
        batch = models.Batch(
            ids=[point_id(chunk, chunking) for chunk in part],
            payloads=[payload(chunk, chunking) for chunk in part],
            vectors=contents.vectors[start : start + LOAD].tolist(),
        )
        client.upsert(name, batch, wait=True)
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
        if with_vectors and not same_direction(np.asarray(point.vector), contents.vectors[row]):
            raise RetrievalError(f"the vector of {contents.chunks[row].doc_id} came back changed")
        seen.add(str(point.id))
    if len(seen) != len(rows):
        raise RetrievalError(f"{len(rows) - len(seen)} points of {collection.name!r} are missing")
    return collection


def same_direction(stored: Any, fresh: Any, least: float = 0.99999) -> bool:
    """Whether the cosine of two vectors is at least `least`.

    >>> same_direction([0.6, 0.8], [3, 4]), same_direction([0.8, 0.6], [3, 4])
    (True, False)
    """
    a, b = np.asarray(stored, dtype=np.float64), np.asarray(fresh, dtype=np.float64)
    if a.shape != b.shape:
        return False
    return bool(a @ b >= least * np.linalg.norm(a) * np.linalg.norm(b))


def _write(folder: Path, contents: Contents) -> None:
    with replacing(folder / "vectors.npz") as scratch, scratch.open("wb") as file:
        np.savez(file, allow_pickle=False, vectors=contents.vectors)
    lines = [json.dumps(_row(chunk), ensure_ascii=False) for chunk in contents.chunks]
    write_text(folder / "chunks.jsonl", "".join(f"{line}\n" for line in lines))
    write_json(folder / "manifest.json", dict(contents.manifest))


def _reloaded(folder: Path, contents: Contents) -> QdrantCollection:
    return load(read_build(folder), contents.manifest["filter"])


def _pointer(folder: Path) -> dict[str, Any]:
    try:
        value = json.loads((folder / "current.json").read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise RetrievalError(f"{folder}/current.json is damaged ({error}); index again") from error
    return value if isinstance(value, dict) else {}


def _sweep(folder: Path, keep: str) -> None:
    """Removes builds that are not served; a reader that just opened one has it in memory."""
    for build_folder in folder.iterdir():
        if build_folder.is_dir() and build_folder.name != keep:
            shutil.rmtree(build_folder, ignore_errors=True)


def _row(chunk: Chunk) -> dict[str, Any]:
    return {
        "doc_id": chunk.doc_id,
        "document_id": chunk.document_id,
        "chunk_id": chunk.chunk_id,
        "title": chunk.title,
        "text": chunk.text,
        "fields": dict(chunk.fields),
    }


def _bytes_digest(vectors: Vectors) -> str:
    import hashlib

    return hashlib.sha256(vectors.astype("<f4").tobytes()).hexdigest()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
