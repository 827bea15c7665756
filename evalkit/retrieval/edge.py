"""QDRANT_URL=edge:<folder>: Qdrant's own engine inside this process, for larger collections.

The in-memory engine walks every payload in Python for a filter; this one has payload indexes.
One process at a time holds a collection, and there are no grouped queries.
"""

from __future__ import annotations

import importlib
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from evalkit.errors import EngineUnavailableError, EnvironmentSetupError, RetrievalError
from evalkit.files import write_json
from evalkit.retrieval import builds
from evalkit.retrieval.collection import Contents, over, payload, point_id
from evalkit.retrieval.embedding import EmbedderSpec
from evalkit.retrieval.qdrant import KEYWORD, QdrantCollection

PREFIX = "edge:"
BATCH = 1_000


def build(url: str, contents: Contents) -> str:
    """Writes a fresh shard beside the served one, reads it back, then switches to it."""

    def opened(folder: Path, contents: Contents) -> QdrantCollection:
        return _open(folder, contents.manifest, contents.manifest["filter"])

    store = Path(url.removeprefix(PREFIX))
    return f"{PREFIX}{builds.build(store, contents, write=_write, opened=opened)}"


def open_built(
    url: str, name: str, spec: EmbedderSpec, must: Mapping[str, str]
) -> tuple[QdrantCollection, dict[str, Any]]:
    """The served shard of a collection, its counts checked against its manifest."""
    folder = builds.current_build(Path(url.removeprefix(PREFIX)), name, spec)
    manifest = builds.read_manifest(folder)
    opened = _open(folder, manifest, must)
    counts = (opened.count(), opened.count(eligible=True))
    if counts != (manifest["points"], manifest["eligible"]):
        raise RetrievalError(
            f"{folder} holds {counts[0]} points, {counts[1]} eligible, where its manifest says "
            f"{manifest['points']} and {manifest['eligible']}; run the index notebook"
        )
    return opened, manifest


def _write(folder: Path, contents: Contents) -> None:
    edge = _library()
    manifest = contents.manifest
    distance = getattr(edge.Distance, str(manifest["distance"]))
    vectors = edge.EdgeVectorParams(size=int(manifest["dimension"]), distance=distance)
    sparse = {KEYWORD: edge.EdgeSparseVectorParams()} if contents.words else None
    (folder / "shard").mkdir(parents=True)
    shard = edge.EdgeShard.create(
        str(folder / "shard"),
        edge.EdgeConfig(vectors=vectors, sparse_vectors=sparse, wal_enabled=True),
    )
    try:
        for name in manifest["filter"]:
            keyword = edge.PayloadSchemaType.Keyword
            shard.update(edge.UpdateOperation.create_field_index(name, keyword))
        chunking = str(manifest["chunking"])
        for start in range(0, len(contents.chunks), BATCH):
            points = [
                edge.Point(
                    point_id(chunk, chunking),
                    {"": vector, KEYWORD: edge.SparseVector(*contents.sparse(chunk))}
                    if contents.words
                    else vector,
                    payload(chunk, chunking),
                )
                for chunk, vector in zip(
                    contents.chunks[start : start + BATCH],
                    contents.vectors[start : start + BATCH],
                    strict=True,
                )
            ]
            shard.update(edge.UpdateOperation.upsert_points(points))
        shard.flush()
        shard.optimize()
    finally:
        shard.close()
    write_json(folder / "manifest.json", dict(manifest))


def _open(folder: Path, manifest: Mapping[str, Any], must: Mapping[str, str]) -> QdrantCollection:
    edge = _library()
    try:
        shard = edge.EdgeShard.load(str(folder / "shard"))
    except Exception as error:  # the engine raises one class for every reason
        raise EngineUnavailableError(
            f"{folder} cannot be opened: {error}. One process at a time can hold it: shut down the "
            "other kernel, or use a server"
        ) from error
    return over(_Client(edge, shard), manifest, must, f"{PREFIX}{folder.parent.parent}")


def _library() -> Any:
    try:
        return importlib.import_module("qdrant_edge")
    except ImportError:
        raise EnvironmentSetupError(
            "QDRANT_URL=edge:<folder> needs the extra: pip install qdrant-edge-py==0.9.0"
        ) from None


class _Client:
    """The three reading requests of a Qdrant client, answered by a shard."""

    def __init__(self, edge: Any, shard: Any) -> None:
        self._edge, self._shard = edge, shard
        self.close = weakref.finalize(self, shard.close)

    def query_batch_points(self, _: str, requests: Sequence[Any]) -> list[Any]:
        edge = self._edge
        asked = [
            edge.QueryRequest(
                limit=request.limit,
                query=self._query(request),
                prefetches=[
                    edge.Prefetch(
                        limit=leg.limit, query=self._query(leg), filter=self._filter(leg.filter)
                    )
                    for leg in request.prefetch or ()
                ],
                filter=self._filter(request.filter),
                with_payload=request.with_payload,
                score_threshold=request.score_threshold,
                params=edge.SearchParams(exact=bool(request.params and request.params.exact)),
            )
            for request in requests
        ]
        replies = self._shard.query_batch(edge.QueryBatchRequest(asked))
        return [SimpleNamespace(points=points) for points in replies]

    def count(self, _: str, *, count_filter: Any, exact: bool) -> Any:
        request = self._edge.CountRequest(exact=exact, filter=self._filter(count_filter))
        return SimpleNamespace(count=self._shard.count(request))

    def scroll(
        self, _: str, *, limit: int, offset: Any, with_payload: Any, with_vectors: bool
    ) -> Any:
        return self._shard.scroll(
            self._edge.ScrollRequest(
                offset=offset, limit=limit, with_payload=with_payload, with_vector=with_vectors
            )
        )

    def _query(self, asked: Any) -> Any:
        query = asked.query
        if hasattr(query, "rrf"):
            return self._edge.Fusion.Rrf(query.rrf.k, query.rrf.weights)
        if hasattr(query, "indices"):
            query = self._edge.SparseVector(query.indices, query.values)
        return self._edge.Query.Nearest(query, asked.using)

    def _filter(self, asked: Any) -> Any:
        if asked is None:
            return None
        edge = self._edge
        return edge.Filter(
            must=[
                edge.FieldCondition(condition.key, match=edge.MatchValue(condition.match.value))
                for condition in asked.must
            ]
        )
