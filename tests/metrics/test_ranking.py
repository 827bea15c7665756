"""What has no value is refused or nan, never a number; and whose question it was is said."""

import math

import pytest

from evalkit.errors import EvalkitError, MetricError
from evalkit.metrics import PRESETS, average, ceiling, micro_average, parse_metric, value
from evalkit.metrics.grading import (
    Average,
    check_grades,
    grade_run,
    in_order,
    reason,
    require_values,
    single_ranking,
)
from evalkit.metrics.policy import MetricPolicy
from evalkit.metrics.ranking import average_precision, bpref, ndcg, precision, recall
from evalkit.records import Hit

FOUR = ["Precision@3", "Recall@3", "ReciprocalRank@3", "nDCG@3"]
ALL = [*FOUR, "F1@3", "F2@3", "Success@3", "AP@3", "AP", "nDCG", "Rprec", "bpref", "Recall@2R"]


def run_of(*ids):
    return {"q": [(doc, float(-place)) for place, doc in enumerate(ids)]}


@pytest.mark.parametrize("k", [0, -1, 1.5, True])
def test_a_cutoff_below_one_is_refused(k):
    """k = 0, negative, fractional or true has no value (A26)."""
    with pytest.raises(MetricError, match="at least 1"):
        precision(["a"], {"a": 1}, k)


def test_a_repeated_chunk_is_refused_with_its_name(grade):
    """The same chunk at ranks 1 and 3 is an error for every metric (A26)."""
    for name in ALL:
        with pytest.raises(EvalkitError, match="'a'"):
            grade(run_of("a", "x", "a"), {"q": {"a": 1}}, [name], PRESETS["evalkit"])


def test_an_unjudged_chunk_is_refused_where_judgments_are_complete(grade):
    """A set that claims complete judgments cannot return a chunk nobody judged (A23, A26)."""
    for name in ALL:
        with pytest.raises(MetricError, match="judgment"):
            grade(
                run_of("a", "new"), {"q": {"a": 1, "x": 0}}, [name], MetricPolicy(), complete=True
            )
        with pytest.raises(MetricError, match="judgment"):
            grade(run_of("a", "new"), {"q": {"a": 1, "x": 0}}, [name], PRESETS["dotnet"])


def test_a_judged_irrelevant_chunk_is_not_unjudged(grade):
    """With a written grade 0 the same ranking has its values, complete or not."""
    values = grade(
        run_of("x", "a"), {"q": {"a": 1, "x": 0}}, FOUR, PRESETS["dotnet"], complete=True
    )
    expected = {"Precision@3": 1 / 3, "Recall@3": 1.0, "ReciprocalRank@3": 1 / 2}
    assert values["q"] == pytest.approx({**expected, "nDCG@3": 1 / math.log2(3)})


def test_elsewhere_it_keeps_its_rank_and_is_not_relevant(grade):
    """Incomplete judgments: the unjudged chunk at rank 1 pushes the hit to rank 2."""
    assert grade(run_of("new", "a"), {"q": {"a": 1}}, ["RR"], MetricPolicy())["q"]["RR"] == 1 / 2


@pytest.mark.parametrize("name", ALL)
def test_no_relevant_chunk_has_no_value(grade, name):
    """nan by default, 0 under trec_eval, refused under dotnet; never a perfect score (A26)."""
    given = (run_of("x", "y"), {"q": {"x": 0, "y": 0}}, [name])

    assert math.isnan(grade(*given, PRESETS["evalkit"])["q"][name])
    assert grade(*given, PRESETS["trec_eval"])["q"][name] == 0
    with pytest.raises(MetricError, match="without an answer"):
        grade(*given, PRESETS["dotnet"])


def test_an_undefined_question_is_left_out_of_the_mean_and_counted():
    """Values 1, nan and 0 have mean 1/2 over 2, with 1 undefined."""
    metric = parse_metric("RR")
    values = [{"ReciprocalRank": v} for v in (1.0, math.nan, 0.0)]

    assert average(metric, values) == Average(1 / 2, count=2, undefined=1)
    assert math.isnan(average(metric, [{"ReciprocalRank": math.nan}]).value)


def test_nothing_returned_is_a_miss(grade):
    """An empty ranking with valid labels scores 0 in all four, and enters the mean (A27)."""
    values = grade({"q": []}, {"q": {"a": 1}}, FOUR, PRESETS["evalkit"])
    assert values == {"q": dict.fromkeys(FOUR, 0.0)}


def test_grades_outside_the_scale_are_refused():
    """With a scale of 0 to 2, grades 3, -1, 1.0 and true are errors that name the chunk (A26)."""
    check_grades({"a": 0, "b": 2}, 0, 2)
    for grade in (3, -1, 1.0, True):
        with pytest.raises(MetricError, match=r"'a' has grade .* outside the scale 0 to 2"):
            check_grades({"a": grade}, 0, 2)


def test_a_grade_too_large_to_weigh_is_refused():
    """2^g - 1 of grade 5000 is no finite number; the metric says so and does not return inf."""
    with pytest.raises(MetricError, match="grade 5000"):
        ndcg(["a"], {"a": 5000})
    assert ndcg(["a"], {"a": 1000}) == 1.0


def test_exactly_one_ranking_is_graded():
    """Two retrievals of one question glued together are not a ranking (A28)."""
    one = [Hit("a", 0.9, 1), Hit("b", 0.8, 2)]
    assert single_ranking("q", one) == ["a", "b"]
    for wrong in ([*one, *one], [*reversed(one)], one[1:]):
        with pytest.raises(MetricError, match="not one ranking"):
            single_ranking("q", wrong)


def test_reasons_say_what_was_scored():
    """min(k, n) results at K = k, or why there is no value (A29)."""
    assert reason(parse_metric("P@5"), 3, {"a": 1}) == "Scored 3 results at K=5."
    assert reason(parse_metric("P@1"), 3, {"a": 1}) == "Scored 1 results at K=1."
    assert reason(parse_metric("AP"), 3, {"a": 1}) == "Scored 3 results."
    assert "no judged chunk is relevant" in reason(parse_metric("P@1"), 3, {"a": 0})
    assert "Not computable" in reason(parse_metric("bpref"), 3, {"a": 1})


def test_the_result_guard():
    """Exactly the declared metrics, each a number, or the question is unscored (A30)."""
    metrics = [parse_metric(name) for name in ("P@1", "R@1")]
    require_values("q", {"Precision@1": 1.0, "Recall@1": 0.0}, metrics)
    for wrong in (
        {"Precision@1": 1.0},
        {"Precision@1": 1.0, "Recall@1": math.nan},
        {"Precision@1": 1.0, "Recall@1": 0.0, "nDCG@1": 1.0},
    ):
        with pytest.raises(MetricError, match="unscored question 'q'"):
            require_values("q", wrong, metrics)


def test_a_missing_ranking_can_be_refused(grade):
    """Under dotnet a judged question without a ranking stops the run."""
    with pytest.raises(MetricError, match="'p' is judged but has no ranking"):
        grade(run_of("a"), {"q": {"a": 1}, "p": {"a": 1}}, ["RR"], PRESETS["dotnet"])


def test_a_score_that_is_not_a_number_is_refused():
    """nan orders nothing: the error names the chunk."""
    with pytest.raises(MetricError, match="'a' is not a number"):
        in_order([("a", math.nan)], MetricPolicy())


def test_errors_name_question_and_metric():
    """Of many questions the message says which one, so that it can be looked up."""
    run, judgments = {"one": [("a", 1.0), ("a", 0.5)]}, {"one": {"a": 1}}
    with pytest.raises(MetricError, match="question 'one', Precision@1: chunk 'a' is ranked 2"):
        grade_run(run, judgments, [parse_metric("P@1")])


def test_bpref_by_hand(grade):
    """Judged x y not relevant, a b c relevant; u unjudged is skipped and costs nothing."""
    grades = {"a": 1, "b": 1, "c": 1, "x": 0, "y": 0}
    # a: nothing above, 1; b: x above, 1 - 1/min(3, 2); c: never found
    found = grade(run_of("a", "u", "x", "b"), {"q": grades}, ["bpref"], MetricPolicy())
    assert found["q"]["bpref"] == pytest.approx((1 + (1 - 1 / 2) + 0) / 3)


def test_bpref_without_a_chunk_judged_not_relevant(grade):
    """ranx divides by 0 here; nan by default, and trec_eval's 1 a found chunk on request."""
    given = (run_of("u", "a"), {"q": {"a": 1, "b": 1}}, ["bpref"])

    assert math.isnan(grade(*given, MetricPolicy())["q"]["bpref"])
    assert grade(*given, PRESETS["trec_eval"])["q"]["bpref"] == 1 / 2


def test_a_grade_below_the_level_still_gains_in_ndcg(grade):
    """relevant_from = 2: grade 1 is a miss for precision, a small gain for nDCG (trec_eval -l2)."""
    policy = MetricPolicy(relevant_from=2)
    values = grade(run_of("low", "high"), {"q": {"low": 1, "high": 2}}, ["P@1", "nDCG@1"], policy)

    assert values["q"] == pytest.approx({"P@1": 0.0, "nDCG@1": 1 / 3})


def test_multiples_of_r(grade):
    """R = 2: at 1R two ranks are graded, at 2R four, each question by its own R."""
    ranking = run_of("a", "x", "y", "b", "z")
    values = grade(
        ranking, {"q": {"a": 1, "b": 1}}, ["P@1R", "R@1R", "P@2R", "R@2R"], MetricPolicy()
    )
    assert values["q"] == {"P@1R": 1 / 2, "R@1R": 1 / 2, "P@2R": 2 / 4, "R@2R": 1.0}


def test_uncut_is_the_whole_ranking(grade):
    """Two of four returned are relevant, of three there are: P 1/2, R 2/3, AP (1 + 2/4)/3."""
    values = grade(
        run_of("a", "x", "y", "b"),
        {"q": {"a": 1, "b": 1, "c": 1}},
        ["P", "R", "AP"],
        MetricPolicy(),
    )
    assert values["q"] == pytest.approx({"P": 2 / 4, "R": 2 / 3, "AP": (1 + 2 / 4) / 3})


def test_capped_recall_and_recall_are_not_confused():
    """MTEB's recall_cap divides by zero where nothing is relevant; recall is nan there."""
    assert math.isnan(recall(["a"], {}, 1))
    assert recall(["a"], {"a": 1, "b": 1}, 1) == 1 / 2


def test_ids_equal_to_the_question_id_are_kept(grade):
    """BEIR drops a result whose id is the question's; here it is a result like any other."""
    run, judgments = {"7": [("7", 2.0), ("8", 1.0)]}, {"7": {"7": 1}}
    before = {query: list(rows) for query, rows in run.items()}

    assert grade(run, judgments, ["RR"], MetricPolicy())["7"]["RR"] == 1.0
    assert run == before  # and the caller's run is not touched


def test_questions_are_told_apart_by_id_only(grade):
    """OpenSearch looks labels up by text; here one ranking under two ids has two sets of labels."""
    rows = [("a", 2.0), ("b", 1.0)]
    values = grade({"1": rows, "01": rows}, {"1": {"a": 1}, "01": {"b": 1}}, ["RR"], MetricPolicy())
    assert values == {"1": {"RR": 1.0}, "01": {"RR": 1 / 2}}


def test_the_ceiling_is_the_best_any_ranking_could_do():
    """R = 2: P@5 at most 2/5, R@1 at most 1/2, AP@1 1/2; over the returned, precision 1."""
    grades = {"a": 1, "b": 2, "x": 0}
    for name, expected in (("P@5", 2 / 5), ("R@1", 1 / 2), ("AP@1", 1 / 2), ("nDCG@5", 1.0)):
        assert ceiling(parse_metric(name), grades) == expected
    assert ceiling(parse_metric("PrecisionReturned@5"), grades) == 1.0


def test_micro_averages_pool_the_counts():
    """1 of 1 and 1 of 9 found at k = 1: macro recall (1 + 1/9)/2, micro recall 2/10."""
    judgments = {"q1": {"a": 1}, "q2": {f"r{i}": 1 for i in range(9)}}
    run = {"q1": ["a"], "q2": ["r0"]}

    assert micro_average(parse_metric("R@1"), run, judgments) == 2 / 10
    assert micro_average(parse_metric("P@1"), run, judgments) == 2 / 2
    assert micro_average(parse_metric("F1@1"), run, judgments) == pytest.approx(2 * 0.2 / 1.2)
    with pytest.raises(MetricError, match="no micro average"):
        micro_average(parse_metric("nDCG@1"), run, judgments)


def test_rounding_waits_for_the_reader():
    """OpenSearch rounds each question to 2 decimals before the mean; nothing is rounded here."""
    metric = parse_metric("AP")
    ids, grades = ["x", "y", "a"], {"a": 1}
    values = [{"AP": value(metric, ids, grades)}] * 3

    assert average(metric, values).value == average_precision(ids, grades) == 1 / 3


def test_the_plain_bpref_of_a_short_pool():
    """R = 1, N = 3, two judged not relevant above the hit: 1 - min(2, 1)/min(3, 1) = 0."""
    assert bpref(["x", "y", "a"], {"a": 1, "x": 0, "y": 0, "z": 0}) == 0
