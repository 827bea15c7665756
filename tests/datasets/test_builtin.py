"""The built-in sets keep the shapes they promise."""

from collections import Counter

import pytest

from evalkit.datasets import load, refuse_errors
from evalkit.retrieval.chunking import cut

CHUNKING = "section-paragraphs-80w-overlap1-v1"
RELEVANT = {  # A19: ids, categories and identities of the .NET sample
    "drain-deadline": (
        "conditions",
        ["worker-shutdown#shutdown/p0", "worker-shutdown#shutdown/p1"],
    ),
    "cancel-draining": ("paraphrase", ["worker-shutdown#shutdown/p1"]),
    "shutdown-sequence": (
        "multiple-passages",
        ["worker-shutdown#shutdown/p0", "worker-shutdown#shutdown/p1"],
    ),
    "bounded-producer": ("technical-term", ["worker-shutdown#capacity/p0"]),
    "http-pooling": ("technical-term", ["http-client-lifetime#clients/p0"]),
    "retry-budget": ("conditions", ["http-request-retries#retries/p0"]),
    "restart-recovery": ("paraphrase", ["durable-work-queue#recovery/p0"]),
}


@pytest.fixture(scope="module")
def runbooks():
    """The parity set and all chunks of its documents."""
    labelled = load("runbooks")
    return labelled, cut(labelled.documents, labelled.chunking)


def test_runbooks_has_eleven_points_of_which_seven_are_eligible(runbooks):
    """A09: drafts and notes are stored, and never eligible."""
    labelled, chunks = runbooks
    eligible = [chunk for chunk in chunks if labelled.is_eligible(chunk.fields)]

    assert (len(chunks), len(eligible)) == (11, 7)
    assert Counter(chunk.document_id for chunk in eligible) == {
        "worker-shutdown": 3,
        "http-client-lifetime": 1,
        "http-request-retries": 1,
        "durable-work-queue": 1,
        "http-server-shutdown": 1,
    }
    assert {(chunk.fields["document_type"], chunk.fields["publication_state"])
            for chunk in chunks if chunk not in eligible} == {
        ("runbook", "draft"), ("note", "published"),
    }  # fmt: skip


def test_runbooks_has_the_samples_questions_and_judgments(runbooks):
    """A19, A22: seven answerable questions, listed chunks grade 2, two unsupported questions."""
    labelled, _ = runbooks
    answerable = {query.query_id: query for query in labelled.queries if query.answerable}

    assert {name: (query.category, dict(query.grades)) for name, query in answerable.items()} == {
        name: (category, {f"{key}@{CHUNKING}": 2 for key in keys})
        for name, (category, keys) in RELEVANT.items()
    }
    assert len(labelled.queries) - len(answerable) == 2
    assert labelled.complete
    assert (labelled.lowest_grade, labelled.highest_grade) == (0, 2)


def test_the_deadline_paragraph_stands_in_both_shutdown_chunks(runbooks):
    """A07: one paragraph of overlap; the last of shutdown/p0 is the first of shutdown/p1."""
    _, chunks = runbooks
    text = {chunk.doc_id: chunk.text.split("\n\n") for chunk in chunks}
    first = text[f"worker-shutdown#shutdown/p0@{CHUNKING}"]
    second = text[f"worker-shutdown#shutdown/p1@{CHUNKING}"]

    assert first[-1] == second[0]
    assert "ShutdownTimeout" in first[-1]
    assert (len(first), len(second)) == (2, 2)


def test_requirements_tell_either_chunk_from_both(runbooks):
    """drain-deadline needs one fact from either chunk, shutdown-sequence one fact from each."""
    labelled, _ = runbooks
    needs = {
        query.query_id: [need.any_of for need in query.requirements] for query in labelled.queries
    }
    p0, p1 = (f"worker-shutdown#shutdown/{part}@{CHUNKING}" for part in ("p0", "p1"))

    assert needs["drain-deadline"] == [(p0, p1)]
    assert needs["shutdown-sequence"] == [(p0,), (p1,)]


def test_the_same_chunk_id_in_two_documents_is_two_chunks(runbooks):
    """A05: shutdown/p0 of the worker and of the web server do not match."""
    _, chunks = runbooks

    assert len({chunk.doc_id for chunk in chunks if chunk.chunk_id == "shutdown/p0"}) == 3


def test_runbooks_passes_its_lint_with_one_warning(runbooks):
    """A20: sound labels; seven questions are few, and the lint says so."""
    assert [finding.message[:22] for finding in refuse_errors(*runbooks)] == [
        "7 answerable questions"
    ]
