"""Is evidence lost by the index and not by the ranking? The same questions with an exact scan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evalkit import retrieval
from evalkit.evaluation.asking import Plan
from evalkit.evaluation.values import means_of
from evalkit.records import Hit, LabelledSet, Query

if TYPE_CHECKING:
    import pandas as pd


def index_loss(
    retrievers: Sequence[retrieval.Retriever], labelled: LabelledSet, plan: Plan
) -> pd.DataFrame:
    """Means as searched and by an exact scan, and ANNRecall@k, for each vector search.

    ANNRecall@k is the share of the exact scan's chunks that the search brought back: a property
    of the index, never of relevance. Where it is 1 the index loses nothing.
    """
    import pandas as pd

    depth = max(plan.cutoffs)
    queries = [query for query in labelled.queries if query.answerable]
    texts = [query.text for query in queries]
    rows = []
    for each in retrievers:
        if not isinstance(each, retrieval.SemanticRetriever):
            continue
        twin = retrieval.exactly(each)
        kept = retrieval.ann_recall(each, twin, texts, depth)
        rows.append((each.mode, f"ANNRecall@{depth}", sum(kept) / len(kept), 1.0))
        found, best = (
            _means(r.search(texts, depth), queries, labelled, plan) for r in (each, twin)
        )
        rows += [(each.mode, name, found[name], best[name]) for name in found]
    frame = pd.DataFrame(rows, columns=["mode", "metric", "as searched", "exact scan"])
    return frame.assign(lost=frame["exact scan"] - frame["as searched"])


def _means(
    hits: Sequence[Sequence[Hit]], queries: Sequence[Query], labelled: LabelledSet, plan: Plan
) -> dict[str, float]:
    rankings = {
        query.query_id: {hit.doc_id: hit.score for hit in found}
        for query, found in zip(queries, hits, strict=True)
    }
    return means_of(rankings, queries, plan, complete=labelled.complete)
