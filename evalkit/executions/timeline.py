"""Every execution over its recorded start: what each measured, and where an input changed.

The store's folders are ordered by what their manifests say, never by directory times: an
execution restored from an archive keeps its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isnan
from typing import TYPE_CHECKING, Any

from evalkit.errors import ExecutionError
from evalkit.executions.store import Execution, differences, outputs

if TYPE_CHECKING:
    import pandas as pd

_VALUES = ["mean", "low", "high", "count", "of", "ceiling"]
_COLUMNS = [
    *("started", "execution", "status", "reason", "set", "mode", "metric", "cutoff"),
    *(*_VALUES, "changed", "revision"),
]


def mode_inputs(inputs: Mapping[str, Any], mode: str) -> dict[str, Any]:
    """The recorded inputs as far as one mode used them; keyword search embeds nothing."""
    modes = inputs.get("retrieval", {})
    if mode not in modes:
        raise ExecutionError(f"no mode {mode!r} was run; there are {', '.join(modes) or 'none'}.")
    others = ("retrieval", "embedder") if mode == "keyword" else ("retrieval",)
    used = {name: value for name, value in inputs.items() if name not in others}
    return {**used, "mode": mode, "retrieval": modes[mode]}


def timeline(dataset: str = "") -> pd.DataFrame:
    """All executions in the order they began, one row a mode, metric and cutoff.

    `changed` names the inputs that differ from the execution before, of the same set and mode: a
    line through the values has to break there. An execution that failed before it had values, was
    stopped, or cannot be read has one row without a mean and with its `reason`; those that only
    compared others have none. With `dataset`, executions of other sets are left out.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    last: dict[tuple[str, str], Mapping[str, Any]] = {}
    for manifest, summary in _read_all():
        about = manifest.get("inputs", {}).get("set", {}).get("name", "")
        if dataset and about not in ("", dataset):
            continue
        common = _common(manifest, summary, about)
        for headline in summary.get("headline", []):
            mode = headline["mode"]
            inputs = mode_inputs(manifest["inputs"], mode)
            before = last.get((about, mode), inputs)
            kept = {name: headline.get(name) for name in ("mode", "metric", "cutoff", *_VALUES)}
            rows.append(common | kept | {"changed": ", ".join(differences(before, inputs))})
        for mode in {headline["mode"] for headline in summary.get("headline", [])}:
            last[about, mode] = mode_inputs(manifest["inputs"], mode)
        if not summary and (common["status"] != "completed" or about):
            rows.append(common)
    frame = pd.DataFrame(rows, columns=_COLUMNS)
    numbers = dict.fromkeys(["mean", "low", "high", "ceiling"], "float64")
    texts = ["mode", "metric", "cutoff", "changed"]  # float columns while no execution has values
    kinds = {**numbers, "count": "Int64", "of": "Int64", **dict.fromkeys(texts, "object")}
    return frame.astype(kinds).fillna(dict.fromkeys(texts, ""))


def history_text(metric: str = "nDCG", dataset: str = "") -> str:
    """The timeline of one metric at its deepest cutoff, for a terminal."""
    frame = timeline(dataset)
    lines = []
    for _, rows in frame.groupby(["started", "execution"], sort=False, dropna=False):
        first = rows.iloc[0]
        lines.append(f"{first['execution']:<44} {first['status']:<12} {first['set'] or '–'}")
        if first["reason"]:
            lines.append(f"    {first['reason']}")
        at = rows[rows["metric"] == metric]
        for _, row in at.groupby("mode", sort=False).tail(1).iterrows():
            if row["changed"]:
                lines.append(f"    ---- not comparable with the one before: {row['changed']}")
            value = "undefined" if isnan(row["mean"]) else f"{row['mean']:.3f}"
            lines.append(
                f"    {row['mode']:<12} {metric}@{row['cutoff']} {value} "
                f"({_interval(row)}) over {row['count']} of {row['of']}"
            )
    return "\n".join(lines) or f"No executions in {outputs()} yet; `make run` makes one."


def _interval(row: Any) -> str:
    if isnan(row["low"]):
        return "no interval"
    return f"{row['low']:.3f} to {row['high']:.3f}"


def _common(manifest: Mapping[str, Any], summary: Mapping[str, Any], about: str) -> dict[str, Any]:
    """What every row of an execution says; an unfinished one says why it has no values."""
    reason = manifest.get("reason", "")
    if not summary and not reason:
        reason = "it has no summary: the evaluation did not finish"
    return {
        "started": manifest.get("started", ""),
        "execution": manifest["execution"],
        "status": manifest.get("status", "unknown"),
        "reason": reason,
        "set": about,
        "revision": manifest.get("environment", {}).get("code", {}).get("revision", ""),
    }


def _read_all() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Manifest and summary of every execution by recorded start, unreadable ones first."""
    found = []
    for folder in sorted(outputs().glob("*/manifest.json")):
        execution = Execution(folder.parent)
        summary: dict[str, Any] = {}
        try:
            manifest = execution.manifest
            if "execution" not in manifest:
                continue  # a collection, not an execution
            if (execution.folder / "summary.json").is_file():
                summary = execution.read_json("summary")
        except ExecutionError as problem:
            manifest = {
                "execution": execution.name,
                "status": "unreadable",
                "reason": str(problem),
            }
        found.append((manifest, summary))
    yield from sorted(found, key=lambda each: (each[0].get("started", ""), each[0]["execution"]))
