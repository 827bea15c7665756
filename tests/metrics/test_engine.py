"""The vectorised engine beside the definitions and pytrec_eval, in every form of data.

Expected values come from `grading.grade_run` (by definition), from pytrec_eval-terrier
(trec_eval), or stand as arithmetic. `test_properties` compares single questions; here are many
at once: blocks of them, rows out of place, ids that share a hash, columns of every kind.
"""

import itertools
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import pytrec_eval

from evalkit.errors import DataError, MetricError
from evalkit.metrics import POLICY, PRESETS, columns, dicts, evaluate, texts
from evalkit.metrics.grading import average, grade_run
from evalkit.metrics.policy import MetricPolicy, parse_metrics

MEASURES = ("Precision", "Recall", "F1", "F0.5", "Success", "ReciprocalRank", "AP", "nDCG")
NAMES = [
    *map("".join, itertools.product(MEASURES, ("@1", "@5", "@20", "@1R", "@2R", ""))),
    *("Rprec", "bpref", "Judged", "Judged@5", "nDCG_exp@4", "nDCG_lin@3", "AP_mink@4"),
]
TREC = PRESETS["trec_eval"]
POLICIES = {
    "evalkit": POLICY,
    "trec_eval": TREC,
    "mixpeek": replace(PRESETS["mixpeek"], no_relevant="undefined", missing_query="zero"),
    "kioku": PRESETS["kioku"],
    "level 2": MetricPolicy(relevant_from=2, ap_denominator="min_k_relevant"),
    "level 2 by score": replace(TREC, relevant_from=2, precision_denominator="returned"),
}


def made_up(seed, queries=40, tied=True, highest=3, depth=30):
    """Runs and judgments as lists: ragged, shuffled, tied; some queries missing on each side."""
    rng = np.random.default_rng(seed)
    ids = [f"{prefix}{i}" for i in range(60) for prefix in ("d", "doc-number-", "é")]
    ids += [f"a-document-id-that-is-longer-than-sixteen-bytes-{i}" for i in range(40)]
    run, qrels = {}, {}
    for i in range(queries):
        query = f"q{i}" if i % 3 else f"a-query-{i}"
        if rng.random() < 0.9:
            docs = rng.choice(ids, rng.integers(1, depth), replace=False).tolist()
            values = rng.integers(0, 8 if tied else 1 << 20, len(docs)) / 4
            if not tied:
                values = rng.permutation(1 << 12)[: len(docs)] / 4
            if rng.random() < 0.5:
                values = np.sort(values)[::-1]
            run[query] = list(zip(docs, values.tolist(), strict=True))
        if rng.random() < 0.9:
            docs = rng.choice(ids, rng.integers(1, 25), replace=False).tolist()
            docs += [doc for doc, _ in run.get(query, [])[::2] if doc not in docs]
            qrels[query] = {doc: int(rng.integers(-1, highest + 1)) for doc in docs}
    return run, qrels


def from_dicts(run, qrels):
    """{query: {doc: score}} and {query: {doc: grade}}."""
    return {query: dict(rows) for query, rows in run.items()}, qrels


def from_frames(run, qrels):
    """pandas frames with text columns, rows as they came."""
    rows = [(query, doc, score) for query, ranked in run.items() for doc, score in ranked]
    judged = [(query, doc, grade) for query, row in qrels.items() for doc, grade in row.items()]
    return (
        pd.DataFrame(rows, columns=["query_id", "doc_id", "score"]),
        pd.DataFrame(judged, columns=["query_id", "doc_id", "grade"]),
    )


def from_objects(run, qrels):
    """pandas frames with columns of Python objects and categories."""
    frame, judged = from_frames(run, qrels)
    return (
        frame.astype({"query_id": "category", "doc_id": object}),
        judged.astype({"query_id": object, "doc_id": "category", "grade": float}),
    )


def from_tables(run, qrels):
    """Arrow tables in chunks of seven rows, as a reader of files makes them."""
    tables = [pa.Table.from_pandas(frame) for frame in from_frames(run, qrels)]
    return tuple(
        pa.concat_tables([table.slice(i, 7) for i in range(0, len(table), 7)]) for table in tables
    )


def from_scattered_frames(run, qrels):
    """Frames whose queries are mixed up; each query's rows keep their order."""
    frame, judged = from_frames(run, qrels)
    turn = np.random.default_rng(1).permutation(len(frame))
    mixed = frame["query_id"].to_numpy()[turn]
    taken = {query: iter(rows) for query, rows in run.items()}
    rows = [(query, *next(taken[query])) for query in mixed]
    return pd.DataFrame(rows, columns=frame.columns), judged.sample(frac=1, random_state=2)


def from_frames_in_reverse(run, qrels):
    """Frames whose queries stand in another order than those of the judgments."""
    frame, judged = from_frames(dict(reversed(run.items())), qrels)
    return frame, judged


def from_ranked_frames(run, qrels):
    """Frames in any order of rows, with a rank column that holds the order."""
    frame, judged = from_frames(run, qrels)
    frame["rank"] = frame.groupby("query_id").cumcount() + 1
    return frame.sample(frac=1, random_state=3), judged


FORMS = [
    from_dicts,
    from_frames,
    from_objects,
    from_tables,
    from_scattered_frames,
    from_frames_in_reverse,
    from_ranked_frames,
]


def assert_by_definition(scores, run, qrels, policy, names=NAMES):
    expected = grade_run(run, qrels, parse_metrics(names, policy)).values
    assert set(scores.query_ids) == set(qrels)
    for query, row in zip(scores.query_ids, scores.values.tolist(), strict=True):
        found = dict(zip(scores.names, row, strict=True))
        assert found == pytest.approx(expected[query], abs=1e-12, nan_ok=True), query
        assert not [name for name, value in found.items() if value < 0 or value > 1]


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_values_of_the_definitions(form, policy):
    """Dicts, frames and tables, rows in place or not, ties or not: one set of numbers."""
    for seed in range(3):
        run, qrels = made_up(seed)

        scores = evaluate(*form(run, qrels), NAMES, policy=policy)

        assert_by_definition(scores, run, qrels, policy)
        assert scores.missing == tuple(q for q in scores.query_ids if q not in run)
        assert set(scores.unjudged) == set(run) - set(qrels)


@pytest.mark.parametrize("form", FORMS)
def test_blocks_do_not_show(form, monkeypatch):
    """By definition: queries looked at a few at a time, and texts hashed five at a time."""
    monkeypatch.setattr(dicts, "_BLOCK", 50)
    monkeypatch.setattr(columns, "_BLOCK", 50)
    monkeypatch.setattr(texts, "_BLOCK", 5)
    for policy in (POLICY, TREC):
        run, qrels = made_up(11)
        assert_by_definition(evaluate(*form(run, qrels), NAMES, policy=policy), run, qrels, policy)


@pytest.mark.parametrize("many", [0, 1000], ids=["looked up", "walked"])
@pytest.mark.parametrize("policy", [POLICY, TREC], ids=["as returned", "by score"])
def test_both_ways_through_dicts_agree(many, policy, monkeypatch):
    """By definition: whether judgments are looked up or rankings walked is a matter of speed."""
    monkeypatch.setattr(dicts, "_MANY", many)
    for names in (NAMES, [name for name in NAMES if name != "bpref" and "Judged" not in name]):
        run, qrels = made_up(5)
        scores = evaluate(*from_dicts(run, qrels), names, policy=policy)
        assert_by_definition(scores, run, qrels, policy, names)


@pytest.mark.parametrize("shared", [1, 5], ids=["one hash for all", "five hashes"])
@pytest.mark.parametrize("form", [from_tables, from_scattered_frames])
def test_ids_that_share_a_hash_are_told_apart(form, shared, monkeypatch):
    """By definition: a hash only proposes a match; the texts decide."""
    true_hash = texts.hashed
    monkeypatch.setattr(texts, "hashed", lambda array: true_hash(array) % np.uint64(shared))
    for policy in (POLICY, TREC):
        run, qrels = made_up(6)
        assert_by_definition(evaluate(*form(run, qrels), NAMES, policy=policy), run, qrels, policy)


def test_hashes_differ_where_ids_differ_in_any_byte():
    """Property: no two of 20,000 near-identical ids of 1 to 40 bytes share a hash."""
    ids = {
        f"{'x' * n}{i}{'y' * m}"
        for n in range(0, 20, 4)
        for m in range(0, 20, 4)
        for i in range(800)
    }
    ids |= {"", "\0", "\0\0", "a\0", "a", "ab", "abcdefgh", "abcdefgh\0"}

    assert len(set(texts.hashed(pa.array(sorted(ids))).tolist())) == len(ids)


@pytest.mark.parametrize("form", FORMS[:4])
@pytest.mark.parametrize("highest", [1, 3])
def test_values_are_trec_evals(form, highest):
    """trec_eval: tied and untied scores, missing queries 0, unjudged and negative documents."""
    columns_of = {"Precision": "P", "Recall": "recall", "AP": "map_cut", "nDCG": "ndcg_cut"}
    asked = {f"{m}@{k}": f"{t}_{k}" for m, t in columns_of.items() for k in (1, 5, 20)}
    asked |= {"AP": "map", "nDCG": "ndcg", "ReciprocalRank": "recip_rank", "Rprec": "Rprec"}
    asked |= {"bpref": "bpref", "Precision": "set_P", "Recall": "set_recall", "F1": "set_F"}
    measures = {"P.1,5,20", "recall.1,5,20", "map_cut.1,5,20", "ndcg_cut.1,5,20", "map", "ndcg"}
    measures |= {"recip_rank", "Rprec", "bpref", "set_P", "set_recall", "set_F"}
    for seed in range(6):
        run, qrels = made_up(seed, tied=seed % 2 == 0, highest=highest)
        right = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(from_dicts(run, qrels)[0])

        scores = evaluate(*form(run, qrels), [*asked], policy=TREC)

        for query, row in zip(scores.query_ids, scores.values.tolist(), strict=True):
            expected = [right[query][name] if query in right else 0.0 for name in asked.values()]
            assert row == pytest.approx(expected, abs=1e-12), query


def test_scores_keep_64_bits():
    """By hand: 1 + 2^-40 is above 1, which 32 bits cannot see; then b, tied, would be first."""
    run = {"q": {"a": 1 + 2.0**-40, "b": 1.0}}

    for form in (from_dicts, from_frames):
        data = form({"q": list(run["q"].items())}, {"q": {"a": 1}})
        assert evaluate(*data, ["MRR"], policy=TREC).values.tolist() == [[1.0]]


def test_hundred_cutoffs_are_each_right():
    """By definition: asking for many cutoffs at once changes none of them."""
    run, qrels = made_up(8)
    names = [f"{measure}@{k}" for measure in ("P", "nDCG", "AP") for k in range(1, 101)]
    scores = evaluate(*from_dicts(run, qrels), names, policy=TREC)

    assert_by_definition(scores, run, qrels, TREC, names)


def test_means_count_what_they_average():
    """By definition: undefined values are left out and counted, F of the means included."""
    run, qrels = made_up(9)
    qrels["nothing relevant"] = {"d1": 0}
    for policy in (POLICY, POLICIES["mixpeek"], replace(POLICY, missing_query="skip")):
        metrics = parse_metrics(NAMES, policy)
        expected = grade_run(run, qrels, metrics).values.values()

        means = evaluate(*from_dicts(run, qrels), NAMES, policy=policy).means()

        for metric in metrics:
            right = average(metric, expected)
            mean = means[str(metric)]
            assert mean.value == pytest.approx(right.value, abs=1e-12, nan_ok=True)
            assert mean.count == right.count
            assert mean.count + mean.undefined == len(qrels)


def test_the_frame_is_tidy():
    """By hand: one row a query and metric, the cutoff as text, a departure in the name."""
    scores = evaluate({"q": {"a": 1.0}}, {"q": {"a": 1}}, ["nDCG_lin@2R", "MRR"])

    assert scores.frame().to_numpy().tolist() == [
        ["q", "nDCG_lin", "2R", 1.0],
        ["q", "ReciprocalRank", "", 1.0],
    ]


def test_prepared_judgments_serve_many_runs():
    """By definition: one Qrels, several runs, each as if it were alone."""
    _, qrels = made_up(1)
    prepared = columns.Qrels.of(from_frames({}, qrels)[1])
    for seed in range(3):
        run, _ = made_up(seed)
        scores = evaluate(from_frames(run, qrels)[0], prepared, NAMES)
        assert_by_definition(scores, run, qrels, POLICY)


def test_repeats_are_refused_or_the_first_counts():
    """Case ties-duplicate-document-in-run: named in the error, or ranks close up behind it."""
    run, qrels = (
        {"q": [("x", 3.0), ("a", 2.0), ("x", 1.0), ("a", 0.5), ("b", 0.1)]},
        {"q": {"b": 1}},
    )
    frame, judged = from_frames(run, qrels)

    with pytest.raises(MetricError, match=r"query 'q', document 'x' is returned more than once"):
        evaluate(frame, judged, ["MRR"])
    for order in ("as_returned", "trec_eval"):
        policy = MetricPolicy(duplicates="first_wins", order=order)
        assert evaluate(frame, judged, ["MRR"], policy=policy).values.tolist() == [[1 / 3]]


def test_the_best_copy_counts_when_sorted_by_score():
    """By hand: a stands at rank 1 by its second row, above x, once and not twice."""
    frame, judged = from_frames({"q": [("a", 1.0), ("x", 2.0), ("a", 3.0)]}, {"q": {"a": 1}})
    policy = replace(TREC, duplicates="first_wins")

    assert evaluate(frame, judged, ["MRR", "P@2", "Recall"], policy=policy).values.tolist() == [
        [1.0, 1 / 2, 1.0]
    ]


@pytest.mark.parametrize("many", [0, 1000], ids=["looked up", "walked"])
@pytest.mark.parametrize("kind", ["frames", "dicts"])
@pytest.mark.parametrize("policy", [POLICY, TREC], ids=["as returned", "by score"])
def test_a_score_that_is_no_number_is_refused(kind, policy, many, monkeypatch):
    """nan has no order: refused by query, whether it is a hit's score or another's."""
    monkeypatch.setattr(dicts, "_MANY", many)
    form = {"frames": from_frames, "dicts": from_dicts}[kind]
    for rows in ([("a", math.nan), ("x", 1.0)], [("a", 1.0), ("x", math.nan)]):
        with pytest.raises(MetricError, match="query 'bad'"):
            evaluate(
                *form({"good": [("a", 1.0)], "bad": rows}, {"good": {"a": 1}, "bad": {"a": 1}}),
                ["AP"],
                policy=policy,
            )


@pytest.mark.parametrize("many", [0, 1000], ids=["looked up", "walked"])
@pytest.mark.parametrize("policy", [POLICY, TREC], ids=["as returned", "by score"])
@pytest.mark.parametrize("score", ["0.5", None])
def test_a_score_that_is_text_is_refused(score, policy, many, monkeypatch):
    """A score is a number; a text that looks like one is a reader's fault, and named."""
    monkeypatch.setattr(dicts, "_MANY", many)
    for run in ({"bad": {"a": score}}, {"bad": {"a": 1.0, "b": score}}):
        run["good"] = {"a": 1.0}
        with pytest.raises(MetricError, match="query 'bad': a score is not a number"):
            evaluate(run, {"good": {"a": 1}, "bad": {"a": 1}}, ["AP"], policy=policy)


def test_rankings_of_another_form_are_refused():
    """A list of ids has no scores; it is named with its query, on either side."""
    with pytest.raises(DataError, match=r"query 'q': expected \{doc: score\}, found list"):
        evaluate({"q": ["a", "b"]}, {"q": {"a": 1}}, ["AP"])
    with pytest.raises(DataError, match=r"query 'q': expected \{doc: grade\}, found NoneType"):
        evaluate({"q": {"a": 1.0}}, {"q": None}, ["AP"])


@pytest.mark.parametrize("grade", [1.5, 1001, "1", None])
def test_grades_that_are_no_whole_numbers_are_refused(grade):
    """A grade is a whole number up to 1000; a text or an empty cell is none."""
    run = {"q": [("a", 1.0)]}
    with pytest.raises((MetricError, DataError)):
        evaluate({"q": {"a": 1.0}}, {"q": {"a": grade}}, ["AP"])
    with pytest.raises((MetricError, DataError)):
        evaluate(*from_frames(run, {"q": {"a": grade}}), ["AP"])


def test_ids_that_are_no_text_are_refused():
    """Ids are text: 7 and "7" are not joined by a guess, and an empty cell is no id."""
    frame, judged = from_frames({"q": [("7", 1.0)]}, {"q": {"7": 1}})
    with pytest.raises(DataError, match="doc_id holds int64: ids are text"):
        evaluate(frame.astype({"doc_id": int}), judged, ["AP"])
    with pytest.raises(DataError, match="doc_id has 1 empty cell"):
        evaluate(frame.assign(doc_id=None).astype({"doc_id": "str"}), judged, ["AP"])
    with pytest.raises(DataError, match="of two kinds"):
        evaluate({"q": {"7": 1.0}}, judged, ["AP"])


def test_a_pair_judged_twice_is_refused():
    """Two judgments of one document leave no way to tell which holds."""
    frame, judged = from_frames({"q": [("a", 1.0)]}, {"q": {"a": 1}})
    with pytest.raises(DataError, match="query 'q': document 'a' is judged twice"):
        evaluate(frame, pd.concat([judged, judged.assign(grade=0)]), ["AP"])


def test_two_documents_of_one_rank_are_refused():
    """A rank column that does not order the rows is no order as returned."""
    frame, judged = from_frames({"q": [("a", 1.0), ("b", 0.5)]}, {"q": {"a": 1}})
    with pytest.raises(DataError, match="same rank"):
        evaluate(frame.assign(rank=1), judged, ["AP"])


def test_dicts_need_no_pyarrow_and_no_pandas():
    """A cold process that scores dicts loads numpy alone."""
    script = (
        "import sys; from evalkit.metrics import evaluate\n"
        "evaluate({'q': {'a': 1.0, 'b': 1.0}}, {'q': {'a': 1}}, ['nDCG@10']).means()\n"
        "sys.exit(' '.join({'pandas', 'pyarrow', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert done.stderr == "\n" or done.stderr == ""


def test_tables_need_no_pandas():
    """A cold process that scores Arrow tables, ties and chunks included, does not load pandas."""
    script = (
        "import io, sys; import pyarrow as pa; from pyarrow.csv import read_csv\n"
        "from evalkit.metrics import PRESETS, evaluate\n"
        "run = read_csv(io.BytesIO(b'query_id,doc_id,score\\nq,a,1.0\\nq,b,1.0\\n'))\n"
        "qrels = read_csv(io.BytesIO(b'query_id,doc_id,grade\\nq,a,1\\nr,a,1\\n'))\n"
        "run = pa.concat_tables([run.slice(0, 1), run.slice(1, 1)])\n"
        "evaluate(run, qrels, ['nDCG@10', 'bpref'], policy=PRESETS['trec_eval']).means()\n"
        "sys.exit(' '.join({'pandas', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert done.stderr == "\n" or done.stderr == ""
