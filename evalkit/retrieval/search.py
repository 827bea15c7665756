"""Retrievers: a question in, hits out, best first and in the order the engine gave them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from evalkit.errors import EligibilityError, ParameterError, RetrievalError
from evalkit.records import Hit
from evalkit.retrieval.embedding import CachedEmbedder, Vectors
from evalkit.retrieval.qdrant import FUSION_CONSTANT, Found, QdrantCollection

RRF_CONSTANT = 60
LARGEST_POOL = 200
FUSIONS = {
    "rrf60": f"reciprocal rank, constant {RRF_CONSTANT}, first in both = 1",
    "qdrant": f"Qdrant's own reciprocal rank, k {FUSION_CONSTANT}",
}


class Retriever(Protocol):
    """Anything that ranks chunks for questions; `axis` says what its scores are."""

    mode: str
    axis: str

    def search(self, questions: Sequence[str], k: int) -> list[list[Hit]]: ...

    def describe(self) -> dict[str, Any]: ...


class SemanticRetriever:
    """Nearest vectors in a collection, filtered inside the engine and checked again here.

    `once` asks for each document once, by its best chunk: deeper rankings are fetched until k
    different ones are there or the collection ends. `min_score`, unless 0, is the engine's own
    score_threshold: only hits that score above it come back, never one that equals it.
    """

    mode = "semantic"

    def __init__(
        self,
        collection: QdrantCollection,
        embedder: CachedEmbedder,
        eligibility: Mapping[str, str],
        *,
        once: bool = False,
        exact: bool = False,
        min_score: float = 0.0,
    ) -> None:
        self.collection, self.embedder = collection, embedder
        self.eligibility, self.once, self.exact = dict(eligibility), once, exact
        self.min_score = _minimum(min_score)
        self.axis = embedder.spec.distance.lower()
        self._vectors: dict[str, Vectors] = {}

    def search(self, questions: Sequence[str], k: int) -> list[list[Hit]]:
        """The k best chunks a question; each distinct question is embedded once for every k."""
        check_depth(k)
        vectors = self.vectors(questions)
        answers = [self.checked(found) for found in self._query(vectors, k)]
        if not self.once:
            return [as_hits(found, k) for found in answers]
        depth = k
        while short := [i for i, a in enumerate(answers) if len(a) == depth and _distinct(a) < k]:
            depth *= 2
            deeper = self._query(vectors[short], depth)
            for i, found in zip(short, deeper, strict=True):
                answers[i] = self.checked(found)
        return [as_hits(first_of_each(found), k) for found in answers]

    def vectors(self, questions: Sequence[str]) -> Vectors:
        """One row a question, embedded once in the life of this retriever."""
        fresh = [q for q in dict.fromkeys(questions) if q not in self._vectors]
        if fresh:
            self._vectors |= dict(zip(fresh, self.embedder.questions(fresh), strict=True))
        return np.stack([self._vectors[question] for question in questions])

    def describe(self) -> dict[str, Any]:
        """Settings for the manifest."""
        return {
            "mode": self.mode,
            "axis": self.axis,
            "exact": self.exact,
            "once_per_document": self.once,
            "score_threshold": self.min_score or None,
            "question_embedder": self.embedder.spec.describe(),
            **self.collection.describe(),
        }

    def _query(self, vectors: Vectors, k: int) -> list[list[Found]]:
        above = self.min_score or None
        return self.collection.query(vectors, k, exact=self.exact, above=above)

    def checked(self, found: list[Found]) -> list[Found]:
        """The same rows, after each payload was held against the filter once more."""
        for hit, _ in found:
            for name, value in self.eligibility.items():
                if hit.get(name) != value:
                    raise EligibilityError(
                        f"Retrieval eligibility violation: {hit['doc_id']} came back with "
                        f"{name} = {hit.get(name)!r} where the filter demands {value!r}"
                    )
        return found


class HybridRetriever:
    """Reciprocal rank fusion of two rankings; its scores are rank scores, not similarities.

        rrf60:   (w_k / (60 + rank_keyword) + w_s / (60 + rank_semantic)) * 61 / (w_k + w_s)
        qdrant:  1 / (1 + rank_keyword / w_k) + 1 / (1 + rank_semantic / w_s), by the engine

    with ranks from 1, so that first in both is 1 (qdrant: at weights 1). Each leg gives its best
    min(5 * depth, 200), where `depth` is the deepest cutoff that is asked, so that shallower
    rankings are prefixes. Ties, which fusion makes plenty of, go by doc_id. `min_score`, unless
    0, drops fused scores that are not above it, as Qdrant's threshold does; it says nothing
    about similarity, and the legs are asked without any threshold.

    For `qdrant` the words of `keyword` must stand in the collection as sparse vectors. It fuses
    chunks, all of both pools; then each document is kept once, by its best chunk.
    """

    mode = "hybrid"
    axis = "rrf"

    def __init__(
        self,
        keyword: Retriever,
        semantic: Retriever,
        *,
        weights: tuple[float, float] = (1.0, 1.0),
        depth: int = 10,
        min_score: float = 0.0,
        fusion: str = "rrf60",
    ) -> None:
        if min(weights) < 0 or not 0 < sum(weights) < float("inf"):
            raise ParameterError(f"weights {weights}: give two numbers from 0 up, not both 0")
        if fusion not in FUSIONS or (fusion == "qdrant" and not min(weights)):
            raise ParameterError(f"fusion {fusion!r}: use rrf60, or qdrant with weights above 0")
        self.keyword, self.semantic = keyword, semantic
        self.weights, self.depth, self.min_score = weights, depth, _minimum(min_score)
        self.fusion = fusion
        if fusion == "qdrant":
            self.axis = "qdrant rrf"

    def search(self, questions: Sequence[str], k: int) -> list[list[Hit]]:
        """The k best fused chunks a question."""
        check_depth(k)
        pool = max(k, min(5 * max(k, self.depth), LARGEST_POOL))
        if self.fusion == "qdrant":
            rankings = self._by_engine(questions, pool)
        else:
            legs = (self.keyword.search(questions, pool), self.semantic.search(questions, pool))
            rankings = [fused(pair, self.weights) for pair in zip(*legs, strict=True)]
        least = self.min_score or -math.inf
        return [[hit for hit in hits[:k] if hit.score > least] for hits in rankings]

    def describe(self) -> dict[str, Any]:
        """Settings for the manifest, with those of both legs."""
        return {
            "mode": self.mode,
            "axis": self.axis,
            "fusion": FUSIONS[self.fusion],
            "weights": {"keyword": self.weights[0], "semantic": self.weights[1]},
            "pool": f"max(k, min(5 * max(k, {self.depth}), {LARGEST_POOL}))",
            "score_threshold": self.min_score or None,
            "keyword": self.keyword.describe(),
            "semantic": self.semantic.describe(),
        }

    def _by_engine(self, questions: Sequence[str], pool: int) -> list[list[Hit]]:
        keyword: Any = self.keyword
        semantic: Any = self.semantic
        words = [keyword.asked(question) for question in questions]
        vectors = semantic.vectors(questions)
        answers = semantic.collection.fuse(vectors, words, pool, self.weights)
        return [
            as_hits(first_of_each(sorted(semantic.checked(found), key=_best_first)), len(found))
            for found in answers
        ]


def fused(rankings: Sequence[Sequence[Hit]], weights: Sequence[float]) -> list[Hit]:
    """One ranking from several, by reciprocal rank with constant 60, scaled so that 1 is perfect.

    Text and payload are those of the ranking that has the document higher: of its best chunk.

    >>> a, b = Hit("a", 9.0, 1), Hit("b", 8.0, 2)
    >>> [(h.doc_id, round(h.score, 4)) for h in fused([[a, b], [a]], [1, 1])]
    [('a', 1.0), ('b', 0.4919)]
    """
    scale = (RRF_CONSTANT + 1) / sum(weights)
    scores: dict[str, float] = {}
    evidence: dict[str, Hit] = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        for hit in ranking if weight else ():
            gain = scale * weight / (RRF_CONSTANT + hit.rank)
            scores[hit.doc_id] = scores.get(hit.doc_id, 0.0) + gain
            if hit.rank <= evidence.get(hit.doc_id, hit).rank:
                evidence[hit.doc_id] = hit
    order = sorted(scores, key=lambda doc_id: (-scores[doc_id], doc_id))
    return [
        Hit(doc_id, scores[doc_id], rank, evidence[doc_id].text, evidence[doc_id].payload)
        for rank, doc_id in enumerate(order, start=1)
    ]


def as_hits(found: Sequence[Found], k: int) -> list[Hit]:
    """Hits with ranks from 1, in the order given."""
    return [
        Hit(payload["doc_id"], score, rank, str(payload.get("text") or ""), evidence)
        for rank, (payload, score) in enumerate(found[:k], start=1)
        for evidence in [{name: value for name, value in payload.items() if name != "text"}]
    ]


def first_of_each(found: Sequence[Found]) -> list[Found]:
    """The best chunk of each document: the first one met."""
    best: dict[str, Found] = {}
    for hit in found:
        best.setdefault(hit[0]["doc_id"], hit)
    return list(best.values())


def _distinct(found: Sequence[Found]) -> int:
    return len({payload["doc_id"] for payload, _ in found})


def _best_first(found: Found) -> tuple[float, str]:
    return -found[1], found[0]["doc_id"]


def _minimum(score: float) -> float:
    if not math.isfinite(score):
        raise ParameterError(f"minimum score {score}: give a number, 0 for no threshold")
    return score


def check_depth(k: int) -> None:
    """Refuses a depth below 1."""
    if k < 1:
        raise RetrievalError(f"{k} hits were asked for; give a depth from 1 up")
