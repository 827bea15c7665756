"""An evaluation written into its execution: rankings, evidence, values, outcomes, summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evalkit.datasets import trec
from evalkit.evaluation import Evaluation, Plan, counts, means, status
from evalkit.executions.store import Execution
from evalkit.records import LabelledSet

if TYPE_CHECKING:
    import pandas as pd


def save(
    execution: Execution,
    labelled: LabelledSet,
    evaluations: Sequence[Evaluation],
    ceilings: pd.DataFrame,
    plan: Plan,
) -> dict[str, Any]:
    """Writes every table of the evaluations and returns the summary, which is written last.

    A summary therefore stands for complete tables; an execution killed half-way has none.
    """
    import pandas as pd

    for each in evaluations:
        execution.write_frame(f"run-{each.mode}", each.run)
        execution.write_frame(f"evidence-{each.mode}", each.evidence)
        trec.write_run(execution.folder / f"run-{each.mode}.trec", each.run, tag=each.mode)
    results = pd.concat([_with_mode(each.results, each) for each in evaluations])
    outcomes = pd.concat([_with_mode(each.outcomes, each) for each in evaluations])
    execution.write_frame("results", results)
    execution.write_frame("outcomes", outcomes)
    execution.write_frame("ceilings", ceilings)
    summary = summarise(labelled, evaluations, ceilings, plan)
    execution.write_json("summary", summary)
    return summary


def summarise(
    labelled: LabelledSet,
    evaluations: Sequence[Evaluation],
    ceilings: pd.DataFrame,
    plan: Plan,
) -> dict[str, Any]:
    """The numbers a reader may quote, as JSON: means with counts, ceilings and intervals."""
    answerable = sum(query.answerable for query in labelled.queries)
    overall, by_category, returned = [], [], []
    for each in evaluations:
        overall += _rows(each, means(each.results, each.outcomes, ceilings))
        by_category += _rows(each, means(each.results, each.outcomes, ceilings, by=["category"]))
        unsupported = each.outcomes[~each.outcomes["answerable"]]
        returned.append(
            {
                "mode": each.mode,
                "questions": len(unsupported),
                "returned_something": int((unsupported["hits"] > 0).sum()),
                "mean_hits": float(unsupported["hits"].mean()) if len(unsupported) else None,
            }
        )
    return {
        "set": {"name": labelled.name, "version": labelled.version},
        "questions": {"answerable": answerable, "unsupported": len(labelled.queries) - answerable},
        "status": {each.mode: status(each.outcomes) for each in evaluations},
        "outcomes": {each.mode: counts(each.outcomes) for each in evaluations},
        "cutoffs": list(plan.cutoffs),
        "headline": overall,
        "by_category": by_category,
        "unsupported": returned,
    }


def _with_mode(frame: pd.DataFrame, evaluation: Evaluation) -> pd.DataFrame:
    frame = frame.copy()
    frame.insert(0, "mode", evaluation.mode)
    return frame


def _rows(evaluation: Evaluation, frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as plain JSON values; an undefined mean is null, never NaN."""
    rows = _with_mode(frame, evaluation).astype(object)
    plain = rows.where(rows.notna(), None).to_dict(orient="records")
    return [{str(name): value for name, value in row.items()} for row in plain]
