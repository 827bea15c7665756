"""The index page of an execution and the same numbers for the terminal.

Reads `manifest.json` and `summary.json` and nothing else, and shows what is there: an execution
that stopped early has less, and its page says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evalkit import files
from evalkit.errors import ExecutionError
from evalkit.executions import Execution, history, outputs
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
        questions=summary.get("questions", {}),
        unsupported=summary.get("unsupported", []),
        provenance=list(_flat(_provenance(manifest))),
    )
    files.write_text(path, text)
    return path


def summary_of(execution: Execution) -> dict[str, Any]:
    """The execution's summary, empty where the evaluation did not get so far."""
    try:
        return dict(execution.read_json("summary"))
    except ExecutionError:
        return {}


def headline(summary: Mapping[str, Any]) -> list[dict[str, str]]:
    """The headline rows as text: mode, metric, value, interval, count, ceiling."""
    rows = []
    for row in summary.get("headline", []):
        low, high = row.get("low"), row.get("high")
        at = f"@{row['cutoff']}" if row.get("cutoff") else ""
        counted = row.get("count", "?")
        rows.append(
            {
                "mode": str(row.get("mode", "")),
                "metric": f"{row.get('metric', '?')}{at}",
                "value": _number(row.get("mean", row.get("value"))),
                "interval": f"{_number(low)} to {_number(high)}" if low is not None else "–",
                "count": f"{counted} of {row['of']}" if row.get("of") else str(counted),
                "ceiling": _number(row.get("ceiling")),
            }
        )
    return rows


def headline_text(summary: Mapping[str, Any]) -> str:
    """The headline table for a terminal.

    >>> print(headline_text({"headline": [{"mode": "semantic", "metric": "Recall", "cutoff": "3",
    ...     "mean": 0.5, "count": 4, "of": 4, "ceiling": 1.0}]}))
      mode      metric    value  95 % interval       n  ceiling
      semantic  Recall@3  0.500              –  4 of 4    1.000
    """
    rows = [tuple(row.values()) for row in headline(summary)]
    if not rows:
        return ""
    rows.insert(0, ("mode", "metric", "value", "95 % interval", "n", "ceiling"))
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  "
        + "  ".join(
            cell.ljust(width) if number < 2 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def list_text() -> str:
    """All executions, oldest first: status, set, modes, label."""
    rows = []
    for execution in history():
        manifest, summary = execution.manifest, summary_of(execution)
        about = summary.get("set", {}).get("name", "–")
        modes = ", ".join(summary.get("status", {})) or "–"
        status = str(manifest.get("status", "?"))
        rows.append(f"{execution.name:<44} {status:<12} {about:<12} {modes}")
    return "\n".join(rows) or f"No executions in {outputs()} yet; `make run` makes one."


def _notebooks(execution: Execution, manifest: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name, told in sorted(manifest.get("notebooks", {}).items()):
        good = told.get("status") == "ok"
        stem = name if good else f"{name}.failed"
        yield {
            "name": name,
            "title": _TITLES.get(name, name),
            "good": good,
            "status": told.get("status", "?"),
            "reason": told.get("reason", ""),
            "page": f"{stem}.html" if (execution.folder / f"{stem}.html").is_file() else "",
            "notebook": f"{stem}.ipynb" if (execution.folder / f"{stem}.ipynb").is_file() else "",
        }


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
