"""Questions read one by one: what an unsupported one would have been answered from, and why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalkit import datasets, files
from evalkit.errors import DataError, ExecutionError, ParameterError
from evalkit.executions import Execution
from evalkit.metrics import uncertainty
from evalkit.records import LabelledSet, Query, Requirement

if TYPE_CHECKING:
    import pandas as pd

_WORD = re.compile(r"[^\W\d_]{4,}")
# Words that two questions share without sharing a subject.
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "about after before could does from have into long many much must need should that their "
        "them then there they this what when where which while will with would your",
    )
)


def terms(text: str) -> set[str]:
    """The words of four letters and more that say what a text is about, in lower case.

    >>> sorted(terms("Which worker drains the queue?"))
    ['drains', 'queue', 'worker']
    """
    return set(_WORD.findall(text.lower())) - _COMMON


@dataclass(frozen=True, slots=True)
class Seen:
    """What a reviewer looks at: one mode's evidence and outcomes, and the operating point."""

    evidence: pd.DataFrame
    outcomes: pd.DataFrame
    axis: str
    threshold: float | None
    counts: pd.DataFrame

    @property
    def record(self) -> dict[str, Any]:
        """The counts as JSON."""
        rows = self.counts.astype(object).where(self.counts.notna(), None)
        return {"threshold": self.threshold, "unsupported": rows.to_dict(orient="records")}


def read(execution: Execution, mode: str) -> Seen:
    """The stored evidence of a mode and the operating point, refused if it is another's."""
    outcomes = execution.read_frame("outcomes")
    outcomes = outcomes[outcomes["mode"] == mode].drop(columns="mode")
    if outcomes.empty:
        raise ExecutionError(f"{execution.name} did not evaluate the mode {mode!r}.")
    axis = f"{execution.inputs['retrieval'][mode]['axis']} top score"
    operating = execution.read_json("operating-point")["operating"]
    # A threshold on another axis says nothing about this score.
    threshold = operating["threshold"] if operating["axis"] == axis else None
    unsupported = outcomes[~outcomes["answerable"]]
    policies = {"accept anything": float("-inf")}
    if threshold is not None:
        policies[f"operating point {threshold:.3f}"] = threshold
    rates = [
        uncertainty.rate(name, int((unsupported["top_score"] >= least).sum()), len(unsupported))
        for name, least in policies.items()
    ]
    counts = uncertainty.as_frame(rates)[["name", "count", "total", "value", "low", "high"]]
    counts = counts.rename(columns={"name": "policy", "count": "accepted", "value": "share"})
    return Seen(execution.read_frame(f"evidence-{mode}"), outcomes, axis, threshold, counts)


def review(seen: Seen, *, answerable: bool = False) -> pd.DataFrame:
    """One row a question, worst first, with what it would have been answered from.

    For unsupported questions the worst has the highest score; for answerable ones (those that
    the threshold turned away) the lowest. Columns: query_id, question, category, top_score,
    accepted (at the threshold), doc_id, text.
    """
    import pandas as pd

    outcomes = seen.outcomes
    asked = outcomes[(outcomes["answerable"] == answerable) & outcomes["top_score"].notna()]
    least = float("-inf") if seen.threshold is None else seen.threshold
    accepted = asked["top_score"] >= least
    if answerable:
        asked, accepted = asked[~accepted], accepted[~accepted]
    first = seen.evidence[seen.evidence["rank"] == 1].set_index("query_id")
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


VERDICTS = ("unsupported", "mislabelled", "ambiguous")
FINDINGS = ("query_id", "verdict", "answer_in", "note", "reviewer", "date")


def write_template(execution: Execution, unsupported: pd.DataFrame) -> Path:
    """Writes an empty table of findings, one row a question, worst first."""
    table = unsupported[["query_id", "question"]].copy()
    for name in FINDINGS[1:]:
        table[name] = ""
    path = execution.folder / "findings-template.csv"
    files.write_text(path, table[[*FINDINGS, "question"]].to_csv(index=False))
    return path


def findings(path: str, labelled: LabelledSet) -> pd.DataFrame:
    """The reviewer's table: every row checked against the set; empty when no file is named.

    Verdicts: unsupported (the label is right), mislabelled (`answer_in` names the chunk that
    answers it), ambiguous. Rows without a verdict are not read yet and left out.
    """
    import pandas as pd

    if not path:
        return pd.DataFrame(columns=list(FINDINGS))
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as problem:
        raise DataError(f"cannot be read as a table of findings ({problem})", path=path) from None
    missing = [name for name in FINDINGS if name not in table.columns]
    if missing:
        raise DataError(f"has no column {missing[0]!r}; copy the template", path=path, line=1)
    queries = {query.query_id: query for query in labelled.queries}
    for line, (query_id, verdict, answer) in enumerate(
        zip(table["query_id"], table["verdict"], table["answer_in"], strict=True), start=2
    ):
        if query_id not in queries:
            raise DataError(f"no question is called {query_id!r}", path=path, line=line)
        if verdict not in ("", *VERDICTS):
            known = ", ".join(VERDICTS)
            raise DataError(f"verdict {verdict!r}: use one of {known}", path=path, line=line)
        if (verdict == "mislabelled") != bool(answer):
            raise DataError(
                "answer_in names the chunk that answers a mislabelled question, and only there",
                path=path,
                line=line,
            )
    return table.loc[table["verdict"] != "", list(FINDINGS)].reset_index(drop=True)


def revise(
    labelled: LabelledSet, found: pd.DataFrame, version: str, folder: Path
) -> tuple[str, ...]:
    """Writes the set with the findings applied, under a new version, into a fresh folder.

    A mislabelled question becomes answerable by the chunk named, at the highest grade; an
    ambiguous one is left out; the rest is unchanged. Returns what was done, one line a question.
    The set itself is never touched.
    """
    if version == labelled.version:
        raise ParameterError(f"version {version!r} is the set's own; give the revision another.")
    if folder.exists():
        raise DataError(
            "already exists; a revision is written into a fresh folder", path=str(folder)
        )
    verdicts = dict(
        zip(found["query_id"], zip(found["verdict"], found["answer_in"], strict=True), strict=True)
    )
    queries, done = [], []
    for query in labelled.queries:
        verdict, answer = verdicts.get(query.query_id, ("", ""))
        if verdict == "ambiguous":
            done.append(f"{query.query_id}: left out as ambiguous")
            continue
        if verdict == "mislabelled":
            tail = f"@{labelled.chunking}" if "#" in answer and "@" not in answer else ""
            key = answer + tail
            fact = Requirement("as found in review", (key,))
            query = replace(
                query,
                answerable=True,
                grades={key: labelled.highest_grade},
                requirements=(fact,),
            )
            done.append(f"{query.query_id}: answerable by {answer}")
        queries.append(query)
    datasets.write_native(replace(labelled, version=version, queries=tuple(queries)), folder)
    return tuple(done)


def explained(
    reviewed: pd.DataFrame, labelled: LabelledSet, *, page: int, size: int
) -> pd.DataFrame:
    """The rows of one page (from 1), with the nearest answerable question and why it is near.

    Only these rows are compared with every answerable question; a page beyond the end is empty.
    """
    table = reviewed.iloc[(page - 1) * size : page * size]
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
