"""Questions read one by one: what an unsupported one would have been answered from, and why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from evalkit.records import LabelledSet, Query

if TYPE_CHECKING:
    import pandas as pd

_WORD = re.compile(r"[^\W\d_]{4,}")
# Words that two questions share without sharing a subject.
_COMMON = frozenset(  # noqa: SIM905 -- a line of words reads better than thirty strings
    "about after before can could does from have into long many much must need should that the "
    "their them then there they this what when where which while will with would your".split()
)


def terms(text: str) -> set[str]:
    """The words of four letters and more that say what a text is about, in lower case.

    >>> sorted(terms("Which worker drains the queue?"))
    ['drains', 'queue', 'worker']
    """
    return set(_WORD.findall(text.lower())) - _COMMON


def review(
    evidence: pd.DataFrame,
    outcomes: pd.DataFrame,
    labelled: LabelledSet,
    threshold: float | None,
    *,
    answerable: bool = False,
) -> pd.DataFrame:
    """One row a question, worst first, with what it would have been answered from.

    For unsupported questions the worst has the highest score; for answerable ones (those that
    the threshold turned away) the lowest. Columns: query_id, question, category, top_score,
    accepted (at the threshold), doc_id, text, nearest (the answerable question that shares most
    terms), near_miss (why it looked answerable).
    """
    import pandas as pd

    asked = outcomes[(outcomes["answerable"] == answerable) & outcomes["top_score"].notna()]
    accepted = asked["top_score"] >= (float("-inf") if threshold is None else threshold)
    if answerable:
        asked, accepted = asked[~accepted], accepted[~accepted]
    first = evidence[evidence["rank"] == 1].set_index("query_id")
    table = pd.DataFrame(
        {
            "query_id": asked["query_id"],
            "question": asked["text"],
            "category": asked["category"],
            "top_score": asked["top_score"],
            "accepted": accepted,
        }
    )
    table["doc_id"] = first["doc_id"].reindex(table["query_id"]).to_numpy()
    table["text"] = first["text"].reindex(table["query_id"]).to_numpy()
    order = ["top_score", "query_id"]
    table = table.sort_values(order, ascending=[answerable, True]).reset_index(drop=True)
    return table


def page(table: pd.DataFrame, number: int, size: int) -> pd.DataFrame:
    """The rows of one page, counted from 1; a page beyond the end is empty."""
    return table.iloc[(number - 1) * size : number * size]


def explained(table: pd.DataFrame, labelled: LabelledSet) -> pd.DataFrame:
    """Adds, for the rows of a page, the nearest answerable question and why it is a near miss."""
    others = [query for query in labelled.queries if query.answerable]
    described = [
        _near(str(question), str(doc_id), str(text), str(category), str(query_id), others)
        for query_id, question, category, doc_id, text in zip(
            table["query_id"],
            table["question"],
            table["category"],
            table["doc_id"],
            table["text"],
            strict=True,
        )
    ]
    nearest, reasons = zip(*described, strict=True) if described else ((), ())
    return table.assign(nearest=list(nearest), near_miss=list(reasons))


def _near(
    question: str,
    doc_id: str,
    text: str,
    category: str,
    query_id: str,
    others: Sequence[Query],
) -> tuple[str, str]:
    about = terms(question)
    found = max(
        (other for other in others if other.query_id != query_id),
        key=lambda other: (len(about & terms(other.text)), other.query_id),
        default=None,
    )
    shared = sorted(about & terms(text))
    reasons = [f"shares {', '.join(shared)} with the passage"] if shared else []
    if found is None:
        return "", "; ".join(reasons)
    document = doc_id.split("#")[0]
    if any(key.split("#")[0] == document for key in found.grades):
        reasons.append(f"the passage's document answers {found.query_id}")
    if found.category == category:
        reasons.append(f"same category as {found.query_id}")
    return f"{found.query_id}: {found.text}", "; ".join(reasons)
