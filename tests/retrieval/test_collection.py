"""Collections in files: built beside, verified, switched, and refused when they drifted."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalkit.errors import EmbeddingError, RetrievalError
from evalkit.records import Chunk, Document, LabelledSet
from evalkit.retrieval import builds, collection, index, open_retrievers
from evalkit.retrieval.chunking import cut
from evalkit.retrieval.embedding import EmbedderSpec, Profile


@pytest.fixture
def built(labelled: LabelledSet, chunks: list[Chunk], store: Path) -> Path:
    return Path(index(labelled, chunks, "deterministic", store)["where"])


def reopen(labelled: LabelledSet, chunks: list[Chunk], store: Path) -> Any:
    return open_retrievers(["semantic"], labelled, chunks, "deterministic", store)[0]


def test_everything_is_stored_and_only_the_eligible_is_found(
    labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """5 points, 3 eligible, counted by hand in conftest; drafts and notes never come back (A09)."""
    manifest = index(labelled, chunks, "deterministic", store)
    assert (manifest["points"], manifest["eligible"]) == (5, 3)
    hits = reopen(labelled, chunks, store).search(["the worker drains its queue"], 10)[0]
    assert {hit.payload["document_id"] for hit in hits} == {"worker", "retry", "pool"}
    assert hits[0].payload["document_id"] == "worker"


def test_a_second_index_embeds_nothing_and_gives_the_same_vectors(
    labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """The cache serves all five texts; the fingerprint of the vectors is equal (promise 5)."""
    first = index(labelled, chunks, "deterministic", store)
    second = index(labelled, chunks, "deterministic", store)
    assert (first["embedded"], second["embedded"], second["reused"]) == (5, 0, 5)
    assert first["vectors_sha256"] == second["vectors_sha256"]
    assert first["where"] != second["where"]


def test_reading_changes_no_file(
    built: Path, labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """Every byte and time under collections/ is as before a search (A01, promise 4)."""

    def files() -> dict[str, tuple[bytes, int]]:
        found = (store / "collections").rglob("*")
        return {str(f): (f.read_bytes(), f.stat().st_mtime_ns) for f in found if f.is_file()}

    before = files()
    reopen(labelled, chunks, store).search(["retries"], 3)
    assert files() == before


def test_two_readers_open_one_collection_at_once(
    built: Path, labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """No lock is held: two open retrievers answer alike."""
    one, two = (reopen(labelled, chunks, store) for _ in range(2))
    assert one.search(["retries"], 3) == two.search(["retries"], 3)


@pytest.mark.parametrize("file", ["manifest.json", "chunks.jsonl", "vectors.npz"])
def test_a_changed_or_missing_file_is_refused(
    file: str, built: Path, labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """Each file is pinned by a digest: a byte more, or no file, stops before the first search."""
    path = built / file
    if file == "vectors.npz":
        with np.load(path, allow_pickle=False) as archive:
            vectors = archive["vectors"]
        vectors[0, 0] += 0.25
        np.savez(path, vectors=vectors)
    elif file == "chunks.jsonl":
        path.write_text(path.read_text("utf-8").replace("small budget", "large budget"), "utf-8")
    else:
        path.write_text(path.read_text("utf-8") + " ", "utf-8")
    with pytest.raises(RetrievalError, match=r"changed|damaged"):
        reopen(labelled, chunks, store)
    path.unlink()
    with pytest.raises(RetrievalError, match=r"missing|damaged"):
        reopen(labelled, chunks, store)


def test_a_pickle_in_place_of_vectors_is_not_executed(
    built: Path, labelled: LabelledSet, chunks: list[Chunk], store: Path, tmp_path: Path
) -> None:
    """An object array would be unpickled by numpy if it were allowed to (promise 6)."""

    class Planted:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "planted",))

    np.savez(built / "vectors.npz", vectors=np.array([Planted()], dtype=object))
    with pytest.raises(RetrievalError, match="damaged or foreign"):
        reopen(labelled, chunks, store)
    assert not (tmp_path / "planted").exists()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_stored_vectors_must_be_finite(
    bad: float, built: Path, labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """Infinity would rank first and NaN anywhere: neither is loaded."""
    with np.load(built / "vectors.npz", allow_pickle=False) as archive:
        vectors = archive["vectors"]
    vectors[2, 3] = bad
    np.savez(built / "vectors.npz", vectors=vectors)
    with pytest.raises(RetrievalError, match="NaN or infinity"):
        reopen(labelled, chunks, store)


def test_a_missing_collection_names_those_that_exist(
    built: Path, labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """The message lists what is there and says to index."""
    other = replace(labelled, name="other")
    with pytest.raises(
        RetrievalError, match=r"no collection 'other-.*\(there: evalkit-test-.*index notebook"
    ):
        reopen(other, chunks, store)


def test_a_changed_corpus_is_refused(
    built: Path, labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """One word of one document differs from what was indexed: nothing is searched."""
    edited = [replace(chunks[0], text=chunks[0].text + " Now."), *chunks[1:]]
    with pytest.raises(RetrievalError, match="not the 5 of set 'evalkit-test' as it is now"):
        reopen(labelled, edited, store)
    with pytest.raises(RetrievalError, match="not the 4"):
        reopen(labelled, chunks[1:], store)


def test_another_generation_is_never_mixed(chunks: list[Chunk], labelled: LabelledSet) -> None:
    """Other weights, prompts or length: another collection name, and a refusal (A18)."""
    old, new = EmbedderSpec("m", 384, "a"), EmbedderSpec("m", 768, "b")
    prompted = EmbedderSpec("m", 384, "a", profile=Profile(document="passage: {text}"))
    shorter = EmbedderSpec("m", 384, "a", max_tokens=128)
    names = {collection.collection_name("s", spec) for spec in (old, new, prompted, shorter)}
    assert len(names) == 4
    manifest = {"name": "s-m", "embedder": old.describe(), "dimension": 384}
    with pytest.raises(EmbeddingError, match=r"'s-m' is not of the embedder"):
        collection.check_against(manifest, labelled, chunks, new)


def test_a_failed_verification_leaves_the_old_build_served(
    built: Path,
    labelled: LabelledSet,
    chunks: list[Chunk],
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pointer moves last: after an error the collection answers as before."""
    before = reopen(labelled, chunks, store).search(["retries"], 3)

    def fail(*_: object) -> None:
        raise RetrievalError("came back changed")

    monkeypatch.setattr(builds, "verified", fail)
    with pytest.raises(RetrievalError, match="came back changed"):
        index(labelled, chunks, "deterministic", store)
    assert reopen(labelled, chunks, store).search(["retries"], 3) == before


def test_an_unfinished_build_is_swept_and_never_served(
    built: Path, labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """What a killed process left is not pointed at, and goes with the next index."""
    stray = built.parent / "half"
    shutil.copytree(built, stray)
    (stray / "vectors.npz").unlink()
    reopen(labelled, chunks, store)
    index(labelled, chunks, "deterministic", store)
    assert not stray.exists()


def test_verification_notices_what_the_engine_lost(
    built: Path, labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """A deleted point, a changed payload and a changed vector are each found (A03 and beyond)."""
    contents = builds.read_build(built)
    must = collection.conditions(labelled)
    victim = collection.point_id(chunks[1], labelled.chunking)

    def opened() -> Any:
        return collection.load(contents, must)

    engine = opened()
    engine.client.delete(engine.name, [victim])
    with pytest.raises(RetrievalError, match="holds 4 points, 2 eligible, where 5 and 3"):
        collection.verified(engine, contents)
    engine = opened()
    engine.client.set_payload(engine.name, {"text": "other"}, [victim])
    with pytest.raises(RetrievalError, match="not what was sent"):
        collection.verified(engine, contents)
    engine = opened()
    from qdrant_client import models

    wrong = models.PointVectors(id=victim, vector=contents.vectors[0].tolist())
    engine.client.update_vectors(engine.name, [wrong])
    with pytest.raises(RetrievalError, match=r"retry#budget/p0.*came back changed"):
        collection.verified(engine, contents)


def test_a_field_that_eligibility_needs_must_be_there(
    labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """A chunk without a required text field is an error at the index, named (A08)."""
    bare = replace(chunks[0], fields={"document_type": "runbook"})
    with pytest.raises(RetrievalError, match=r"worker.*'publication_state'"):
        index(labelled, [bare, *chunks[1:]], "deterministic", store)


def test_a_chunk_without_a_vector_fails_the_index_unless_allowed(
    labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """One of five chunks has no word: 20 % failed; allowed at 0.2, and listed (C07)."""
    mute = replace(chunks[0], title="", text="?")
    damaged = [mute, *chunks[1:]]
    with pytest.raises(EmbeddingError, match=r"1 of 5 chunks have no vector: worker.*zero vector"):
        index(labelled, damaged, "deterministic", store)
    manifest = index(labelled, damaged, "deterministic", store, allowed_failures=0.2)
    assert manifest["failed"] == {mute.doc_id: "zero vector"} and manifest["points"] == 4
    assert len(reopen(labelled, damaged, store).search(["retries"], 5)[0]) == 2


def test_one_identity_twice_is_refused(
    labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """A chunk is a point once; the same key again would be counted twice (by definition)."""
    with pytest.raises(RetrievalError, match="one identity"):
        index(labelled, [*chunks, chunks[0]], "deterministic", store)


def test_the_same_chunk_id_in_two_documents_is_two_points(labelled: LabelledSet) -> None:
    """Identity is document, chunk and chunking together (A05)."""
    one, two = cut([Document("a", "A", "x"), Document("b", "B", "x")], labelled.chunking)
    assert one.chunk_id == two.chunk_id
    ids = {collection.point_id(c, v) for c in (one, two) for v in ("v1", "v2")}
    assert len(ids) == 4


def test_the_pointer_names_the_manifest_it_serves(built: Path) -> None:
    """current.json pins the manifest by digest, which pins the rest."""
    pointer = json.loads((built.parent / "current.json").read_text("utf-8"))
    assert pointer["build"] == built.name and len(pointer["manifest_sha256"]) == 64


def test_a_filter_is_decided_once_and_by_the_engine(
    built: Path, labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """Hits and scores are those of the untouched engine; its filter runs once for 20."""
    contents = builds.read_build(built)
    must = collection.conditions(labelled)
    untouched, quick = (collection.load(contents, must) for _ in range(2))
    points = quick.client._client.collections[quick.name]
    decided: list[Any] = []
    decide = points._payload_and_non_deleted_mask
    points._payload_and_non_deleted_mask = lambda *given: decided.append(1) or decide(*given)
    collection.remember_filters(quick)
    vectors = np.random.default_rng(1).normal(size=(20, 256)).astype(np.float32)
    assert quick.query(vectors, 5) == untouched.query(vectors, 5)
    assert len(decided) == 1
    quick.client.delete(quick.name, [collection.point_id(chunks[0], labelled.chunking)])
    assert all(len(hits) == 2 for hits in quick.query(vectors, 5))  # 3 eligible, one deleted


def test_a_kill_while_indexing_leaves_the_old_build_served(
    built: Path, labelled: LabelledSet, chunks: list[Chunk], store: Path, tmp_path: Path
) -> None:
    """A process killed after writing, before the switch: answers as before, then indexes anew."""
    import pickle
    import subprocess
    import sys

    before = reopen(labelled, chunks, store).search(["retries"], 3)
    (tmp_path / "given").write_bytes(pickle.dumps((labelled, chunks, store)))
    code = (
        "import os, pickle, signal, sys\n"
        "from evalkit.retrieval import builds, index\n"
        "builds.verified = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "labelled, chunks, store = pickle.load(open(sys.argv[1], 'rb'))\n"
        "index(labelled, chunks, 'deterministic', store)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path / "given")], check=False)
    assert killed.returncode == -9 and len([p for p in built.parent.iterdir() if p.is_dir()]) == 2
    assert reopen(labelled, chunks, store).search(["retries"], 3) == before
    index(labelled, chunks, "deterministic", store)
    assert len([p for p in built.parent.iterdir() if p.is_dir()]) == 2  # the strays are gone
