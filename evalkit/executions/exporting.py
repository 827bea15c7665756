"""A stored evaluation in the shapes of two other systems: Mixpeek's record, aieval's store."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalkit.errors import ExecutionError, ParameterError
from evalkit.evaluation import status
from evalkit.executions.store import Execution
from evalkit.executions.timeline import mode_inputs
from evalkit.records import LabelledSet, Query

if TYPE_CHECKING:
    import pandas as pd

_MIXPEEK_NAMES = {"AP": "map", "ReciprocalRank": "mrr", "nDCG": "ndcg"}
_ANSWERED = ("scored", "zero_hit")
_FORBIDDEN = re.compile(r'[<>:"/\\|?*\x00-\x1f]')


def mixpeek(execution: Execution, labelled: LabelledSet, mode: str) -> dict[str, Any]:
    """One mode of an execution as a Mixpeek evaluation record, with per-query results.

    evaluation_id, retriever_id    the execution's name, the mode
    dataset_name, dataset_version  the labelled set's
    config                         k_values, metrics, and the policy the values follow
    status                         in_progress, completed or failed; failed where a question failed
                                   and where none was evaluated, never zeros in their place
    created_at, completed_at       recorded start and end, UTC
    total_queries                  answerable questions: Mixpeek's sets hold no others
    evaluated_queries              those with values; a question without hits has zeros
    skipped_queries                all others, each with its error in query_results
    unsupported_queries            (ours) unanswerable questions asked, which enter no metric
    overall_metrics                flat, `<metric>_at_<k>`: means over the evaluated queries
    metrics_by_k                   the same under the k as text, then the metric
    query_results                  one entry a question: query_id, query_input, status
                                   (evaluated, skipped), relevant_count, retrieved_count, metrics
                                   under the keys of overall_metrics, or error
    error_message                  why it failed, where it did

    Metrics are precision, recall, f1, f2, map, mrr, ndcg, and others by their own names.
    """
    manifest = execution.manifest
    results, outcomes = _frames(execution, labelled, mode)
    answerable = outcomes[outcomes["answerable"]]
    evaluated = answerable[answerable["status"].isin(_ANSWERED)]
    by_k: dict[str, dict[str, float]] = {}
    means = results.groupby(["metric", "cutoff"], sort=False)["value"].mean().reset_index()
    for _, row in means.iterrows():
        by_k.setdefault(row["cutoff"], {})[_mixpeek_name(row["metric"])] = float(row["value"])
    running = manifest["status"] in ("pending", "in_progress")
    ended = status(outcomes) if len(evaluated) else "failed"
    record: dict[str, Any] = {
        "evaluation_id": execution.name,
        "retriever_id": mode,
        "dataset_name": labelled.name,
        "dataset_version": labelled.version,
        "config": _config(execution),
        "status": "in_progress" if running else ended,
        "created_at": manifest["started"],
        "completed_at": manifest.get("ended"),
        "total_queries": len(answerable),
        "evaluated_queries": len(evaluated),
        "skipped_queries": len(answerable) - len(evaluated),
        "unsupported_queries": int((~outcomes["answerable"]).sum()),
        "overall_metrics": {
            f"{name}_at_{k.lower()}": mean
            for k, means in by_k.items()
            for name, mean in means.items()
        },
        "metrics_by_k": {k.lower(): means for k, means in by_k.items()},
        "query_results": list(_query_results(results, answerable, labelled)),
    }
    if record["status"] == "failed":
        without = [row["query_id"] for row in record["query_results"] if "error" in row]
        record["error_message"] = f"{len(without)} queries have no scores: {', '.join(without)}"
    return record


def _config(execution: Execution) -> dict[str, Any]:
    scoring = execution.inputs["scoring"]
    return {
        "k_values": scoring["cutoffs"],
        "metrics": [_mixpeek_name(metric) for metric in scoring["metrics"]],
        "policy": scoring["policy"],
    }


def _query_results(
    results: pd.DataFrame, answerable: pd.DataFrame, labelled: LabelledSet
) -> Iterator[dict[str, Any]]:
    queries = {query.query_id: query for query in labelled.queries}
    values = {query_id: rows for query_id, rows in results.groupby("query_id", sort=False)}
    for _, row in answerable.iterrows():
        query = queries[row["query_id"]]
        entry = {
            "query_id": query.query_id,
            "query_input": dict(query.query_input) or {"text": query.text},
            "status": "evaluated" if row["status"] in _ANSWERED else "skipped",
            "relevant_count": sum(g >= labelled.relevant_from for g in query.grades.values()),
        }
        if row["status"] not in _ANSWERED:
            yield entry | {"error": f"{row['status']}: {row['reason']}"}
            continue
        metrics = {
            f"{_mixpeek_name(each['metric'])}_at_{each['cutoff'].lower()}": float(each["value"])
            for _, each in values[query.query_id].iterrows()
        }
        yield entry | {"retrieved_count": int(row["hits"]), "metrics": metrics}


def _mixpeek_name(metric: str) -> str:
    """Mixpeek's name of a metric.

    >>> _mixpeek_name("nDCG"), _mixpeek_name("F2"), _mixpeek_name("RequirementRecall")
    ('ndcg', 'f2', 'requirement_recall')
    """
    return _MIXPEEK_NAMES.get(metric) or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", metric).lower()


def write_aieval(execution: Execution, labelled: LabelledSet, mode: str, root: Path) -> Path:
    """Writes one mode of an execution as results that `aieval report --path ROOT` reads.

    `<root>/results/<execution>-<mode>/Retrieval.K{k}.{category}.{id}/1.json`, one file a
    question and depth; the folder is whole or not there, and one that exists is never added to.

    scenarioName, iterationName, executionName   as in the path; the iteration is "1"
    creationTime          the execution's recorded end (aieval itself orders by folder times)
    messages              the question, as the user's message
    modelResponse         an empty message of the assistant: retrieval answers nothing
    evaluationResult      metrics by name (`nDCG@3`), each `$type` numeric with value, reason and
                          the context RetrievalRanking: evidence (key, score, grade, text) and
                          judgments; a question without scores has no value, an error in
                          `diagnostics`, and an interpretation that failed
    tags                  mode, category, split, set and version
    formatVersion         1

    No metric is rated: whether a value is good is decided by a comparison, not by a report.
    Nulls are left out. Unsupported questions have no relevance metric and no scenario.
    """
    results, outcomes = _frames(execution, labelled, mode)
    evidence = execution.read_frame(f"evidence-{mode}")
    hits = {query_id: rows for query_id, rows in evidence.groupby("query_id", sort=False)}
    ended = {row["query_id"]: row for row in outcomes.to_dict("records")}
    target = root / "results" / _segment(f"{execution.name}-{mode}")
    if target.exists():
        raise ExecutionError(f"{target} exists: a scenario is written once. Choose another root.")
    written = {}
    for query in (query for query in labelled.queries if query.answerable):
        for k in execution.inputs["scoring"]["cutoffs"]:
            name = _segment(f"Retrieval.K{k}.{query.category or 'none'}.{query.query_id}")
            found = hits.get(query.query_id, evidence.head(0))
            values = results[
                (results["query_id"] == query.query_id) & (results["cutoff"] == str(k))
            ]
            metrics = _aieval_metrics(query, k, values, found, ended[query.query_id], execution)
            written[name] = _scenario(execution, labelled, mode, query, name) | {
                "evaluationResult": {"metrics": metrics}
            }
    _write_folder(target, written)
    return target


def _scenario(
    execution: Execution, labelled: LabelledSet, mode: str, query: Query, name: str
) -> dict[str, Any]:
    tags = (mode, query.category, query.split, f"{labelled.name} {labelled.version}")
    return {
        "scenarioName": name,
        "iterationName": "1",
        "executionName": f"{execution.name}-{mode}",
        "creationTime": execution.manifest.get("ended") or execution.manifest["started"],
        "messages": [_message("user", query.text)],
        "modelResponse": {"messages": [_message("assistant", "")]},
        "tags": [tag for tag in tags if tag],
        "formatVersion": 1,
    }


def _aieval_metrics(
    query: Query,
    k: int,
    values: pd.DataFrame,
    found: pd.DataFrame,
    outcome: Mapping[Any, Any],
    execution: Execution,
) -> dict[str, Any]:
    """The metrics of one scenario, or the declared ones without a value and with the error."""
    shown = found[found["rank"] <= k]
    context = {"RetrievalRanking": _context(query, shown)}
    if outcome["status"] not in _ANSWERED:
        problem = f"{outcome['status']}: {outcome['reason']}"
        broken = {
            "reason": problem,
            "interpretation": {"rating": "inconclusive", "failed": True, "reason": problem},
            "context": context,
            "diagnostics": [{"severity": "error", "message": problem}],
        }
        names = [f"{metric}@{k}" for metric in execution.inputs["scoring"]["metrics"]]
        return {name: {"$type": "numeric", "name": name} | broken for name in names}
    reason = f"Scored {len(shown)} results at K={k}."
    return {
        name: {
            "$type": "numeric",
            "value": float(value),
            "name": name,
            "reason": reason,
            "context": context,
            "diagnostics": [],
        }
        for name, value in zip(values["metric"] + f"@{k}", values["value"], strict=True)
    }


def _context(query: Query, shown: pd.DataFrame) -> dict[str, Any]:
    """The ranking as evidence beside the judgments, as JSON text inside a text content."""
    evidence = [
        {
            "key": row["doc_id"],
            "score": float(row["score"]),
            "grade": None if row["grade"] != row["grade"] else int(row["grade"]),
            "text": row["text"],
        }
        for row in shown.astype({"grade": "float64"}).to_dict("records")
    ]
    judgments = [{"key": doc_id, "grade": grade} for doc_id, grade in query.grades.items()]
    text = json.dumps({"evidence": evidence, "judgments": judgments}, ensure_ascii=False)
    return {"name": "RetrievalRanking", "contents": [{"$type": "text", "text": text}]}


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "contents": [{"$type": "text", "text": text}]}


def _segment(name: str) -> str:
    """A name that is one folder on every system, or an error: it is never altered in silence.

    >>> _segment("Retrieval.K1.fact.q1")
    'Retrieval.K1.fact.q1'
    """
    if not name or name != name.strip() or name in (".", "..") or _FORBIDDEN.search(name):
        raise ParameterError(
            f"{name!r} cannot be the name of a folder; rename the question or its category."
        )
    return name


def _write_folder(target: Path, records: dict[str, dict[str, Any]]) -> None:
    """Writes all records outside of `results` and moves them into place together."""
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".partial-", dir=target.parents[1]))
    try:
        scratch.chmod(0o755)  # mkdtemp makes folders private; results are to be shared
        for name, record in records.items():
            (scratch / name).mkdir()
            text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)
            (scratch / name / "1.json").write_text(text + "\n", encoding="utf-8")
        os.replace(scratch, target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _frames(
    execution: Execution, labelled: LabelledSet, mode: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Results and outcomes of the mode, refused when the set is not the one evaluated."""
    mode_inputs(execution.inputs, mode)
    recorded = execution.inputs["set"]["fingerprints"]
    if recorded != dict(labelled.fingerprints):
        raise ExecutionError(
            f"{labelled.name} {labelled.version} is not what {execution.name} evaluated: "
            "its fingerprints differ. Load the version of that execution."
        )
    results, outcomes = (execution.read_frame(name) for name in ("results", "outcomes"))
    return results[results["mode"] == mode], outcomes[outcomes["mode"] == mode]
