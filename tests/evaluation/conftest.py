"""Four chunks, three questions, and a retriever that answers what a test wrote down."""

from __future__ import annotations

import pytest

from evalkit.records import Chunk, Hit, LabelledSet, Query, Requirement

RUNBOOK, NOTE = {"document_type": "runbook"}, {"document_type": "note"}


class Written:
    """A retriever whose rankings are written down: question text -> doc_ids, or an error."""

    mode = "written"
    axis = "made up"

    def __init__(self, rankings, depths=None):
        self.rankings = rankings
        self.depths = depths or {}
        self.asked = []

    def search(self, questions, k):
        self.asked.append((list(questions), k))
        found = []
        for text in questions:
            ranking = self.depths.get((text, k), self.rankings.get(text, []))
            if isinstance(ranking, Exception):
                raise ranking
            hits = [
                Hit(doc_id, 1.0 - rank / 10, rank, f"text of {doc_id}", {"title": "T"})
                for rank, doc_id in enumerate(ranking[:k], start=1)
            ]
            found.append(hits)
        return found

    def describe(self):
        return {"mode": self.mode, "axis": self.axis}


@pytest.fixture
def written():
    """Makes such a retriever."""
    return Written


@pytest.fixture
def chunks():
    """a, b, c and e are runbooks; d is a note and may not be retrieved."""
    kinds = {"a": RUNBOOK, "b": RUNBOOK, "c": RUNBOOK, "e": RUNBOOK, "d": NOTE}
    return [Chunk(name, name, "p0", name, f"text of {name}", kind) for name, kind in kinds.items()]


@pytest.fixture
def labelled():
    """q1 needs a (2) and b (1), q2 needs c and either of a and b, u has no answer."""
    facts = (Requirement("one", ("c",)), Requirement("two", ("a", "b")))
    queries = (
        Query("q1", "first?", True, "fact", "development", grades={"a": 2, "b": 1}),
        Query("q2", "second?", True, "condition", "held-out", "t", {"c": 2, "a": 1, "b": 1}, facts),
        Query("u", "unanswerable?", False, "fact", "held-out"),
    )
    return LabelledSet(
        name="small",
        version="1",
        documents=(),
        queries=queries,
        chunking="v1",
        highest_grade=2,
        complete=True,
        eligibility=RUNBOOK,
    )
