"""Small inputs from public bug reports, each with its right value; tests/data/cases says why."""

import json
from pathlib import Path

import numpy as np
import pytest

from evalkit.errors import EvalkitError, MetricError
from evalkit.metrics import (
    PRESETS,
    average,
    best_chunk_by_document,
    evaluate,
    grade_run,
    is_coarse,
    parse_metric,
    tie_across,
    tie_range,
    tied,
    unjudged_range,
    value,
)
from evalkit.metrics.policy import MetricPolicy

FOLDER = Path(__file__).parents[1] / "data/cases"
CASES = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for kind in ("metrics", "ties", "unjudged", "scale")
    for path in sorted((FOLDER / kind).glob("*.json"))
}
TREC = PRESETS["trec_eval"]  # the convention the cases are written in
VALUED = [
    case
    for case in CASES.values()
    if "per_query" in case["expected"]
    and "run" in case["input"]
    and "errors" not in case["expected"]
]


@pytest.mark.parametrize("case", VALUED, ids=[case["id"] for case in VALUED])
def test_values_of_the_case(grade, case):
    """Each question has the values of the report, and no other question is scored."""
    expected = case["expected"]["per_query"]
    names = list(next(iter(expected.values())))
    values = grade(case["input"]["run"], case["input"]["qrels"], names, TREC)

    assert set(values) == set(expected)
    for query, of in expected.items():
        assert values[query] == pytest.approx(of, abs=case["tolerance"]), query


MEANS = [case for case in VALUED if "mean" in case["expected"]]


@pytest.mark.parametrize("case", MEANS, ids=[case["id"] for case in MEANS])
def test_means_of_the_case(case):
    """The mean counts every judged question, and only those."""
    expected = case["expected"]
    metrics = {name: parse_metric(name, TREC) for name in expected["mean"]}
    found = grade_run(case["input"]["run"], case["input"]["qrels"], [*metrics.values()])

    for name, metric in metrics.items():
        mean = average(metric, found.values.values())
        assert mean.value == pytest.approx(expected["mean"][name], abs=1e-9)
        assert mean.count == expected["queries_counted"]
    assert list(found.missing) == expected.get("missing", list(found.missing))
    assert list(found.unjudged) == expected.get("unjudged", [])


def given(name):
    case = CASES[name]
    return case["input"], case["expected"]


def test_f_of_means_is_another_metric_under_another_name():
    """metrics-mean-f1-vs-f1-of-means: 0.4 is the mean F1; 0.625 prints as F1_ofmeans."""
    inputs, expected = given("metrics-mean-f1-vs-f1-of-means")
    metrics = [parse_metric(name, TREC) for name in ("P", "R", "F1_ofmeans")]
    values = grade_run(inputs["run"], inputs["qrels"], metrics).values.values()

    assert average(metrics[2], values).value == pytest.approx(expected["f1_of_means"])
    assert str(metrics[2]) == "F1_ofmeans"

    run = {query: dict(rows) for query, rows in inputs["run"].items()}
    means = evaluate(run, inputs["qrels"], ["F1", "F1_ofmeans"], policy=TREC).means()
    assert means["F1"].value == pytest.approx(expected["mean"]["F1"])
    assert means["F1_ofmeans"].value == pytest.approx(expected["f1_of_means"])


def test_recall_is_never_capped():
    """metrics-recall-more-relevant-than-k: there is no name that divides by min(k, relevant)."""
    with pytest.raises(EvalkitError, match="no metric 'R_cap@5'"):
        parse_metric("R_cap@5")


def test_missing_questions_can_be_left_out_by_name():
    """unjudged-query-missing-from-run: over the intersection the means are those of trec_eval."""
    inputs, expected = given("unjudged-query-missing-from-run")
    policy = MetricPolicy(gain="linear", missing_query="skip")
    metrics = {name: parse_metric(name, policy) for name in expected["mean_over_intersection"]}
    values = grade_run(inputs["run"], inputs["qrels"], [*metrics.values()]).values

    assert set(values) == {"q1", "q3"}
    for name, metric in metrics.items():
        mean = average(metric, values.values()).value
        assert mean == pytest.approx(expected["mean_over_intersection"][name])


def test_other_tie_rules_are_other_orders(grade):
    """ties-docid-order: under `as_returned` the order given decides, whatever the ids are."""
    inputs, expected = given("ties-docid-order")
    policy = MetricPolicy(gain="linear")
    values = grade(inputs["run"], inputs["qrels"], inputs["metrics"], policy)

    assert values == {"q1": pytest.approx(expected["other_rules"]["input"]["q1"])}


def test_range_over_tied_orders():
    """ties-across-cutoff: the range says what luck could have made of the value."""
    inputs, expected = given("ties-across-cutoff")
    run = [tuple(row) for row in inputs["run"]["q1"]]
    scores = [score for _, score in run]

    assert tied(scores) == [(2, 3)]
    assert tie_across(scores, 2) and not tie_across(scores, 1) and not tie_across(scores, 3)
    for name, limits in expected["range_over_tied_orders"].items():
        found = tie_range(parse_metric(name, TREC), run, inputs["qrels"]["q1"])
        assert found == pytest.approx(tuple(limits))


def test_chunks_collapse_to_documents_before_the_cut(grade):
    """ties-chunks-to-documents: the best chunk stands for its document, and ranks close up."""
    inputs, expected = given("ties-chunks-to-documents")
    run = {
        query: best_chunk_by_document(map(tuple, rows), lambda chunk: chunk.split("#")[0])
        for query, rows in inputs["chunk_run"].items()
    }

    assert run == {q: [*map(tuple, rows)] for q, rows in expected["document_run"].items()}
    values = grade(run, inputs["qrels"], inputs["metrics"], TREC)
    assert values == {q: pytest.approx(of) for q, of in expected["per_query"].items()}


def test_duplicates_are_refused_by_name(grade):
    """ties-duplicate-document-in-run: the error names the question and the chunk."""
    inputs, _ = given("ties-duplicate-document-in-run")

    with pytest.raises(EvalkitError, match=r"(?s)q1.*A|A.*q1"):
        grade(inputs["run"], inputs["qrels"], inputs["metrics"], TREC)


def test_or_the_first_duplicate_counts_and_ranks_close_up(grade):
    """ties-duplicate-document-in-run: no value is that of a chunk counted twice."""
    inputs, expected = given("ties-duplicate-document-in-run")
    policy = MetricPolicy(duplicates="first_wins")
    values = grade(inputs["run"], inputs["qrels"], inputs["metrics"], policy)

    for query, of in expected["any_of"][1]["first_occurrence_only"].items():
        assert {name: values[query][name] for name in of} == pytest.approx(of)


def test_half_precision_is_flagged_and_never_made(grade):
    """ties-half-precision-scores: scores order as received; their rounded copy is coarse."""
    inputs, expected = given("ties-half-precision-scores")
    rows = inputs["run"]["q1"]
    rounded = [float(np.float16(score)) for _, score in rows]
    values = grade(inputs["run"], inputs["qrels"], inputs["metrics"], TREC)

    assert values["q1"] == pytest.approx(expected["per_query"]["q1"])
    assert is_coarse(rounded) and not is_coarse([score for _, score in rows])


@pytest.mark.parametrize(
    "order, key", [("as_returned", "RR_by_rank"), ("trec_eval", "RR_by_score")]
)
def test_an_order_that_contradicts_the_scores_is_a_choice(grade, order, key):
    """ties-rank-column-contradicts-score: the policy says which order is graded."""
    inputs, expected = given("ties-rank-column-contradicts-score")
    lines = [line.split() for line in inputs["files"]["run.txt"]["text"].splitlines()]
    run = {"q1": [(doc, float(score)) for _, _, doc, _, score, _ in lines]}
    values = grade(run, inputs["qrels"], ["RR"], MetricPolicy(order=order))

    assert values["q1"]["RR"] == expected[key]


def test_a_negative_grade_is_not_a_judgment():
    """unjudged-negative-grade-judged: Judged@3 follows trec_eval's reading, 1 of 3."""
    inputs, expected = given("unjudged-negative-grade-judged")
    ids = [doc for doc, _ in inputs["run"]["Q1"]]
    found = value(parse_metric("Judged@3"), ids, inputs["qrels"]["Q1"])

    assert found == pytest.approx(expected["judged@3"]["trec_eval_reading"])
    assert unjudged_range(parse_metric("P@1"), ids, inputs["qrels"]["Q1"], 1) == (0.0, 1.0)


def test_no_question_in_common_is_an_error(grade):
    """unjudged-no-common-queries: the message counts, and shows ids of both sides."""
    inputs, expected = given("unjudged-no-common-queries")

    with pytest.raises(EvalkitError) as caught:
        grade(inputs["run"], inputs["qrels"], inputs["metrics"], TREC)
    for text in expected["message_must_name"]:
        assert text in str(caught.value)


@pytest.mark.parametrize("preset", PRESETS)
def test_nothing_returned_is_zero_under_every_preset(grade, preset):
    """unjudged-retriever-returns-nothing: 0 and no nan, whoever's convention is asked for."""
    inputs, expected = given("unjudged-retriever-returns-nothing")
    values = grade(inputs["run"], inputs["qrels"], inputs["metrics"], PRESETS[preset])

    assert values == expected["per_query"]


def test_a_score_of_zero_is_a_returned_chunk(grade):
    """unjudged-zero-scored-documents: recall@2 is 1 although every score is 0."""
    inputs, expected = given("unjudged-zero-scored-documents")

    values = grade(inputs["run"], inputs["qrels"], ["R@2"], TREC)
    assert values == expected["per_query"]


@pytest.mark.parametrize("name", CASES["unjudged-zero-scored-documents"]["expected"]["errors"])
def test_a_cutoff_is_a_whole_number_of_at_least_one(grade, name):
    """unjudged-zero-scored-documents: R@0, P@-1 and nDCG@1.5 are refused, not answered."""
    inputs, _ = given("unjudged-zero-scored-documents")

    with pytest.raises(MetricError, match="cutoff"):
        grade(inputs["run"], inputs["qrels"], [name], TREC)


def test_many_questions_in_closed_form(grade):
    """scale-hundred-thousand-queries, 300 of them: all ranks equally often, mean RR H(100)/100."""
    _, expected = given("scale-hundred-thousand-queries")
    names, rows = list(expected["mean"]), [(f"d{j}", 100.0 - j) for j in range(100)]
    count = 300  # of 100,000: the means are the same for every multiple of 100
    run = {f"q{i:06d}": rows for i in range(count)}
    values = grade(run, {f"q{i:06d}": {f"d{i % 100}": 1} for i in range(count)}, names, TREC)

    for name in names:
        mean = sum(of[name] for of in values.values()) / count
        assert mean == pytest.approx(expected["mean"][name], abs=1e-9)


def test_a_hundred_thousand_questions_at_once():
    """scale-hundred-thousand-queries in full, 10 million ranks: the engine's means are exact."""
    inputs, expected = given("scale-hundred-thousand-queries")
    ranking = {f"d{j}": 100.0 - j for j in range(inputs["depth"])}
    run = {f"q{i:06d}": ranking for i in range(inputs["queries"])}
    judgments = {f"q{i:06d}": {f"d{i % 100}": 1} for i in range(inputs["queries"])}
    means = evaluate(run, judgments, list(expected["mean"]), policy=TREC).means()

    for mean, right in zip(means.values(), expected["mean"].values(), strict=True):
        assert mean.value == pytest.approx(right, abs=1e-9)
        assert mean.count == expected["queries_counted"]


def test_uncut_values_depend_on_what_was_kept(grade):
    """scale-top-k-only: AP of the three best of all chunks is 1/6, of all fifteen 0.2436."""
    inputs, expected = given("scale-top-k-only")
    rows = [(f"c{c}_{j}", c - 0.1 * j) for c in (5, 4, 3, 2, 1) for j in range(3)]

    assert [doc for doc, _ in rows[:3]] == expected["kept"]
    kept = grade({"q1": rows[:3]}, inputs["qrels"], ["R@3", "AP"], TREC)["q1"]
    whole = grade({"q1": rows}, inputs["qrels"], ["AP"], TREC)["q1"]
    assert kept == pytest.approx({"R@3": expected["R@3"], "AP": expected["AP_of_the_kept_run"]})
    assert whole["AP"] == pytest.approx(expected["AP_if_all_15_kept"])
