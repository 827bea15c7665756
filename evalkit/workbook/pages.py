"""The index page of an execution and the same numbers for the terminal.

Reads the execution's JSON files and nothing else, and shows what is there: an execution that
stopped early has less, and its page says so.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalkit import files
from evalkit.executions import Execution
from evalkit.workbook import render

_TITLES = {
    "01_index": "What was indexed",
    "02_evaluate": "Does retrieval bring back the evidence?",
    "03_threshold_sweep": "Where could it abstain?",
    "04_unsupported_review": "What comes back when there is no answer?",
    "05_compare": "Better, or only different?",
}


def write_index(execution: Execution) -> Path:
    """Writes the execution's `index.html`: status, notebooks, headline values, provenance."""
    manifest, summary = execution.manifest, summary_of(execution)
    path = execution.folder / "index.html"
    about = summary.get("set", {}).get("name") or manifest.get("label", "")
    text = render.page(
        "index.html.j2",
        title=f"{about}: {execution.name}",
        about=about,
        manifest=manifest,
        notebooks=list(_notebooks(execution, manifest)),
        headline=headline(summary),
        picture=_picture(execution),
        questions=summary.get("questions", {}),
        unsupported=summary.get("unsupported", []),
        origin=list(_origin(manifest)),
        provenance=list(_flat(_provenance(manifest))),
    )
    files.write_text(path, text)
    return path


def summary_of(execution: Execution) -> dict[str, Any]:
    """The execution's summary, empty where the evaluation did not get so far."""
    return _read(execution, "summary")


@dataclass(frozen=True, slots=True)
class Line:
    """One metric at one depth: its mean and interval in each mode, its count and its ceiling."""

    metric: str
    values: dict[str, str]
    intervals: dict[str, str]
    count: str
    ceiling: str


def headline(summary: Mapping[str, Any]) -> list[Line]:
    """The summary's headline rows, one line a metric and depth, as text."""
    grouped: dict[str, list[Mapping[str, Any]]] = {}
    for row in summary.get("headline", []):
        at = f"@{row['cutoff']}" if row.get("cutoff") else ""
        grouped.setdefault(f"{row.get('metric', '?')}{at}", []).append(row)
    return [
        Line(
            metric,
            {row.get("mode", ""): _number(row.get("mean")) for row in rows},
            {row.get("mode", ""): _interval(row) for row in rows},
            # Where modes have different counts, each is told.
            " / ".join(dict.fromkeys(_count(row) for row in rows)),
            _number(rows[0].get("ceiling")),
        )
        for metric, rows in grouped.items()
    ]


def headline_text(summary: Mapping[str, Any]) -> str:
    """The headline table for a terminal.

    >>> print(headline_text({"headline": [{"mode": "semantic", "metric": "Recall", "cutoff": "3",
    ...     "mean": 0.5, "count": 4, "of": 4, "ceiling": 1.0}]}))
                semantic       n  ceiling
      Recall@3     0.500  4 of 4    1.000
    """
    lines = headline(summary)
    if not lines:
        return ""
    modes = list(lines[0].values)
    rows = [["", *modes, "n", "ceiling"]]
    for line in lines:
        values = [line.values.get(mode, "–") for mode in modes]
        rows.append([line.metric, *values, line.count, line.ceiling])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        f"  {row[0]:<{widths[0]}}" + "".join(f"  {cell:>{width}}" for cell, width in cells)
        for row in rows
        for cells in [list(zip(row[1:], widths[1:], strict=True))]
    )


def said(execution: Execution) -> dict[str, str]:
    """What each notebook found, in one sentence; notebooks that left no record are not there."""
    found: dict[str, str] = {}
    collection = execution.manifest.get("collection", {})
    if collection:
        found["01_index"] = (
            f"{collection['points']} chunks stored and read back, {collection['eligible']} of them "
            "may be retrieved."
        )
    lines = [each for each in headline(summary_of(execution)) if each.values]
    if lines:
        found["02_evaluate"] = "; ".join(_line(each) for each in (lines[0], lines[-1]))
    point = _read(execution, "operating-point").get("operating", {})
    if point:
        found["03_threshold_sweep"] = _threshold(point)
    for row in _read(execution, "review").get("unsupported", [])[-1:]:
        found["04_unsupported_review"] = (
            f"{row['accepted']} of {row['total']} unsupported questions are accepted "
            f"({row['policy']})."
        )
    compared = _read(execution, "comparison")
    if compared:
        candidate, baseline = (
            compared[side].removeprefix("this execution:") for side in ("candidate", "baseline")
        )
        found["05_compare"] = (
            f"{compared['verdict']}, {candidate} against {baseline}: {compared['reasons'][0]}"
        )
    return found


def _line(line: Line) -> str:
    values = ", ".join(f"{mode} {value}" for mode, value in line.values.items())
    return f"{line.metric}: {values} (ceiling {line.ceiling})"


def _threshold(point: Mapping[str, Any]) -> str:
    if point["threshold"] is None:
        return f"{point['verdict']}: {point['reason']}"
    return (
        f"A {point['axis']} of at least {point['threshold']:.3f} accepts "
        f"{point['false_acceptance']:.0%} of unsupported and refuses "
        f"{point['false_abstention']:.0%} of answerable questions where it was chosen."
    )


def _read(execution: Execution, name: str) -> dict[str, Any]:
    return dict(execution.read_json(name)) if (execution.folder / f"{name}.json").is_file() else {}


def _notebooks(execution: Execution, manifest: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name, told in sorted(manifest.get("notebooks", {}).items()):
        good = told.get("status") == "ok"
        stem = name if good else f"{name}.failed"
        yield {
            "name": name,
            "title": _TITLES.get(name, name),
            "said": said(execution).get(name, "") if good else "",
            "good": good,
            "status": told.get("status", "?"),
            "reason": told.get("reason", ""),
            "page": f"{stem}.html" if (execution.folder / f"{stem}.html").is_file() else "",
            "notebook": f"{stem}.ipynb" if (execution.folder / f"{stem}.ipynb").is_file() else "",
        }


def _origin(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The few inputs a reader asks for first: set, chunking, embedder, code."""
    inputs, code = manifest.get("inputs", {}), manifest.get("environment", {}).get("code", {})
    about, embedder = inputs.get("set", {}), inputs.get("embedder", {})
    if about:
        yield "labelled set", f"{about.get('name')} {about.get('version', '')}"
    if inputs.get("chunking"):
        yield "chunking", str(inputs["chunking"])
    if embedder:
        yield "embedder", f"{embedder.get('name')}, weights {str(embedder.get('digest'))[:12]}"
    changed = ", with changes not committed" if code.get("dirty") else ""
    yield "code", f"evalkit {manifest.get('evalkit', '?')}, {code.get('revision', '?')}{changed}"


def _provenance(manifest: Mapping[str, Any]) -> dict[str, Any]:
    shown = {name: manifest[name] for name in ("execution", "started", "ended") if name in manifest}
    return shown | dict(manifest.get("inputs", {})) | dict(manifest.get("environment", {}))


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _flat(inner, f"{prefix}{name} › ")
        elif isinstance(inner, list):
            yield f"{prefix}{name}", ", ".join(str(each) for each in inner)
        else:
            yield f"{prefix}{name}", "–" if inner is None else str(inner)


def _number(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, int | float) else "–"


def _interval(row: Mapping[str, Any]) -> str:
    return "" if row.get("low") is None else f"{_number(row['low'])} to {_number(row['high'])}"


def _count(row: Mapping[str, Any]) -> str:
    return f"{row.get('count', '?')} of {row['of']}" if row.get("of") else f"{row.get('count')}"


def _picture(execution: Execution) -> str:
    """The headline figure in base64, if the evaluation left one."""
    path = execution.folder / "means.png"
    return base64.b64encode(path.read_bytes()).decode() if path.is_file() else ""
