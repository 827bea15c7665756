"""Questions asked and scored: five outcomes that never mix, and rankings nobody can score."""

from dataclasses import replace
from math import log2

import pytest

from evalkit import evaluation
from evalkit.errors import (
    EligibilityError,
    EmbeddingError,
    EngineUnavailableError,
    ParameterError,
    RetrievalError,
    SkippedQueryError,
)
from evalkit.evaluation import Plan
from evalkit.records import Query

PLAN = Plan(cutoffs=(1, 2))


def value(found, query_id, metric, cutoff):
    rows = found.results
    at = (rows["query_id"] == query_id) & (rows["metric"] == metric) & (rows["cutoff"] == cutoff)
    return rows.loc[at, "value"].item()


def outcome(found, query_id):
    return found.outcomes.set_index("query_id").loc[query_id]


def test_values_come_from_the_rankings_as_returned(labelled, chunks, written):
    """First a wrong chunk, then a (grade 2) of a and b: 1/2, 1/2, 1/2, by hand for nDCG."""
    asked = written({"first?": ["c", "a"], "second?": ["a", "c"], "unanswerable?": ["b"]})
    found = evaluation.evaluate(labelled, chunks, asked, PLAN)

    assert value(found, "q1", "Precision", "2") == 1 / 2
    assert value(found, "q1", "Recall", "2") == 1 / 2
    assert value(found, "q1", "ReciprocalRank", "2") == 1 / 2
    assert value(found, "q1", "ReciprocalRank", "1") == 0
    ideal = 3 / log2(2) + 1 / log2(3)
    assert value(found, "q1", "nDCG", "2") == pytest.approx((3 / log2(3)) / ideal)
    assert found.run[["query_id", "doc_id", "rank"]].values.tolist() == [
        ["q1", "c", 1],
        ["q1", "a", 2],
        ["q2", "a", 1],
        ["q2", "c", 2],
        ["u", "b", 1],
    ]


def test_facts_are_counted_beside_chunks(labelled, chunks, written):
    """q2 after one chunk: one of two facts; after two: both, though not every chunk (by hand)."""
    asked = written({"second?": ["a", "c"]})
    found = evaluation.evaluate(labelled, chunks, asked, PLAN)

    assert value(found, "q2", "RequirementRecall", "1") == 1 / 2
    assert value(found, "q2", "CompleteAnswer", "1") == 0
    assert value(found, "q2", "CompleteAnswer", "2") == 1
    assert value(found, "q2", "Recall", "2") == 2 / 3
    assert outcome(found, "q2")["complete"]


def test_a_missing_expected_chunk_lowers_recall_and_not_the_denominator(labelled, chunks, written):
    """b was never indexed: recall of q1 is 1 of 2 with a found, never 1 of 1 (A21)."""
    indexed = [chunk for chunk in chunks if chunk.doc_id != "b"]
    found = evaluation.evaluate(labelled, indexed, written({"first?": ["a", "c"]}), PLAN)

    assert value(found, "q1", "Recall", "2") == 1 / 2


def test_no_hits_is_an_outcome_of_its_own_that_scores_0(labelled, chunks, written):
    """q1 returned nothing: zero_hit and every value 0; it is not failed and not left out."""
    found = evaluation.evaluate(labelled, chunks, written({"second?": ["c"]}), PLAN)

    assert outcome(found, "q1")["status"] == "zero_hit"
    assert value(found, "q1", "Recall", "2") == 0
    assert value(found, "q1", "nDCG", "1") == 0
    assert evaluation.counts(found.outcomes) == {
        "scored": 1,
        "zero_hit": 2,
        "skipped": 0,
        "failed": 0,
        "not_run": 0,
    }


def test_an_unsupported_question_is_asked_and_never_scored(labelled, chunks, written):
    """u has an outcome with its top score, and no row among the values."""
    found = evaluation.evaluate(labelled, chunks, written({"unanswerable?": ["b"]}), PLAN)

    assert outcome(found, "u")["status"] == "scored"
    assert outcome(found, "u")["top_score"] == pytest.approx(0.9)
    assert "u" not in set(found.results["query_id"])


def test_a_failed_question_keeps_its_reason_and_the_rest_their_values(labelled, chunks, written):
    """One bad question in a batch: the others are asked alone and scored as if it were not there.

    It has no values at all: a 0 would say that the retriever answered wrongly.
    """
    asked = written({"first?": EmbeddingError("not finite"), "second?": ["c", "a"]})
    found = evaluation.evaluate(labelled, chunks, asked, PLAN)

    assert list(outcome(found, "q1")[["status", "reason"]]) == ["failed", "not finite"]
    assert value(found, "q2", "Recall", "2") == 2 / 3
    assert set(found.results["query_id"]) == {"q2"}
    assert evaluation.status(found.outcomes) == "failed"


def test_a_skipped_question_has_no_values_and_fails_nothing(labelled, chunks, written):
    """It could not be asked: skipped with its reason, never failed, never a 0."""
    asked = written({"first?": SkippedQueryError("no result has it"), "second?": ["c"]})
    found = evaluation.evaluate(labelled, chunks, asked, PLAN)

    assert list(outcome(found, "q1")[["status", "reason"]]) == ["skipped", "no result has it"]
    assert set(found.results["query_id"]) == {"q2"}
    assert evaluation.status(found.outcomes) == "completed"


@pytest.mark.parametrize("error", [EligibilityError, EngineUnavailableError])
def test_a_broken_filter_or_a_missing_engine_stops_everything(labelled, chunks, written, error):
    """Neither is one question's bad luck: no evaluation comes back at all."""
    with pytest.raises(error, match="d came back"):
        evaluation.evaluate(labelled, chunks, written({"second?": error("d came back")}), PLAN)


def test_an_error_nobody_expected_is_not_swallowed(labelled, chunks, written):
    """Only retrieval errors belong to a question; a bug in a retriever ends the evaluation."""
    with pytest.raises(ZeroDivisionError):
        evaluation.evaluate(labelled, chunks, written({"first?": ZeroDivisionError()}), PLAN)


def test_a_ranking_with_one_chunk_twice_fails_and_names_it(labelled, chunks, written):
    """Counting a relevant chunk twice would give a recall above 1 (beyond.md 14)."""
    found = evaluation.evaluate(labelled, chunks, written({"first?": ["a", "a"]}), PLAN)

    assert outcome(found, "q1")["status"] == "failed"
    assert outcome(found, "q1")["reason"] == "returned a more than once"


@pytest.mark.parametrize("stranger", ["d", "x"])
def test_a_complete_set_does_not_score_a_chunk_outside_its_corpus(
    labelled, chunks, written, stranger
):
    """d is not eligible and x unknown: no grade can be 0 for a chunk nobody judged."""
    asked = written({"first?": ["a", stranger], "second?": ["c"]})
    found = evaluation.evaluate(labelled, chunks, asked, PLAN)

    assert outcome(found, "q1")["status"] == "failed"
    assert outcome(found, "q1")["reason"].startswith(f"returned {stranger}, which is not in")
    assert set(found.results["query_id"]) == {"q2"}


def test_an_incomplete_set_leaves_such_a_chunk_unjudged(labelled, chunks, written):
    """Without the claim of completeness x has no grade: evidence shows none, the value stands."""
    incomplete = replace(labelled, complete=False)
    found = evaluation.evaluate(incomplete, chunks, written({"first?": ["a", "x"]}), PLAN)

    assert outcome(found, "q1")["status"] == "scored"
    grades = found.evidence.set_index("doc_id")["grade"]
    assert grades["a"] == 2
    assert grades.isna()["x"]


def test_each_cutoff_is_a_query_of_its_own(labelled, chunks, written):
    """Values @1 come from the ranking asked with k = 1, also where the deeper one begins otherwise.

    An approximate index may answer so; the outcome then says that the prefix is not stable.
    """
    asked = written({"first?": ["c", "a"]}, {("first?", 1): ["a"]})
    found = evaluation.evaluate(labelled, chunks, asked, PLAN)

    assert value(found, "q1", "Precision", "1") == 1
    assert value(found, "q1", "Precision", "2") == 1 / 2
    assert not outcome(found, "q1")["prefix_stable"]
    assert outcome(found, "q2")["prefix_stable"]
    assert "1 questions changed with the depth (q1)" in evaluation.prefix_sentence([found])


def test_after_the_deadline_questions_are_not_run_and_say_so(labelled, chunks, written):
    """A deadline that has passed: every question is not_run, the evaluation failed, no values."""
    found = evaluation.evaluate(labelled, chunks, written({}), replace(PLAN, deadline_s=-1.0))

    assert set(found.outcomes["status"]) == {"not_run"}
    assert outcome(found, "q1")["reason"] == "the deadline of -1 s passed before it was asked"
    assert found.results.empty
    assert evaluation.status(found.outcomes) == "failed"


def test_what_was_asked_before_the_deadline_keeps_its_values(
    labelled, chunks, written, monkeypatch
):
    """The clock jumps past the deadline after the first batch of 64: 64 asked, the rest not run."""
    from evalkit.evaluation import asking

    queries = tuple(Query(f"q{n}", f"{n}?", True, grades={"a": 1}) for n in range(70))
    clock = iter([0.0, 1.0, 601.0])
    monkeypatch.setattr(asking.time, "monotonic", lambda: next(clock))
    asked = written({f"{n}?": ["a"] for n in range(70)})
    found = evaluation.evaluate(replace(labelled, queries=queries), chunks, asked, PLAN)

    assert evaluation.counts(found.outcomes) == {
        "scored": 64,
        "zero_hit": 0,
        "skipped": 0,
        "failed": 0,
        "not_run": 6,
    }
    assert found.results["query_id"].nunique() == 64


def test_progress_counts_questions(labelled, chunks, written):
    """Three questions in one batch: one report, 3 of 3."""
    told = []
    evaluation.evaluate(labelled, chunks, written({}), PLAN, lambda *done: told.append(done))

    assert told == [(3, 3)]


def test_a_retriever_with_too_few_answers_is_refused(labelled, chunks, written):
    """Three questions, two rankings: pairing them up by position would score the wrong ones."""
    asked = written({})
    asked.search = lambda questions, k: [[]] * (len(questions) - 1)

    with pytest.raises(ValueError, match="shorter"):
        evaluation.evaluate(labelled, chunks, asked, PLAN)


@pytest.mark.parametrize("cutoffs", [(), (0,), (1, 1), (-5,)])
def test_cutoffs_are_distinct_depths_from_1(cutoffs):
    """No depth, depth 0 and a depth twice are refused before anything is asked."""
    with pytest.raises(ParameterError, match="distinct depths"):
        Plan(cutoffs=cutoffs)


def test_ceilings_are_the_best_any_ranking_could_do(labelled):
    """By hand: q1 has 2 relevant chunks, q2 has 3; 1 chunk can hold 1 of the 2 facts of q2."""
    frame = evaluation.ideal(labelled, Plan(cutoffs=(1, 3)))
    best = frame.set_index(["query_id", "metric", "cutoff"])["value"].to_dict()

    assert best["q1", "Precision", "3"] == pytest.approx(2 / 3)
    assert best["q1", "Recall", "1"] == 1 / 2
    assert best["q2", "Recall", "1"] == 1 / 3
    assert best["q2", "Recall", "3"] == 1
    assert best["q1", "nDCG", "3"] == pytest.approx(1)
    assert best["q2", "RequirementRecall", "1"] == 1 / 2
    assert best["q2", "CompleteAnswer", "1"] == 0
    assert best["q2", "CompleteAnswer", "3"] == 1
    assert ("q1", "CompleteAnswer", "3") not in best


def test_one_retriever_after_the_other(labelled, chunks, written):
    """Each has its frames and its name; a line of progress is made for each."""
    lines = []
    first, second = written({}), written({"first?": ["a"]})
    second.mode = "other"
    found = evaluation.evaluate_all(
        labelled,
        chunks,
        [first, second],
        PLAN,
        lambda text: lines.append(text) or (lambda *_: None),
    )

    assert [each.mode for each in found] == ["written", "other"]
    assert lines == ["Asking (written)", "Asking (other)"]
    assert [len(each.run) for each in found] == [0, 1]


def test_a_shorter_ranking_with_a_duplicate_fails_too(labelled, chunks, written):
    """Each depth is scored from its own ranking, so each is checked: a, a at 2 but not at 3."""
    asked = written({"first?": ["a", "c"]}, {("first?", 2): ["a", "a"]})
    found = evaluation.evaluate(labelled, chunks, asked, Plan(cutoffs=(2, 3)))

    assert outcome(found, "q1")["reason"] == "returned a more than once"


def test_retrieval_errors_are_one_family():
    """What a question may fail of is a RetrievalError (by definition)."""
    assert issubclass(EmbeddingError, RetrievalError)
