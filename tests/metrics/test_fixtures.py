"""One assertion a policy: inputs small enough for a hand, on which conventions part."""

from dataclasses import replace
from math import log2

import pytest

from evalkit.errors import EvalkitError
from evalkit.metrics import POLICY, PRESETS, average, parse_metric
from evalkit.metrics.policy import MetricPolicy

EVALKIT, DOTNET, MIXPEEK, KIOKU, TREC, RANX = (
    PRESETS[name] for name in ("evalkit", "dotnet", "mixpeek", "kioku", "trec_eval", "ranx")
)


@pytest.fixture
def one(grade):
    """one(ranking, grades, name, policy): the value of a single question."""

    def value(ranking, grades, name, policy):
        rows = [(doc, float(len(ranking) - i)) for i, doc in enumerate(ranking)]
        return grade({"q": rows}, {"q": grades}, [name], policy)["q"][name]

    return value


HAND_ORDER = (["C", "A", "B"], {"C": 0, "A": 2, "B": 1})


@pytest.mark.parametrize("policy", [EVALKIT, DOTNET])
@pytest.mark.parametrize(
    "name, expected",
    [
        ("Precision@3", 2 / 3),
        ("Recall@3", 1.0),
        ("ReciprocalRank@3", 1 / 2),
        ("nDCG@3", (3 / log2(3) + 1 / 2) / (3 + 1 / log2(3))),  # 0.659002
    ],
)
def test_the_dotnet_arithmetic(one, policy, name, expected):
    """Grades 0, 2, 1 in rank order: two of three are relevant, the first at rank 2."""
    assert one(*HAND_ORDER, name, policy) == pytest.approx(expected)


@pytest.mark.parametrize(
    "name, expected",
    [
        ("Precision@3", 2 / 3),
        ("Recall@3", 1.0),
        ("ReciprocalRank@3", 1 / 2),
        ("nDCG@3", (3 / log2(3) + 3 / 2) / (3 + 3 / log2(3))),  # 0.693426
    ],
)
def test_the_dotnet_arithmetic_of_the_deadline_question(one, name, expected):
    """Grades 0, 2, 2: both relevant passages are found, one rank too low each."""
    assert one(["C", "A", "B"], {"C": 0, "A": 2, "B": 2}, name, DOTNET) == pytest.approx(expected)


def test_the_digits_of_the_reference_text(one):
    """The four printed nDCG values are met to their last digit."""
    assert one(*HAND_ORDER, "nDCG@3", DOTNET) == pytest.approx(0.659002, abs=5e-7)
    assert one(*HAND_ORDER, "nDCG@3", TREC) == pytest.approx(0.669672, abs=5e-7)
    equal = (["C", "A", "B"], {"C": 0, "A": 2, "B": 2})
    assert one(*equal, "nDCG@3", DOTNET) == pytest.approx(0.693426, abs=5e-7)


def test_the_kioku_arithmetic(one):
    """Gains 7 and 3: DCG 7 + 3/2 = 8.5 of an ideal 7 + 3/log2 3 = 8.89279."""
    grades = {"A": 3, "C": 2}
    assert one(["A", "x", "C"], grades, "nDCG@3", KIOKU) == pytest.approx(0.955831, abs=5e-7)
    assert one(["C"], grades, "nDCG@5", KIOKU) == pytest.approx(0.337352, abs=5e-7)
    assert one(["A", "x"], grades, "P@5", KIOKU) == pytest.approx(1 / 5)
    assert one(["A", "A", "B"], {"A": 1, "Z": 1}, "R@3", KIOKU) == 1 / 2


def test_kioku_sees_hits_beyond_k_in_reciprocal_rank(one):
    """A first hit at rank 7 is 1/7 at any cutoff under Kioku and trec_eval, 0 at 5 elsewhere."""
    late = ([*"uvwxyzA"], {"A": 1})
    for policy in (KIOKU, TREC):
        assert one(*late, "RR@5", policy) == pytest.approx(1 / 7)
    for policy in (EVALKIT, MIXPEEK, RANX):
        assert one(*late, "RR@5", policy) == 0


def test_a_short_list(one):
    """One hit of two returned at k = 5: 1/5 over k, 1/2 over what was returned."""
    for preset in (EVALKIT, KIOKU, TREC, RANX):
        assert one(["A", "X"], {"A": 1}, "P@5", preset) == 1 / 5
    assert one(["A", "X"], {"A": 1}, "P@5", MIXPEEK) == 1 / 2
    assert str(parse_metric("P@5", MIXPEEK)) == "PrecisionReturned@5"


def test_the_form_of_the_gain(one):
    """Grades 1, 3 in that order: (1 + 7/log2 3)/(7 + 1/log2 3), or with 3 for 7."""
    swapped = (["low", "high"], {"high": 3, "low": 1})
    for preset in (EVALKIT, DOTNET, KIOKU, MIXPEEK):
        assert one(*swapped, "nDCG@2", preset) == pytest.approx(0.709810, abs=5e-7)
    for preset in (TREC, RANX):
        assert one(*swapped, "nDCG@2", preset) == pytest.approx(0.796708, abs=5e-7)
    assert one(*swapped, "nDCG_lin@2", EVALKIT) == pytest.approx(0.796708, abs=5e-7)


def test_the_source_of_the_ideal(one):
    """One of three relevant found: 1/(1 + 1/log2 3 + 1/2) of all; of the retrieved alone, 1."""
    grades = dict.fromkeys("ABC", 1)
    for preset in (EVALKIT, KIOKU, TREC, RANX):
        assert one(["A", "x", "y"], grades, "nDCG@3", preset) == pytest.approx(0.469279, abs=5e-7)
        assert one(["A"], grades, "nDCG@3", preset) == pytest.approx(0.469279, abs=5e-7)
    assert one(["A", "x", "y"], grades, "nDCG@3", MIXPEEK) == 1.0
    for preset in (EVALKIT, KIOKU, TREC, RANX, MIXPEEK):  # only LlamaIndex has 0.469279 here
        assert one(["A", "x", "y"], {"A": 1}, "nDCG@3", preset) == 1.0


def test_the_denominator_of_average_precision(one):
    """Precisions 1 and 2/3 at the hits: over 5 relevant 1/3, over min(3, 5) 5/9, never over 2."""
    given = (["A", "x", "B"], dict.fromkeys("ABCDE", 1))
    for preset in (EVALKIT, TREC, RANX, KIOKU, MIXPEEK):
        assert one(*given, "AP@3", preset) == pytest.approx(0.333333, abs=5e-7)
    policy = MetricPolicy(ap_denominator="min_k_relevant")
    assert one(*given, "AP@3", policy) == pytest.approx(0.555556, abs=5e-7)
    assert str(parse_metric("AP@3", policy)) == "AP_mink@3"


def test_beta_is_beta(one):
    """P = 1/5, R = 1: F1 1/3, F2 5/9; with beta squared = 2, trec_eval's set_F.2, 3/7."""
    given = (["A", "w", "x", "y", "z"], {"A": 1})
    assert one(*given, "F1@5", EVALKIT) == pytest.approx(0.333333, abs=5e-7)
    assert one(*given, "F2@5", EVALKIT) == pytest.approx(0.555556, abs=5e-7)
    assert one(*given, "F1.4142135623730951@5", EVALKIT) == pytest.approx(0.428571, abs=5e-7)


@pytest.mark.parametrize("preset, expected", [(EVALKIT, 0.257576), (MIXPEEK, 0.573913)])
def test_the_average_of_f(preset, expected):
    """Questions with (P, R) = (1, .1) and (.2, 1): mean of F1, or F1 of the means .6 and .55."""
    policy = replace(POLICY, f_average=preset.f_average)
    f, p, r = (parse_metric(name, policy) for name in ("F1@5", "P@5", "R@5"))
    questions = [
        {str(p): 1.0, str(r): 0.1, str(f): 2 * 1 * 0.1 / 1.1},
        {str(p): 0.2, str(r): 1.0, str(f): 2 * 0.2 * 1 / 1.2},
    ]

    assert average(f, questions).value == pytest.approx(expected, abs=5e-7)


def test_duplicates(one):
    """[A, A, B] with A and Z relevant: first wins 1/(1 + 1/log2 3); refused; never counted, 1.0."""
    given = (["A", "A", "B"], {"A": 1, "Z": 1})
    for preset in (KIOKU, MIXPEEK):
        policy = replace(preset, ideal="judged")
        assert one(*given, "nDCG@3", policy) == pytest.approx(0.613147, abs=5e-7)
    for preset in (EVALKIT, DOTNET, TREC, RANX):
        with pytest.raises(EvalkitError, match="'A'"):
            one(*given, "nDCG@3", preset)


def test_kioku_above_one_is_not_kept(one):
    """[A, A, A] with A relevant has nDCG 2.131 where a repeat counts; here it is 1."""
    assert one(["A", "A", "A"], {"A": 1}, "nDCG@3", KIOKU) == 1.0


def test_the_ceiling_of_precision_is_printed_by_hand():
    """9 relevant pairs over 7 questions: P@3 cannot exceed 9/21, P@5 9/35."""
    from evalkit.metrics import ceiling

    sizes = [2, 1, 1, 1, 2, 1, 1]  # the .NET sample's relevant passages a question
    grades = [{f"r{i}": 2 for i in range(n)} for n in sizes]
    for k, expected in ((1, 7 / 7), (3, 9 / 21), (5, 9 / 35)):
        metric = parse_metric(f"P@{k}")
        assert sum(ceiling(metric, of) for of in grades) / 7 == pytest.approx(expected)
