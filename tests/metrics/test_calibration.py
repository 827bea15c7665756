"""Reports on other questions, bands, optimism, and what can be guaranteed."""

import json
from math import comb, inf, sqrt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.errors import MetricError
from evalkit.metrics import acceptance, calibration, operating, scored
from evalkit.metrics.operating import Rule
from evalkit.metrics.uncertainty import as_record
from evalkit.records import Query, Requirement

RULES = [Rule("ceiling", 0.25), Rule("cost", 2.0), Rule("equal error"), Rule("guarantee", 0.4)]
ROWS = st.lists(
    st.tuples(st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.8]), st.booleans(), st.booleans()),
    min_size=4,
    max_size=40,
).filter(lambda rows: 0 < sum(row[1] for row in rows) < len(rows))


def swept(score, answerable, evidence=None, axis="cosine top score"):
    return acceptance.sweep(scored.from_arrays(axis, score, answerable, evidence))


def normal_questions(rng, answerable=200, unsupported=200, distance=1.5, axis="cosine top score"):
    """Scores of two normal kinds of question, a `distance` of standard deviations apart."""
    flags = np.arange(answerable + unsupported) < answerable
    return scored.from_arrays(axis, rng.normal(distance * flags, 1), flags)


def binomial_tail(k, n, p):
    """P(Binomial(n, p) <= k) by definition."""
    return sum(comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(k + 1))


@settings(deadline=None)  # a busy machine is no failure
@given(ROWS, st.sampled_from([0.3, 0.5, 0.7]), st.sampled_from([0.1, 0.3]))
def test_the_guarantee_is_fixed_sequence_testing(rows, alpha, delta):
    """Walking down from the strictest threshold, the last before p > delta (by definition)."""
    result = swept([row[0] for row in rows], [row[1] for row in rows])
    last = None
    for row in result.frame.iloc[::-1].to_dict("records"):
        if binomial_tail(row["accepted_unsupported"], result.unsupported, alpha) > delta:
            break
        if row["abstained_answerable"] < result.answerable:
            last = row["threshold"]
    given_by = calibration.guarantee(result, alpha, delta).operating

    if given_by.verdict == "CHOSEN":
        assert given_by.threshold == last
    elif operating.separation(result).low > 0.5:
        assert last is None


def test_a_guarantee_states_its_count_and_p_value():
    """Of 59 unsupported none is accepted: p = 0.95^59 = 0.0485 at alpha 0.05 (by hand)."""
    result = swept(np.r_[np.zeros(59), np.ones(59)], np.arange(118) >= 59)
    found = calibration.guarantee(result, 0.05)

    assert found.operating.threshold == 0.5
    assert (found.accepted, found.allowed, found.needed) == (0, 0, 59)
    assert found.p_value == pytest.approx(0.95**59)
    assert "0 of 59 were" in str(found)


def test_a_guarantee_goes_as_far_down_as_it_may():
    """Of 100 unsupported 4 may be accepted at alpha 0.1: p = 0.024, and 0.058 for 5 (by hand)."""
    score = np.r_[np.arange(100.0), np.arange(100.0) + 60.5]
    found = calibration.guarantee(swept(score, np.arange(200) >= 100), 0.1)

    assert binomial_tail(4, 100, 0.1) <= 0.05 < binomial_tail(5, 100, 0.1)
    assert (found.allowed, found.accepted) == (4, 4)
    # above 95 lies 95.5, answerable; 96 to 99 are the four
    assert found.operating.between == (95.0, 95.5)


def test_too_few_questions_say_how_many():
    """58 give 0.95^58 = 0.051 > 0.05 even with none accepted; 59 would do (by hand)."""
    result = swept(np.r_[np.zeros(58), np.ones(58)], np.arange(116) >= 58)
    found = calibration.guarantee(result, 0.05)

    assert found.operating.verdict == "TOO FEW QUESTIONS"
    assert (found.allowed, found.needed) == (-1, 59)
    assert "59 are needed" in str(found)


def test_a_poor_gate_needs_more_questions_or_is_beyond_help():
    """At best 3 of 80 accepted: 0.05 wants more questions; 8 of 80 never gives it (by hand)."""
    for wrong, verdict in ((3, "TOO FEW QUESTIONS"), (8, "NOT SEPARABLE")):
        score = np.r_[np.zeros(80 - wrong), np.full(wrong, 9), np.ones(80)]
        found = calibration.guarantee(swept(score, np.arange(160) >= 80), 0.05)

        assert found.operating.verdict == verdict
        assert (found.needed is None) == (verdict == "NOT SEPARABLE")
        if found.needed:
            allowed = -(-3 * found.needed // 80)  # 3/80 of them, rounded up
            assert binomial_tail(allowed, found.needed, 0.05) <= 0.05


@pytest.mark.parametrize("failures, n", [(0, 59), (1, 93), (2, 124), (3, 153), (4, 181)])
def test_numbers_needed_are_those_of_acceptance_sampling(failures, n):
    """At 5 % with 95 % confidence 59, 93, 124, 153, 181 suffice for 0 to 4, one less does not."""
    assert binomial_tail(failures, n, 0.05) <= 0.05 < binomial_tail(failures, n - 1, 0.05)
    assert operating.questions_for_guarantee(0.05, rate=failures / n) == n


def test_reports_count_on_other_questions():
    """Threshold 0.5 on six others: 1 of 2 accepted falsely, 1 of 4 abstained (by hand)."""
    point = operating.choose(
        swept([0.4] * 20 + [0.6] * 20, np.arange(40) >= 20), Rule("ceiling", 0.1)
    )
    others = scored.from_arrays(
        "cosine top score",
        [0.9, 0.7, 0.55, 0.2, 0.8, 0.1],
        [1, 1, 1, 1, 0, 0],
        [1, 1, 0, 1, 0, 0],
    )
    rates = calibration.report(point, others, np.random.default_rng(0), method="Clopper-Pearson")

    assert [(rate.name, rate.count, rate.total) for rate in rates] == [
        ("false acceptance", 1, 2),
        ("false abstention", 1, 4),
        ("answerable accepted with evidence", 2, 4),
        ("evidence among accepted", 2, 4),
    ]
    # exact ends for 1 of 2: 1 - √0.975 and √0.975
    assert (rates[0].low, rates[0].high) == pytest.approx((1 - sqrt(0.975), sqrt(0.975)))


def test_reports_on_rankings_add_what_a_reader_gets():
    """Of two accepted one lacks a fact; recall is 1 and 1/2; u keeps nothing (by hand)."""
    facts = (Requirement("one", ("a",)), Requirement("two", ("b",)))
    grades = {"a": 1, "b": 1}
    queries = [Query(q, "?", True, grades=grades, requirements=facts) for q in ("q", "r")]
    rows = [("q", "a", 1, 0.9), ("q", "b", 2, 0.8), ("r", "a", 1, 0.7), ("u", "a", 1, 0.1)]
    run = pd.DataFrame(rows, columns=["query_id", "doc_id", "rank", "score"])
    others = scored.scored_questions(
        run, [*queries, Query("u", "?", False)], axis="cosine", cutoff=5
    )
    point = operating.choose(
        swept([0.4] * 20 + [0.6] * 20, np.arange(40) >= 20), Rule("equal error")
    )
    lines = {
        line.name: line for line in calibration.report(point, others, np.random.default_rng(0))
    }

    complete = lines["complete answer among accepted"]
    assert (complete.count, complete.total) == (1, 2)
    assert lines["recall@5 among accepted"].value == (1 + 1 / 2) / 2
    assert lines["results kept"].value == (2 + 1 + 0) / 3


def test_thresholds_of_another_axis_are_refused():
    """A threshold of cosines is not held against fused scores (case thresholds-on-fused-scores)."""
    point = operating.choose(
        swept([0.4] * 20 + [0.6] * 20, np.arange(40) >= 20), Rule("equal error")
    )
    fused = scored.from_arrays("rrf top score", [0.8, 0.3], [1, 0])

    with pytest.raises(MetricError, match=r"'cosine top score' says nothing about 'rrf top score'"):
        calibration.report(point, fused, np.random.default_rng(0))


def test_no_threshold_reports_nothing():
    """Where none is recommended there is no row, rather than a row of zeros."""
    questions = scored.from_arrays("x", [0.5] * 10, np.arange(10) < 5)
    point = operating.choose(acceptance.sweep(questions), Rule("equal error"))

    assert calibration.report(point, questions, np.random.default_rng(0)) == ()


def test_optimism_is_held_out_less_tuned():
    """Rates are paired by name, differences have Newcombe's interval; means are left out."""
    rng = np.random.default_rng(3)
    tuned, other = normal_questions(rng), normal_questions(rng)
    point = operating.choose(acceptance.sweep(tuned), Rule("ceiling", 0.1))
    table = calibration.optimism(
        calibration.report(point, tuned, rng), calibration.report(point, other, rng)
    )

    first = table.iloc[0]
    assert first["name"] == "false acceptance"
    assert first["difference"] == pytest.approx(first["held_out"] - first["tuned"])
    assert first["low"] < first["difference"] < first["high"]


def test_operating_points_survive_json():
    """Written to JSON and read back, an operating point is the same, whatever it holds."""
    result = acceptance.sweep(normal_questions(np.random.default_rng(4), 40, 40))
    everything = swept(np.r_[np.full(9, np.nan), np.ones(20)], np.arange(29) >= 9)
    points = [operating.choose(result, rule) for rule in RULES]
    points.append(operating.choose(everything, Rule("ceiling", 0.1)))

    assert points[-1].threshold == -inf
    for point in points:
        text = json.dumps(as_record(point), allow_nan=False)
        # as text, because a rule without a value holds nan, which equals nothing
        assert repr(operating.operating_from(json.loads(text))) == repr(point)


def test_the_band_is_seeded_and_holds_the_choice():
    """The same generator gives the same band; it has width and spans the chosen threshold."""
    result = acceptance.sweep(normal_questions(np.random.default_rng(6)))
    rule = Rule("ceiling", 0.1)
    first, again, other = (
        calibration.band(result, rule, np.random.default_rng(seed), resamples=200)
        for seed in (1, 1, 2)
    )

    assert first == again
    assert first != other
    assert first.low < operating.choose(result, rule).threshold < first.high
    assert first.chosen == 1


def test_the_band_is_what_drawing_questions_again_gives():
    """Sweeping each resample from its own questions gives the same thresholds (by definition)."""
    questions = normal_questions(np.random.default_rng(8), 30, 30)
    score = (
        np.sort(questions.frame["score"].to_numpy()[:30]),
        np.sort(questions.frame["score"].to_numpy()[30:]),
    )
    rng, chosen = np.random.default_rng(5), []
    for _ in range(60):
        drawn = [kind[rng.integers(0, 30, 30)] for kind in score]
        result = swept(np.concatenate(drawn), np.arange(60) < 30)
        accepted, wrong = operating.accepted_counts(result)
        index = operating.pick(Rule("ceiling", 0.2), accepted, wrong, 30, 30)
        if index is not None:
            chosen.append(result.frame["threshold"].iloc[index])
    band = calibration.band(
        acceptance.sweep(questions), Rule("ceiling", 0.2), np.random.default_rng(5), resamples=60
    )

    assert band.chosen == len(chosen) / 60
    assert band.low == np.quantile(chosen, 0.025, method="lower")
    assert band.high == np.quantile(chosen, 0.975, method="higher")


def test_a_choice_promises_more_than_it_keeps():
    """Tuned on 20 and 20 questions, the ceiling is exceeded on average (known from theory)."""
    result = acceptance.sweep(normal_questions(np.random.default_rng(9), 20, 20))
    band = calibration.band(result, Rule("ceiling", 0.1), np.random.default_rng(0))

    assert band.optimism_false_acceptance > 0
