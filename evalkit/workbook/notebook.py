"""Runs one notebook through papermill, and tells the truth about how it ended.

Papermill alone calls runs completed whose kernel died, that timed out or were interrupted, and
exits 0 after `sys.exit(0)`; it also rewrites its output in place after every cell. So the status
here is our own (every code cell ran, none shows an error), nothing is written until the end, and
only a whole run gets the notebook's name: all others become `<name>.failed.ipynb` with a banner.

Two runs of the same notebook on the same inputs are byte-identical: no times, no random ids.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import nbformat
import papermill  # type: ignore[import-untyped]
from jupyter_core.utils import ensure_event_loop
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from papermill.clientwrap import PapermillNotebookClient  # type: ignore[import-untyped]
from papermill.engines import Engine, papermill_engines  # type: ignore[import-untyped]
from papermill.exceptions import PapermillExecutionError  # type: ignore[import-untyped]
from papermill.execute import ERROR_MARKER_TAG  # type: ignore[import-untyped]
from traitlets.config import Config

from evalkit import files
from evalkit.errors import NotebookError
from evalkit.workbook import leaks

Status = Literal[
    "ok", "failed", "kernel-died", "timeout", "interrupted", "incomplete", "leaked", "not-run"
]
BANNER = "evalkit-status"
INJECTED = "injected-parameters"
_ENGINE = "evalkit"
_KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


@dataclass(frozen=True, slots=True)
class NotebookResult:
    """How one notebook ended: the file it left, if any; `cells_run` of its `cells` were begun."""

    name: str
    status: Status
    reason: str = ""
    cells_run: int = 0
    cells: int = 0
    seconds: float = 0.0
    path: Path | None = None


class Kernels:
    """The kernels of this process, so that one call from any thread ends them all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: set[PapermillNotebookClient] = set()
        self.stopping = False

    def add(self, client: PapermillNotebookClient) -> None:
        """Registers a client about to start its kernel; refused when already stopping."""
        with self._lock:
            if self.stopping:
                raise KeyboardInterrupt
            self._clients.add(client)

    def discard(self, client: PapermillNotebookClient) -> None:
        """Forgets a client whose kernel has ended."""
        with self._lock:
            self._clients.discard(client)

    def stop(self) -> None:
        """Kills every running kernel; their notebooks end as interrupted."""
        with self._lock:
            self.stopping = True
            for client in self._clients:
                process = getattr(getattr(client.km, "provisioner", None), "process", None)
                if process is not None:
                    process.kill()


def run_notebook(
    source: Path,
    folder: Path,
    parameters: Mapping[str, Any],
    *,
    environment: Mapping[str, str],
    kernels: Kernels | None = None,
    timeout: int | None = None,
) -> NotebookResult:
    """Executes `source` with checked `parameters` and leaves one whole file in `folder`.

    `timeout` bounds a single cell, in seconds. Errors of the notebook are told in the result;
    only a source that is no notebook raises.
    """
    started = time.monotonic()
    kernels = kernels or Kernels()
    notebook = _read(source)
    session = _Session(notebook, dict(environment), kernels)
    status, reason = _execute(session, parameters, timeout)
    notebook = session.notebook
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    run = sum(1 for cell in code if cell.get("execution_count"))
    status, reason = _judged(status, reason, code, run)
    _make_repeatable(notebook, source.name)
    leaked = leaks.redact_notebook(notebook, environment)
    if leaked:
        status = "leaked"
        reason = f"the value of {', '.join(leaked)} stood in an output and was taken out"
    reason = leaks.redact(reason, environment)
    notebook.metadata["evalkit"] = {
        "status": status,
        "reason": reason,
        "cells_run": run,
        "cells": len(code),
    }
    path, problem = _write(notebook, folder, source.stem, status)
    if problem:
        status, reason = ("failed" if status == "ok" else status), f"{reason} {problem}".strip()
    seconds = time.monotonic() - started
    return NotebookResult(source.stem, status, reason, run, len(code), seconds, path)


def kernel_environment(root: Path, scratch: Path) -> dict[str, str]:
    """The environment of every kernel: this checkout, no user start-up files, one BLAS thread.

    A stale kernel of the user's, an IPython start-up file, a shadowing PYTHONPATH or a matplotlib
    configuration would make the same notebook give other results on another machine.
    """
    dropped = {"MPLBACKEND", "MATPLOTLIBRC", "PYTHONSTARTUP", "PYTHONHOME", "JUPYTER_PATH"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    threads = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    return (
        kept
        | dict.fromkeys(threads, "1")
        | {
            "PYTHONPATH": str(root),
            "PYTHONNOUSERSITE": "1",
            "PYTHONHASHSEED": "0",
            "PYTHONUTF8": "1",
            # A library that draws progress bars misses its widgets; we never draw them.
            "PYTHONWARNINGS": "ignore:IProgress not found",
            "IPYTHONDIR": str(scratch / "ipython"),
            "MPLCONFIGDIR": str(scratch / "matplotlib"),
            "JUPYTER_PREFER_ENV_PATH": "1",
            "ORT_DISABLE_TELEMETRY": "1",
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        }
    )


@dataclass(slots=True)
class _Session:
    """What papermill's engine needs of us, and the notebook as far as it got."""

    notebook: Any
    environment: dict[str, str]
    kernels: Kernels


class _Engine(Engine):  # type: ignore[misc]
    """Papermill's own engine and client, with our environment and a kernel that can be stopped."""

    @classmethod
    def execute_managed_notebook(
        cls,
        nb_man: Any,
        kernel_name: str,
        *,
        session: _Session,
        start_timeout: int = 60,
        execution_timeout: int | None = None,
        **_unused: Any,
    ) -> None:
        session.notebook = nb_man.nb
        client = PapermillNotebookClient(
            nb_man,
            kernel_name=kernel_name,
            timeout=execution_timeout,
            startup_timeout=start_timeout,
            record_timing=False,
            shutdown_kernel="immediate",
            # Without this, other users of the machine can read what a kernel prints.
            config=Config({"KernelManager": {"transport_encryption": "auto"}}),
        )
        client.create_kernel_manager()
        session.kernels.add(client)
        try:
            client.execute(env=session.environment)
        finally:
            session.kernels.discard(client)
            _close_event_loop()


papermill_engines.register(_ENGINE, _Engine)


def _close_event_loop() -> None:
    """Ends this thread's loop, whose sockets and half-done reads of a dead kernel would stay."""
    loop = ensure_event_loop()
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    loop.close()


def _read(source: Path) -> Any:
    try:
        notebook = nbformat.read(source, as_version=4)  # type: ignore[no-untyped-call]
    except OSError as problem:
        raise NotebookError(f"{source}: cannot be read ({problem.strerror}).") from None
    except (ValueError, TypeError, AttributeError, KeyError, nbformat.ValidationError) as problem:
        raise NotebookError(f"{source}: not a notebook ({str(problem)[:200]}).") from None
    # Whoever saved it last may have named a kernel of their own machine.
    notebook.metadata["kernelspec"] = dict(_KERNELSPEC)
    return notebook


def _execute(
    session: _Session, parameters: Mapping[str, Any], timeout: int | None
) -> tuple[Status, str]:
    try:
        session.notebook = papermill.execute_notebook(
            session.notebook,
            None,
            parameters=dict(parameters),
            engine_name=_ENGINE,
            kernel_name="python3",
            language="python",
            progress_bar=False,
            request_save_on_cell_execute=False,
            autosave_cell_every=0,
            execution_timeout=timeout,
            session=session,
        )
    except PapermillExecutionError as problem:
        return "failed", f"{problem.ename}: {problem.evalue}"
    except DeadKernelError:
        if not session.kernels.stopping:
            return "kernel-died", "its process ended; out of memory is the usual cause"
    except CellTimeoutError:
        return "timeout", f"a cell ran longer than {timeout} s"
    except KeyboardInterrupt:
        pass
    except (RuntimeError, OSError) as problem:  # no kernel, no loopback, no space for its files
        if not session.kernels.stopping:
            return "failed", f"{type(problem).__name__}: {problem}"
    else:
        return "ok", ""
    return "interrupted", "the run was stopped from outside"


def _judged(status: Status, reason: str, code: list[Any], run: int) -> tuple[Status, str]:
    """The status after looking at the cells themselves, whatever papermill believes."""
    for number, cell in enumerate(code, start=1):
        for output in cell.outputs:
            if output.output_type == "error" and status in ("ok", "failed"):
                reason = f"in code cell {number}: {output.ename}: {output.evalue}"
                left = output.ename == "SystemExit" and number < len(code)
                return ("incomplete" if left else "failed"), _plain(reason)
    if status == "ok" and run < len(code):
        return "incomplete", f"{run} of {len(code)} code cells ran"
    return status, _plain(reason)


def _plain(text: str) -> str:
    """One line without terminal colours, short enough to print."""
    line = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", text).split())
    return line if len(line) <= 600 else f"{line[:600]} ..."


def _make_repeatable(notebook: Any, name: str) -> None:
    """Takes out what differs between two equal runs: times, paths, ids; and papermill's notes."""
    notebook.cells = [
        cell for cell in notebook.cells if ERROR_MARKER_TAG not in cell.metadata.get("tags", [])
    ]
    for number, cell in enumerate(notebook.cells):
        cell.metadata.pop("papermill", None)
        cell.metadata.pop("execution", None)
        if INJECTED in cell.metadata.get("tags", []):
            cell["id"] = INJECTED
        elif not cell.get("id"):
            cell["id"] = f"cell-{number}"
    told = notebook.metadata.get("papermill", {})
    notebook.metadata["papermill"] = {
        "input_path": name,
        "parameters": told.get("parameters", {}),
        "version": told.get("version"),
    }


def _write(notebook: Any, folder: Path, stem: str, status: Status) -> tuple[Path | None, str]:
    failed = folder / f"{stem}.failed.ipynb"
    path = folder / f"{stem}.ipynb" if status == "ok" else failed
    if status != "ok":
        notebook.cells.insert(0, _banner(notebook.metadata["evalkit"]))
    try:
        # Surrogates that a cell printed cannot be written as UTF-8; they are shown as escapes.
        text: str = nbformat.writes(notebook)  # type: ignore[no-untyped-call]
        files.write_text(path, text.encode("utf-8", "backslashreplace").decode("utf-8") + "\n")
        if status == "ok":
            failed.unlink(missing_ok=True)
            failed.with_suffix(".html").unlink(missing_ok=True)
    except OSError as problem:
        return None, f"{path.name} could not be written: {problem.strerror}."
    return path, ""


def _banner(told: Mapping[str, Any]) -> Any:
    """A cell that says, before anything else, that what follows is no result."""
    fence = "`" * (3 + max((len(run) for run in re.findall("`+", told["reason"])), default=0))
    source = (
        f"**This notebook did not finish ({told['status']}): it stopped in code cell "
        f"{told['cells_run']} of {told['cells']}. What stands below is no result.**\n\n"
        f"{fence}text\n{told['reason']}\n{fence}"
    )
    cell = {"cell_type": "markdown", "id": BANNER, "metadata": {"tags": [BANNER]}}
    return nbformat.from_dict(cell | {"source": source})  # type: ignore[no-untyped-call]
