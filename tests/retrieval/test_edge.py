"""Qdrant's engine in the process, behind the same seam as the one in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalkit.errors import EngineUnavailableError, RetrievalError
from evalkit.records import Chunk, LabelledSet
from evalkit.retrieval import index, open_retrievers

pytest.importorskip("qdrant_edge", reason="the extra qdrant-edge-py is not installed")


@pytest.fixture
def at_edge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("QDRANT_URL", f"edge:{tmp_path / 'edge'}")
    return tmp_path / "edge"


def reopen(labelled: LabelledSet, chunks: list[Chunk], store: Path) -> Any:
    return open_retrievers(["semantic"], labelled, chunks, "deterministic", store)[0]


def test_a_second_index_switches_and_sweeps(
    at_edge: Path, labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """The build served before goes with the index after next; the newest is served."""
    wheres = [index(labelled, chunks, "deterministic", store)["where"] for _ in range(3)]
    assert len(set(wheres)) == 3
    (collection,) = at_edge.iterdir()
    builds = {path.name for path in collection.iterdir() if path.is_dir()}
    assert len(builds) == 2 and Path(wheres[-1].removeprefix("edge:")).name in builds


def test_one_process_at_a_time(
    at_edge: Path, labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """A shard that is open refuses a second opening, with the cure; closed, it opens again."""
    index(labelled, chunks, "deterministic", store)
    first = reopen(labelled, chunks, store)
    with pytest.raises(EngineUnavailableError, match="shut down the other kernel"):
        reopen(labelled, chunks, store)
    first.collection.client.close()
    reopen(labelled, chunks, store).collection.client.close()


def test_lost_points_are_noticed(
    at_edge: Path, labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """A point deleted behind our back: the count no longer matches the manifest."""
    import qdrant_edge

    index(labelled, chunks, "deterministic", store)
    opened = reopen(labelled, chunks, store)
    shard = opened.collection.client._shard
    page, _ = shard.scroll(qdrant_edge.ScrollRequest(limit=1))
    shard.update(qdrant_edge.UpdateOperation.delete_points([page[0].id]))
    opened.collection.client.close()
    with pytest.raises(RetrievalError, match=r"holds 4 points.*manifest says 5"):
        reopen(labelled, chunks, store)


def test_a_changed_corpus_is_refused(
    at_edge: Path, labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """The manifest pins the chunks that were indexed."""
    index(labelled, chunks, "deterministic", store)
    with pytest.raises(RetrievalError, match="not the 4"):
        reopen(labelled, chunks[1:], store)


def test_exact_is_passed_on(
    at_edge: Path, labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """The engine is asked for an exact scan only where one is wanted."""
    import qdrant_edge

    class Watched:
        def __getattr__(self, name: str) -> Any:
            if name == "SearchParams":
                return lambda exact: asked.append(exact) or qdrant_edge.SearchParams(exact=exact)
            return getattr(qdrant_edge, name)

    asked: list[bool] = []
    index(labelled, chunks, "deterministic", store)
    opened = reopen(labelled, chunks, store)
    opened.collection.client._edge = Watched()
    vector = np.ones((1, 256), dtype=np.float32)
    for exact in (False, True):
        opened.collection.query(vector, 3, exact=exact)
    assert asked == [False, True]
    schema = opened.collection.client._shard.info().payload_schema
    assert set(schema) == {"chunking_version", "document_type", "publication_state"}
    opened.collection.client.close()
