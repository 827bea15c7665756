"""A small set every test of this room can index in milliseconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalkit.records import Chunk, Document, LabelledSet
from evalkit.retrieval.chunking import SECTIONS, cut

DOCUMENTS = (
    ("worker", "Worker", "runbook", "published", "## Drain {#drain}\nThe worker drains its queue."),
    ("retry", "Retry", "runbook", "published", "## Budget {#budget}\nRetries have a small budget."),
    (
        "pool",
        "Pool",
        "runbook",
        "published",
        "## Handlers {#handlers}\nThe factory pools handlers.",
    ),
    ("plan", "Plan", "runbook", "draft", "## Drain {#drain}\nThe worker drains its queue soon."),
    ("memo", "Memo", "note", "published", "## Drain {#drain}\nThe worker queue was drained."),
)


@pytest.fixture
def labelled() -> LabelledSet:
    """Five documents, three of them eligible."""
    documents = tuple(
        Document(name, title, text, {"document_type": kind, "publication_state": state})
        for name, title, kind, state, text in DOCUMENTS
    )
    return LabelledSet(
        name="small",
        version="1",
        documents=documents,
        queries=(),
        chunking=SECTIONS,
        highest_grade=2,
        language="en",
        eligibility={"document_type": "runbook", "publication_state": "published"},
    )


@pytest.fixture
def chunks(labelled: LabelledSet) -> list[Chunk]:
    """One chunk a document."""
    return cut(labelled.documents, SECTIONS)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The folder that holds collections and cache."""
    return tmp_path / "outputs"
