"""What holds for every ranking, set of judgments and policy; the engine beside the definitions."""

import math
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.metrics import POLICY, PRESETS, grade_run, parse_metric, value
from evalkit.metrics.policy import MetricPolicy

IDS = "abcdefgh"
NAMES = [
    *("P@1", "P@3", "P", "P@2R", "R@1", "R@3", "R", "R@1R", "F1@3", "F2@3", "F0.5", "F2@2R"),
    *("Success@2", "Success", "RR@2", "RR", "AP@2", "AP", "AP@1R", "nDCG@2", "nDCG@5", "nDCG"),
    *("nDCG@2R", "nDCG_lin@3", "Rprec", "bpref", "Judged@3", "Judged"),
]
ORDERED = [name for name in NAMES if not name.startswith("Judged")]
judgments = st.dictionaries(st.sampled_from(IDS), st.integers(-2, 4), min_size=1, max_size=8)
scores = st.integers(-3, 3).map(float) | st.floats(-1, 1, allow_nan=False)
rows = st.lists(st.tuples(st.sampled_from(IDS + "xyz"), scores), max_size=10)
distinct_rows = rows.map(lambda of: list({doc: (doc, score) for doc, score in of}.values()))
rankings = st.lists(st.sampled_from(IDS + "xyz"), max_size=10, unique=True)
policies = st.builds(
    MetricPolicy,
    gain=st.sampled_from(["exp2", "linear"]),
    precision_denominator=st.sampled_from(["fixed_k", "returned"]),
    ideal=st.sampled_from(["judged", "retrieved"]),
    rr_cutoff=st.sampled_from(["k", "none"]),
    ap_denominator=st.sampled_from(["all_relevant", "min_k_relevant"]),
    order=st.sampled_from(["as_returned", "trec_eval"]),
    no_relevant=st.sampled_from(["undefined", "zero"]),
    relevant_from=st.integers(1, 3),
)


@settings(max_examples=500)
@given(
    name=st.sampled_from(NAMES),
    ranking=st.lists(st.sampled_from("abcxy"), max_size=8),
    grades=judgments,
    policy=policies,
)
def test_every_value_lies_between_0_and_1(name, ranking, grades, policy):
    """Whatever is returned, repeats and unjudged chunks included; or it is undefined (nan)."""
    found = value(parse_metric(name, replace(policy, duplicates="first_wins")), ranking, grades)
    assert math.isnan(found) or 0 <= found <= 1


def assert_engine_agrees(grade, run, of, policy):
    metrics = [parse_metric(name, policy) for name in NAMES]
    plain = grade_run(run, of, metrics).values
    found = grade(run, of, NAMES, policy)

    assert set(found) == set(plain)
    for query, values in plain.items():
        expected = dict(zip(NAMES, values.values(), strict=True))  # by definition
        assert found[query] == pytest.approx(expected, abs=1e-12, nan_ok=True)


@settings(max_examples=60)
@given(run=distinct_rows, other=distinct_rows, of=judgments, of_other=judgments, policy=policies)
def test_the_engine_gives_the_values_of_the_definitions(grade, run, other, of, of_other, policy):
    """Two questions at once, any order of scores, ties and grades: the same numbers, or nan."""
    assert_engine_agrees(grade, {"q": run, "p": other}, {"q": of, "p": of_other}, policy)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    judged=st.integers(1, 20),
    depth=st.integers(1, 120),
    distinct_scores=st.integers(1, 200),
    grades=st.sampled_from([[1], [0, 1], [0, 1, 2, 3], [-2, 0, 1, 5], [0, 0, 0, 7, 300, 1000]]),
    policy=policies,
)
def test_the_engine_agrees_on_long_rankings(
    grade, seed, judged, depth, distinct_scores, grades, policy
):
    """Few or many judged of long rankings, few or many ties, questions missing on either side."""
    rng = Random(seed)
    ids = [f"{place:03}" for place in range(150)]
    run = {
        f"q{number}": [
            (doc, rng.randrange(distinct_scores) / 4)
            for doc in rng.sample(ids, rng.randint(1, depth))
        ]
        for number in range(4)
    }
    if rng.random() < 0.5:  # as retrievers return them
        run = {query: sorted(rows, key=lambda row: -row[1]) for query, rows in run.items()}
    of = {
        f"q{number}": {doc: rng.choice(grades) for doc in rng.sample(ids, judged)}
        for number in range(1, 6)
    }
    assert_engine_agrees(grade, run, of, policy)


@settings(max_examples=200)
@given(
    name=st.sampled_from(["nDCG@3", "nDCG", "nDCG_lin@3", "R@3", "R"]),
    ranking=rankings,
    grades=judgments,
    grade=st.integers(1, 4),
)
def test_an_unretrieved_relevant_chunk_never_raises_ndcg_or_recall(name, ranking, grades, grade):
    """More to be found and no more found: the value falls or stays."""
    metric = parse_metric(name)
    before = value(metric, ranking, grades)
    after = value(metric, ranking, {**grades, "unretrieved": grade})
    assert math.isnan(before) or after <= before + 1e-12


@pytest.mark.parametrize("policy", [POLICY, PRESETS["trec_eval"]], ids=["evalkit", "trec_eval"])
@settings(max_examples=40)
@given(run=distinct_rows, of=judgments, constant=st.integers(-8, 8))
def test_a_constant_added_to_all_scores_changes_nothing(grade, policy, run, of, constant):
    """Scores order and do no more; exact in binary, so that no tie is made or broken."""
    run = [(doc, round(score * 8) / 8) for doc, score in run]
    shifted = [(doc, score + constant) for doc, score in run]
    one, other = (grade({"q": rows}, {"q": of}, NAMES, policy)["q"] for rows in (run, shifted))
    assert one == pytest.approx(other, nan_ok=True)


@given(
    name=st.sampled_from(["nDCG", "nDCG@3", "nDCG_lin", "AP", "RR", "Rprec", "Success@1"]),
    grades=judgments,
)
def test_the_ideal_ranking_is_perfect(name, grades):
    """All judged chunks, highest grade first, have value 1, or nothing is relevant."""
    ideal = sorted(grades, key=lambda doc: -grades[doc])
    expected = 1.0 if max(grades.values()) > 0 else math.nan
    assert value(parse_metric(name), ideal, grades) == pytest.approx(expected, nan_ok=True)


CUT = [name for name in NAMES if "@" in name and not name.endswith("R")]


@given(name=st.sampled_from(CUT), ranking=rankings, grades=judgments)
def test_what_stands_below_the_cutoff_does_not_matter(name, ranking, grades):
    """A ranking cut by hand at k has the value of the whole."""
    metric = parse_metric(name)
    cut = ranking[: metric.cutoff.number]
    assert value(metric, cut, grades) == pytest.approx(value(metric, ranking, grades), nan_ok=True)


@settings(max_examples=300)
@given(
    name=st.sampled_from(ORDERED),
    ranking=rankings.filter(lambda ids: len(ids) > 1),
    grades=judgments,
    data=st.data(),
)
def test_a_better_chunk_moved_up_never_lowers_the_value(name, ranking, grades, data):
    """Neighbours swapped so that the higher grade comes first: the value rises or stays."""
    at = data.draw(st.integers(0, len(ranking) - 2))
    pair = sorted(ranking[at : at + 2], key=lambda doc: -max(grades.get(doc, 0), 0))
    metric = parse_metric(name)
    before = value(metric, ranking, grades)
    after = value(metric, [*ranking[:at], *pair, *ranking[at + 2 :]], grades)
    assert math.isnan(before) or after >= before - 1e-12


@given(ranking=rankings, grades=judgments)
def test_recall_and_success_never_fall_with_depth(ranking, grades):
    """Looking deeper can only find more."""
    for label in ("R", "Success"):
        values = [value(parse_metric(f"{label}@{k}"), ranking, grades) for k in range(1, 12)]
        assert values == sorted(values) or all(map(math.isnan, values))


@given(ranking=rankings, grades=judgments)
def test_rprec_is_precision_and_recall_at_r(ranking, grades):
    """At depth R both denominators are R."""
    found = [value(parse_metric(name), ranking, grades) for name in ("Rprec", "P@1R", "R@1R")]
    assert found[1:] == pytest.approx(found[:2], nan_ok=True)
