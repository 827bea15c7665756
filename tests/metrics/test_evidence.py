"""Facts, groups, documents; and how far ties and missing judgments could move a value."""

import math
from itertools import permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.errors import MetricError
from evalkit.metrics import (
    PRESETS,
    complete_answer,
    group_by_field,
    parse_metric,
    rank_of_completion,
    requirement_recall,
    requirement_values,
    tie_range,
    unjudged_range,
    value,
)
from evalkit.metrics.evidence import best_chunk_by_document, field_value
from evalkit.metrics.policy import MetricPolicy

P0, P1 = "worker-shutdown#shutdown/p0", "worker-shutdown#shutdown/p1"


def test_either_of_two_passages_answers_the_deadline_question():
    """Both chunks hold the deadline: one found is recall 1/2, and yet the whole answer."""
    ranking, deadline = ["other", P1], [[P0, P1]]

    assert value(parse_metric("Recall@3"), ranking, {P0: 2, P1: 2}) == 1 / 2
    assert requirement_values(3, ranking, deadline) == {
        "RequirementRecall": 1.0,
        "CompleteAnswer": 1.0,
        "RankOfCompletion": 2.0,
    }


def test_the_sequence_question_needs_both():
    """Each passage holds other steps: the same ranking has recall 1/2 and half the answer."""
    ranking, sequence = ["other", P1], [[P0], [P1]]

    assert value(parse_metric("Recall@3"), ranking, {P0: 2, P1: 2}) == 1 / 2
    assert requirement_recall(ranking, sequence, 3) == 1 / 2
    assert complete_answer(ranking, sequence, 3) == 0.0
    assert math.isnan(rank_of_completion(ranking, sequence, 3))


def test_requirements_stop_at_the_cutoff():
    """The second fact stands at rank 3: incomplete at 2, complete at 3."""
    facts = [["a"], ["b", "c"]]
    assert requirement_recall(["a", "x", "c"], facts, 2) == 1 / 2
    assert complete_answer(["a", "x", "c"], facts, 3) == 1.0
    assert rank_of_completion(["a", "x", "c"], facts, 3) == 3.0


def test_one_passage_may_hold_several_facts():
    """A chunk listed under three facts satisfies all three at its rank."""
    assert requirement_values(1, ["a"], [["a"], ["a", "b"], ["c", "a"]])["CompleteAnswer"] == 1.0


def test_no_facts_no_value_and_nothing_found_is_zero():
    """nan without requirements; 0 where they are written and nothing was returned."""
    assert all(math.isnan(v) for v in requirement_values(5, ["a"], []).values())
    assert requirement_recall([], [["a"]], 5) == complete_answer([], [["a"]], 5) == 0.0


@pytest.mark.parametrize("facts", [[[]], ["p0"], [""]])
def test_a_fact_is_a_list_of_chunks(facts):
    """An empty list, or one id given as text instead of a list, is an error."""
    with pytest.raises(MetricError, match="list of chunks"):
        requirement_recall(["p0"], facts)


def test_values_are_graded_once_at_their_first_rank():
    """Frames 7, 7, 9: 9 is second and not third, and 7 does not count twice (B12)."""
    payloads = [{"metadata": {"frame_key": key}} for key in ("7", "7", "9", "7")]
    grouped = group_by_field(payloads, "metadata.frame_key")

    assert grouped.values == ("7", "9") and grouped.positions == (0, 2)
    assert value(parse_metric("RR"), grouped.values, {"9": 1}) == 1 / 2
    assert value(parse_metric("R@2"), grouped.values, {"7": 1, "9": 1}) == 1.0
    assert group_by_field(payloads, "metadata.frame_key", k=1).values == ("7",)


def test_missing_values_match_nothing():
    """Haystack counted None == None as a hit; here each such chunk is a miss of its own."""
    payloads = [{}, {"key": None}, {"key": ""}, {"key": "A"}]
    grouped = group_by_field(payloads, "key")

    assert grouped.without_field == 3 and len(grouped.values) == 4
    assert value(parse_metric("RR"), grouped.values, {"A": 1}) == 1 / 4
    for label in ("None", "", "null", "key"):
        assert value(parse_metric("Success"), grouped.values, {label: 1}) == 0.0


def test_a_question_without_the_field_is_skipped_by_name():
    """No result carries it: the reason names the field (B13); an empty list is no such case."""
    assert group_by_field([{"a": 1}, {}], "meta.id").skip_reason == (
        "no result carries the field 'meta.id'"
    )
    assert group_by_field([], "meta.id").skip_reason == ""
    assert group_by_field([{}, {"meta": {"id": "x"}}], "meta.id").skip_reason == ""


def test_labels_are_text_or_whole_numbers():
    """7 reads as "7" and stays apart from "07"; lists, fractions and flags are refused."""
    assert field_value({"a": {"b": 7}}, "a.b") == "7"
    assert field_value({"a.b": "written so"}, "a.b") == "written so"
    assert field_value({"a": "text"}, "a.b") is None
    for wrong in ([1], 1.5, True, {"x": 1}):
        with pytest.raises(MetricError, match="field 'a' holds"):
            field_value({"a": wrong}, "a")


def test_the_best_chunk_stands_for_its_document():
    """A chunk returned late with a higher score still lifts its document (C14)."""
    scored = [("B#1", 0.7), ("A#1", 0.6), ("C#1", 0.5), ("A#2", 0.9), ("D#1", 0.7)]
    assert best_chunk_by_document(scored, lambda chunk: chunk[0]) == [
        ("A", 0.9),
        ("B", 0.7),
        ("D", 0.7),
        ("C", 0.5),
    ]


NAMES = [
    "P@2",
    "R@2",
    "F2@3",
    "Success@1",
    "RR",
    "RR@2",
    "AP",
    "AP@3",
    "AP_mink@2",
    "nDCG@3",
    "nDCG",
]
NAMES += [
    "nDCG_lin@2",
    "nDCG_retrieved@3",
    "Rprec",
    "bpref",
    "Judged@2",
    "P@1R",
    "PrecisionReturned@4",
]
small_grades = st.dictionaries(st.sampled_from("abcde"), st.integers(-1, 3), max_size=5)
small_run = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.integers(0, 2)),
    max_size=5,
    unique_by=lambda row: row[0],
)


@settings(max_examples=60)
@given(small_run, small_grades, st.sampled_from(NAMES), st.integers(1, 2))
def test_tie_range_is_that_of_all_permutations(rows, grades, name, relevant_from):
    """Sorting tied groups by grade finds what trying every order finds."""
    metric = parse_metric(name, MetricPolicy(relevant_from=relevant_from))
    run = sorted(((doc, float(score)) for doc, score in rows), key=lambda row: -row[1])
    orders = [
        order
        for order in permutations(run)
        if [score for _, score in order] == [score for _, score in run]
    ]
    values = [value(metric, [doc for doc, _ in order], grades) for order in orders]
    found = tie_range(metric, run, grades)

    assert found == pytest.approx((min(values), max(values)), nan_ok=True)  # by definition


@settings(max_examples=100)
@given(small_run, small_grades, st.sampled_from(NAMES), st.integers(1, 3), st.integers(1, 2))
def test_unjudged_range_is_that_of_all_judgments(rows, grades, name, highest, relevant_from):
    """The few cases tried bound every way of grading the unjudged in the first k."""
    metric = parse_metric(name, MetricPolicy(relevant_from=relevant_from))
    ids = [doc for doc, _ in rows]
    relevant = sum(grade >= relevant_from for grade in grades.values())
    k = metric.cutoff.depth(relevant)
    unknown = [doc for doc in ids[:k] if grades.get(doc, -1) < 0]
    fixed = metric if k == 0 else metric.at(k)
    low, high = unjudged_range(metric, ids, grades, highest)
    values = [value(fixed, ids, grades)]
    if metric.measure != "Judged" and k != 0:
        for guess in product(range(highest + 1), repeat=len(unknown)):
            values.append(value(fixed, ids, {**grades, **dict(zip(unknown, guess, strict=True))}))
    values = [v for v in values if not math.isnan(v)] or [math.nan]

    assert (low, high) == pytest.approx((min(values), max(values)), nan_ok=True)  # by definition


def test_bounds_by_hand():
    """One hit, one unjudged of two: P@2 between 1/2 and 1, recall stays 1, nDCG can fall."""
    grades = {"a": 1}
    assert unjudged_range(parse_metric("P@2"), ["a", "u"], grades, 2) == (1 / 2, 1.0)
    assert unjudged_range(parse_metric("R@2"), ["a", "u"], grades, 2) == (1.0, 1.0)
    low, high = unjudged_range(parse_metric("nDCG@2"), ["a", "u"], grades, 2)
    assert low == pytest.approx((1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3)))  # u has grade 2
    assert high == 1.0


def test_a_grade_in_between_can_be_the_best():
    """Grades 2, u, 1: u at 1 or 2 is the ideal order, at 3 it is not, at 0 it is a gap."""
    found = unjudged_range(parse_metric("nDCG@3"), ["a", "u", "b"], {"a": 2, "b": 1}, 3)
    assert found[1] == 1.0


def test_where_all_is_judged_the_bounds_meet():
    """Judged@k of 1 leaves nothing open."""
    grades = {"a": 1, "x": 0}
    for name in ("P@2", "nDCG@2", "AP@2"):
        low, high = unjudged_range(parse_metric(name), ["x", "a", "later"], grades, 1)
        assert low == high == value(parse_metric(name), ["x", "a", "later"], grades)


def test_rank_free_reciprocal_rank_questions_every_rank():
    """Under Kioku RR@1 sees the whole list, so an unjudged chunk at rank 2 matters."""
    metric = parse_metric("RR@1", PRESETS["kioku"])
    assert unjudged_range(metric, ["x", "u", "a"], {"a": 1, "x": 0}, 1) == (1 / 3, 1 / 2)
