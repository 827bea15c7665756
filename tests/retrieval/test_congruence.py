"""The same notes and questions in every engine there is: the same answers, but for ties."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from evalkit import datasets
from evalkit.records import Hit, LabelledSet
from evalkit.retrieval import MODES, Options, cut, index, open_retrievers

CLOSE = 1e-5  # one engine sums in another order than the next
ENGINES = ("edge", "server", pytest.param("live", marks=pytest.mark.live))


def answers(vault: LabelledSet, store: Path, options: Options) -> list[list[list[Hit]]]:
    chunks = cut(vault.documents, vault.chunking)
    index(vault, chunks, "deterministic", store)
    questions = [query.text for query in vault.queries]
    opened = open_retrievers(MODES, vault, chunks, "deterministic", store, options)
    return [retriever.search(questions, 10) for retriever in opened]


def assert_same_but_for_ties(ours: Sequence[Hit], theirs: Sequence[Hit]) -> None:
    """Equal scores rank by rank; an id that only one side has ties with its last score."""
    assert [h.score for h in theirs] == pytest.approx([h.score for h in ours], abs=CLOSE)
    scores = [{hit.doc_id: hit.score for hit in hits} for hits in (ours, theirs)]
    for mine, other in (scores, scores[::-1]):
        for doc_id, score in mine.items():
            expected = other.get(doc_id, min(other.values()))
            assert score == pytest.approx(expected, abs=CLOSE), doc_id


@pytest.mark.parametrize("options", [Options(), Options(min_score=0.3)], ids=["all", "above 0.3"])
@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_answers_as_the_one_in_memory(
    engine: str, options: Options, store: Path, use_engine: Callable[[str], None]
) -> None:
    """24 questions, three modes, with and without the engine's own threshold (property)."""
    loaded = datasets.load("vault")
    vault = replace(loaded, name="evalkit-test-vault")
    use_engine("memory")
    near = answers(vault, store, options)
    use_engine(engine)
    far = answers(vault, store, options)
    counts = [sum(map(len, mode)) for mode in near]
    assert counts[1] == 240 if not options.min_score else 0 < counts[1] < 240
    for mode, other in zip(near, far, strict=True):
        for ours, theirs in zip(mode, other, strict=True):
            assert_same_but_for_ties(ours, theirs)
