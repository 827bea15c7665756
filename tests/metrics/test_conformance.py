"""trec_eval's own numbers: the random pack, always; its test files, where they are present."""

import gzip
import json
import math
import os
import re
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from evalkit.metrics import PRESETS, average, evaluate, grade_run, parse_metric
from evalkit.metrics.grading import in_order

PACK_FILE = Path(__file__).parents[1] / "data/random/pack.jsonl"
PACK = [json.loads(line) for line in PACK_FILE.read_text(encoding="utf-8").splitlines()]
TREC = PRESETS["trec_eval"]
SHARED = os.environ.get("EVALKIT_SHARED", "")
FILES = Path(SHARED) / "conformance" / "trec_eval"
PAIRS = json.loads((FILES / "expected.json").read_text(encoding="utf-8"))["pairs"] if SHARED else {}
PLAIN_NAMES = {
    "map": "AP",
    "recip_rank": "ReciprocalRank",
    "ndcg": "nDCG",
    "ndcg_exp": "nDCG_exp",
    "set_P": "Precision",
    "set_recall": "Recall",
    "set_F1": "F1",
    "set_F2": "F2",
    "Rprec": "Rprec",
    "bpref": "bpref",
}
CUT_NAMES = {
    "P": "Precision",
    "recall": "Recall",
    "ndcg_cut": "nDCG",
    "ndcg_exp_cut": "nDCG_exp",
    "map_cut": "AP",
    "success": "Success",
}


def our_name(theirs: str) -> str:
    """trec_eval's name of a measure in ours; "" for counts and infAP, which we do not have."""
    found = re.fullmatch(r"(.+)_(\d+)", theirs)
    if found and found[1] in CUT_NAMES:
        return f"{CUT_NAMES[found[1]]}@{found[2]}"
    return PLAIN_NAMES.get(theirs, "")


NAMES = {
    theirs: our_name(theirs)
    for theirs in PACK[0]["expected"]["per_query"]["100"]
    if our_name(theirs)
}


def assert_values(values, expected):
    """Every value of every question, within a rounding of the last digits."""
    assert set(values) == set(expected)
    for query, theirs in expected.items():
        for name in NAMES.keys() & theirs.keys():
            ours = values[query][NAMES[name]]
            assert ours == pytest.approx(theirs[name], abs=1e-12), (query, name)


@pytest.mark.parametrize("pair", PACK, ids=[pair["id"] for pair in PACK])
def test_every_question_of_the_random_pack(grade, pair):
    """48 runs with ties, negatives, missing and unjudged parts give trec_eval's values."""
    policy = replace(TREC, relevant_from=pair["relevance_level"])
    values = grade(pair["run"], pair["qrels"], [*NAMES.values()], policy)

    assert_values(values, pair["expected"]["per_query"])  # trec_eval 10.0-rc3, 64-bit scores


@pytest.mark.parametrize(
    "pair", [p for p in PACK if p["pack"] == "nearties"], ids=lambda p: p["id"]
)
def test_scores_one_billionth_apart_tie_in_single_precision_only(grade, pair):
    """Rounded to 32 bits, as trec_eval 9 and pytrec_eval hold them, the same runs differ."""
    run = {
        query: [(doc, struct.unpack("f", struct.pack("f", score))[0]) for doc, score in rows]
        for query, rows in pair["run"].items()
    }
    policy = replace(TREC, missing_query="skip")
    values = grade(run, pair["qrels"], [*NAMES.values()], policy)
    theirs = pair["expected_float32_scores"]["per_query"]  # trec_eval 9.0.8

    assert_values(values, theirs)


def test_the_near_ties_do_tell_32_from_64_bits():
    """The pack's values for the two widths differ, so that passing both means something."""
    differing = [
        pair["id"]
        for pair in PACK
        for query, of in pair.get("expected_float32_scores", {}).get("per_query", {}).items()
        if not of.items() <= pair["expected"]["per_query"][query].items()
    ]
    assert differing


@pytest.mark.parametrize(
    "missing, key", [("zero", "mean_all_judged"), ("skip", "mean_intersection")]
)
@pytest.mark.parametrize("pair", PACK, ids=[pair["id"] for pair in PACK])
def test_means_of_the_random_pack(pair, missing, key):
    """Over all judged questions (trec_eval -c), or over those that the run has (without -c)."""
    policy = replace(TREC, relevant_from=pair["relevance_level"], missing_query=missing)
    metrics = {name: parse_metric(ours, policy) for name, ours in NAMES.items()}
    values = grade_run(pair["run"], pair["qrels"], [*metrics.values()])

    for name, metric in metrics.items():
        if name in pair["expected"][key]:
            mean = average(metric, values.values.values())
            assert mean.value == pytest.approx(pair["expected"][key][name], abs=1e-12), name
            assert mean.count == len(values.values)
    scores = evaluate(
        {query: dict(rows) for query, rows in pair["run"].items()},
        pair["qrels"],
        [*NAMES.values()],
        policy=policy,
    )
    for mean, metric in zip(scores.means().values(), metrics.values(), strict=True):
        plain = average(metric, values.values.values())
        assert (mean.value, mean.count) == (pytest.approx(plain.value, abs=1e-12), plain.count)
    assert set(scores.missing) == set(values.missing)
    assert set(scores.unjudged) == set(values.unjudged)
    assert set(values.missing) == set(pair["judged_not_in_run"])
    assert set(values.unjudged) == set(pair["in_run_not_judged"])


@pytest.mark.parametrize("rule", ["docid_asc", "input"])
@pytest.mark.parametrize("pair", PACK, ids=[pair["id"] for pair in PACK])
def test_other_orders_of_ties_are_graded_as_returned(grade, pair, rule):
    """A ranking whose ties stand in another order keeps that order under `as_returned`."""
    run = {
        query: sorted(rows, key=lambda row: (-row[1], row[0] if rule == "docid_asc" else ""))
        for query, rows in pair["run"].items()
    }
    policy = replace(TREC, order="as_returned", relevant_from=pair["relevance_level"])
    values = grade(run, pair["qrels"], [*NAMES.values()], policy)

    for name, theirs in pair["mean_all_judged_other_tie_rules"][rule].items():  # by script
        mean = math.fsum(of[NAMES[name]] for of in values.values()) / len(values)
        assert mean == pytest.approx(theirs, abs=1e-12), name


def test_equal_scores_are_ordered_by_id_in_bytes():
    """trec_eval puts the larger id first, compared byte by byte in UTF-8: é after z, 日 last."""
    rows = [("z3", 1.0), ("é5", 1.0), ("日4", 1.0), ("Z3", 1.0), ("10", 1.0), ("9", 1.0)]
    ids = [doc for doc, _ in in_order(rows, TREC)]

    assert ids == ["日4", "é5", "z3", "Z3", "9", "10"]
    assert ids == sorted(ids, key=str.encode, reverse=True)


def read(name):
    """Rows of a TREC file, comment lines left out; ids may hold a '#'."""
    raw = (FILES / name).read_bytes()
    text = (gzip.decompress(raw) if name.endswith("gz") else raw).decode()
    return [line.split() for line in text.splitlines() if not line.startswith("#")]


def read_pair(pair):
    judgments, run = {}, {}
    for query, _, doc, grade in read(pair["qrels"]):
        judgments.setdefault(query, {})[doc] = int(grade)
    for query, _, doc, _, score, *_ in read(pair["run"]):
        run.setdefault(query, []).append((doc, float(score)))
    return run, judgments


@pytest.mark.skipif(not SHARED, reason="EVALKIT_SHARED names no folder with trec_eval's files")
@pytest.mark.parametrize("name", PAIRS or ["absent"])
def test_the_test_files_of_trec_eval(grade, name):
    """NIST's own runs and judgments give the values trec_eval prints, to the last digits."""
    pair = PAIRS[name]
    run, judgments = read_pair(pair)
    policy = replace(TREC, relevant_from=pair["relevance_level"])
    values = grade(run, judgments, [*NAMES.values()], policy)
    expected = dict(pair["all_judged_queries"]["values"])
    means = expected.pop("all")

    if expected:  # one pair carries its mean only
        assert_values(values, expected)
    for theirs, ours in NAMES.items():
        mean = math.fsum(of[ours] for of in values.values()) / len(values)
        assert mean == pytest.approx(means[theirs], abs=1e-12), theirs


def test_pytrec_eval_agrees_live():
    """trec_eval itself, in the process, gives the same values on the untied runs of the pack."""
    import pytrec_eval

    pair = next(pair for pair in PACK if pair["score_mode"] == "distinct")
    measures = {"map", "ndcg", "recip_rank", "Rprec", "bpref", "P", "recall", "ndcg_cut"}
    evaluator = pytrec_eval.RelevanceEvaluator(pair["qrels"], measures)
    theirs = evaluator.evaluate({query: dict(rows) for query, rows in pair["run"].items()})
    names = {name: ours for name, ours in NAMES.items() if name in next(iter(theirs.values()))}
    metrics = {name: parse_metric(ours, TREC) for name, ours in names.items()}
    ours = grade_run(pair["run"], pair["qrels"], [*metrics.values()]).values

    assert len(names) > 10
    for query, values in theirs.items():
        for name, metric in metrics.items():
            assert ours[query][str(metric)] == pytest.approx(values[name], abs=1e-12), name
