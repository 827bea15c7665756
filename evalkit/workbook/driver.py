"""Runs the workbook: notebooks in the order of their needs, side by side where they are free.

One process, one thread a kernel. Each notebook's page is rendered as it ends, while the next ones
run. However the run ends, the manifest says so, and the exit code with it.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from evalkit import executions
from evalkit.errors import EvalkitError, ExecutionError, NotebookError
from evalkit.executions import Execution
from evalkit.workbook import leaks, pages, parameters, render
from evalkit.workbook.notebook import Kernels, NotebookResult, kernel_environment, run_notebook
from evalkit.workbook.parameters import Notebook


class StoppedError(EvalkitError):
    """The run was ended by Ctrl-C or by the system."""

    def __init__(self, signal_number: int) -> None:
        super().__init__("Stopped from outside. What was finished before is kept as it was.")
        self.exit_code = 128 + signal_number


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run, and how; `source` is the folder of the notebooks.

    `execution` adds to that existing execution; `into` makes the one of that name, or makes it
    anew (`reference`); with neither, a fresh one is named by the time and the label.
    """

    notebooks: Sequence[Notebook]
    given: Mapping[str, Any] = field(default_factory=dict)
    label: str = "workbook"
    execution: str = ""
    into: str = ""
    source: Path = field(default_factory=lambda: executions.repository() / "notebooks")
    cell_timeout_s: int | None = None
    side_by_side: int = 2  # a kernel keeps a core busy; a third would mostly take memory


def run(plan: Plan) -> Execution:
    """Executes the plan's notebooks in one execution; returns it, completed, or raises.

    Notebooks added to an execution that was complete cannot unmake it: when they fail, that is
    told, and its status and its earlier notebooks stay.
    """
    assigned = parameters.assign(plan.notebooks, plan.given)
    with _opened(plan) as (execution, before):
        environment = _environment(execution)
        crew = _Crew(plan, assigned, execution, environment)
        problem: BaseException | None = None
        try:
            crew.run_all()
        except BaseException as stopped:
            problem = stopped
        reason = _delete_leaks(execution, environment) or (
            str(problem).split("\n")[0] if problem else _shortfall(execution, crew.results)
        )
        status = "cancelled" if isinstance(problem, StoppedError) else "failed"
        if before == "completed" and plan.execution:
            executions.finish(execution, before, reason="")
        else:
            executions.finish(execution, status if reason else "completed", reason=reason)
        pages.write_index(execution)
    if problem is not None:
        raise problem
    if reason:
        raise ExecutionError(reason)
    return execution


class _Crew:
    """The notebooks of one execution, each begun when those it reads from are done."""

    def __init__(
        self,
        plan: Plan,
        assigned: Mapping[str, Mapping[str, Any]],
        execution: Execution,
        environment: Mapping[str, str],
    ) -> None:
        self._plan, self._assigned = plan, assigned
        self._execution, self._environment = execution, environment
        self._kernels = Kernels()
        self._waiting = list(plan.notebooks)
        self._running: dict[Future[NotebookResult], str] = {}
        self.results: dict[str, NotebookResult] = {}

    def run_all(self) -> None:
        """Runs them; a notebook is not run when one it reads from failed, the others still are."""
        with ThreadPoolExecutor(self._plan.side_by_side) as pool, _signals():
            try:
                while self._waiting or self._running:
                    self._begin(pool)
                    self._collect(pool)
            except BaseException:
                self._kernels.stop()
                while self._running:
                    self._collect(None)
                raise

    def _begin(self, pool: Executor) -> None:
        """Hands every notebook whose needs are met to the pool, in the workbook's order."""
        planned = {notebook.name for notebook in self._plan.notebooks}
        for notebook in list(self._waiting):
            needs = planned.intersection(notebook.after)
            if not needs <= self.results.keys():
                continue
            self._waiting.remove(notebook)
            broken = sorted(need for need in needs if self.results[need].status != "ok")
            if broken:
                reason = f"{', '.join(broken)} did not finish"
                self._report(NotebookResult(notebook.name, "not-run", reason))
            else:
                self._running[pool.submit(self._run, notebook.name)] = notebook.name

    def _collect(self, pool: Executor | None) -> None:
        """Waits for a notebook to end, lets the next ones begin, and only then renders its page."""
        done, _ = wait(self._running, 0.5, FIRST_COMPLETED)  # so that Windows sees Ctrl-C
        ended = [future.result() for future in done]
        for future, result in zip(done, ended, strict=True):
            del self._running[future]
            self.results[result.name] = result
        if ended and pool is not None:
            self._begin(pool)
        for result in ended:
            self._report(result)

    def _run(self, name: str) -> NotebookResult:
        try:
            return run_notebook(
                self._plan.source / f"{name}.ipynb",
                self._execution.folder,
                self._assigned[name],
                environment=self._environment,
                kernels=self._kernels,
                timeout=self._plan.cell_timeout_s,
            )
        except NotebookError as problem:
            return NotebookResult(name, "failed", str(problem))

    def _report(self, result: NotebookResult) -> None:
        """Renders the page, records the status, prints the one line of this notebook."""
        self.results[result.name] = result
        told = {
            "status": result.status,
            "reason": result.reason,
            "cells": result.cells,
            "cells_run": result.cells_run,
            "seconds": round(result.seconds, 2),
        }
        kept = self._execution.folder / f"{result.name}.ipynb"
        if result.status == "ok" or not kept.is_file():  # an earlier good one stays the result
            self._execution.record(
                lambda manifest: manifest["notebooks"].update({result.name: told})
            )
        said = f"{result.status}: {result.reason}" if result.reason else result.status
        took = f"{result.seconds:5.1f} s, {result.cells} cells" if result.cells else ""
        print(f"  {result.name:<22} {took:<17} {said}", file=sys.stderr, flush=True)
        if result.path is not None:
            render.render_file(result.path)


@contextmanager
def _opened(plan: Plan) -> Iterator[tuple[Execution, str]]:
    """The plan's execution, in progress, and its status before; no other process writes to it."""
    if plan.execution:
        execution = executions.find(plan.execution)
    elif plan.into and (executions.outputs() / plan.into / "manifest.json").is_file():
        execution = executions.find(plan.into)
    else:
        execution = executions.create(plan.label, name=plan.into)
    try:
        with FileLock(execution.folder / ".run.lock", timeout=0):
            if plan.into:
                executions.create(plan.label, name=plan.into)
            before = execution.manifest.get("status", "")
            for partial in execution.folder.glob(".*.partial*"):
                partial.unlink()  # left by a process that was killed while it held this lock
            execution.record(lambda manifest: manifest.update(status="in_progress", reason=""))
            yield execution, before
    except Timeout:
        raise ExecutionError(
            f"Another run is writing to {execution.folder}. Wait until it has ended."
        ) from None


def _environment(execution: Execution) -> dict[str, str]:
    environment = kernel_environment(executions.repository(), executions.outputs() / "cache")
    for name in ("IPYTHONDIR", "MPLCONFIGDIR"):
        Path(environment[name]).mkdir(parents=True, exist_ok=True)
    return environment | {executions.CURRENT: execution.name}


def _shortfall(execution: Execution, results: Mapping[str, NotebookResult]) -> str:
    """Why the execution is no result, or nothing: a notebook or a question that failed."""
    for result in results.values():
        if result.status != "ok":
            where = f" See {result.path}" if result.path else ""
            return f"{result.name} {result.status}: {result.reason.rstrip('.')}.{where}"
    modes = pages.summary_of(execution).get("status", {})
    broken = sorted(mode for mode, status in modes.items() if status != "completed")
    if broken:
        return f"Questions failed in {', '.join(broken)}; 02_evaluate names them."
    return ""


def _delete_leaks(execution: Execution, environment: Mapping[str, str]) -> str:
    """Deletes files that hold the value of a secret variable; says which, or nothing."""
    found = leaks.find(execution.folder, environment)
    for path in found:
        path.unlink()
    if not found:
        return ""
    names = ", ".join(sorted({name for names in found.values() for name in names}))
    files = ", ".join(path.name for path in found)
    return f"The value of {names} stood in {files}, now deleted. Keep keys out of data and outputs."


@contextmanager
def _signals() -> Iterator[None]:
    """Turns Ctrl-C and SIGTERM into StoppedError, in the main thread, where they arrive."""

    def stop(number: int, _frame: Any) -> None:
        raise StoppedError(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
