"""One notebook: every way of stopping is told as it was, and equal runs are equal files."""

import errno
import os
import resource
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from evalkit.errors import NotebookError
from evalkit.workbook.notebook import Kernels, _judged, run_notebook

pytestmark = pytest.mark.notebook
Make = Callable[..., Path]

# How each ends follows from what the cell does; the words are those of the module's Status.
STOPS = {
    "raises": (["1/0", "2"], "failed", "ZeroDivisionError: division by zero"),
    "kernel dies": (["import os; os._exit(9)", "2"], "kernel-died", "out of memory"),
    "kernel is killed": (
        ["import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "2"],
        "kernel-died",
        "",
    ),
    "exit 0": (["raise SystemExit(0)", "2"], "incomplete", "SystemExit: 0"),
    "exit 0 in the last cell": (["raise SystemExit(0)"], "failed", "SystemExit: 0"),
    "exit 3": (["import sys; sys.exit(3)", "2"], "incomplete", "SystemExit: 3"),
    "asks": (["input()", "2"], "failed", "StdinNotImplementedError"),
    "too long": (["while True: pass", "2"], "timeout", "longer than 1 s"),
}


@pytest.mark.parametrize("how", STOPS)
def test_way_of_stopping_is_told_and_leaves_no_result(
    how: str, make_notebook: Make, environment: dict[str, str], tmp_path: Path
) -> None:
    """A stopped notebook has its status, a banner as first cell, and never the final name."""
    cells, status, reason = STOPS[how]
    source = make_notebook("stops", *cells)

    result = run_notebook(source, tmp_path, {}, environment=environment, timeout=1)

    assert (result.status, result.path) == (status, tmp_path / "stops.failed.ipynb")
    assert reason in result.reason
    assert not (tmp_path / "stops.ipynb").exists()
    left = nbformat.read(result.path, as_version=4)
    assert f"({status})" in left.cells[0].source
    assert reason in left.cells[0].source
    assert left.metadata["evalkit"]["status"] == status


def test_cells_that_never_ran_make_a_notebook_incomplete() -> None:
    """Papermill's word that all is well counts nothing where a cell has no execution count."""
    cells = [nbformat.v4.new_code_cell("1", execution_count=1), nbformat.v4.new_code_cell("2")]

    assert _judged("ok", "", cells, 1) == ("incomplete", "1 of 2 code cells ran")


def test_cell_allowed_to_raise_still_fails_the_notebook(
    make_notebook: Make, environment: dict[str, str], tmp_path: Path
) -> None:
    """The tag `raises-exception` lets later cells run, and still the notebook is no result."""
    source = make_notebook("tagged", "1/0", "2")
    notebook = nbformat.read(source, as_version=4)
    notebook.cells[1].metadata["tags"] = ["raises-exception"]
    nbformat.write(notebook, source)

    result = run_notebook(source, tmp_path, {}, environment=environment)

    assert (result.status, result.cells_run) == ("failed", 2)


def test_stopping_from_outside_is_interrupted(
    make_notebook: Make, environment: dict[str, str], tmp_path: Path
) -> None:
    """Stopping the kernels ends a running notebook at once, as interrupted; none starts after."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    source = make_notebook("stopped", f"open({str(pipe)!r}, 'w').close()\nwhile True: pass")
    kernels = Kernels()

    def stop_when_running() -> None:
        pipe.read_text()  # returns when the cell has opened the other end
        kernels.stop()

    stopper = threading.Thread(target=stop_when_running)
    stopper.start()
    first = run_notebook(source, tmp_path, {}, environment=environment, kernels=kernels)
    stopper.join()
    second = run_notebook(source, tmp_path, {}, environment=environment, kernels=kernels)

    assert (first.status, second.status, second.cells_run) == ("interrupted", "interrupted", 0)


def test_two_runs_are_byte_identical(
    make_notebook: Make, environment: dict[str, str], tmp_path: Path
) -> None:
    """The same notebook with the same parameters gives the same file, figures included."""
    source = make_notebook(
        "same",
        "import matplotlib.pyplot as plt\nimport pandas as pd\npd.DataFrame({'x': [x, None]})",
        "plt.plot([1, x, 3])\nplt.show()",
        "print(sorted({'b', 'a'}), {'b', 'a'})",
        parameters="x: int = 1  # a number",
    )
    written = []
    for folder in ("one", "two"):
        result = run_notebook(source, tmp_path / folder, {"x": 2}, environment=environment)
        assert result.path is not None, result.reason
        written.append(result.path.read_bytes())

    assert result.status == "ok"
    assert written[0] == written[1]
    assert b"image/png" in written[0]


def test_good_file_survives_a_failed_run_and_clears_the_failed_one(
    make_notebook: Make, environment: dict[str, str], tmp_path: Path
) -> None:
    """A failure leaves the earlier result as it was; a success removes the earlier failure."""
    good = run_notebook(make_notebook("n", "1"), tmp_path, {}, environment=environment)
    assert good.path is not None
    before = good.path.read_bytes()

    run_notebook(make_notebook("n", "1/0"), tmp_path, {}, environment=environment)
    assert good.path.read_bytes() == before
    assert (tmp_path / "n.failed.ipynb").exists()

    run_notebook(make_notebook("n", "1"), tmp_path, {}, environment=environment)
    assert [path.name for path in tmp_path.glob("n*.ipynb")] == ["n.ipynb"]


def test_full_disk_leaves_the_earlier_file_whole(
    make_notebook: Make, environment: dict[str, str], tmp_path: Path
) -> None:
    """When the file cannot be written to its end, the one before stays and the run is failed."""
    good = run_notebook(make_notebook("big", "1"), tmp_path, {}, environment=environment)
    assert good.path is not None
    before = good.path.read_bytes()
    source = make_notebook("big", "print('x' * 200_000)")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        result = run_notebook(source, tmp_path, {}, environment=environment)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert (result.status, result.path) == ("failed", None)
    assert os.strerror(errno.EFBIG) in result.reason
    assert good.path.read_bytes() == before
    assert not list(tmp_path.glob(".*partial*"))


@pytest.mark.parametrize("kernelspec", [None, {"name": "venv-of-someone", "display_name": "x"}])
def test_kernel_of_another_machine_is_replaced_by_this_python(
    make_notebook: Make, environment: dict[str, str], tmp_path: Path, kernelspec: object
) -> None:
    """A missing or foreign kernel name does not matter: this interpreter's kernel runs (case)."""
    source = make_notebook("foreign", "import sys\nprint(sys.prefix)", kernelspec=kernelspec)

    result = run_notebook(source, tmp_path, {}, environment=environment)

    assert result.path is not None, result.reason
    executed = nbformat.read(result.path, as_version=4)
    assert os.path.samefile(executed.cells[1].outputs[0].text.strip(), sys.prefix)
    assert executed.metadata.kernelspec.name == "python3"


def test_user_start_up_files_do_not_reach_the_kernel(
    make_notebook: Make,
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither an IPython start-up file nor a shadowing PYTHONPATH of the user's is seen."""
    startup = tmp_path / "home" / ".ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "leak.py").write_text("leaked = 1")
    (tmp_path / "shadow").mkdir()
    (tmp_path / "shadow" / "evalkit.py").write_text("raise RuntimeError('shadowed')")
    source = make_notebook("clean", "import evalkit\nassert 'leaked' not in globals()")
    own = environment | {"HOME": str(tmp_path / "home")}

    result = run_notebook(source, tmp_path, {}, environment=own)

    assert result.status == "ok", result.reason


def test_secret_from_the_environment_reaches_no_file(
    make_notebook: Make, environment: dict[str, str], tmp_path: Path
) -> None:
    """A key that a cell prints is taken out, plain and encoded, and the notebook is no result."""
    source = make_notebook(
        "keys",
        "import os, base64\nkey = os.environ['QDRANT_API_KEY']\nprint('key is', key)",
        "print(base64.b64encode(key.encode()).decode())\nraise ValueError(key)",
    )
    own = environment | {"QDRANT_API_KEY": "sk/TEST 000111"}

    result = run_notebook(source, tmp_path, {}, environment=own)

    assert (result.status, "QDRANT_API_KEY" in result.reason) == ("leaked", True)
    assert result.path is not None
    text = result.path.read_text()
    assert "[QDRANT_API_KEY]" in text
    for form in ("sk/TEST 000111", "sk%2FTEST%20000111", "c2svVEVTVCAwMDAxMTE"):
        assert form not in text


@pytest.mark.parametrize("text", ["", "{}", "not json", '{"cells": 3}'])
def test_source_that_is_no_notebook_is_one_sentence(tmp_path: Path, text: str) -> None:
    """A file that is not a notebook is named, without a traceback of a parser."""
    (tmp_path / "n.ipynb").write_text(text)

    with pytest.raises(NotebookError, match=r"n\.ipynb: not a notebook"):
        run_notebook(tmp_path / "n.ipynb", tmp_path, {}, environment={})


def test_braces_in_a_path_are_only_a_path(
    make_notebook: Make, environment: dict[str, str], tmp_path: Path
) -> None:
    """Papermill fills {names} in paths; ours are never handed to it."""
    source = make_notebook("plain", "1")
    folder = tmp_path / "{x} a folder"

    result = run_notebook(source, folder, {}, environment=environment)

    assert result.path == folder / "plain.ipynb"
