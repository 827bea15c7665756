"""Exports: Mixpeek's evaluation record and aieval's result store, field by field."""

import json
from dataclasses import replace

import pytest

from evalkit import executions
from evalkit.datasets.native import sealed
from evalkit.errors import ExecutionError, ParameterError
from evalkit.records import Query


def test_metrics_stand_flat_and_by_k(evaluated, labelled):
    """q1 (c, a) and q2 (c): precision@1 1/2, recall@2 3/4, mrr@2 (1/2 + 1)/2, by hand (B07)."""
    record = executions.mixpeek(evaluated(), labelled, "keyword")

    assert record["metrics_by_k"]["1"]["precision"] == (0 + 1) / 2
    assert record["metrics_by_k"]["2"]["recall"] == (1 / 2 + 1) / 2
    assert record["metrics_by_k"]["2"]["mrr"] == (1 / 2 + 1) / 2
    assert list(record["metrics_by_k"]) == ["1", "2"]
    assert record["overall_metrics"]["recall_at_2"] == record["metrics_by_k"]["2"]["recall"]
    assert set(record["metrics_by_k"]["2"]) == {"precision", "recall", "mrr", "ndcg"}


def test_one_entry_a_question_under_the_keys_of_the_whole(evaluated, labelled):
    """Each entry's metrics have the keys of overall_metrics, so slices can be averaged (B17)."""
    record = executions.mixpeek(evaluated(), labelled, "keyword")
    first, second = record["query_results"]

    assert [first["query_id"], second["query_id"]] == ["q1", "q2"]
    assert set(first["metrics"]) == set(record["overall_metrics"])
    assert first["query_input"] == {"text": "first?"}
    assert [first["relevant_count"], second["relevant_count"]] == [2, 1]
    assert first["retrieved_count"] == 2
    mean = (first["metrics"]["ndcg_at_2"] + second["metrics"]["ndcg_at_2"]) / 2
    assert mean == pytest.approx(record["overall_metrics"]["ndcg_at_2"])


def test_counts_and_the_actual_error(evaluated, labelled, broken):
    """2 = 1 evaluated + 1 skipped; the skipped one carries its own reason and no scores (B14)."""
    record = executions.mixpeek(evaluated(rankings=broken), labelled, "keyword")
    counts = [record[f"{name}_queries"] for name in ("total", "evaluated", "skipped")]
    failed = record["query_results"][1]

    assert counts == [2, 1, 1]
    assert record["unsupported_queries"] == 1
    assert failed["status"] == "skipped"
    assert failed["error"] == "failed: no vector for this question"
    assert "metrics" not in failed
    assert record["status"] == "failed"
    assert record["error_message"] == "1 queries have no scores: q2"


def test_an_evaluation_of_nothing_failed_and_has_no_zeros(evaluated, labelled, broken):
    """Every question failed: status failed, no metric at all, never a column of zeros (B15)."""
    rankings = {"keyword": dict.fromkeys(["first?", "second?"], broken["keyword"]["second?"])}
    record = executions.mixpeek(evaluated(rankings=rankings), labelled, "keyword")

    assert record["status"] == "failed"
    assert record["overall_metrics"] == record["metrics_by_k"] == {}


def test_no_hits_is_evaluated_with_zeros(evaluated, labelled):
    """q2 returned nothing: evaluated, 0, and part of the mean; the evaluation completed."""
    record = executions.mixpeek(
        evaluated(rankings={"keyword": {"first?": "ab"}}), labelled, "keyword"
    )

    assert record["status"] == "completed"
    assert record["query_results"][1]["metrics"]["recall_at_2"] == 0
    assert record["metrics_by_k"]["2"]["recall"] == (1 + 0) / 2


def test_an_execution_at_work_is_in_progress(evaluated, labelled):
    """Not finished: in_progress, whatever it has so far (B05)."""
    made = evaluated()
    made.record(lambda manifest: manifest.update(status="in_progress"))

    assert executions.mixpeek(made, labelled, "keyword")["status"] == "in_progress"


def test_the_record_is_json(evaluated, labelled):
    """Every value is a plain one: json writes it, refuses no NaN, and reads it back equal."""
    record = executions.mixpeek(evaluated(), labelled, "keyword")

    assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_another_version_of_the_set_is_refused(evaluated, labelled):
    """Relevant counts of today's labels beside yesterday's scores would be another evaluation."""
    changed = replace(labelled, queries=(Query("q1", "other?", True, grades={"a": 1}),))

    with pytest.raises(ExecutionError, match="fingerprints differ"):
        executions.mixpeek(evaluated(), sealed(changed), "keyword")


def stored(folder):
    return {
        path.relative_to(folder).as_posix(): json.loads(path.read_text(encoding="utf-8"))
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_one_file_a_question_and_depth(evaluated, labelled, tmp_path):
    """results/<execution>/<scenario>/<iteration>.json, scenarios by depth, category, id (A50)."""
    made = evaluated()
    target = executions.write_aieval(made, labelled, "keyword", tmp_path / "store")

    assert target == tmp_path / "store" / "results" / f"{made.name}-keyword"
    assert set(stored(target)) == {
        "Retrieval.K1.fact.q1/1.json",
        "Retrieval.K2.fact.q1/1.json",
        "Retrieval.K1.symptom.q2/1.json",
        "Retrieval.K2.symptom.q2/1.json",
    }
    assert [path.name for path in (tmp_path / "store").iterdir()] == ["results"]


def test_a_scenario_has_the_fields_aieval_reads(evaluated, labelled, tmp_path):
    """Names, times, messages, typed metrics with their context, tags, format version (A53)."""
    made = evaluated()
    target = executions.write_aieval(made, labelled, "keyword", tmp_path)
    record = stored(target)["Retrieval.K2.fact.q1/1.json"]

    assert record["scenarioName"] == "Retrieval.K2.fact.q1"
    assert record["iterationName"] == "1"
    assert record["executionName"] == target.name
    assert record["creationTime"] == made.manifest["ended"]
    assert record["formatVersion"] == 1
    assert record["messages"] == [
        {"role": "user", "contents": [{"$type": "text", "text": "first?"}]}
    ]
    assert record["modelResponse"]["messages"][0]["role"] == "assistant"
    assert record["tags"] == ["keyword", "fact", "development", "small 1"]
    metric = record["evaluationResult"]["metrics"]["Recall@2"]
    assert [metric["$type"], metric["name"], metric["value"]] == ["numeric", "Recall@2", 1 / 2]
    assert metric["reason"] == "Scored 2 results at K=2."
    context = metric["context"]["RetrievalRanking"]
    evidence = json.loads(context["contents"][0]["text"])
    assert [hit["key"] for hit in evidence["evidence"]] == ["c", "a"]
    assert evidence["judgments"] == [{"key": "a", "grade": 2}, {"key": "b", "grade": 1}]


def test_nulls_are_left_out(evaluated, labelled, tmp_path):
    """No property is null outside of the evidence's own text (A50)."""
    target = executions.write_aieval(evaluated(), labelled, "keyword", tmp_path)

    for record in stored(target).values():
        assert ": null" not in json.dumps(record)


def test_a_failed_question_is_an_error_and_not_a_value(evaluated, labelled, tmp_path, broken):
    """Its metrics have no value, an error diagnostic, and an interpretation that failed (A60)."""
    target = executions.write_aieval(evaluated(rankings=broken), labelled, "keyword", tmp_path)
    metrics = stored(target)["Retrieval.K1.symptom.q2/1.json"]["evaluationResult"]["metrics"]

    assert set(metrics) == {"Precision@1", "Recall@1", "ReciprocalRank@1", "nDCG@1"}
    for metric in metrics.values():
        assert "value" not in metric
        assert metric["interpretation"]["failed"] is True
        assert metric["diagnostics"] == [
            {"severity": "error", "message": "failed: no vector for this question"}
        ]


def test_a_scenario_is_written_once(evaluated, labelled, tmp_path):
    """A second export into the same store is refused, and the first stays as it is (A52)."""
    made = evaluated()
    target = executions.write_aieval(made, labelled, "keyword", tmp_path)
    before = stored(target)

    with pytest.raises(ExecutionError, match="written once"):
        executions.write_aieval(made, labelled, "keyword", tmp_path)
    assert stored(target) == before


@pytest.mark.parametrize("name", ["a/b", "..\\b", "a:b", "b\x00", "q "])
def test_a_name_that_is_no_folder_is_refused_before_anything_is_written(
    outputs, labelled, evaluated, tmp_path, name
):
    """A question id with a separator could leave the store; it is never altered (A51)."""
    query = replace(labelled.queries[0], query_id=name)
    odd = sealed(replace(labelled, queries=(query,)))
    made = evaluated(labelled=odd)

    with pytest.raises(ParameterError, match="cannot be the name of a folder"):
        executions.write_aieval(made, odd, "keyword", tmp_path / "store")
    assert not (tmp_path / "store").exists()
