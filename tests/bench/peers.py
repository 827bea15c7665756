"""The peers, each called as its users call it, for no more than we compute.

Ours gives 48 columns a query and their means. `pytrec_eval` here means 25 columns without means
or F; `pytrec_eval, all` adds F1, F2, cut reciprocal ranks and means, which a user must write;
ranx gives means of 36 columns, ir_measures of 25, BEIR of its own five measures.
"""

import os
import subprocess
from dataclasses import replace

from evalkit.metrics import PRESETS, evaluate

CUTOFFS = (1, 3, 5, 10, 20, 100)
MEASURES = ("Precision", "Recall", "F1", "F2", "AP", "ReciprocalRank", "nDCG", "Success")
NAMES = [f"{measure}@{cutoff}" for measure in MEASURES for cutoff in CUTOFFS]
BY_SCORE = replace(PRESETS["trec_eval"], gain="exp2", rr_cutoff="k")
AS_RETURNED = replace(BY_SCORE, order="as_returned")

_LISTED = ",".join(map(str, CUTOFFS))
_RANX = [
    f"{measure}@{cutoff}"
    for measure in ("precision", "recall", "f1", "map", "mrr", "ndcg_burges")
    for cutoff in CUTOFFS
]


def ours(run, qrels, policy=BY_SCORE, names=NAMES):
    """Values and means, from whatever form of data."""
    scores = evaluate(run, qrels, names, policy=policy)
    return scores, scores.means()


def pytrec(run, qrels, cutoffs=None):
    """pytrec_eval's own result: a dict a query."""
    import pytrec_eval

    listed = ",".join(map(str, cutoffs or CUTOFFS))
    asked = {f"{measure}.{listed}" for measure in ("P", "recall", "map_cut", "ndcg_cut")}
    return pytrec_eval.RelevanceEvaluator(qrels, {*asked, "recip_rank"}).evaluate(run)


def pytrec_all(run, qrels):
    """pytrec_eval with what its users add, as they add it: pandas."""
    import pandas as pd

    table = pd.DataFrame.from_dict(pytrec(run, qrels), orient="index")
    for k in CUTOFFS:
        p, r = table[f"P_{k}"], table[f"recall_{k}"]
        table[f"F1_{k}"] = (2 * p * r / (p + r)).fillna(0)
        table[f"F2_{k}"] = (5 * p * r / (4 * p + r)).fillna(0)
        table[f"RR_{k}"] = table["recip_rank"].where(table["recip_rank"] >= 1 / k - 1e-12, 0)
    return table.mean()


def beir(run, qrels):
    """BEIR's evaluator; its default would delete documents whose id is the query's."""
    from beir.retrieval.evaluation import EvaluateRetrieval

    first = EvaluateRetrieval.evaluate(qrels, run, list(CUTOFFS), ignore_identical_ids=False)
    return first, EvaluateRetrieval.evaluate_custom(qrels, run, list(CUTOFFS), "mrr")


def ranx(run, qrels):
    """ranx through its own types, which is how it documents itself."""
    from ranx import Qrels, Run, evaluate

    return evaluate(Qrels(qrels), Run(run), _RANX, make_comparable=True)


def ranx_frames(run, qrels):
    """ranx from frames; it asks for object columns, so a user has to cast."""
    from ranx import Qrels, Run, evaluate

    kinds = {"query_id": object, "doc_id": object}
    columns = {"q_id_col": "query_id", "doc_id_col": "doc_id"}
    judged = Qrels.from_df(qrels.astype(kinds), **columns, score_col="grade")
    returned = Run.from_df(run.astype(kinds), **columns, score_col="score")
    return evaluate(judged, returned, _RANX, make_comparable=True)


def ranx_files(run, qrels):
    """ranx from TREC files."""
    from ranx import Qrels, Run, evaluate

    judged, returned = (
        kind.from_file(str(path), kind="trec") for kind, path in ((Qrels, qrels), (Run, run))
    )
    return evaluate(judged, returned, _RANX, make_comparable=True)


def _ir_measures():
    import ir_measures

    gains = {1: 1, 2: 3, 3: 7}
    return [ir_measures.RR] + [
        measure
        for k in CUTOFFS
        for measure in (
            ir_measures.P @ k,
            ir_measures.R @ k,
            ir_measures.AP @ k,
            ir_measures.nDCG(gains=gains) @ k,
        )
    ]


def ir_measures(run, qrels):
    """ir_measures from dicts."""
    import ir_measures as library

    return library.pytrec_eval.calc_aggregate(_ir_measures(), qrels, run)


def ir_measures_frames(run, qrels):
    """ir_measures from frames, whose judgments it calls relevance."""
    return ir_measures(run, qrels.rename(columns={"grade": "relevance"}))


def ir_measures_files(run, qrels):
    """ir_measures from TREC files."""
    import ir_measures as library

    return library.calc_aggregate(
        _ir_measures(), library.read_trec_qrels(str(qrels)), library.read_trec_run(str(run))
    )


def to_dicts(frame, column):
    """What a user of pytrec_eval writes to get from a frame to dicts."""
    found: dict = {}
    rows = zip(
        frame["query_id"].tolist(), frame["doc_id"].tolist(), frame[column].tolist(), strict=True
    )
    for query, doc, value in rows:
        if query in found:
            found[query][doc] = value
        else:
            found[query] = {doc: value}
    return found


def pytrec_frames(run, qrels):
    """From frames to dicts to pytrec_eval."""
    return pytrec_all(to_dicts(run, "score"), to_dicts(qrels, "grade"))


def parsed(run, qrels):
    """Run and judgments as pytrec_eval's own readers make them."""
    import pytrec_eval

    with open(run) as returned, open(qrels) as judged:
        return pytrec_eval.parse_run(returned), pytrec_eval.parse_qrel(judged)


def pytrec_files(run, qrels):
    """pytrec_eval with its own readers, and what its users add."""
    return pytrec_all(*parsed(run, qrels))


def pytrec_plain(run, qrels):
    """pytrec_eval with its own readers and nothing added."""
    return pytrec(*parsed(run, qrels))


def trec_eval(run, qrels):
    """The program named by the variable TREC_EVAL, as a process."""
    measures = [f"P.{_LISTED}", f"recall.{_LISTED}", f"map_cut.{_LISTED}", "recip_rank"]
    asked = [part for name in (*measures, f"ndcg_cut.{_LISTED}") for part in ("-m", name)]
    command = [os.environ["TREC_EVAL"], "-c", *asked, str(qrels), str(run)]
    return subprocess.run(command, capture_output=True, check=True).stdout


def disagreement(run_dict, qrels_dict, run, qrels) -> float:
    """The largest difference of any value from pytrec_eval's, linear gain as it has it.

    A query that pytrec_eval leaves out, because the run lacks it, must be all zeros.
    """
    names = {"P": "Precision", "recall": "Recall", "map_cut": "AP", "ndcg_cut": "nDCG"}
    asked = {f"{t}_{k}": f"{m}@{k}" for t, m in names.items() for k in CUTOFFS}
    asked["recip_rank"] = "ReciprocalRank"
    found = evaluate(run, qrels, list(asked.values()), policy=PRESETS["trec_eval"])
    expected = pytrec(run_dict, qrels_dict)
    worst = 0.0
    for query, row in zip(found.query_ids, found.values.tolist(), strict=True):
        right = expected.get(query, dict.fromkeys(asked, 0.0))
        worst = max(worst, *(abs(right[t] - v) for t, v in zip(asked, row, strict=True)))
    return worst
