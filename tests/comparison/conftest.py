"""Executions written by hand: a value a question, and the inputs of a real one."""

from __future__ import annotations

import copy

import pandas as pd
import pytest

from evalkit import executions

INPUTS = {
    "set": {
        "name": "handbook",
        "version": "1",
        "fingerprints": {"corpus": "c1", "queries": "q1", "judgments": "j1"},
    },
    "chunking": "sections-v1",
    "eligibility": {"document_type": "procedure"},
    "scoring": {"cutoffs": [1, 5], "metrics": ["nDCG"], "policy": {"gain": "exp2"}},
    "embedder": {"name": "embedded", "digest": "d1", "dimension": 384},
    "retrieval": {
        "keyword": {"axis": "bm25", "k1": 1.2, "chunks": 200},
        "semantic": {
            "axis": "cosine",
            "exact": False,
            "collection": "handbook-embedded-d1",
            "filter": {"chunking_version": "sections-v1"},
        },
    },
}


@pytest.fixture
def inputs():
    """The inputs every execution has, unless a test says otherwise."""
    return copy.deepcopy(INPUTS)


@pytest.fixture
def changed(inputs):
    """The inputs with some leaves, named by their dotted paths, set to other values."""

    def change(values):
        found = copy.deepcopy(inputs)
        for path, value in values.items():
            *parents, last = path.split(".")
            place = found
            for name in parents:
                place = place[name]
            place[last] = value
        return found

    return change


@pytest.fixture
def outputs(tmp_path, monkeypatch):
    """An empty store."""
    monkeypatch.setenv("EVALKIT_OUTPUTS", str(tmp_path))
    return tmp_path


@pytest.fixture
def execution(outputs):
    """Writes an execution: mode -> question -> value of nDCG@5, or metric -> value."""

    def write(label, values, *, inputs=INPUTS, categories=None, rankings=None, unanswered=()):
        made = executions.create(label)
        made.record_inputs(**inputs)
        results, outcomes = [], []
        for mode, by_question in values.items():
            for query_id, value in by_question.items():
                metrics = value if isinstance(value, dict) else {"nDCG": value}
                results += [(mode, query_id, name, "5", each) for name, each in metrics.items()]
            for query_id in [*by_question, *unanswered]:
                category = (categories or {}).get(query_id, "fact")
                failed = query_id not in by_question
                status, reason = ("failed", "no vector") if failed else ("scored", "")
                text = f"Where is {query_id}?"
                outcomes.append((mode, query_id, text, category, True, status, reason))
        made.write_frame(
            "results",
            pd.DataFrame(results, columns=["mode", "query_id", "metric", "cutoff", "value"]),
        )
        columns = ["mode", "query_id", "text", "category", "answerable", "status", "reason"]
        made.write_frame("outcomes", pd.DataFrame(outcomes, columns=columns))
        for mode in values:
            rows = [
                (query_id, rank, doc_id, grade)
                for query_id, hits in (rankings or {}).items()
                for rank, (doc_id, grade) in enumerate(hits, start=1)
            ]
            frame = pd.DataFrame(rows, columns=["query_id", "rank", "doc_id", "grade"])
            made.write_frame(f"evidence-{mode}", frame.astype({"grade": "Int64"}))
        executions.finish(made, "completed")
        return made

    return write


@pytest.fixture
def pair(execution):
    """Two sides of one mode from two lists of values, one a question."""
    from evalkit.comparison import Side

    def write(old, new, **options):
        sides = []
        for label, values in (("old", old), ("new", new)):
            if not isinstance(values, dict):
                values = {f"q{number:03d}": value for number, value in enumerate(values)}
            sides.append(Side(execution(label, {"semantic": values}, **options), "semantic"))
        return sides

    return write
