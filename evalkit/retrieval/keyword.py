"""Keyword search: Okapi BM25 over stemmed words of title, tags and text."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evalkit.records import Chunk, Hit
from evalkit.retrieval.chunking import evidence
from evalkit.retrieval.qdrant import Sparse
from evalkit.retrieval.search import as_hits, check_depth

K1, B = 1.2, 0.75
BOOSTS = {"title": 2, "tags": 2, "text": 1}
STEMMERS = {"en": "english", "es": "spanish", "de": "german", "fr": "french", "it": "italian"}
WORD = re.compile(r"\w+")


class KeywordRetriever:
    """Okapi BM25 (k1 1.2, b 0.75) over the chunks it is given, which are the eligible ones.

        score = sum over question words of  ln(1 + (N - n + 0.5) / (n + 0.5)) * tf / (tf + norm)
        norm = k1 * (1 - b + b * length / mean length)

    A boost repeats a field's words: a title word counts twice. Aliases are not indexed. A chunk
    without any of the words is not a hit. Equal scores are ordered by doc_id.
    Rival conventions: Robertson's idf may be negative; rank_bm25 floors it instead.
    """

    mode = "keyword"
    axis = "bm25"

    def __init__(
        self, chunks: Sequence[Chunk], language: str = "", boosts: Mapping[str, int] | None = None
    ) -> None:
        import bm25s  # type: ignore[import-untyped]

        self.language, self.boosts = language, dict(BOOSTS if boosts is None else boosts)
        # doc_id order, so that a stable sort by score alone breaks ties by doc_id
        self._chunks = sorted(chunks, key=lambda chunk: (chunk.doc_id, chunk.chunk_id))
        self._stem, self._stop = _language(language)
        self._engine: Any = None
        if words := [self._document(chunk) for chunk in self._chunks]:
            self._engine = bm25s.BM25(k1=K1, b=B, method="lucene", backend="numpy")
            self._engine.index(words, show_progress=False)
        # the engine adds the empty word, which no chunk has; its own numbers differ by process
        vocabulary = sorted(word for word in self._engine.vocab_dict if word) if words else []
        self._numbers = {word: number for number, word in enumerate(vocabulary)}

    def search(self, questions: Sequence[str], k: int) -> list[list[Hit]]:
        """The k best chunks a question, each document once."""
        check_depth(k)
        return [self._best(self.words(question), k) for question in questions]

    def words(self, text: str) -> list[str]:
        """The index terms of a text: lower case, stop words out, stemmed.

        >>> KeywordRetriever([], "en").words("The workers were draining queues")
        ['worker', 'drain', 'queue']
        """
        kept = [word for word in WORD.findall(text.lower()) if word not in self._stop]
        return list(self._stem(kept))

    def sparse(self) -> dict[tuple[str, str], Sparse]:
        """Each chunk's share of every score, word by word, by doc_id and chunk_id.

        Its product with `asked` is this mode's score: what an engine needs to rank by it.
        """
        if not self._engine:
            return {}
        table, words = self._engine.scores, self._engine.vocab_dict
        numbers = np.zeros(len(table["indptr"]) - 1, dtype=np.int64)
        numbers[[words[word] for word in self._numbers]] = list(self._numbers.values())
        by_entry = np.repeat(numbers, np.diff(table["indptr"]))
        order = np.lexsort((by_entry, table["indices"]))
        ends = np.searchsorted(table["indices"][order], np.arange(1, len(self._chunks)))
        shares = np.split(table["data"][order], ends)
        return {
            (chunk.doc_id, chunk.chunk_id): (numbered.tolist(), share.tolist())
            for chunk, numbered, share in zip(
                self._chunks, np.split(by_entry[order], ends), shares, strict=True
            )
        }

    def asked(self, question: str) -> Sparse:
        """How often a question has each word that stands in some chunk."""
        counts = Counter(self._numbers[w] for w in self.words(question) if w in self._numbers)
        return sorted(counts), [float(counts[number]) for number in sorted(counts)]

    def describe(self) -> dict[str, Any]:
        """Settings for the manifest."""
        return {
            "mode": self.mode,
            "axis": self.axis,
            "k1": K1,
            "b": B,
            "boosts": self.boosts,
            "language": self.language,
            "chunks": len(self._chunks),
        }

    def _document(self, chunk: Chunk) -> list[str]:
        fields = {"title": chunk.title, "text": chunk.text, "tags": chunk.fields.get("tags", "")}
        return [
            word for name, boost in self.boosts.items() for word in self.words(fields[name]) * boost
        ]

    def _best(self, words: Sequence[str], k: int) -> list[Hit]:
        known = [word for word in words if self._engine and word in self._engine.vocab_dict]
        if not known:
            return []
        scores = np.asarray(self._engine.get_scores(known))
        order = np.argsort(-scores, kind="stable")[: int((scores > 0).sum())]
        best: dict[str, int] = {}
        for row in order.tolist():
            best.setdefault(self._chunks[row].doc_id, row)
            if len(best) == k:
                break
        return as_hits([(evidence(self._chunks[i]), float(scores[i])) for i in best.values()], k)


def _language(language: str) -> tuple[Any, frozenset[str]]:
    """Stemmer and stop words of a set in one language; neither for a mixed or unknown one."""
    name = STEMMERS.get(language.strip().lower()[:2] if len(language.strip()) <= 5 else "")
    if name is None:
        return list, frozenset()
    stopwords = importlib.import_module("bm25s.stopwords")
    stop = getattr(stopwords, f"STOPWORDS_{'EN_PLUS' if name == 'english' else name.upper()}")
    return importlib.import_module("Stemmer").Stemmer(name).stemWords, frozenset(stop)
