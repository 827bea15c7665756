"""Qdrant's own fusion of words and vectors, in every engine, against the two rankings it fuses."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evalkit.errors import ParameterError, RetrievalError
from evalkit.records import Chunk, Document, Hit, LabelledSet
from evalkit.retrieval import (
    MODES,
    HybridRetriever,
    KeywordRetriever,
    Options,
    index,
    open_retrievers,
    qdrant,
)
from evalkit.retrieval.notes import NOTES, notes
from evalkit.retrieval.search import fused

QUESTIONS = ["worker queue", "a budget for retries of the worker", "handlers"]
OWN = Options(fusion="qdrant")


def legs_and_fused(
    labelled: LabelledSet, chunks: Sequence[Chunk], store: Path, options: Options = OWN
) -> list[tuple[list[Hit], list[Hit], list[Hit]]]:
    """For each question the ranking by words, the one by vectors, and what the engine makes."""
    opened = open_retrievers(MODES, labelled, chunks, "deterministic", store, options)
    answers = [retriever.search(QUESTIONS, 9) for retriever in opened]
    return list(zip(*answers, strict=True))


def test_the_sparse_vectors_give_the_keyword_score(chunks: list[Chunk]) -> None:
    """Product of a chunk's shares and a question's counts: the mode's own score (by definition)."""
    retriever = KeywordRetriever(chunks, "en")
    table = retriever.sparse()
    question = "the worker, the worker and its queue"
    words, counts = retriever.asked(question)
    assert sorted(counts) == [1, 2]
    hits = {hit.doc_id: hit.score for hit in retriever.search([question], 9)[0]}
    for chunk in chunks:
        shares = dict(zip(*table[chunk.doc_id, chunk.chunk_id], strict=True))
        product = sum(shares.get(w, 0) * n for w, n in zip(words, counts, strict=True))
        assert product == pytest.approx(hits.get(chunk.doc_id, 0), rel=1e-6)
    assert KeywordRetriever([]).sparse() == {} and retriever.asked("unheard-of") == ([], [])


def test_the_engine_fuses_by_its_own_formula(
    engine: str, labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """1 / (1 + rank) from each leg, ranks from 1: its constant 2 and ranks from 0 (by hand)."""
    index(labelled, chunks, "deterministic", store)
    for words, vectors, hybrid in legs_and_fused(labelled, chunks, store):
        expected: dict[str, float] = {}
        for hit in [*words, *vectors]:
            expected[hit.doc_id] = expected.get(hit.doc_id, 0.0) + 1 / (1 + hit.rank)
        order = sorted(expected, key=lambda doc_id: (-round(expected[doc_id], 6), doc_id))
        assert [hit.doc_id for hit in hybrid] == order and len(vectors) == 3 > len(words)
        assert [h.score for h in hybrid] == pytest.approx([expected[d] for d in order], abs=1e-6)
        assert hybrid[0].payload["title"] and [h.rank for h in hybrid] == [1, 2, 3]


def test_constant_61_in_the_engine_is_ours_of_60(
    engine: str,
    labelled: LabelledSet,
    chunks: list[Chunk],
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Qdrant adds k - 1 to ranks from 1, so Rrf(61) is 1 / (60 + rank) (by definition)."""
    monkeypatch.setattr(qdrant, "FUSION_CONSTANT", 61)
    index(labelled, chunks, "deterministic", store)
    for words, vectors, hybrid in legs_and_fused(labelled, chunks, store):
        ours = fused([words, vectors], [1, 1])
        assert [hit.doc_id for hit in hybrid] == [hit.doc_id for hit in ours]
        assert [h.score * 61 / 2 for h in hybrid] == pytest.approx([h.score for h in ours])


def test_weights_reach_the_engine(
    engine: str, labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """Weight w makes 1 / (1 + rank / w): 3 for words, first in both: 3/4 + 1/2 (by hand)."""
    index(labelled, chunks, "deterministic", store)
    options = Options(fusion="qdrant", weights=(3.0, 1.0))
    words, vectors, hybrid = legs_and_fused(labelled, chunks, store, options)[0]
    assert words[0].doc_id == vectors[0].doc_id == hybrid[0].doc_id
    assert hybrid[0].score == pytest.approx(3 / 4 + 1 / 2)


def test_a_question_of_unknown_words_is_ranked_by_vectors_alone(
    labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """An empty sparse vector is not sent; and a minimum drops the scores that are not above it.

    Ranks 1, 2, 3 of one leg alone: 1/2, 1/3, 1/4 (by hand).
    """
    index(labelled, chunks, "deterministic", store)
    options = Options(fusion="qdrant", min_fused=0.3)
    for given, scores in ((OWN, [1 / 2, 1 / 3, 1 / 4]), (options, [1 / 2, 1 / 3])):
        (hybrid,) = open_retrievers(["hybrid"], labelled, chunks, "deterministic", store, given)
        hits = hybrid.search(["zebra crossing"], 9)[0]
        assert [hit.score for hit in hits] == pytest.approx(scores)
    assert hybrid.axis == "qdrant rrf" and "Qdrant's own" in hybrid.describe()["fusion"]


def test_what_is_sent_for_the_fusion(
    server: Any,
    use_engine: Callable[[str], None],
    labelled: LabelledSet,
    chunks: list[Chunk],
    store: Path,
) -> None:
    """Two rankings of 5 * 2 each and all of both asked for; one where no word is known."""
    use_engine("server")
    index(labelled, chunks, "deterministic", store)
    given = Options(fusion="qdrant", depth=2)
    (hybrid,) = open_retrievers(["hybrid"], labelled, chunks, "deterministic", store, given)
    hybrid.search(["worker", "zebra crossing"], 1)
    both, one = server.paths("/query/batch")[-1]["searches"]
    assert [leg.get("using") for leg in both["prefetch"]] == ["keyword", None]
    assert [leg.get("using") for leg in one["prefetch"]] == [None]
    assert {leg["limit"] for leg in both["prefetch"]} == {10} and both["limit"] == 20
    assert both["query"] == {"rrf": {"k": 2}}


def test_the_engines_ties_go_by_doc_id() -> None:
    """The engine may give equal scores in any order, and another one the next time (C10)."""
    rows = [({"doc_id": name}, score) for name, score in (("c", 0.5), ("b", 0.7), ("a", 0.5))]
    for found in (rows, rows[::-1]):
        collection = SimpleNamespace(fuse=lambda *_, found=found: [list(found)])
        semantic = SimpleNamespace(
            collection=collection, vectors=lambda _: None, checked=lambda rows: rows
        )
        keyword = SimpleNamespace(asked=lambda _: ([], []))
        hybrid = HybridRetriever(keyword, semantic, fusion="qdrant")  # type: ignore[arg-type]
        assert [hit.doc_id for hit in hybrid.search(["q"], 3)[0]] == ["b", "a", "c"]


def test_words_have_the_same_numbers_in_every_process() -> None:
    """What one process stored another one asks for: the digest does not depend on hash seeds."""
    program = (
        "from evalkit.records import Chunk\n"
        "from evalkit.retrieval import KeywordRetriever, collection\n"
        "chunks = [Chunk(x, x, '', '', f'{x} one two three four five {x}s') for x in 'abcdefgh']\n"
        "print(collection.words_digest(KeywordRetriever(chunks).sparse()))"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def test_documents_in_several_chunks_come_once(store: Path) -> None:
    """Chunks are fused by the engine, then each note is kept by its best one (C14)."""
    long = "\n\n".join(f"# Part {i}\n\nhives and bees " + "filler " * 300 for i in range(4))
    documents = (Document("long", "Long", long), Document("short", "Short", "bees and hives"))
    chunks = [chunk for document in documents for chunk in notes(document)]
    assert [chunk.doc_id for chunk in chunks].count("long") > 1
    labelled = LabelledSet("notes", "1", documents, (), NOTES, 1)
    index(labelled, chunks, "deterministic", store)
    (hybrid,) = open_retrievers(["hybrid"], labelled, chunks, "deterministic", store, OWN)
    hits = hybrid.search(["bees"], 9)[0]
    assert sorted(hit.doc_id for hit in hits) == ["long", "short"]
    assert [hit.rank for hit in hits] == [1, 2] and hits[0].score >= hits[1].score


@pytest.mark.parametrize("engine", ["edge", "server"], indirect=True)
def test_a_collection_without_the_words_is_refused(
    engine: str,
    labelled: LabelledSet,
    chunks: list[Chunk],
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An index made without them, or with others: said once, with what to do; rrf60 still works."""
    with monkeypatch.context() as without:
        without.setattr(KeywordRetriever, "sparse", lambda self: {})
        index(labelled, chunks, "deterministic", store)
    with pytest.raises(RetrievalError, match="run the index notebook, or use fusion rrf60"):
        open_retrievers(["hybrid"], labelled, chunks, "deterministic", store, OWN)


def test_a_collection_made_elsewhere_is_not_fused_by_its_engine(
    labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """Its sparse vectors, if it has any, number other words: refused before anything is asked."""
    options = Options(fusion="qdrant", collection="mine")
    with pytest.raises(ParameterError, match=r"'mine' was made elsewhere.*use fusion rrf60"):
        open_retrievers(["hybrid"], labelled, chunks, "deterministic", store, options)


@pytest.mark.parametrize(("fusion", "weights"), [("dbsf", (1, 1)), ("qdrant", (1, 0))])
def test_what_the_fusion_cannot_do_is_refused(fusion: str, weights: tuple[float, float]) -> None:
    """An unknown name, and a leg without weight, which the engine would still list."""
    with pytest.raises(ParameterError, match="use rrf60, or qdrant with weights above 0"):
        HybridRetriever(None, None, weights=weights, fusion=fusion)  # type: ignore[arg-type]


def test_words_that_come_back_changed_fail_the_index(
    labelled: LabelledSet, chunks: list[Chunk], store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sparse vectors are verified like the dense ones: here the engine stored others."""
    from evalkit.retrieval import collection

    table = KeywordRetriever(chunks, "en").sparse()
    vectors = np.eye(len(chunks), 256, dtype=np.float32)
    spec_of = __import__("evalkit.retrieval.embedded", fromlist=["Deterministic"]).Deterministic
    manifest = collection.describe_contents(labelled, chunks, vectors, spec_of.spec)
    contents = collection.Contents(tuple(chunks), vectors, manifest, table)
    opened = collection.load(contents, manifest["filter"])
    assert collection.verified(opened, contents) is opened
    other = {
        key: (words, [2 * share for share in shares]) for key, (words, shares) in table.items()
    }
    changed = collection.Contents(tuple(chunks), vectors, manifest, other)
    with pytest.raises(RetrievalError, match="came back changed"):
        collection.verified(opened, changed)
