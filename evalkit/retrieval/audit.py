"""Is a low score the index's fault? Approximate against exact, and stored against fresh vectors."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from evalkit.errors import RetrievalError
from evalkit.records import Chunk, Hit
from evalkit.retrieval.embedding import CachedEmbedder
from evalkit.retrieval.qdrant import Found, QdrantCollection, dig, identity
from evalkit.retrieval.search import Retriever, SemanticRetriever


def exactly(retriever: SemanticRetriever) -> SemanticRetriever:
    """The same retriever scanning every vector; question vectors are shared, not made again."""
    twin = copy(retriever)
    twin.exact, twin.mode = True, f"{retriever.mode}-exact"
    return twin


def ann_recall(
    approximate: Retriever, exact: Retriever, questions: Sequence[str], k: int
) -> list[float]:
    """ANNRecall@k a question: the share of the exact scan's k chunks the index brought back.

        |approximate top k  ∩  exact top k| / |exact top k|

    It measures the index alone and says nothing of relevance, hence never plain Recall. Chunks
    that tie with the exact list's last score count as found. 1 where the exact list is empty.
    """
    pairs = zip(approximate.search(questions, k), exact.search(questions, k), strict=True)
    return [_overlap(found, wanted) for found, wanted in pairs]


def _overlap(found: Sequence[Hit], wanted: Sequence[Hit]) -> float:
    if not wanted:
        return 1.0
    ids, last = {hit.doc_id for hit in wanted}, wanted[-1].score
    shared = sum(hit.doc_id in ids or hit.score >= last for hit in found)
    return min(shared, len(wanted)) / len(wanted)


def accepts_same(
    retriever: SemanticRetriever, questions: Sequence[str], threshold: float
) -> list[str]:
    """The questions that Qdrant's own score_threshold decides otherwise than their top scores.

        ours: top score >= threshold        Qdrant: at least one hit scores > threshold

    Empty means that both accept exactly the same questions. Only a top score that equals the
    threshold, to the engine's 32 bits, can part them: a midpoint between two scores has none.
    """
    vectors = retriever.vectors(questions)

    def best(above: float | None) -> list[list[Found]]:
        return retriever.collection.query(vectors, 1, exact=retriever.exact, above=above)

    pairs = zip(questions, best(None), best(threshold), strict=True)
    return [
        question
        for question, found, kept in pairs
        if bool(kept) != (bool(found) and found[0][1] >= threshold)
    ]


@dataclass(frozen=True, slots=True)
class Audit:
    """Cosines between stored and fresh vectors of a sample, by doc_id; `suspect` are below."""

    cosines: dict[str, float]
    suspect: tuple[str, ...]
    reading: str


def audit_vectors(
    collection: QdrantCollection,
    embedder: CachedEmbedder,
    chunks: Sequence[Chunk],
    *,
    sample: int = 20,
    least: float = 0.999,
) -> Audit:
    """Embeds a spread sample of chunks again and compares with what the collection stores.

    All near 1: this model, these prompts, whole texts. All lower: another model, other weights,
    or a missing document prompt. Some lower: mixed generations, or texts cut short. The cache is
    not asked, so that a stale one cannot agree with itself.
    """
    step = max(1, len(chunks) // sample)
    chosen = {chunk.doc_id: chunk for chunk in chunks[::step][:sample]}
    fresh, failed = CachedEmbedder(embedder.embedder, None).documents(list(chosen.values()))
    rows = dict(zip(chosen, fresh, strict=True))
    stored: dict[str, Any] = {}
    path = collection.fields.identity
    for point in collection.points(vectors=True, fields=[path] if path else []):
        raw = dig(point.payload or {}, path) if path else str(point.id)
        if (doc_id := identity(raw)) in rows:
            stored[doc_id] = collection.dense(point)
    missing = sorted(set(rows) - set(stored))
    if missing or failed:
        raise RetrievalError(
            f"{len(missing)} of {len(rows)} sampled chunks are not in {collection.name!r} and "
            f"{len(failed)} have no fresh vector: {', '.join(missing[:3])}"
        )
    cosines = {doc_id: _cosine(stored[doc_id], row) for doc_id, row in rows.items()}
    suspect = tuple(doc_id for doc_id, cosine in cosines.items() if cosine < least)
    return Audit(cosines, suspect, _reading(len(suspect), len(cosines)))


def _reading(suspect: int, of: int) -> str:
    if not suspect:
        return f"all {of} sampled vectors are what this embedder gives now"
    if suspect == of:
        return (
            f"none of {of} sampled vectors is what this embedder gives: another model, other "
            "weights, or another document prompt"
        )
    return f"{suspect} of {of} sampled vectors differ: mixed generations, or texts cut short"


def _cosine(a: Any, b: Any) -> float:
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if x.shape != y.shape:
        raise RetrievalError(f"stored vectors have {len(x)} numbers, fresh ones {len(y)}")
    return float(x @ y / (np.linalg.norm(x) * np.linalg.norm(y)))
