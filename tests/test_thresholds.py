"""Thresholds from stored executions: splits, axes, promises, and what is kept apart."""

import numpy as np
import pandas as pd
import pytest

from evalkit import thresholds
from evalkit.errors import ExecutionError, ParameterError
from evalkit.records import LabelledSet, Query


class Stored:
    """An execution as far as thresholds read it: frames and inputs, without a folder."""

    name = "stored"

    def __init__(self, scores, axis="cosine"):
        rows = [(query_id, "d#s/p0@v", 1, score) for query_id, score in scores.items() if score]
        self.run = pd.DataFrame(rows, columns=["query_id", "doc_id", "rank", "score"])
        self.scores = scores
        self.inputs = {
            "scoring": {"cutoffs": [1]},
            "retrieval": {"semantic": {"axis": axis}},
        }

    def read_frame(self, name):
        if name.startswith("run-"):
            return self.run
        return pd.DataFrame(
            [
                {
                    "mode": "semantic",
                    "query_id": query_id,
                    "answerable": query_id.startswith("a"),
                    "status": "scored" if score else "zero_hit",
                    "hits": 1 if score else 0,
                }
                for query_id, score in self.scores.items()
            ]
        )


def labelled(query_ids, splits=("development", "held-out")):
    queries = [
        Query(
            query_id,
            f"question {query_id}",
            query_id.startswith("a"),
            split=splits[number % len(splits)],
            grades={"d#s/p0@v": 2} if query_id.startswith("a") else {},
        )
        for number, query_id in enumerate(query_ids)
    ]
    return LabelledSet("small", "1", (), tuple(queries), "v", 2)


def separable(n=80):
    """Answerable questions score 0.6 to 0.9, unsupported ones 0.1 to 0.4."""
    spread = np.linspace(0, 0.3, n)
    scores = {f"a{i}": 0.6 + float(s) for i, s in enumerate(spread)}
    return scores | {f"u{i}": 0.1 + float(s) for i, s in enumerate(spread)}


def asked(scores, **options):
    return thresholds.answering(
        Stored(scores), labelled(scores, **options), "semantic", "top score"
    )


def test_development_chooses_and_held_out_reports():
    """Every second question is held out; a threshold in the gap errs on neither half (by hand)."""
    found = asked(separable())
    tuned = thresholds.choose(found, "ceiling", 0.1, 0.05)
    report = thresholds.report(tuned, found, seed=0).set_index(["questions", "name"])

    assert "40 answerable and 40 unsupported questions (development)" in found.sentence
    assert 0.4 < tuned.threshold < 0.6
    assert report.loc[("held out", "false acceptance"), "value"] == 0
    assert report.loc[("held out", "false abstention"), "total"] == 40


def test_a_set_without_splits_is_no_fair_report():
    """All questions choose, none reports, and the sentence says so."""
    found = asked(separable(), splits=("",))
    tuned = thresholds.choose(found, "ceiling", 0.1, 0.05)

    assert found.held_out is None
    assert "no held-out split" in found.sentence
    assert set(thresholds.report(tuned, found, seed=0)["questions"]) == {"chosen on"}
    assert "no optimism" in thresholds.optimism_sentence(tuned, found, seed=0)


def test_an_unsupported_question_without_hits_tests_the_filter():
    """It is counted apart and no threshold is credited with refusing it."""
    scores = separable() | {"u-nothing-eligible": 0.0}
    found = asked(scores)

    assert found.without_hits == 1
    assert len(found.everything.frame) == 160
    assert "1 unsupported questions returned nothing at all" in found.sentence


def test_a_promise_needs_enough_unsupported_questions():
    """28 cannot promise 0.1 at 0.05 (0.9^28 = 0.052 > 0.05), 29 can (0.9^29 = 0.047), by hand."""
    few, enough = (thresholds.promise(asked(separable(n)), 0.1, 0.05) for n in (28, 29))

    assert few.operating.threshold is None
    assert "29 unsupported questions would be needed" in thresholds.promise_sentences(few)[1]
    assert enough.operating.threshold is not None


def test_noise_gets_no_threshold():
    """Equal scores on both sides: NOT SEPARABLE in words, and nothing is recommended."""
    spread = {f"a{i}": 0.5 + i / 1000 for i in range(60)}
    found = asked(spread | {f"u{i}": 0.5 + i / 1000 for i in range(60)})
    tuned = thresholds.choose(found, "ceiling", 0.1, 0.05)

    assert tuned.verdict == "NOT SEPARABLE"
    assert tuned.threshold is None
    assert thresholds.band_sentence(tuned, found, seed=0).startswith("There is no threshold")


@pytest.mark.parametrize(
    ("mode", "signal", "said"),
    [("keyword", "top score", "was not evaluated"), ("semantic", "length", "choose one of")],
)
def test_what_was_not_evaluated_is_refused(mode, signal, said):
    """An unknown mode or signal is an error that names those there are."""
    scores = separable(4)
    with pytest.raises(ParameterError, match=said):
        thresholds.answering(Stored(scores), labelled(scores), mode, signal)


def test_a_sweep_needs_scores_that_no_threshold_cut():
    """An execution asked with min_score is refused: what lies below has no score to judge."""
    scores = separable(4)
    stored = Stored(scores)
    stored.inputs["retrieval"]["semantic"]["score_threshold"] = 0.4

    with pytest.raises(ExecutionError, match=r"asked with min_score 0\.4"):
        thresholds.answering(stored, labelled(scores), "semantic", "top score")


def test_another_set_is_refused():
    """Stored rankings of other questions are not scored under this set's labels."""
    scores = separable(4)
    with pytest.raises(ExecutionError, match="did not ask the questions of small"):
        thresholds.answering(Stored(scores), labelled([*scores, "a9"]), "semantic", "top score")


def test_the_record_is_plain_json():
    """What 04 reads back holds no infinity and no nan."""
    import json

    found = asked(separable(6))
    tuned = thresholds.choose(found, "equal error", 0.1, 0.05)
    promised = thresholds.promise(found, 0.1, 0.05)
    record = thresholds.record(tuned, promised, thresholds.report(tuned, found, seed=0))

    assert json.loads(json.dumps(record, allow_nan=False)) == record
