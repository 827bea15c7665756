"""An evaluation written into its execution: rankings, evidence, values, outcomes, summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from evalkit import files
from evalkit.datasets import trec
from evalkit.errors import DataError
from evalkit.evaluation import Evaluation, Plan, counts, ideal, means, status
from evalkit.executions.markdown import summary_text
from evalkit.executions.store import Execution
from evalkit.records import LabelledSet

if TYPE_CHECKING:
    import pandas as pd


def save(
    execution: Execution, labelled: LabelledSet, evaluations: Sequence[Evaluation], plan: Plan
) -> dict[str, Any]:
    """Records the inputs, writes every table of the evaluations, and last the summary.

    A summary therefore stands for complete tables; an execution killed half-way has none.
    """
    import pandas as pd

    record(execution, labelled, evaluations, plan)
    ceilings = ideal(labelled, plan)

    for each in evaluations:
        execution.write_frame(f"run-{each.mode}", each.run)
        execution.write_frame(f"evidence-{each.mode}", each.evidence)
        _write_trec(execution, each)
    results = pd.concat([_with_mode(each.results, each) for each in evaluations])
    outcomes = pd.concat([_with_mode(each.outcomes, each) for each in evaluations])
    execution.write_frame("results", results)
    execution.write_frame("outcomes", outcomes)
    execution.write_frame("ceilings", ceilings)
    summary = summarise(labelled, evaluations, ceilings, plan)
    page = summary_text(execution.manifest, labelled, summary)
    files.write_text(execution.folder / "summary.md", page)
    execution.write_json("summary", summary)
    return summary


def _write_trec(execution: Execution, evaluation: Evaluation) -> None:
    """The run in TREC form, unless an id holds a blank, which that form cannot say."""
    name = f"run-{evaluation.mode}.trec"
    try:
        trec.write_run(execution.folder / name, evaluation.run, tag=evaluation.mode)
    except DataError as problem:
        reason = str(problem)
        execution.record(
            lambda manifest: manifest.setdefault("left_out", {}).update({name: reason})
        )


def record(
    execution: Execution, labelled: LabelledSet, evaluations: Sequence[Evaluation], plan: Plan
) -> None:
    """Writes into the manifest every input that two comparable executions must share.

    The checksum of the vectors is kept apart, as an artifact: the same model on another
    processor gives vectors that differ in the seventh digit, which is no other experiment.
    """
    embedders: dict[str, Any] = {}
    artifacts: dict[str, Any] = {}
    settings = {
        each.mode: _split(dict(each.settings), embedders, artifacts) for each in evaluations
    }
    execution.record_inputs(
        set={
            "name": labelled.name,
            "version": labelled.version,
            "fingerprints": dict(labelled.fingerprints),
        },
        chunking=labelled.chunking,
        eligibility=dict(labelled.eligibility),
        scoring={
            "cutoffs": list(plan.cutoffs),
            "metrics": list(plan.metrics),
            "policy": asdict(plan.policy),
        },
        embedder=embedders,
        retrieval=settings,
    )
    execution.record(lambda manifest: manifest.setdefault("artifacts", {}).update(artifacts))


def _split(
    settings: dict[str, Any], embedders: dict[str, Any], artifacts: dict[str, Any]
) -> dict[str, Any]:
    """A retriever's settings without its embedder and without counts and checksums of content."""
    kept = {}
    for name, value in settings.items():
        if name in ("embedder", "question_embedder") and embedders in ({}, value):
            embedders.update(value)
        elif name in ("vectors_sha256", "points", "eligible"):
            artifacts[name] = value
        else:
            kept[name] = _split(value, embedders, artifacts) if isinstance(value, dict) else value
    return kept


def table(summary: dict[str, Any], part: str = "headline", **where: Any) -> pd.DataFrame:
    """A part of the summary as a frame, so that what a notebook shows is what was stored.

    `where` keeps rows by exact values, such as metric="nDCG"; a cutoff may be a number.
    """
    import pandas as pd

    frame = pd.DataFrame(summary[part])
    for name, value in where.items():
        frame = frame[frame[name] == (str(value) if name == "cutoff" else value)]
    return frame


def by_mode(summary: dict[str, Any]) -> pd.DataFrame:
    """The headline means, a row for each mode and depth, a column a metric; ceilings below."""
    import pandas as pd

    frame = pd.DataFrame(summary["headline"])
    ceilings = frame.drop_duplicates(["metric", "cutoff"]).assign(mode="ceiling")
    ceilings["mean"] = ceilings["ceiling"]
    both = pd.concat([frame, ceilings]).rename(columns={"cutoff": "k"})
    both["k"] = both["k"].astype(int)
    wide = both.pivot_table(index=["mode", "k"], columns="metric", values="mean", sort=False)
    wide.insert(0, "n", both.groupby(["mode", "k"], sort=False)["count"].max())
    return wide.rename_axis(columns=None).reset_index()


def outcome_sentences(summary: dict[str, Any]) -> list[str]:
    """How many questions ended how, mode by mode, and what that makes of the execution."""
    asked = summary["questions"]
    total = f"{asked['answerable']} answerable and {asked['unsupported']} unsupported questions."
    return [total] + [
        f"{mode}: "
        + ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in found.items())
        + f"; {summary['status'][mode]}."
        for mode, found in summary["outcomes"].items()
    ]


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
