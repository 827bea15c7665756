"""The driver: order, locks, signals, and an execution that says how it ended."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock

from evalkit import executions
from evalkit.errors import ExecutionError, ParameterError
from evalkit.workbook import driver
from evalkit.workbook.parameters import Notebook, Parameters

ROOT = Path(__file__).parents[2]
Make = Callable[..., Path]


class Tiny(Parameters):
    """One number."""

    x: int = 1


FIVE = (
    Notebook("01_a", Tiny),
    Notebook("02_b", Tiny, after=("01_a",)),
    Notebook("03_c", Tiny, after=("02_b",)),
    Notebook("04_d", Tiny, after=("03_c",)),
    Notebook("05_e", Tiny, after=("02_b",)),
)


def plan(make: Make, notebooks: tuple[Notebook, ...] = FIVE, **broken: str) -> driver.Plan:
    """A plan of tiny notebooks; `broken` gives other cells to some of them."""
    for notebook in notebooks:
        cell = broken.get(notebook.name[3:], "print(x)")
        path = make(notebook.name, cell, parameters="x: int = 1  # a number")
    return driver.Plan(notebooks, {"x": 2}, label="tiny", source=path.parent)


def statuses(execution: executions.Execution) -> dict[str, str]:
    return {name: told["status"] for name, told in execution.manifest["notebooks"].items()}


@pytest.mark.notebook
def test_all_notebooks_run_and_leave_pages(
    make_notebook: Make, outputs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Five notebooks end ok, each with a page and one line; the index links them all."""
    execution = driver.run(plan(make_notebook))

    assert execution.manifest["status"] == "completed"
    assert set(statuses(execution).values()) == {"ok"}
    index = (execution.folder / "index.html").read_text()
    for notebook in FIVE:
        assert f'href="{notebook.name}.html"' in index
        assert "print(x)" in (execution.folder / f"{notebook.name}.html").read_text()
    lines = capsys.readouterr().err.strip().splitlines()
    assert sorted(line.split()[0] for line in lines) == [notebook.name for notebook in FIVE]


@pytest.mark.notebook
def test_failure_stops_what_reads_from_it_and_nothing_else(
    make_notebook: Make, outputs: Path
) -> None:
    """When 03 fails, 04 is not run, 05 still is, and the execution is failed."""
    with pytest.raises(ExecutionError, match="03_c failed: in code cell 3: ZeroDivisionError"):
        driver.run(plan(make_notebook, c="1/0"))

    (execution,) = executions.history()
    assert statuses(execution) == {
        "01_a": "ok",
        "02_b": "ok",
        "03_c": "failed",
        "04_d": "not-run",
        "05_e": "ok",
    }
    assert execution.manifest["status"] == "failed"
    index = (execution.folder / "index.html").read_text()
    assert "03_c.failed.html" in index
    assert "not a result" in index


@pytest.mark.notebook
def test_notebook_learns_its_execution_without_a_parameter(
    make_notebook: Make, outputs: Path
) -> None:
    """The folder's name reaches the kernel by the environment, so that files stay comparable."""
    cell = "from evalkit import executions\nprint(executions.current('').folder.exists())"

    execution = driver.run(plan(make_notebook, FIVE[:1], a=cell))

    text = (execution.folder / "01_a.ipynb").read_text()
    assert "True" in text
    assert execution.name not in text


@pytest.mark.notebook
def test_failed_question_makes_the_execution_failed(make_notebook: Make, outputs: Path) -> None:
    """A summary that says a mode failed is kept, and the execution is no result."""
    cell = (
        "from evalkit import executions\n"
        "executions.current('').write_json('summary', {'status': {'semantic': 'failed'}})"
    )

    with pytest.raises(ExecutionError, match="Questions failed in semantic"):
        driver.run(plan(make_notebook, FIVE[:1], a=cell))

    (execution,) = executions.history()
    assert execution.manifest["status"] == "failed"
    assert (execution.folder / "summary.json").exists()


@pytest.mark.notebook
def test_file_that_holds_a_key_is_deleted(
    make_notebook: Make, outputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A side file with the value of a secret variable does not stay, and is named."""
    monkeypatch.setenv("QDRANT_API_KEY", "sk-TEST-000111")
    cell = (
        "import os\nfrom evalkit import executions\n"
        "executions.current('').write_json('facts', {'url': os.environ['QDRANT_API_KEY']})"
    )

    with pytest.raises(ExecutionError, match=r"QDRANT_API_KEY stood in facts\.json"):
        driver.run(plan(make_notebook, FIVE[:1], a=cell))

    for path in outputs.rglob("*"):
        assert path.is_dir() or b"sk-TEST-000111" not in path.read_bytes()


def test_unknown_parameter_stops_before_a_folder_is_made(
    make_notebook: Make, outputs: Path
) -> None:
    """Nothing is written when the parameters are wrong."""
    with pytest.raises(ParameterError):
        driver.run(driver.Plan(FIVE, {"y": 1}, label="tiny"))

    assert not outputs.exists()


def test_second_run_in_one_execution_is_refused_at_once(make_notebook: Make, outputs: Path) -> None:
    """While one process writes to an execution, another one is told so and writes nothing."""
    execution = executions.create("tiny")
    before = (execution.folder / "manifest.json").read_bytes()
    wanted = driver.Plan(FIVE, label="tiny", execution=execution.name)

    with (
        FileLock(execution.folder / ".run.lock"),
        pytest.raises(ExecutionError, match="Another run is writing"),
    ):
        driver.run(wanted)

    assert (execution.folder / "manifest.json").read_bytes() == before


def test_outputs_that_cannot_be_written_fail_before_any_kernel(
    make_notebook: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outputs path below a file (as unwritable for root as for anyone) is one sentence."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EVALKIT_OUTPUTS", str(tmp_path / "file" / "outputs"))

    with pytest.raises(ExecutionError, match="cannot be written"):
        driver.run(plan(make_notebook))


@pytest.mark.notebook
def test_half_written_files_of_a_killed_run_are_swept(make_notebook: Make, outputs: Path) -> None:
    """What a kill left half-written is removed when the execution is next run."""
    execution = executions.create("tiny")
    left = execution.folder / ".01_a.x1y2.partial.ipynb"
    left.write_text("{")

    driver.run(
        driver.Plan(
            FIVE[:1],
            label="tiny",
            execution=execution.name,
            source=plan(make_notebook, FIVE[:1]).source,
        )
    )

    assert not left.exists()
    assert (execution.folder / "01_a.ipynb").exists()


@pytest.mark.notebook
def test_failure_of_an_added_notebook_leaves_a_complete_execution_as_it_was(
    make_notebook: Make, outputs: Path
) -> None:
    """A notebook run again with a mistake does not unmake what was good, and exits non-zero."""
    first = plan(make_notebook, FIVE[:1])
    execution = driver.run(first)
    good = (execution.folder / "01_a.ipynb").read_bytes()

    again = replace(plan(make_notebook, FIVE[:1], a="1/0"), execution=execution.name)
    with pytest.raises(ExecutionError, match="ZeroDivisionError"):
        driver.run(again)

    assert execution.manifest["status"] == "completed"
    assert statuses(execution) == {"01_a": "ok"}
    assert (execution.folder / "01_a.ipynb").read_bytes() == good
    assert (execution.folder / "01_a.failed.html").is_file()


SCRIPT = """
import sys
from pathlib import Path
from evalkit.workbook import cli, driver, parameters
class Tiny(parameters.Parameters):
    x: int = 1
parameters.WORKBOOK = (parameters.Notebook("01_a", Tiny), parameters.Notebook("02_b", Tiny))
original = driver.Plan
driver.Plan = lambda *a, **k: original(*a, **(k | {"source": Path(sys.argv[1])}))
sys.exit(cli.main(["run"]))
"""


@pytest.mark.notebook
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signal_ends_the_run_and_is_told(
    make_notebook: Make, outputs: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """Ctrl-C and SIGTERM leave a cancelled execution and a banner; SIGKILL one in progress.

    The exit code is 128 + the signal's number, as shells count; no file is half-written.
    """
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    source = make_notebook("01_a", f"open({str(pipe)!r}, 'w').close()\nwhile True: pass").parent
    make_notebook("02_b", "1")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "EVALKIT_OUTPUTS": str(outputs)}
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(source)],
        env=environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    pipe.read_text()  # returns when the endless cell has begun
    process.send_signal(number)
    _, said = process.communicate()

    (execution,) = executions.history()
    names = {path.name for path in execution.folder.iterdir()}
    assert "01_a.ipynb" not in names
    assert not [name for name in names if "partial" in name]
    assert "Traceback" not in said
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
        assert execution.manifest["status"] == "in_progress"
    else:
        assert process.returncode == 128 + number
        assert execution.manifest["status"] == "cancelled"
        banner = json.loads((execution.folder / "01_a.failed.ipynb").read_text())["cells"][0]
        assert "interrupted" in "".join(banner["source"])
