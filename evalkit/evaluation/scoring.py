"""Scores any run against any judgments, as people use trec_eval: no workbook, no labelled set."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalkit import metrics
from evalkit.errors import DataError

if TYPE_CHECKING:
    from evalkit.datasets import Finding

SCORED = (
    *("Precision@5", "Precision@10", "Recall@10", "Recall@100", "Success@10"),
    *("ReciprocalRank", "AP", "nDCG@10", "Rprec", "bpref", "Judged@10"),
)


def score(
    run: Any, qrels: Any, names: Sequence[str] = SCORED, *, preset: str = "evalkit"
) -> metrics.Scores:
    """Values of every judged question, from dicts, frames, Arrow tables or files.

    `run`: {query: {doc: score}}, a frame `query_id, doc_id, score[, rank]`, or the path of a TREC,
    CSV or Parquet file; `qrels` likewise with grades. Both are of one kind, except that a path
    goes with a table. `preset` names the conventions: with `trec_eval` the values are trec_eval's.

    >>> found = score({"q": {"x": 2.0, "a": 1.0}}, {"q": {"a": 1}}, ["MRR", "nDCG@10"])
    >>> {name: round(mean.value, 4) for name, mean in found.means().items()}
    {'ReciprocalRank': 0.5, 'nDCG@10': 0.6309}
    """
    return metrics.evaluate(
        _table(run, "run"), _table(qrels, "qrels"), names, policy=metrics.preset(preset)
    )


def findings(run: str | Path, qrels: str | Path) -> list[Finding]:
    """What is odd about two files: ids that nearly match, ranks that contradict scores."""
    from evalkit.datasets import tables, trec

    ranked, judged = _table(run, "run"), _table(qrels, "qrels")
    odd = tables.join_findings(ranked, judged)
    if not {".csv", ".parquet"} & set(Path(run).suffixes):
        odd += trec.run_findings(ranked, Path(run))
    return odd


def as_text(scores: metrics.Scores, *, per_question: bool) -> str:
    """Lines `metric <tab> question <tab> value`, the means last under `all`, as trec_eval prints.

    Undefined values are left out, never printed as 0; each mean says over how many it is.
    """
    lines = []
    if per_question:
        for query_id, row in zip(scores.query_ids, scores.values.tolist(), strict=True):
            lines += [
                f"{name}\t{query_id}\t{value:.4f}"
                for name, value in zip(scores.names, row, strict=True)
                if not math.isnan(value)
            ]
    for name, mean in scores.means().items():
        shown = "undefined" if math.isnan(mean.value) else f"{mean.value:.4f}"
        lines.append(f"{name}\tall\t{shown}\tn={mean.count}")
    if scores.missing:
        lines.append(f"# {len(scores.missing)} judged questions are missing from the run")
    if scores.unjudged:
        lines.append(f"# {len(scores.unjudged)} questions of the run are not judged: not scored")
    return "\n".join(lines)


def as_json(scores: metrics.Scores, *, preset: str, per_question: bool) -> str:
    """The same as JSON at full precision, with the policy; undefined values are null."""
    means = {
        name: {"mean": _number(mean.value), "count": mean.count, "undefined": mean.undefined}
        for name, mean in scores.means().items()
    }
    found: dict[str, Any] = {
        "preset": preset,
        "policy": asdict(metrics.preset(preset)),
        "means": means,
        "missing": list(scores.missing),
        "unjudged": list(scores.unjudged),
    }
    if per_question:
        found["questions"] = {
            query_id: {n: _number(v) for n, v in zip(scores.names, row, strict=True)}
            for query_id, row in zip(scores.query_ids, scores.values.tolist(), strict=True)
        }
    return json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False)


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _table(given: Any, what: str) -> Any:
    if not isinstance(given, str | Path):
        return given
    if not Path(given).is_file():
        raise DataError("no such file", path=str(given))
    from evalkit import datasets

    read = datasets.read_run_columns if what == "run" else datasets.read_qrels_columns
    return read(given)
