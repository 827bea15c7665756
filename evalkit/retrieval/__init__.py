"""Chunks, vectors, collections and retrievers: the only room that names Ollama or Qdrant.

`index` prepares a set's collection; `open_retrievers` reads it and never writes to it. Both
take the folder that holds `collections/` and `cache/`, and follow QDRANT_URL.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from evalkit.errors import EmbeddingError, ParameterError, RetrievalError
from evalkit.records import Chunk, LabelledSet
from evalkit.retrieval import builds, edge, server
from evalkit.retrieval import collection as stored
from evalkit.retrieval.adapters import from_callable, from_module
from evalkit.retrieval.audit import accepts_same, ann_recall, audit_vectors, exactly
from evalkit.retrieval.chunking import WHOLE, cut
from evalkit.retrieval.embedding import (
    CachedEmbedder,
    Progress,
    document_prompt,
    open_embedder,
)
from evalkit.retrieval.keyword import KeywordRetriever
from evalkit.retrieval.qdrant import Fields, Sparse
from evalkit.retrieval.search import (
    HybridRetriever,
    Retriever,
    SemanticRetriever,
)
from evalkit.retrieval.server import Existing

__all__ = [
    "MODES",
    "Existing",
    "Fields",
    "HybridRetriever",
    "KeywordRetriever",
    "Options",
    "Retriever",
    "SemanticRetriever",
    "accepts_same",
    "ann_recall",
    "audit_vectors",
    "cut",
    "exactly",
    "from_callable",
    "index",
    "open_embedder",
    "open_existing",
    "open_retrievers",
]


@dataclass(frozen=True, slots=True)
class Options:
    """How retrievers search.

    `threads` of the embedded model, 0 for its own choice. `depth`: the deepest cutoff that will
    be asked, so that hybrid rankings are prefixes of one another. `weights` of keyword and
    semantic in the fusion. `exact` scans every vector instead of an approximate index.
    `min_score` is for semantic and `min_fused` for hybrid, each on its own axis: only hits that
    score above it come back, and 0 is no threshold. Keyword has none: its scores have no scale.
    `fusion` of hybrid: `rrf60`, or `qdrant` for what the engine itself makes of both rankings.
    `collection` names one on QDRANT_URL that was made elsewhere; it is read and never written, and
    `fields` says where its payload keeps identity, text and title, and which vector to search.
    """

    threads: int = 0
    depth: int = 10
    weights: tuple[float, float] = (1.0, 1.0)
    exact: bool = False
    min_score: float = 0.0
    min_fused: float = 0.0
    fusion: str = "rrf60"
    collection: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)


MODES = ("keyword", "semantic", "hybrid")


def index(
    labelled: LabelledSet,
    chunks: Sequence[Chunk],
    embedder: str,
    store: Path,
    *,
    threads: int = 0,
    allowed_failures: float = 0.0,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Embeds every chunk, builds a fresh collection, verifies it, and only then switches to it.

    A chunk without a vector fails the index, or is listed and left out where `allowed_failures`
    (a share of all chunks) permits it. Returns the manifest with what this pass took.
    """
    began = time.perf_counter()
    model = open_embedder(embedder, cache=store / "cache", threads=threads)
    prompts = [document_prompt(chunk, model.spec.profile) for chunk in chunks]
    vectors, failed = model.documents(chunks, progress)
    if progress:
        progress(len(chunks), len(chunks))  # those that came from the cache are done as well
    embedded = time.perf_counter()
    if not chunks or len(failed) > allowed_failures * len(chunks):
        listed = "; ".join(f"{chunks[i].doc_id}: {failed[i]}" for i in sorted(failed)[:5])
        raise EmbeddingError(f"{len(failed)} of {len(chunks)} chunks have no vector: {listed}")
    kept = [i for i in range(len(chunks)) if i not in failed]
    chosen = [chunks[i] for i in kept]
    url = os.environ.get("QDRANT_URL", "")
    words = _keyword(labelled, chunks).sparse() if url else {}  # in memory they are made anew
    manifest = stored.describe_contents(labelled, chosen, vectors[kept], model.spec) | {
        "words_sha256": stored.words_digest(words),
        "overlong": [chunks[i].doc_id for i in model.embedder.overlong(prompts)],
        "failed": {chunks[i].doc_id: reason for i, reason in sorted(failed.items())},
    }
    contents = stored.Contents(tuple(chosen), vectors[kept], manifest, words)
    where = _build(url, store, contents)
    return manifest | {
        "where": where,
        "embedded": model.computed,
        "reused": model.reused,
        "seconds_embedding": embedded - began,
        "seconds": time.perf_counter() - began,
    }


def open_retrievers(
    modes: Sequence[str],
    labelled: LabelledSet,
    chunks: Sequence[Chunk],
    embedder: str,
    store: Path,
    options: Options = Options(),
) -> list[Retriever]:
    """One retriever a mode, over the set's eligible chunks; reads, never writes, a collection.

    A mode is one of MODES or `module:function`, a function of your own.
    """
    unknown = [mode for mode in modes if mode not in MODES and ":" not in mode.strip(":")]
    if unknown or not modes or len({mode.replace(":", ".") for mode in modes}) < len(modes):
        raise ParameterError(
            f"modes {list(modes)}: name each of {', '.join(MODES)} or module:function at most once"
        )
    opened: dict[str, Retriever] = {mode: from_module(mode) for mode in modes if ":" in mode}
    if {"keyword", "hybrid"} & set(modes):
        opened["keyword"] = keyword = _keyword(labelled, chunks)
    if {"semantic", "hybrid"} & set(modes):
        words = keyword.sparse() if "hybrid" in modes and options.fusion == "qdrant" else {}
        if options.collection and words:
            raise ParameterError(
                f"collection {options.collection!r} was made elsewhere and does not hold this "
                "keyword search's words; use fusion rrf60"
            )
        if options.collection:
            semantic, _ = open_existing(_existing(labelled, options), embedder, store, options)
        else:
            model = open_embedder(embedder, cache=store / "cache", threads=options.threads)
            semantic = open_semantic(labelled, chunks, model, store, options, words)
        opened["semantic"] = semantic
    if "hybrid" in modes:
        leg = copy(semantic)  # the same vectors and collection, asked without a threshold
        leg.min_score = 0.0
        opened["hybrid"] = HybridRetriever(
            keyword,
            leg,
            weights=options.weights,
            depth=options.depth,
            min_score=options.min_fused,
            fusion=options.fusion,
        )
    return [opened[mode] for mode in modes]


def _existing(labelled: LabelledSet, options: Options) -> Existing:
    given: dict[str, Any] = dict(options.fields)
    vector_name = given.pop("vector", "")
    unknown = sorted(set(given) - {"identity", "text", "title"})
    if unknown:
        raise ParameterError(
            f"fields {', '.join(unknown)}: give the payload fields that hold identity, text and "
            "title, and under vector the name of the vector to search"
        )
    must = dict(labelled.eligibility)
    return Existing(options.collection, replace(Fields(), **given), must, vector_name)


def open_semantic(
    labelled: LabelledSet,
    chunks: Sequence[Chunk],
    model: CachedEmbedder,
    store: Path,
    options: Options = Options(),
    words: Mapping[tuple[str, str], Sparse] = MappingProxyType({}),
) -> SemanticRetriever:
    """The set's collection under this embedder, checked against the chunks it should hold.

    `words` are sparse vectors it must hold besides, for fusion inside the engine.
    """
    must = stored.conditions(labelled)
    url = os.environ.get("QDRANT_URL", "")
    name = stored.collection_name(labelled.name, model.spec)
    if not url:
        contents = builds.read_current(store / "collections", name, model.spec)
        loaded = stored.load(replace(contents, words=words), must)
        collection = stored.remember_filters(loaded)
        manifest = dict(contents.manifest)
    elif url.startswith(edge.PREFIX):
        collection, manifest = edge.open_built(url, name, model.spec, must)
    else:
        nothing = np.zeros((0, model.spec.dimension), dtype=np.float32)
        expected = stored.describe_contents(labelled, chunks, nothing, model.spec)
        contents = stored.Contents(tuple(chunks), nothing, expected)
        collection, manifest = server.open_built(url, contents, must)
    stored.check_against(manifest, labelled, chunks, model.spec)
    if url and words and manifest.get("words_sha256") != stored.words_digest(words):
        raise RetrievalError(
            f"collection {name!r} does not hold this keyword search's words, which Qdrant's own "
            "fusion needs; run the index notebook, or use fusion rrf60"
        )
    once = len({chunk.doc_id for chunk in chunks}) < len(chunks)
    return SemanticRetriever(
        collection, model, must, once=once, exact=options.exact, min_score=options.min_score
    )


def _keyword(labelled: LabelledSet, chunks: Sequence[Chunk]) -> KeywordRetriever:
    eligible = [chunk for chunk in chunks if labelled.is_eligible(chunk.fields)]
    # published baselines of whole-document sets count title and text alike
    boosts = {"title": 1, "tags": 1, "text": 1} if labelled.chunking == WHOLE else None
    return KeywordRetriever(eligible, labelled.language, boosts)


def _build(url: str, store: Path, contents: stored.Contents) -> str:
    if not url:
        return str(builds.build(store / "collections", contents))
    if url.startswith(edge.PREFIX):
        return edge.build(url, contents)
    return server.build(url, contents)


def open_existing(
    existing: Existing, embedder: str, store: Path, options: Options = Options()
) -> tuple[SemanticRetriever, dict[str, Any]]:
    """A retriever over a collection made elsewhere on QDRANT_URL, and what the preflight found."""
    model = open_embedder(embedder, cache=store / "cache", threads=options.threads)
    client = server.connect(os.environ.get("QDRANT_URL", ""))
    collection, report = server.open_existing(client, existing, model.spec)
    once, exact, least = report["shared_identities"] > 0, options.exact, options.min_score
    retriever = SemanticRetriever(
        collection, model, existing.must, once=once, exact=exact, min_score=least
    )
    distance = str(report["distance"]).lower()
    retriever.axis = f"-{distance}" if collection.farther_is_more else distance
    return retriever, report
