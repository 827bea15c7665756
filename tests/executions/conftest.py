"""A store of its own, and a small evaluation whose rankings are written down."""

from __future__ import annotations

import pytest

from evalkit import executions
from evalkit.datasets.native import sealed
from evalkit.errors import EmbeddingError
from evalkit.evaluation import Plan, evaluate_all
from evalkit.records import Chunk, Hit, LabelledSet, Query

PLAN = Plan(cutoffs=(1, 2))
BROKEN = EmbeddingError("no vector for this question")


class Written:
    """A retriever that returns what was written down, or fails of it."""

    axis = "made up"

    def __init__(self, mode, rankings, settings):
        self.mode, self.rankings, self.settings = mode, rankings, settings

    def search(self, questions, k):
        found = []
        for text in questions:
            ranking = self.rankings.get(text, "")
            if isinstance(ranking, Exception):
                raise ranking
            hits = [Hit(doc, 1 - r / 10, r, f"text of {doc}") for r, doc in enumerate(ranking, 1)]
            found.append(hits[:k])
        return found

    def describe(self):
        return {"mode": self.mode, "axis": self.axis, **self.settings}


@pytest.fixture
def outputs(tmp_path, monkeypatch):
    """An empty store."""
    folder = tmp_path / "outputs"
    monkeypatch.setenv("EVALKIT_OUTPUTS", str(folder))
    monkeypatch.delenv(executions.CURRENT, raising=False)
    return folder


@pytest.fixture
def labelled():
    """q1 needs a (2) and b (1), q2 needs c; u has no answer."""
    queries = (
        Query("q1", "first?", True, "fact", "development", grades={"a": 2, "b": 1}),
        Query("q2", "second?", True, "symptom", "held-out", grades={"c": 2}),
        Query("u", "unanswerable?", False, "fact", "held-out"),
    )
    return sealed(
        LabelledSet(
            name="small",
            version="1",
            documents=(),
            queries=queries,
            chunking="document",
            highest_grade=2,
            complete=True,
        )
    )


@pytest.fixture
def evaluated(outputs, labelled):
    """Makes a finished execution: mode -> question text -> ranking as a word of letters."""

    def make(label="small", rankings=None, *, labelled=labelled, plan=PLAN, **settings):
        rankings = rankings or {"keyword": {"first?": "cab", "second?": "ca"}}
        chunks = [Chunk(name, name, "", name, f"text of {name}") for name in "abc"]
        retrievers = [Written(mode, found, settings) for mode, found in rankings.items()]
        execution = executions.create(label)
        found = evaluate_all(labelled, chunks, retrievers, plan)
        executions.save(execution, labelled, found, plan)
        executions.finish(execution, "completed")
        return execution

    return make


@pytest.fixture
def broken():
    """Rankings under which q2 fails."""
    return {"keyword": {"first?": "ab", "second?": BROKEN}}
