"""The index's own losses, and whether stored vectors are what the embedder gives."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import RetrievalError
from evalkit.records import Chunk, LabelledSet
from evalkit.retrieval import (
    SemanticRetriever,
    accepts_same,
    ann_recall,
    audit_vectors,
    exactly,
    from_callable,
    index,
    open_embedder,
    open_retrievers,
)


def ranked(*rows: tuple[str, float]) -> Any:
    return from_callable(lambda question, k: rows[:k], "fixed")


def test_ann_recall_is_the_overlap_with_the_exact_list() -> None:
    """Exact a, b, c, d; approximate a, c, x, y: 2 of 4. At 1 both have a: 1 of 1 (by hand)."""
    exact = ranked(("a", 0.9), ("b", 0.8), ("c", 0.7), ("d", 0.6))
    fast = ranked(("a", 0.9), ("c", 0.7), ("x", 0.5), ("y", 0.4))
    assert ann_recall(fast, exact, ["q"], 4) == [0.5]
    assert ann_recall(fast, exact, ["q", "r"], 1) == [1.0, 1.0]


def test_a_tie_at_the_last_place_is_no_loss() -> None:
    """Exact a, b with c tied to b; the index gives a, c: nothing was lost (by definition)."""
    assert ann_recall(ranked(("a", 0.9), ("c", 0.8)), ranked(("a", 0.9), ("b", 0.8)), ["q"], 2) == [
        1
    ]
    assert ann_recall(ranked(), ranked(), ["q"], 2) == [1.0]


def test_the_exact_twin_asks_for_a_full_scan_and_embeds_nothing(
    labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """On the in-memory engine, itself exact, the two agree: ANNRecall 1 for every question."""
    index(labelled, chunks, "deterministic", store)
    (fast,) = open_retrievers(["semantic"], labelled, chunks, "deterministic", store)
    twin = exactly(fast)  # type: ignore[arg-type]
    assert ann_recall(fast, twin, ["worker queue", "retries"], 3) == [1.0, 1.0]
    assert twin.describe()["exact"] is True and twin.embedder is fast.embedder  # type: ignore[attr-defined]


def test_qdrants_threshold_accepts_the_same_questions_but_for_an_equal_score(
    labelled: LabelledSet, chunks: list[Chunk], store: Path, engine: str
) -> None:
    """At midpoints no question differs; at a top score itself the engine drops that question.

    Ours accepts a score that reaches the threshold, Qdrant one above it (by definition).
    """
    questions = ["worker queue", "retries budget", "the factory", "nothing of the kind"]
    index(labelled, chunks, "deterministic", store)
    (opened,) = open_retrievers(["semantic"], labelled, chunks, "deterministic", store)
    assert isinstance(opened, SemanticRetriever)
    tops = {
        q: hits[0].score for q, hits in zip(questions, opened.search(questions, 1), strict=True)
    }
    ordered = sorted(set(tops.values()))
    assert len(ordered) == 4
    for low, high in pairwise([-1.0, *ordered, 1.0]):
        assert accepts_same(opened, questions, (low + high) / 2) == []
    for question, top in tops.items():
        assert accepts_same(opened, questions, top) == [question]


def audited(labelled: LabelledSet, chunks: list[Chunk], store: Path, change: Any) -> Any:
    """An audit after `change(client, name, point ids)` touched the stored vectors."""
    index(labelled, chunks, "deterministic", store)
    (opened,) = open_retrievers(["semantic"], labelled, chunks, "deterministic", store)
    collection: Any = opened.collection  # type: ignore[attr-defined]
    change(collection.client, collection.name, [point.id for point in collection.points()])
    return audit_vectors(collection, open_embedder("deterministic", cache=None), chunks)


def test_untouched_vectors_pass(labelled: LabelledSet, chunks: list[Chunk], store: Path) -> None:
    """Every cosine is 1 to six places."""
    audit = audited(labelled, chunks, store, lambda *_: None)
    assert audit.suspect == () and list(audit.cosines.values()) == pytest.approx([1] * 5)
    assert audit.reading == "all 5 sampled vectors are what this embedder gives now"


def test_a_mixed_generation_and_another_model_are_told_apart(
    labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """One replaced vector: mixed. All replaced: another model or prompt."""
    from qdrant_client import models

    def replaced(count: int) -> Any:
        def change(client: Any, name: str, ids: list[Any]) -> None:
            vector = [1.0] + [0.0] * 255
            points = [models.PointVectors(id=i, vector=vector) for i in ids[:count]]
            client.update_vectors(name, points)

        return change

    mixed = audited(labelled, chunks, store, replaced(1))
    assert len(mixed.suspect) == 1 and "mixed generations" in mixed.reading
    other = audited(labelled, chunks, store, replaced(5))
    assert len(other.suspect) == 5 and "another model" in other.reading


def test_a_sampled_chunk_that_is_not_there_is_an_error(
    labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """A deleted point is named, not skipped."""
    with pytest.raises(RetrievalError, match="1 of 5 sampled chunks are not in"):
        audited(labelled, chunks, store, lambda client, name, ids: client.delete(name, ids[:1]))
