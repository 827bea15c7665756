"""The notes set, deterministic embedder: floors and invariants, never exact orders (C16)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from evalkit import datasets
from evalkit.records import Chunk, Hit, LabelledSet, Query
from evalkit.retrieval import MODES, Options, cut, index, open_retrievers
from evalkit.retrieval.notes import NOTES

DEFAULT = Options()
# questions whose own words stand in the notes that answer them: ten of them
LEXICAL = ("keyword", "keyword-distractor", "long-note-tail", "tag", "title", "topic-cluster")


class Vault:
    """The set, its chunks and one index of them; opens all modes under given options."""

    def __init__(self, store: Path) -> None:
        self.labelled: LabelledSet = datasets.load("vault")
        self.chunks: list[Chunk] = cut(self.labelled.documents, self.labelled.chunking)
        self.store = store
        index(self.labelled, self.chunks, "deterministic", store)

    def opened(self, options: Options = DEFAULT) -> dict[str, Any]:
        found = open_retrievers(
            MODES, self.labelled, self.chunks, "deterministic", self.store, options
        )
        return {retriever.mode: retriever for retriever in found}

    def queries(self, *categories: str) -> list[Query]:
        return [query for query in self.labelled.queries if query.category in categories]


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Vault:
    """27 notes, cut by heading; judgments name whole notes."""
    return Vault(tmp_path_factory.mktemp("outputs"))


def asked(retriever: Any, queries: Sequence[Query], k: int = 10) -> list[tuple[Query, list[Hit]]]:
    assert queries
    return list(zip(queries, retriever.search([q.text for q in queries], k), strict=True))


def relevant(query: Query, hits: Sequence[Hit]) -> set[str]:
    return {hit.doc_id for hit in hits if query.grades.get(hit.doc_id, 0) > 0}


@pytest.mark.parametrize(
    ("mode", "floor"), [("keyword", 0.55), ("semantic", 0.7), ("hybrid", 0.65)]
)
def test_recall_at_10_of_lexical_questions_stays_above_its_floor(
    vault: Vault, mode: str, floor: float
) -> None:
    """Kioku's own floors for ten lexical questions under this embedder (C16)."""
    queries = vault.queries(*LEXICAL)
    assert len(queries) == 10
    pairs = asked(vault.opened()[mode], queries)
    assert fmean(len(relevant(q, hits)) / len(q.grades) for q, hits in pairs) >= floor


@pytest.mark.parametrize("fusion", ["rrf60", "qdrant"])
@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
def test_a_note_is_found_by_its_alias(vault: Vault, mode: str, fusion: str) -> None:
    """Aliases are in the embedded text and not in the keyword index: recall 1 here (C11, C17)."""
    retrievers = vault.opened(Options(fusion=fusion))
    queries = vault.queries("alias-only")
    for query, hits in asked(retrievers[mode], queries):
        assert relevant(query, hits) == set(query.grades)
    for query, hits in asked(retrievers["keyword"], queries):
        assert not relevant(query, hits)


@pytest.mark.parametrize("mode", ["keyword", "hybrid"])
def test_a_late_fact_of_a_long_note_is_found(vault: Vault, mode: str) -> None:
    """The note's last chunk answers: the note is the hit, with that chunk's text (C14, C17)."""
    for query, hits in asked(vault.opened()[mode], vault.queries("long-note-tail")):
        assert relevant(query, hits[:3])
        (found,) = (hit for hit in hits if hit.doc_id in query.grades)
        chunks = [c.chunk_id for c in vault.chunks if c.doc_id == found.doc_id]
        assert len(chunks) > 3 and "47-B" in found.text
        assert chunks.index(found.payload["chunk_id"]) >= len(chunks) - 2


@pytest.mark.parametrize("mode", ["keyword", "hybrid"])
def test_a_strong_lexical_question_has_its_note_in_the_top_three(vault: Vault, mode: str) -> None:
    """Its own words stand in title or text (C17)."""
    for query, hits in asked(vault.opened()[mode], vault.queries("title", "keyword")):
        best = max(query.grades, key=lambda doc_id: query.grades[doc_id])
        assert best in [hit.doc_id for hit in hits[:3]]


@pytest.mark.parametrize("fusion", ["rrf60", "qdrant"])
@pytest.mark.parametrize("mode", MODES)
def test_each_note_comes_once_and_the_same_list_twice(vault: Vault, mode: str, fusion: str) -> None:
    """Chunks collapse to notes, and neither the call nor the opening matters (C10, C14, C17)."""
    first = vault.opened(Options(fusion=fusion))[mode]
    again = vault.opened(Options(fusion=fusion))[mode]
    for (_, one), (_, two), (_, three) in zip(
        asked(first, vault.labelled.queries, 20),
        asked(first, vault.labelled.queries, 20),
        asked(again, vault.labelled.queries, 20),
        strict=True,
    ):
        assert one == two == three
        assert len({hit.doc_id for hit in one}) == len(one)


def test_a_high_minimum_gives_fewer_hits_than_none(vault: Vault) -> None:
    """At 0.9 fewer than without, which gives every probe its full ten (C12, C17)."""
    probes = vault.queries("no-answer")
    counts = [
        sum(len(hits) for _, hits in asked(vault.opened(options)["semantic"], probes))
        for options in (Options(), Options(min_score=0.2), Options(min_score=0.9))
    ]
    assert counts[0] == 20 and counts[0] > counts[1] >= counts[2] < 20


def test_any_cut_can_be_judged(vault: Vault) -> None:
    """Re-chunking changes chunks, not judged ids: every judged note is a hit's doc_id (C14)."""
    assert vault.labelled.chunking == NOTES
    ids = {chunk.doc_id for chunk in vault.chunks}
    assert len(ids) == len(vault.labelled.documents) < len(vault.chunks)
    hits = vault.opened()["semantic"].search(["nota"], len(ids))[0]
    judged = {doc_id for query in vault.labelled.queries for doc_id in query.grades}
    assert judged <= {hit.doc_id for hit in hits}
