"""Names say which metric, how deep and which choice; a policy says the rest."""

import dataclasses

import pytest

from evalkit.errors import EvalkitError, MetricError, ParameterError
from evalkit.metrics import (
    POLICY,
    PRESETS,
    MetricPolicy,
    differing_choices,
    parse_metric,
    parse_metrics,
    preset,
)
from evalkit.metrics.policy import FORMULA_CHOICES, Cutoff


@pytest.mark.parametrize(
    "asked, printed",
    [
        ("P@3", "Precision@3"),
        ("R@3", "Recall@3"),
        ("MRR@10", "ReciprocalRank@10"),
        ("RR", "ReciprocalRank"),
        ("MAP", "AP"),
        ("Hit@5", "Success@5"),
        ("ndcg@10", "nDCG@10"),
        ("nDCG_exp@10", "nDCG@10"),
        ("nDCG_lin@10", "nDCG_lin@10"),
        ("nDCG_lin_retrieved@10", "nDCG_lin_retrieved@10"),
        ("PrecisionReturned@3", "PrecisionReturned@3"),
        ("F2@2R", "F2@2R"),
        ("f2_at_2r", "F2@2R"),
        ("F1_ofmeans@5", "F1_ofmeans@5"),
        ("F0.5@10", "F0.5@10"),
        ("ReciprocalRank_whole@10", "ReciprocalRank_whole@10"),
        ("AP_mink@10", "AP_mink@10"),
        ("RPREC", "Rprec"),
        ("bpref", "bpref"),
        ("Judged@10", "Judged@10"),
        ("RequirementRecall@5", "RequirementRecall@5"),
    ],
)
def test_every_name_prints_in_one_form(asked, printed):
    """Aliases, letter case and the default's own marks all print as the one full name."""
    assert str(parse_metric(asked)) == printed
    assert parse_metric(printed) == parse_metric(asked)  # what is printed can be asked for


def test_a_departure_shows_whoever_asks_for_it():
    """nDCG@10 under trec_eval prints as nDCG_lin@10: the plain name always means the default."""
    assert str(parse_metric("nDCG@10", PRESETS["trec_eval"])) == "nDCG_lin@10"
    assert str(parse_metric("nDCG_exp@10", PRESETS["trec_eval"])) == "nDCG@10"
    assert str(parse_metric("RR@10", PRESETS["kioku"])) == "ReciprocalRank_whole@10"
    assert str(parse_metric("RR", PRESETS["kioku"])) == "ReciprocalRank"  # uncut, nothing departs


@pytest.mark.parametrize(
    "name", ["R@0", "P@-1", "nDCG@1.5", "R@1e3", "R@03", "R@٣", "R@2r2", "R@ 3"]
)
def test_cutoffs_are_whole_numbers_of_ranks(name):
    """0, negatives, fractions, signs, spaces and other digits are refused, never rounded."""
    with pytest.raises(MetricError, match="whole number of ranks of at least 1"):
        parse_metric(name)


@pytest.mark.parametrize(
    "name, said",
    [
        ("Foo@3", "no metric 'Foo@3': choose from Precision"),
        ("", "no metric ''"),
        ("F@3", "no metric 'F@3'"),
        ("F0@3", "no metric 'F0@3'"),
        ("F99999@3", "no metric 'F99999@3'"),
        ("Recall_cap@5", "no metric"),
        ("Precision@", "no cutoff"),
        ("bpref@3", "sets its own depth; write bpref"),
        ("Recall_lin@3", "Recall has no choice '_lin'"),
        ("P@3\n", "no metric"),
    ],
)
def test_what_is_not_a_metric_is_refused_with_what_to_write(name, said):
    """The message repeats the name and says what there is."""
    with pytest.raises(EvalkitError) as caught:
        parse_metric(name)
    assert said in str(caught.value)


def test_a_metric_is_asked_for_once():
    """MRR@5 and RR@5 are one metric; naming both, or none, is an error."""
    with pytest.raises(ParameterError, match="asked for twice, as ReciprocalRank@5"):
        parse_metrics(["RR@5", "MRR@5"])
    with pytest.raises(ParameterError, match="no metric is named"):
        parse_metrics([])


def test_cutoffs_at_multiples_of_r():
    """With [1R, 2R] a question with 21 relevant is graded at 21 and 42, one with 4 at 4 and 8."""
    cutoffs = [Cutoff.parse(text) for text in ("1R", "2R")]
    assert [[c.depth(n) for c in cutoffs] for n in (21, 4)] == [[21, 42], [4, 8]]


def test_the_default_is_the_design():
    """Exponential gain, all judged, over k, all relevant, mean of F, cut at k, as returned."""
    assert dataclasses.asdict(POLICY) == {
        "gain": "exp2",
        "precision_denominator": "fixed_k",
        "ideal": "judged",
        "rr_cutoff": "k",
        "ap_denominator": "all_relevant",
        "f_average": "mean_of_queries",
        "duplicates": "error",
        "unjudged": "error_if_complete",
        "order": "as_returned",
        "no_relevant": "undefined",
        "missing_query": "zero",
        "relevant_from": 1,
    }
    assert PRESETS["evalkit"] is POLICY


def test_a_policy_cannot_be_changed_or_misspelt():
    """Frozen; a value outside the list names the list; the relevance level is at least 1."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        POLICY.gain = "linear"  # type: ignore[misc]
    with pytest.raises(ParameterError, match="gain='exp': choose one of exp2, linear"):
        MetricPolicy(gain="exp")  # type: ignore[arg-type]
    for level in (0, -1, 1.5, True):
        with pytest.raises(ParameterError, match="relevant_from"):
            MetricPolicy(relevant_from=level)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="no preset 'trec': choose one of evalkit, dotnet"):
        preset("trec")


def test_what_makes_two_values_differ():
    """Of two policies only the choices that this metric reads are named."""
    trec = PRESETS["trec_eval"]
    assert "gain" in differing_choices("nDCG@10", POLICY, trec)
    assert "gain" not in differing_choices("P@10", POLICY, trec)
    assert "rr_cutoff" in differing_choices("RR@10", POLICY, trec)
    assert differing_choices("P@10", POLICY, POLICY) == ()


def test_every_formula_choice_is_a_field():
    """The table of choices names fields of the policy only."""
    fields = {field.name for field in dataclasses.fields(MetricPolicy)}
    assert {name for names in FORMULA_CHOICES.values() for name in names} <= fields
