"""Values of every metric at every cutoff, and the best that any ranking could reach."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from evalkit import metrics
from evalkit.evaluation.asking import Asked, Plan
from evalkit.records import Hit, LabelledSet, Query

if TYPE_CHECKING:
    import pandas as pd

EVIDENCE_METRICS = ("RequirementRecall", "CompleteAnswer")


def values(scored: Sequence[Asked], plan: Plan, *, complete: bool) -> pd.DataFrame:
    """Values of every metric at every cutoff, each cutoff from its own independent ranking."""
    import pandas as pd

    judgments = {
        each.query.query_id: judged(each.query, [hit.doc_id for hit in each.deepest], complete)
        for each in scored
    }
    frames = []
    for cutoff in sorted(plan.cutoffs):
        rankings = {
            each.query.query_id: {hit.doc_id: hit.score for hit in each.hits[cutoff]}
            for each in scored
        }
        if scored:
            names = [f"{name}@{cutoff}" for name in plan.metrics]
            scores = metrics.evaluate(
                rankings, judgments, names, policy=plan.policy, complete=complete
            )
            frames.append(scores.frame())
        frames.append(_evidence_values(scored, cutoff))
    return pd.concat(frames, ignore_index=True)


def _evidence_values(scored: Sequence[Asked], cutoff: int) -> pd.DataFrame:
    import pandas as pd

    rows = [
        (
            each.query.query_id,
            name,
            str(cutoff),
            values[name],
        )
        for each in scored
        if each.query.requirements
        for values in [_facts_found(each, cutoff)]
        for name in EVIDENCE_METRICS
    ]
    return pd.DataFrame(rows, columns=["query_id", "metric", "cutoff", "value"])


def _facts_found(each: Asked, cutoff: int) -> dict[str, float]:
    ranking = [hit.doc_id for hit in each.hits[cutoff]]
    facts = [requirement.any_of for requirement in each.query.requirements]
    return metrics.requirement_values(cutoff, ranking, facts)


def judged(query: Query, returned: Iterable[str], complete: bool) -> dict[str, int]:
    """The question's grades; in a complete set a returned chunk without a grade was judged 0."""
    return {**dict.fromkeys(returned if complete else (), 0), **query.grades}


def means_of(
    rankings: Mapping[str, Mapping[str, float]],
    queries: Sequence[Query],
    plan: Plan,
    *,
    complete: bool,
) -> dict[str, float]:
    """Means of the plan's metrics at its deepest cutoff over whole rankings, in their order."""
    run = {query.query_id: rankings.get(query.query_id, {}) for query in queries}
    judgments = {query.query_id: judged(query, run[query.query_id], complete) for query in queries}
    names = [f"{name}@{max(plan.cutoffs)}" for name in plan.metrics]
    found = metrics.evaluate(run, judgments, names, policy=plan.policy, complete=complete).means()
    return {name: mean.value for name, mean in found.items()}


def ideal(labelled: LabelledSet, plan: Plan) -> pd.DataFrame:
    """Values of the best ranking each question allows: the ceiling of every metric.

    Precision@5 cannot exceed 2/5 for a question with two relevant chunks, so a mean is high or
    low only beside the mean of these. Requirement metrics have an ideal of their own: the chunks
    that cover most facts, not those of the highest grade.
    """
    import pandas as pd

    best, rows = [], []
    for query in (query for query in labelled.queries if query.answerable):
        order = sorted(query.grades, key=lambda doc_id: -query.grades[doc_id])
        ranked = [Hit(doc_id, -float(rank), rank) for rank, doc_id in enumerate(order, start=1)]
        hits = {cutoff: ranked[:cutoff] for cutoff in plan.cutoffs}
        best.append(Asked(replace(query, requirements=()), hits, "scored"))
        if query.requirements:
            for cutoff in plan.cutoffs:
                share = _most_facts(query, cutoff) / len(query.requirements)
                rows.append((query.query_id, "RequirementRecall", str(cutoff), share))
                rows.append((query.query_id, "CompleteAnswer", str(cutoff), float(share == 1)))
    facts = pd.DataFrame(rows, columns=["query_id", "metric", "cutoff", "value"])
    return pd.concat([values(best, plan, complete=False), facts], ignore_index=True)


def _most_facts(query: Query, cutoff: int) -> int:
    """The largest number of facts that `cutoff` chunks can cover."""
    facts = [set(requirement.any_of) for requirement in query.requirements]
    chunks = sorted(set().union(*facts))
    if cutoff >= len(facts):
        return len(facts)
    return max(
        sum(bool(fact.intersection(chosen)) for fact in facts)
        for chosen in combinations(chunks, min(cutoff, len(chunks)))
    )
