"""summary.md: the same means as summary.json, as a page that people and other tools can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evalkit.records import LabelledSet

_SHORT = {"ReciprocalRank": "MRR", "nDCG": "NDCG@k"}  # as retrieval people head their tables


def summary_text(
    manifest: Mapping[str, Any], labelled: LabelledSet, summary: Mapping[str, Any]
) -> str:
    """The summary as Markdown, in a form that stays as it is.

        # Retrieval: <set>
                                                    (blank)
        - Set: <name>, version <v>; <n> documents
        - Questions: <n> answerable with <n> relevant pairs; <n> probes without an answer
        - Embedder: <name>, <n> dimensions, digest <12 hex digits>; available
        - Minimum score: <mode> <number>, ...       (0: none)
        - Date (UTC): <start of the execution, from its manifest>
        - Label: <label>
        - Conventions: gain <exp2|linear>; MRR cut at <k|none>
                                                    (then for each mode)
        ## <mode>
                                                    (blank)
        | k | Precision@k | Recall@k | MRR | NDCG@k |
        |---|---|---|---|---|
        | 5 | 0.318 | 0.826 | 0.955 | 0.885 |
                                                    (blank)
        Questions in each mean: <n> of <n>; <status>
        No-answer probes: avg 10.0 results returned (lower is better)

    One column a metric that was asked for, one row a depth, three decimals; `-` where a metric
    has no value at that depth, and for the probes where the set has none. Where the means of one
    mode have different counts, the smallest stands. A mode without an embedder says `none`.
    The date is the only part that differs between two runs on the same inputs.
    """
    scoring = manifest["inputs"]["scoring"]["policy"]
    pairs = sum(
        grade >= labelled.relevant_from for q in labelled.queries for grade in q.grades.values()
    )
    asked = summary["questions"]
    lines = [
        f"# Retrieval: {_line(labelled.name)}",
        "",
        f"- Set: {_line(labelled.name)}, version {_line(labelled.version)}; "
        f"{len(labelled.documents)} documents",
        f"- Questions: {asked['answerable']} answerable with {pairs} relevant pairs; "
        f"{asked['unsupported']} probes without an answer",
        f"- Embedder: {_embedder(manifest['inputs'].get('embedder') or {})}",
        f"- Minimum score: {_minimums(manifest['inputs']['retrieval'])}",
        f"- Date (UTC): {manifest['started']}",
        f"- Label: {manifest['label']}",
        f"- Conventions: gain {scoring['gain']}; MRR cut at {scoring['rr_cutoff']}",
    ]
    for mode, status in summary["status"].items():
        lines += ["", f"## {mode}", "", *_mode(mode, status, summary)]
    return "\n".join(lines) + "\n"


def _mode(mode: str, status: str, summary: Mapping[str, Any]) -> list[str]:
    rows = [row for row in summary["headline"] if row["mode"] == mode]
    means = {(row["metric"], row["cutoff"]): row["mean"] for row in rows}
    names = list(dict.fromkeys(row["metric"] for row in rows))
    cutoffs = list(dict.fromkeys(row["cutoff"] for row in rows))
    count, of = min(((row["count"], row["of"]) for row in rows), default=(0, 0))
    (probes,) = (row["mean_hits"] for row in summary["unsupported"] if row["mode"] == mode)
    return [
        _row(["k", *(_SHORT.get(name, f"{name}@k") for name in names)]),
        "|" + "---|" * (len(names) + 1),
        *(_row([k, *(_number(means.get((name, k)), 3) for name in names)]) for k in cutoffs),
        "",
        f"Questions in each mean: {count} of {of}; {status}",
        f"No-answer probes: avg {_number(probes, 1)} results returned (lower is better)",
    ]


def _embedder(spec: Mapping[str, Any]) -> str:
    """What made the vectors; it was available, or nothing would have been evaluated."""
    if not spec:
        return "none"
    size, digest = spec.get("dimension", "unknown"), str(spec.get("digest", "unknown"))[:12]
    return f"{_line(str(spec.get('name')))}, {size} dimensions, digest {digest}; available"


def _minimums(retrieval: Mapping[str, Mapping[str, Any]]) -> str:
    return ", ".join(
        f"{mode} {each.get('score_threshold') or 0:g}" for mode, each in retrieval.items()
    )


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _line(text: str) -> str:
    """Text from outside on one line, so that it cannot begin a row or a heading of its own."""
    return " ".join(text.split())
