"""BM25 by its formula, over eligible chunks, ties by id."""

from __future__ import annotations

import math

import pytest

from evalkit.records import Chunk
from evalkit.retrieval.keyword import KeywordRetriever


def chunk(name: str, text: str, title: str = "", **fields: str) -> Chunk:
    return Chunk(name, name, "", title, text, fields)


def test_the_score_is_okapi_by_hand() -> None:
    """Three texts of 2, 2 and 4 words (mean 8/3); 'fox' is in two of three, twice in c."""
    texts = [chunk("a", "red fox"), chunk("b", "red hen"), chunk("c", "fox fox big hen")]
    hits = KeywordRetriever(texts, boosts={"text": 1}).search(["fox"], 3)[0]
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))

    def score(tf: int, length: int) -> float:
        return idf * tf / (tf + 1.2 * (0.25 + 0.75 * length / (8 / 3)))

    assert [hit.doc_id for hit in hits] == ["c", "a"]
    assert [hit.score for hit in hits] == pytest.approx([score(2, 4), score(1, 2)], rel=1e-6)


def test_a_text_without_any_word_is_not_a_hit() -> None:
    """No shared word, no hit: an empty ranking is an honest answer (by definition)."""
    assert KeywordRetriever([chunk("a", "red fox")]).search(["blue", "", "?!"], 5) == [[], [], []]
    assert KeywordRetriever([]).search(["blue"], 5) == [[]]


def test_equal_scores_go_by_doc_id() -> None:
    """One text under 60 ids ties throughout; input order does not matter (by definition)."""
    ids = [f"d{i:02}" for i in range(60)]
    texts = [chunk(name, "fox" if i % 3 else "fox fox") for i, name in enumerate(ids)]
    hits = KeywordRetriever(texts[::-1]).search(["fox"], 60)[0]
    assert [hit.doc_id for hit in hits] == ids[::3] + [name for name in ids if name not in ids[::3]]
    assert len({hit.score for hit in hits}) == 2


def test_a_word_in_the_title_or_tags_counts_more() -> None:
    """Same words, same lengths: the boosted field wins (C11)."""
    texts = [
        chunk("body", "fox", title="hen", tags="hen"),
        chunk("tagged", "hen", title="hen", tags="fox"),
        chunk("titled", "hen", title="fox", tags="hen"),
    ]
    hits = KeywordRetriever(texts).search(["fox"], 3)[0]
    assert [hit.doc_id for hit in hits] == ["tagged", "titled", "body"]
    assert hits[0].score == hits[1].score > hits[2].score


def test_aliases_are_not_in_the_keyword_index() -> None:
    """An alias is embedded but not indexed as a keyword (C11)."""
    assert KeywordRetriever([chunk("a", "fox", aliases="reynard")]).search(["reynard"], 1) == [[]]


def test_english_is_stemmed_and_a_mixed_set_is_not() -> None:
    """'draining' finds 'drains' in English; without one language words are taken as they are."""
    texts = [chunk("a", "it drains")]
    assert KeywordRetriever(texts, "en").search(["draining"], 1)[0][0].doc_id == "a"
    assert KeywordRetriever(texts, "es, en").search(["draining"], 1) == [[]]
    spanish = KeywordRetriever([chunk("a", "las copias nocturnas")], "es")
    assert spanish.search(["copia"], 1)[0][0].doc_id == "a"


def test_chunks_of_one_document_give_one_hit() -> None:
    """The best chunk stands for its document (C14)."""
    parts = [Chunk("n", "n", f"p{i}", "", text) for i, text in enumerate(["fox hen", "fox"])]
    hits = KeywordRetriever(parts).search(["fox"], 5)[0]
    assert [(h.doc_id, h.text) for h in hits] == [("n", "fox")]
