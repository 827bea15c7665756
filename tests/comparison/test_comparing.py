"""Two sides compared: what is paired, what is refused, what is said."""

import json
from pathlib import Path

import numpy as np
import pytest

from evalkit import comparison
from evalkit.comparison import NOT_COMPARABLE, Rule, Side
from evalkit.errors import ExecutionError, ParameterError

CASES = Path(__file__).parents[1] / "data" / "cases" / "stats"
SAME = Rule(varying="")


def case(name):
    return json.loads((CASES / f"{name}.json").read_text(encoding="utf-8"))


def whole(compared, metric="nDCG"):
    table = compared.table
    return table[(table["slice"] == "all") & (table["metric"] == metric)].iloc[0]


def test_a_run_against_itself_holds_without_a_nan(pair):
    """Equal values: difference 0, p 1, HELD, and the sentence says so (stats-identical-runs)."""
    found = case("stats-identical-runs")
    values = found["input"]["metric_by_query"]
    compared = comparison.compare(*pair(values["A"], values["B"]), SAME)

    assert whole(compared)["p"] == found["expected"]["p_two_sided"]
    assert whole(compared)["difference"] == found["expected"]["mean_difference"]
    assert compared.verdict == comparison.HELD
    assert compared.reasons == ("nDCG@5: no difference; all 4 values are equal.",)
    assert not compared.table.drop(columns="verdict").isna().any(axis=None)


def test_questions_are_paired_by_id_and_not_by_row(pair):
    """B listed in another order: mean +0.05, p 2/64, 6 wins (stats-paired-by-query)."""
    found = case("stats-paired-by-query")
    values, expected = found["input"]["metric_by_query"], found["expected"]
    row = whole(comparison.compare(*pair(values["A"], values["B"]), SAME))

    assert row["difference"] == pytest.approx(expected["mean_difference_B_minus_A"])
    assert row["p_adjusted"] == pytest.approx(expected["sign_flip_exact_p_two_sided"])
    assert [row["wins"], row["ties"], row["losses"]] == expected["wins_ties_losses"]


def test_exchanging_the_sides_keeps_p_and_turns_the_sign(pair):
    """p(A, B) = p(B, A), and the differences are negated (stats-wilcoxon-tied-differences)."""
    found = case("stats-wilcoxon-tied-differences")
    mixed = [value / 10 for value in found["input"]["mixed"]]
    zeros = [0.0] * len(mixed)
    one, other = (
        whole(comparison.compare(*pair(*sides), SAME)) for sides in ((zeros, mixed), (mixed, zeros))
    )

    assert one["p"] == other["p"]
    assert one["difference"] == -other["difference"]


def test_different_question_sets_are_cut_to_the_common_ones_and_the_rest_is_named(execution):
    """Over q1-q3 B leads by 0.1; q4 and q5 are listed (stats-different-query-sets)."""
    found = case("stats-different-query-sets")
    values, common = found["input"]["metric_by_query"], found["expected"]["common_queries"]
    old = Side(execution("a", {"semantic": values["A"]}, unanswered=["q5"]), "semantic")
    new = Side(execution("b", {"semantic": values["B"]}, unanswered=["q4", "q5"]), "semantic")
    compared = comparison.compare(old, new, Rule(varying="", override=True))

    row = whole(compared)
    assert [row["n"], row["baseline"], row["candidate"]] == pytest.approx(
        [common["n"], common["A"], common["B"]]
    )
    assert row["difference"] == pytest.approx(common["difference"])
    assert compared.unpaired == ("q4", "q5")
    assert "2 of 5 answerable questions were not scored by both: q4, q5" in compared.reasons[-1]


def test_too_many_unpaired_questions_forbid_a_verdict(execution):
    """1 of 21 unpaired is under 5 % and a note; 2 of 22 is over it and NOT COMPARABLE (by hand)."""
    values = {f"q{number}": 0.5 for number in range(20)}
    old = Side(execution("old", {"semantic": values}), "semantic")
    one, two = (
        Side(execution(f"new{n}", {"semantic": values}, unanswered=lost), "semantic")
        for n, lost in enumerate((["x"], ["x", "y"]))
    )

    assert comparison.compare(old, one, SAME).verdict == comparison.HELD
    assert comparison.compare(old, one, SAME).notes == ("Left out, not scored by both: x.",)
    assert comparison.compare(old, two, SAME).verdict == NOT_COMPARABLE


LEAVES = {
    "set.name": "vault",
    "set.version": "2",
    "set.fingerprints.corpus": "c2",
    "set.fingerprints.queries": "q2",
    "set.fingerprints.judgments": "j2",
    "chunking": "sections-v2",
    "eligibility.document_type": "note",
    "scoring.cutoffs": [5, 10],
    "scoring.metrics": ["AP"],
    "scoring.policy.gain": "linear",
    "embedder.name": "ollama:embeddinggemma:300m",
    "embedder.digest": "d2",
    "embedder.dimension": 768,
    "retrieval.semantic.axis": "dot",
    "retrieval.semantic.exact": True,
    "retrieval.semantic.collection": "handbook-other",
    "retrieval.semantic.filter.chunking_version": "sections-v2",
}


def leaves(value, prefix=""):
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from leaves(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def test_every_input_of_the_semantic_mode_is_planted_below(inputs):
    """The list of planted differences leaves out no recorded input (by definition)."""
    del inputs["retrieval"]["keyword"]

    assert set(leaves(inputs)) == set(LEAVES)


@pytest.mark.parametrize("path", LEAVES)
def test_each_undeclared_difference_is_caught_and_named(execution, changed, path):
    """One input differs, nothing was declared: NOT COMPARABLE, with both values (issue text)."""
    values = {"semantic": {f"q{number}": 0.5 for number in range(8)}}
    old = Side(execution("old", values), "semantic")
    new = Side(execution("new", values, inputs=changed({path: LEAVES[path]})), "semantic")
    compared = comparison.compare(old, new, SAME)

    named = path.replace("retrieval.semantic", "retrieval")
    assert compared.verdict == NOT_COMPARABLE
    assert compared.undeclared == (named,)
    assert compared.differing[named][1] == LEAVES[path]
    assert named in compared.reasons[0]


@pytest.mark.parametrize(
    ("varying", "alone"),
    [
        ("embedder", ["embedder.digest"]),
        ("embedder", ["embedder.digest", "embedder.name", "retrieval.semantic.collection"]),
        ("chunking", ["chunking", "set.fingerprints.judgments", "set.version"]),
        ("chunking", ["chunking", "retrieval.semantic.filter.chunking_version"]),
        ("retrieval", ["retrieval.semantic.exact"]),
        ("judgments", ["set.fingerprints.judgments", "set.version"]),
    ],
)
def test_a_declared_difference_alone_is_comparable(execution, changed, varying, alone):
    """The changed input and what cannot but follow it leave the sides comparable (issue text)."""
    values = {"semantic": {f"q{number}": 0.5 for number in range(8)}}
    old = Side(execution("old", values), "semantic")
    new = execution("new", values, inputs=changed({path: LEAVES[path] for path in alone}))

    compared = comparison.compare(old, Side(new, "semantic"), Rule(varying=varying))
    assert compared.verdict == comparison.HELD


@pytest.mark.parametrize(
    ("varying", "others"),
    [
        ("embedder", ["embedder.digest", "retrieval.semantic.exact"]),
        ("embedder", ["retrieval.semantic.collection"]),
        ("chunking", ["chunking", "set.fingerprints.queries"]),
        ("chunking", ["set.version"]),
        ("mode", ["retrieval.semantic.exact"]),
        ("judgments", ["set.fingerprints.judgments", "embedder.digest"]),
    ],
)
def test_a_second_difference_beside_the_declared_one_is_caught(execution, changed, varying, others):
    """What does not follow from the declared change stays undeclared (issue text)."""
    values = {"semantic": {f"q{number}": 0.5 for number in range(8)}}
    old = Side(execution("old", values), "semantic")
    new = execution("new", values, inputs=changed({path: LEAVES[path] for path in others}))

    compared = comparison.compare(old, Side(new, "semantic"), Rule(varying=varying))
    assert compared.verdict == NOT_COMPARABLE


def test_two_modes_of_one_execution_differ_in_the_mode_only(execution):
    """keyword against semantic: their settings and the embedder follow from the mode."""
    values = {f"q{number}": 0.5 for number in range(8)}
    both = execution("both", {"keyword": values, "semantic": values})
    compared = comparison.compare(Side(both, "keyword"), Side(both, "semantic"), Rule())

    assert compared.undeclared == ()
    assert compared.differing["mode"] == ("keyword", "semantic")


def test_an_override_is_recorded_with_what_it_overrode(execution, changed):
    """The verdict is given, and its reasons and the record name the undeclared input."""
    values = {"semantic": {f"q{number}": 0.5 for number in range(8)}}
    old = Side(execution("old", values), "semantic")
    new = Side(execution("new", values, inputs=changed({"set.version": "2"})), "semantic")
    rule = Rule(varying="", override=True)
    compared = comparison.compare(old, new, rule)

    assert compared.verdict == comparison.HELD
    assert compared.reasons[-1].startswith("Overridden: 1 inputs differ")
    assert comparison.record(compared, rule)["rule"]["override"] is True
    assert comparison.record(compared, rule)["undeclared"] == ["set.version"]


def test_another_revision_of_the_code_is_reported_and_comparable(pair):
    """A gate compares revisions of the code: the environment is noted, not an undeclared input."""
    old, new = pair([0.5] * 8, [0.5] * 8)
    new.execution.record(lambda manifest: manifest["environment"].update(python="3.99"))
    compared = comparison.compare(old, new, SAME)

    assert compared.verdict == comparison.HELD
    assert compared.environment["python"][1] == "3.99"


def test_holm_covers_every_row_but_the_declared_one(pair):
    """p of the verdict's metric stays; 0.03125 for two other rows doubles (by hand: 2 * 2/2^6)."""
    old = {f"q{n}": {"nDCG": 0.5, "Recall": 0.5, "Precision": 0.5} for n in range(6)}
    new = {f"q{n}": {"nDCG": 0.6, "Recall": 0.6, "Precision": 0.6} for n in range(6)}
    categories = dict.fromkeys(old, "")
    compared = comparison.compare(*pair(old, new, categories=categories), SAME)

    adjusted = dict(zip(compared.table["metric"], compared.table["p_adjusted"], strict=True))
    assert adjusted == pytest.approx({"nDCG": 2 / 2**6, "Recall": 4 / 2**6, "Precision": 4 / 2**6})


def test_a_category_that_falls_while_the_mean_rises_is_an_alarm(pair):
    """8 facts gain 0.2, 8 symptoms lose 0.1: mean +0.05, alarm for symptoms (by hand)."""
    old = {f"{kind}{n}": 0.5 for kind in ("fact", "symptom") for n in range(8)}
    new = {name: 0.7 if name.startswith("fact") else 0.4 for name in old}
    categories = {name: name[:-1] for name in old}
    compared = comparison.compare(*pair(old, new, categories=categories), SAME)

    assert whole(compared)["difference"] == pytest.approx((8 * 0.2 - 8 * 0.1) / 16)
    assert (
        "Alarm: the mean did not fall, but these categories did: symptom (-0.100 over 8"
        in (compared.reasons[-1])
    )
    words = dict(zip(compared.table["slice"], compared.table["verdict"], strict=True))
    assert words["symptom"] == comparison.REGRESSED
    assert words["fact"] == comparison.IMPROVED


def test_every_row_names_its_count_and_what_it_could_have_shown(pair):
    """5 questions can show nothing at 5 % (2 / 2^5 > 0.05), 6 can (by hand)."""
    few, enough = (
        whole(comparison.compare(*pair([0.5] * n, [0.5, 0.7] + [0.6] * (n - 2)), SAME))
        for n in (5, 6)
    )

    assert few["detectable"] == float("inf")
    assert few["verdict"] == comparison.UNDERPOWERED
    assert np.isfinite(enough["detectable"])
    assert enough["needed"] >= 6


def test_a_metric_that_was_not_scored_is_an_error_that_names_those_that_were(pair):
    """No silent fall-back to another metric."""
    with pytest.raises(ParameterError, match=r"AP@5: not scored by both; choose from nDCG@5"):
        comparison.compare(*pair([0.5], [0.5]), Rule(metric="AP", varying=""))


def test_a_mode_that_did_not_run_is_an_error_that_names_those_that_did(execution):
    """A side that does not exist is never an empty comparison."""
    made = execution("one", {"semantic": {"q": 0.5}})

    with pytest.raises(
        ExecutionError, match="no mode 'hybrid' was run; there are keyword, semantic"
    ):
        Side(made, "hybrid").inputs()
