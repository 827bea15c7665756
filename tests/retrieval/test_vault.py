"""The notes set with the deterministic embedder: floors, never exact orders (C16)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from evalkit import datasets
from evalkit.records import Hit, LabelledSet
from evalkit.retrieval import cut, index, open_retrievers
from evalkit.retrieval.notes import NOTES

MODES = ("keyword", "semantic", "hybrid")


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> tuple[LabelledSet, dict[str, Any]]:
    """The vault cut by heading, its notes judged whole, under all three modes."""
    store = tmp_path_factory.mktemp("outputs")
    vault = datasets.load("vault")
    chunks = cut(vault.documents, NOTES)
    assert len({chunk.doc_id for chunk in chunks}) == len(vault.documents) < len(chunks)
    index(vault, chunks, "deterministic", store)
    retrievers = open_retrievers(MODES, vault, chunks, "deterministic", store)
    return vault, {retriever.mode: retriever for retriever in retrievers}


def ask(opened: Any, mode: str, category: str, k: int = 10) -> list[tuple[Any, list[Hit]]]:
    vault, retrievers = opened
    queries = [query for query in vault.queries if query.category == category]
    assert queries
    return list(zip(queries, retrievers[mode].search([q.text for q in queries], k), strict=True))


def relevant(query: Any, hits: Sequence[Hit]) -> set[str]:
    return {hit.doc_id for hit in hits if query.grades.get(hit.doc_id, 0) > 0}


@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
def test_a_note_is_found_by_its_alias(opened: Any, mode: str) -> None:
    """Aliases are in the embedded text: recall 1 for the alias-only question (C17)."""
    for query, hits in ask(opened, mode, "alias-only"):
        assert relevant(query, hits) == set(query.grades)


def test_a_late_fact_of_a_long_note_is_found_by_keyword(opened: Any) -> None:
    """The note's last chunk answers; the note is the hit (C14, C17)."""
    for query, hits in ask(opened, "keyword", "long-note-tail"):
        assert relevant(query, hits[:3])


@pytest.mark.parametrize("category", ["title", "keyword"])
def test_a_strong_lexical_question_has_its_note_in_the_top_three(
    opened: Any, category: str
) -> None:
    """Its own words stand in title or text (C17)."""
    for query, hits in ask(opened, "keyword", category):
        assert relevant(query, hits[:3])


@pytest.mark.parametrize("mode", MODES)
def test_each_note_comes_back_once_and_the_same_list_twice(opened: Any, mode: str) -> None:
    """Chunks collapse to notes, and nothing depends on the call (C14, C17)."""
    for (_, first), (_, second) in zip(
        ask(opened, mode, "cross-language", 20),
        ask(opened, mode, "cross-language", 20),
        strict=True,
    ):
        ids = [hit.doc_id for hit in first]
        assert first == second and len(set(ids)) == len(ids)


def test_a_high_score_keeps_fewer_hits_than_none(opened: Any) -> None:
    """Of 20 hits a question some score below 0.9: the cut is made on stored scores (C17)."""
    for _, hits in ask(opened, "semantic", "no-answer", 20):
        assert len([hit for hit in hits if hit.score >= 0.9]) < len(hits) == 20


def test_a_whole_vault_can_be_judged_by_any_cut(opened: Any, tmp_path: Path) -> None:
    """Re-chunking changes chunks, not the judged ids: every judged note is a hit's doc_id (C14)."""
    vault, retrievers = opened
    hits = retrievers["semantic"].search(["nota"], len(vault.documents))[0]
    judged = {doc_id for query in vault.queries for doc_id in query.grades}
    assert judged <= {hit.doc_id for hit in hits}
