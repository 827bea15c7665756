"""Collections kept in files: vectors, chunks and a manifest, built beside and then switched.

    collections/<name>/current.json       which build is served, and its manifest's digest
    collections/<name>/<build>/vectors.npz, chunks.jsonl, manifest.json

A reader checks every digest and loads the vectors into Qdrant's in-memory engine, so that any
number of kernels can work at once. Nothing is unpickled and reading never writes.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from evalkit.errors import EmbeddingError, RetrievalError
from evalkit.files import file_digest, replacing, write_json, write_text
from evalkit.records import Chunk
from evalkit.retrieval.collection import (
    FORMAT,
    Contents,
    chunks_digest,
    load,
    vectors_digest,
    verified,
)
from evalkit.retrieval.embedding import EmbedderSpec, checked
from evalkit.retrieval.qdrant import QdrantCollection

Write = Callable[[Path, Contents], None]
Opened = Callable[[Path, Contents], QdrantCollection]


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
            "chunks_sha256": chunks_digest(chunks),
            "vectors_sha256": vectors_digest(vectors),
        }
    except (OSError, ValueError, KeyError, TypeError, EmbeddingError) as error:
        raise RetrievalError(f"{folder} is damaged or foreign ({error}); index again") from error
    for name, digest in found.items():
        if manifest.get(name) != digest:
            raise RetrievalError(f"{folder} was changed after it was built ({name}); index again")
    return Contents(chunks, vectors, manifest)


def _write(folder: Path, contents: Contents) -> None:
    with replacing(folder / "vectors.npz") as scratch, scratch.open("wb") as file:
        np.savez(file, allow_pickle=False, vectors=contents.vectors)
    lines = [json.dumps(asdict(chunk), ensure_ascii=False) for chunk in contents.chunks]
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
