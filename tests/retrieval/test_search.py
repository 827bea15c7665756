"""Rankings: filtered, checked, in the engine's order, fused by rank."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalkit.errors import EligibilityError, EmbeddingError, ParameterError, RetrievalError
from evalkit.records import Chunk, Hit, LabelledSet
from evalkit.retrieval import MODES, Options, index, open_retrievers
from evalkit.retrieval.embedding import CachedEmbedder, EmbedderSpec, Vectors
from evalkit.retrieval.keyword import KeywordRetriever
from evalkit.retrieval.qdrant import Found
from evalkit.retrieval.search import HybridRetriever, SemanticRetriever, fused


class Plain:
    """Every text is the vector (1, 0); counts the texts it was given."""

    def __init__(self) -> None:
        self.spec, self.asked = EmbedderSpec("plain", 2, "d"), 0

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.asked += len(texts)
        return np.array([[1, 0]] * len(texts), dtype=np.float32)

    def overlong(self, texts: Sequence[str]) -> list[int]:
        return []


class Scripted:
    """A collection that answers the same rows to every question."""

    name, dimension = "scripted", 2

    def __init__(self, *rows: tuple[str, float, dict[str, Any]]) -> None:
        self.rows: list[Found] = [({"doc_id": d, "text": d, **p}, s) for d, s, p in rows]
        self.depths: list[int] = []

    def query(
        self, vectors: Vectors, k: int, *, exact: bool = False, above: float | None = None
    ) -> list[list[Found]]:
        self.depths.append(k)
        kept = [row for row in self.rows if above is None or row[1] > above]
        return [kept[:k] for _ in vectors]

    def describe(self) -> dict[str, Any]:
        return {"collection": self.name}


class Fixed:
    """A leg with one ranking for every question."""

    mode = axis = "fixed"

    def __init__(self, ranking: list[Hit]) -> None:
        self.ranking = ranking

    def search(self, questions: Sequence[str], k: int) -> list[list[Hit]]:
        return [self.ranking[:k] for _ in questions]

    def describe(self) -> dict[str, Any]:
        return {}


def semantic(*rows: tuple[str, float, dict[str, Any]], **options: Any) -> SemanticRetriever:
    embedder = CachedEmbedder(Plain(), None)
    return SemanticRetriever(Scripted(*rows), embedder, {"state": "ok"}, **options)


OK = {"state": "ok"}


def test_the_engines_order_is_kept() -> None:
    """Equal and even rising scores stay as they came: the order is the engine's (A16)."""
    hits = semantic(("b", 0.5, OK), ("a", 0.5, OK), ("c", 0.9, OK)).search(["q"], 3)[0]
    assert [(h.doc_id, h.rank) for h in hits] == [("b", 1), ("a", 2), ("c", 3)]
    assert hits[0].text == "b" and "text" not in hits[0].payload


def test_a_hit_that_breaks_the_filter_stops_everything() -> None:
    """Whatever the engine says, each payload is checked again (A14)."""
    with pytest.raises(EligibilityError, match="b came back with state = 'draft'"):
        semantic(("a", 0.9, OK), ("b", 0.5, {"state": "draft"})).search(["q"], 2)
    with pytest.raises(EligibilityError, match="None"):
        semantic(("a", 0.9, {})).search(["q"], 1)


def test_a_question_is_embedded_once_for_every_k() -> None:
    """Three cutoffs, two distinct questions: two texts reach the model (A12)."""
    plain = Plain()
    retriever = SemanticRetriever(Scripted(("a", 1.0, {})), CachedEmbedder(plain, None), {})
    for k in (1, 3, 5):
        retriever.search(["q", "r", "q"], k)
    assert plain.asked == 2


def test_chunks_of_one_document_collapse_to_its_best() -> None:
    """Five chunks of three documents: the best of each, ranks 1 to 3, fetched deeper once (C14)."""
    retriever = semantic(
        ("a", 0.9, OK), ("a", 0.8, OK), ("a", 0.7, OK), ("b", 0.6, OK), ("c", 0.5, OK), once=True
    )
    hits = retriever.search(["q"], 3)[0]
    assert [(h.doc_id, h.score, h.rank) for h in hits] == [
        ("a", 0.9, 1),
        ("b", 0.6, 2),
        ("c", 0.5, 3),
    ]
    assert isinstance(retriever.collection, Scripted) and retriever.collection.depths == [3, 6]


def test_a_question_of_another_dimension_is_refused(
    labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """Two numbers against 256: refused with both before the engine is asked (A11)."""
    index(labelled, chunks, "deterministic", store)
    (opened,) = open_retrievers(["semantic"], labelled, chunks, "deterministic", store)
    assert isinstance(opened, SemanticRetriever)
    opened.embedder = CachedEmbedder(Plain(), None)
    with pytest.raises(EmbeddingError, match=r"Query dimension mismatch.*256.*question has 2"):
        opened.search(["q"], 1)


@pytest.mark.parametrize("k", [0, -1])
def test_a_depth_below_one_is_refused(k: int, chunks: list[Chunk]) -> None:
    """There is no ranking of no hits."""
    for retriever in (semantic(("a", 1.0, OK)), KeywordRetriever(chunks)):
        with pytest.raises(RetrievalError, match="depth from 1 up"):
            retriever.search(["q"], k)


def test_fusion_is_by_hand() -> None:
    """a: rank 1 and 3, b: rank 2 and 1, c: only 2, d: only 3; weights 1 and 1 (C10).

    a = (1/61 + 1/63) * 61/2, b = (1/62 + 1/61) * 61/2, c = 1/62 * 61/2, d = 1/63 * 61/2.
    """
    left = [Hit("a", 9, 1), Hit("b", 8, 2), Hit("d", 7, 3)]
    right = [Hit("b", 0.9, 1), Hit("c", 0.8, 2), Hit("a", 0.7, 3)]
    hits = fused([left, right], [1, 1])
    assert [h.doc_id for h in hits] == ["b", "a", "c", "d"]
    expected = [(1 / 62 + 1 / 61), (1 / 61 + 1 / 63), 1 / 62, 1 / 63]
    assert [h.score for h in hits] == pytest.approx([x * 61 / 2 for x in expected])
    weighted = fused([left, right], [3, 1])
    assert weighted[0].score == pytest.approx((3 / 61 + 1 / 63) * 61 / 4)  # a
    assert weighted[0].doc_id == "a"


def test_the_evidence_is_of_the_ranking_that_has_it_higher() -> None:
    """A note found by a word in one chunk is not shown with the chunk another leg liked (C14)."""
    words = [Hit("a", 9, 1, "the late fact"), Hit("b", 8, 2, "by words")]
    vectors = [Hit("c", 0.9, 1), Hit("b", 0.8, 2, "by vector"), Hit("a", 0.7, 3, "an early part")]
    texts = {hit.doc_id: hit.text for hit in fused([words, vectors], [1, 1])}
    assert texts == {"a": "the late fact", "b": "by vector", "c": ""}


def test_fused_ties_go_by_doc_id() -> None:
    """Two chunks with swapped ranks score alike; the smaller id is first (by definition)."""
    hits = fused([[Hit("b", 2, 1), Hit("a", 1, 2)], [Hit("a", 2, 1), Hit("b", 1, 2)]], [1, 1])
    assert [h.doc_id for h in hits] == ["a", "b"] and hits[0].score == hits[1].score


def test_hybrid_asks_each_leg_for_the_same_pool_at_every_k() -> None:
    """min(5 * 10, 200) = 50 for k up to 10, so shallow rankings are prefixes; 200 at 100 (C10)."""
    leg = semantic(*((f"d{i:03}", 1 - i / 300, OK) for i in range(300)))
    hybrid = HybridRetriever(leg, leg, depth=10)
    shallow, deep = hybrid.search(["q"], 3)[0], hybrid.search(["q"], 10)[0]
    assert [h.doc_id for h in deep[:3]] == [h.doc_id for h in shallow]
    assert isinstance(leg.collection, Scripted) and set(leg.collection.depths) == {50}
    hybrid.search(["q"], 100)
    assert leg.collection.depths[-1] == 200
    assert len(hybrid.search(["q"], 250)[0]) == 250
    assert shallow[0].score == 1.0  # first in both


def test_the_same_hybrid_question_twice_gives_the_same_list(
    labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """Nothing in the fusion depends on the run (C17)."""
    index(labelled, chunks, "deterministic", store)
    modes = ["keyword", "semantic", "hybrid"]
    opened = open_retrievers(modes, labelled, chunks, "deterministic", store)
    assert [retriever.mode for retriever in opened] == modes
    assert [retriever.axis for retriever in opened] == ["bm25", "cosine", "rrf"]
    hybrid = opened[2]
    assert hybrid.search(["worker queue"], 3) == hybrid.search(["worker queue"], 3)
    eligible = {c.doc_id for c in chunks if labelled.is_eligible(c.fields)}
    for retriever in opened:
        assert {hit.doc_id for hit in retriever.search(["worker queue"], 9)[0]} <= eligible


def test_a_minimum_is_the_engines_and_drops_an_equal_score() -> None:
    """Above 0.5 only 0.9 is left, 0.5 itself is dropped; 0 is no threshold (C12, by definition)."""
    rows = [("a", 0.9, OK), ("a", 0.7, OK), ("b", 0.5, OK), ("c", -0.2, OK)]
    for once in (False, True):
        kept = semantic(*rows, once=once, min_score=0.5).search(["q"], 9)[0]
        assert {hit.doc_id for hit in kept} == {"a"} and kept[0].score == 0.9
    assert semantic(*rows, min_score=0.5).describe()["score_threshold"] == 0.5
    assert [h.doc_id for h in semantic(*rows).search(["q"], 9)[0]] == ["a", "a", "b", "c"]
    assert semantic(*rows).describe()["score_threshold"] is None
    with pytest.raises(ParameterError, match="minimum score nan"):
        semantic(*rows, min_score=float("nan"))


def test_each_minimum_stays_on_its_own_axis(
    labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """A cosine minimum leaves hybrid and keyword alone; the fused one leaves semantic alone.

    Fused by hand: first in one leg alone is 61/61/2 = 0.5, which 0.5 drops.
    """
    index(labelled, chunks, "deterministic", store)

    def hits(**given: float) -> list[int]:
        options = Options(**given)  # type: ignore[arg-type]
        opened = open_retrievers(MODES, labelled, chunks, "deterministic", store, options)
        return [len(retriever.search(["worker queue"], 9)[0]) for retriever in opened]

    assert hits() == [1, 3, 3]  # one chunk has the words, three are eligible
    assert hits(min_score=0.9) == [1, 0, 3]
    assert hits(min_fused=0.5) == [1, 3, 1]
    leg = [Hit("a", 1.0, 1)]
    for least, left in ((0.4999, ["a"]), (0.5, [])):
        alone = HybridRetriever(Fixed(leg), Fixed([]), min_score=least)
        assert [hit.doc_id for hit in alone.search(["q"], 3)[0]] == left


@pytest.mark.parametrize("modes", [[], ["keywords"], ["keyword", "keyword"]])
def test_unknown_modes_are_refused(
    modes: list[str], labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """The message lists the modes there are."""
    with pytest.raises(ParameterError, match="keyword, semantic, hybrid"):
        open_retrievers(modes, labelled, chunks, "deterministic", store)


def test_weights_must_leave_something() -> None:
    """Both weights 0, or a negative one, is no fusion."""
    leg = semantic(("a", 1.0, OK))
    for weights in ((0.0, 0.0), (-1.0, 2.0), (float("nan"), 1.0)):
        with pytest.raises(ParameterError, match="weights"):
            HybridRetriever(leg, leg, weights=weights)
