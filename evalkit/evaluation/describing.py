"""What is evaluated, in tables and sentences: corpus, questions, stability of the rankings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from evalkit import metrics, retrieval
from evalkit.evaluation.asking import Plan
from evalkit.evaluation.evaluating import Evaluation
from evalkit.evaluation.values import EVIDENCE_METRICS, judged, means_of
from evalkit.records import Chunk, LabelledSet, Query

if TYPE_CHECKING:
    import pandas as pd


def corpus(labelled: LabelledSet, chunks: Sequence[Chunk]) -> pd.DataFrame:
    """Documents and chunks by the fields that decide eligibility; one row a combination."""
    import pandas as pd

    names = list(labelled.eligibility)
    rows = [
        {
            **{name: chunk.fields.get(name, "") for name in names},
            "may be retrieved": "yes" if labelled.is_eligible(chunk.fields) else "no",
            "document_id": chunk.document_id,
            "doc_id": chunk.doc_id,
        }
        for chunk in chunks
    ]
    grouped = pd.DataFrame(rows).groupby([*names, "may be retrieved"], sort=True)
    counted = grouped.agg(documents=("document_id", "nunique"), chunks=("doc_id", "size"))
    return counted.reset_index().sort_values("may be retrieved", ascending=False)


def questions(labelled: LabelledSet) -> pd.DataFrame:
    """How many questions of each category and split, and how many relevant chunks they have."""
    import pandas as pd

    rows = [
        {
            "kind": "answerable" if query.answerable else "unsupported",
            "category": query.category or "–",
            "split": query.split or "–",
            "relevant": sum(grade >= labelled.relevant_from for grade in query.grades.values()),
        }
        for query in labelled.queries
    ]
    frame = pd.DataFrame(rows)
    counted = frame.pivot_table(
        index=["kind", "category"], columns="split", values="relevant", aggfunc="size", fill_value=0
    )
    counted["questions"] = counted.sum(axis=1)
    relevant = frame.groupby(["kind", "category"])["relevant"].mean()
    counted["relevant chunks a question"] = relevant
    return counted.reset_index()


def prefix_sentence(evaluations: Sequence[Evaluation]) -> str:
    """Whether shorter rankings begin the longer ones, mode by mode, naming those that do not."""
    said = []
    for each in evaluations:
        unstable = each.outcomes.loc[~each.outcomes["prefix_stable"], "query_id"]
        if len(unstable):
            named = ", ".join(unstable[:5])
            said.append(f"{each.mode}: {len(unstable)} questions changed with the depth ({named}).")
        else:
            said.append(f"{each.mode}: every shorter ranking begins the deepest one.")
    return " ".join(said)


def collection(report: dict[str, Any]) -> dict[str, Any]:
    """What an index run read back and compared, without anything that differs between reruns."""
    names = ("name", "points", "eligible", "filter", "dimension", "distance")
    facts = {name: report[name] for name in names}
    return {
        **facts,
        "chunks longer than the model reads": _named(report.get("overlong", [])),
        "chunks without a vector": _named(list(report.get("failed", {}))),
        "checksum of the chunks": report["chunks_sha256"][:16],
    }


def _named(doc_ids: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(doc_ids[:most])
    return f"{len(doc_ids)}: {shown}{' ...' if len(doc_ids) > most else ''}" if doc_ids else "none"


def completion_sentences(evaluations: Sequence[Evaluation]) -> list[str]:
    """How many answers were complete, and at which rank the last fact of half of them came."""
    said = []
    for each in evaluations:
        needing = each.outcomes[each.outcomes["answerable"]]
        ranks = needing["completed_at"].dropna()
        if ranks.empty:
            said.append(f"{each.mode}: no question of this set became complete by its facts.")
            continue
        said.append(
            f"{each.mode}: {len(ranks)} of {len(needing)} questions were answered completely, "
            f"half of them by rank {ranks.median():g}, the last by rank {ranks.max():g}."
        )
    return said


def recall_against_facts(
    labelled: LabelledSet, evaluation: Evaluation, plan: Plan, most: int = 10
) -> pd.DataFrame:
    """Questions whose recall and share of facts differ most at the smallest depth.

    Recall asks for every labelled chunk; a fact stated in two of them is found with either.
    """
    depth = str(min(plan.cutoffs))
    at = evaluation.results[evaluation.results["cutoff"] == depth]
    wide = at.pivot_table(index="query_id", columns="metric", values="value")
    if not {"Recall", *EVIDENCE_METRICS} <= set(wide.columns):
        return wide.head(0).reset_index()
    wide = wide[["Recall", *EVIDENCE_METRICS]]
    gap = (wide["RequirementRecall"] - wide["Recall"]).abs()
    wide = wide[gap > 0].loc[
        gap.sort_values(ascending=False, kind="stable").index[: (gap > 0).sum()]
    ]
    shown = wide.head(most).reset_index()
    queries = {query.query_id: query for query in labelled.queries}
    relevant = [sum(g > 0 for g in queries[name].grades.values()) for name in shown["query_id"]]
    shown.insert(1, "facts", [len(queries[name].requirements) for name in shown["query_id"]])
    shown.insert(1, "relevant chunks", relevant)
    shown.insert(1, "question", [queries[name].text for name in shown["query_id"]])
    return shown.rename(columns={name: f"{name}@{depth}" for name in wide.columns})


def under_two_policies(
    evaluation: Evaluation, labelled: LabelledSet, plan: Plan, other: str
) -> pd.DataFrame:
    """The same rankings scored under the plan's policy and another preset, and what differs."""
    import pandas as pd

    queries = [query for query in labelled.queries if query.answerable]
    rankings = {query_id: dict(ranked) for query_id, ranked in _rankings(evaluation).items()}
    second = metrics.preset(other)
    names = [f"{name}@{max(plan.cutoffs)}" for name in plan.metrics]
    means = [
        means_of(rankings, queries, each, complete=labelled.complete).values()
        for each in (plan, replace(plan, policy=second))
    ]
    rows = [
        (name, first, then, ", ".join(choices))
        for name, first, then in zip(names, *means, strict=True)
        for choices in [metrics.differing_choices(name, plan.policy, second)]
    ]
    columns = ["metric", "this policy", other, "choices that differ for it"]
    return pd.DataFrame(rows, columns=columns)


def sensitivity(evaluation: Evaluation, labelled: LabelledSet, plan: Plan) -> pd.DataFrame:
    """How far the means could move: over orders of tied chunks, and over unjudged ones.

    Each range is exact question by question and averaged. Where the set claims complete
    judgments nothing is unjudged, and that range is the value itself.
    """
    import pandas as pd

    depth = max(plan.cutoffs)
    queries = [query for query in labelled.queries if query.answerable and query.grades]
    rankings = _rankings(evaluation)
    rows = []
    for name in [*plan.metrics, "Judged"]:
        metric = metrics.parse_metric(f"{name}@{depth}", plan.policy)
        found = [
            _ranges(metric, rankings.get(query.query_id, []), query, labelled) for query in queries
        ]
        rows.append((str(metric), *pd.DataFrame(found).mean().tolist()))
    ends = ["lowest by ties", "highest by ties", "lowest by unjudged", "highest by unjudged"]
    return pd.DataFrame(rows, columns=["metric", "mean", *ends])


def _rankings(evaluation: Evaluation) -> dict[str, list[tuple[str, float]]]:
    return {
        str(query_id): list(zip(hits["doc_id"], hits["score"], strict=True))
        for query_id, hits in evaluation.run.groupby("query_id", sort=False)
    }


def _ranges(
    metric: metrics.Metric, ranking: list[tuple[str, float]], query: Query, labelled: LabelledSet
) -> tuple[float, ...]:
    ids = [doc_id for doc_id, _ in ranking]
    grades = judged(query, ids, labelled.complete)
    value = metrics.value(metric, ids, grades)
    ties = metrics.tie_range(metric, ranking, grades)
    return (value, *ties, *metrics.unjudged_range(metric, ids, grades, labelled.highest_grade))


def options(parameters: Any) -> retrieval.Options:
    """Search settings from the parameters of 02_evaluate."""
    return retrieval.Options(
        fusion=parameters.fusion,
        depth=max(parameters.cutoffs),
        min_score=parameters.min_score,
        collection=parameters.collection,
        fields=parameters.fields,
    )


def engines(retrievers: Sequence[retrieval.Retriever]) -> dict[str, Any]:
    """Each mode's settings in words: for a collection made elsewhere, what its preflight found."""
    shown = {}
    for each in retrievers:
        settings = {name: value for name, value in each.describe().items() if name not in _LONG}
        flat = [f"{name.replace('_', ' ')} {value}" for name, value in settings.items()]
        shown[each.mode] = "; ".join(part for part in flat if not part.startswith("mode "))
    return shown


# Settings that name no choice a reader would weigh: they stand in the manifest.
_LONG = ("embedder", "question_embedder", "keyword", "semantic", "payload_fields", "vectors_sha256")
