"""The store: one folder an execution, whole files only, every input fingerprinted.

    outputs/<utc-start>-<label>/
        manifest.json          status, times, every input with its fingerprint
        run-<mode>.parquet     query_id, doc_id, rank, score      (and .trec)
        evidence-<mode>.parquet   the same hits with grade, text and payload
        results.parquet        mode, query_id, metric, cutoff, value
        outcomes.parquet       mode, query_id, status, reason, top_score, ...
        summary.json           the means a reader may quote, with counts and ceilings
        summary.md             the same as tables, with the start of the execution
        *.ipynb, *.html        executed notebooks and their pages

Times live in the manifest only, of which summary.md copies the start, so that everything else
repeats bit for bit.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from evalkit import __version__, files
from evalkit.errors import ExecutionError, ParameterError

if TYPE_CHECKING:
    import pandas as pd

LABEL = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
CURRENT = "EVALKIT_EXECUTION"
PACKAGES = (
    "numpy",
    "pandas",
    "pyarrow",
    "scipy",
    "qdrant-client",
    "fastembed",
    "onnxruntime",
    "tokenizers",
    "bm25s",
    "papermill",
)


def repository() -> Path:
    """The checkout this package lies in; notebooks have other working folders than the driver."""
    return Path(__file__).resolve().parents[2]


def outputs() -> Path:
    """Where executions, collections and the embedding cache lie: EVALKIT_OUTPUTS or outputs/."""
    named = os.environ.get("EVALKIT_OUTPUTS", "")
    return Path(named).resolve() if named else repository() / "outputs"


@dataclass(frozen=True, slots=True)
class Execution:
    """One pass of the workbook; a view of its folder that reads and writes whole files."""

    folder: Path

    @property
    def name(self) -> str:
        """The folder's name, `<utc-start>-<label>`."""
        return self.folder.name

    @property
    def manifest(self) -> dict[str, Any]:
        """What the manifest says now; read anew at each call."""
        return dict(_read_json(self.folder / "manifest.json"))

    @property
    def inputs(self) -> dict[str, Any]:
        """Every recorded input: what two executions must agree on to be compared."""
        return dict(self.manifest.get("inputs", {}))

    def record(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Applies `change` to the manifest under a lock, since notebooks run in parallel."""
        with FileLock(self.folder / ".manifest.lock", timeout=30):
            manifest = self.manifest
            change(manifest)
            files.write_json(self.folder / "manifest.json", manifest)

    def record_inputs(self, **inputs: Any) -> None:
        """Adds inputs to the manifest; a second, different value for one of them is refused.

        A folder whose numbers come from two different corpora would compare with neither.
        """
        inputs = json.loads(json.dumps(inputs))

        def change(manifest: dict[str, Any]) -> None:
            known = manifest.setdefault("inputs", {})
            for name, value in inputs.items():
                if known.setdefault(name, value) != value:
                    raise ExecutionError(
                        f"{self.name} was made with another {name} ({known[name]!r:.80}, "
                        f"now {value!r:.80}). Start a new execution instead of adding to this one."
                    )

        self.record(change)

    def write_frame(self, name: str, frame: pd.DataFrame) -> None:
        """Writes a table as Parquet, whole or not at all."""
        with files.replacing(self.folder / f"{name}.parquet") as scratch:
            frame.to_parquet(scratch, index=False)

    def read_frame(self, name: str) -> pd.DataFrame:
        """Reads a table this execution wrote; says which notebook makes it when it is missing."""
        import pandas as pd

        path = self.folder / f"{name}.parquet"
        if not path.is_file():
            raise ExecutionError(
                f"{self.name} has no {path.name}: run 02_evaluate in this execution first."
            )
        return pd.read_parquet(path)

    def write_json(self, name: str, value: Any) -> None:
        """Writes `<name>.json`, whole or not at all."""
        files.write_json(self.folder / f"{name}.json", value)

    def read_json(self, name: str) -> Any:
        """Reads `<name>.json`, or says that it is missing."""
        return _read_json(self.folder / f"{name}.json")


def create(label: str, *, name: str = "") -> Execution:
    """Starts an execution, in_progress, in a fresh folder named by the UTC second and the label.

    `name` gives the folder's name instead (`reference`); its files are then replaced one by one.
    """
    if not LABEL.fullmatch(label):
        raise ParameterError(
            f"label {label!r}: use 1-64 of a-z, 0-9, '-' and '_', starting with a letter or digit."
        )
    started = datetime.now(UTC)
    folder = outputs() / (name or f"{started:%Y%m%dT%H%M%SZ}-{label}")
    if not name:
        folder = _free(folder)
    try:
        folder.mkdir(parents=True, exist_ok=bool(name))
        manifest = {
            "execution": folder.name,
            "label": label,
            "status": "in_progress",
            "started": f"{started:%Y-%m-%dT%H:%M:%SZ}",
            "evalkit": __version__,
            "notebooks": {},
            "environment": environment(),
            "inputs": {},
        }
        files.write_json(folder / "manifest.json", manifest)
    except OSError as problem:
        raise ExecutionError(f"{folder}: cannot be written ({problem.strerror}).") from None
    return Execution(folder)


def find(name: str) -> Execution:
    """The execution of that folder name, or an error that names those there are."""
    folder = outputs() / name
    if not LABEL.fullmatch(name.lower()) or not (folder / "manifest.json").is_file():
        known = ", ".join(execution.name for execution in history()) or "none yet"
        raise ExecutionError(f"No execution {name!r} in {outputs()}. There are: {known}.")
    return Execution(folder)


def history() -> Iterator[Execution]:
    """All executions by their recorded start, oldest first: a restored artifact keeps its place.

    A folder whose manifest cannot be read is no execution to work with; `timeline` shows it.
    """
    found = []
    for path in outputs().glob("*/manifest.json"):
        try:
            manifest = Execution(path.parent).manifest
        except ExecutionError:
            continue
        if "execution" in manifest:
            found.append((manifest.get("started", ""), path.parent.name, Execution(path.parent)))
    yield from (execution for *_, execution in sorted(found, key=lambda each: each[:2]))


def newest(*, dataset: str = "", needs: str = "outcomes.parquet") -> Execution:
    """The execution started last that has the file `needs` (and evaluates `dataset`)."""
    for execution in reversed(list(history())):
        about = execution.inputs.get("set", {}).get("name", "")
        if (execution.folder / needs).is_file() and dataset in ("", about):
            return execution
    what = f" on {dataset}" if dataset else ""
    raise ExecutionError(f"No execution{what} in {outputs()} has {needs}. Run 02_evaluate first.")


def current(name: str, *, label: str = "", dataset: str = "") -> Execution:
    """The execution a notebook works in: the one named, the driver's, or the newest.

    With `label` (02_evaluate, opened by hand) a new one is started instead of the newest.
    """
    name = name or os.environ.get(CURRENT, "")
    if name:
        return find(name)
    return create(label) if label else newest(dataset=dataset)


def record_collection(report: Mapping[str, Any]) -> None:
    """Notes in the driver's execution, where there is one, what indexing made and took."""
    name = os.environ.get(CURRENT, "")
    if name:
        kept = {key: value for key, value in report.items() if key != "where"}
        find(name).record(lambda manifest: manifest.update(collection=kept))


def finish(execution: Execution, status: str, **facts: Any) -> None:
    """Closes an execution with its status (completed, failed, cancelled) and end time."""

    def change(manifest: dict[str, Any]) -> None:
        manifest.update(status=status, ended=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", **facts)

    execution.record(change)


def environment() -> dict[str, Any]:
    """Package versions, Python, platform and code revision: what a rerun needs, and no more."""
    return {
        "python": sys.version.split()[0],
        "platform": sys.platform,
        "packages": {package: metadata.version(package) for package in PACKAGES},
        "code": _revision(),
    }


def differences(baseline: Mapping[str, Any], candidate: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted input names -> (baseline value, candidate value), for inputs that differ.

    >>> differences({"set": {"name": "a", "version": "1"}}, {"set": {"name": "b", "version": "1"}})
    {'set.name': ('a', 'b')}
    """
    old, new = dict(_flat(baseline)), dict(_flat(candidate))
    names = sorted(old.keys() | new.keys())
    return {
        name: (old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)
    }


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            yield from _flat(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", inner


def _free(folder: Path) -> Path:
    """The folder, or the first of folder-2, folder-3 ... when two start in one second."""
    number = 2
    free = folder
    while free.exists():
        free = folder.with_name(f"{folder.name}-{number}")
        number += 1
    return free


def _read_json(path: Path) -> Any:
    if not path.is_file():
        raise ExecutionError(f"{path}: no such file; that part of the execution was not run.")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise ExecutionError(f"{path}: not JSON ({problem}); run this execution again.") from None


def _revision() -> dict[str, Any]:
    """Commit and dirtiness of the checkout; unknown (not an error) outside git."""
    command = ["git", "-C", str(repository()), "describe", "--always", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
        state = subprocess.run(
            ["git", "-C", str(repository()), "status", "--porcelain", "--", "evalkit", "notebooks"],
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {"revision": "unknown", "dirty": None}
    if done.returncode or state.returncode:
        return {"revision": "unknown", "dirty": None}
    return {"revision": done.stdout.strip(), "dirty": bool(state.stdout.strip())}
