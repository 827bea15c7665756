"""The command line: one sentence and an exit code, and nothing removed that runs did not make."""

import io
import json
import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from evalkit import executions
from evalkit.workbook import cli, pages

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["run", "datset=x"], 2, "unknown parameter 'datset'. Did you mean 'dataset'?"),
        (["run", "K=one"], 2, "cutoffs=one"),
        (["run", "DATASET"], 2, "expected NAME=VALUE"),
        (["run", "QDRANT_API_KEY=abc"], 2, "looks like a secret"),
        (["run", "--notebook", "09"], 2, "No single notebook is called '09'"),
        (["run", "--execution", "none"], 1, "No execution 'none'"),
        (["run", "--parameters", "nowhere.yaml"], 2, "nowhere.yaml: cannot be read"),
        (["run", "LABEL=../up"], 2, "label"),
        (["check", "nowhere"], 1, "nowhere"),
        (["render", "none"], 1, "No execution 'none'"),
    ],
)
def test_wrong_input_is_one_sentence(
    arguments: list[str],
    code: int,
    says: str,
    outputs: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each wrong call says what was found and exits non-zero, without a traceback or a file."""
    assert cli.main(arguments) == code

    said = capsys.readouterr().err
    assert says in said
    assert "Traceback" not in said
    assert said.count("\n") == 1
    assert not outputs.exists()


def test_debug_shows_the_traceback(outputs: Path) -> None:
    """With --debug the error itself is raised."""
    with pytest.raises(executions.store.ExecutionError):
        cli.main(["render", "none", "--debug"])


def test_setup_needs_the_standard_library_only() -> None:
    """`python -S` sees no installed package; the command line still starts, and says what to do."""
    bare = [sys.executable, "-S", "-m", "evalkit"]

    shown = subprocess.run([*bare, "setup", "--help"], cwd=ROOT, capture_output=True, text=True)
    assert (shown.returncode, shown.stderr) == (0, "")
    missing = subprocess.run([*bare, "list"], cwd=ROOT, capture_output=True, text=True)
    assert missing.returncode == 1
    assert "Run `python -m evalkit setup`" in missing.stderr
    assert "Traceback" not in missing.stderr


def test_clean_removes_what_runs_made_and_nothing_else(
    outputs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After yes, executions, collections and caches go; `reference` and foreign files stay."""
    executions.create("tiny")
    executions.create("reference", name="reference")
    for kept in ("mine", "collections", "cache"):
        (outputs / kept).mkdir()
        (outputs / kept / "file").write_text("x")
    before = sorted(outputs.iterdir())

    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert cli.main(["clean"]) == 2
    assert "say --yes" in capsys.readouterr().err
    assert sorted(outputs.iterdir()) == before

    assert cli.main(["clean", "--yes"]) == 0
    assert sorted(path.name for path in outputs.iterdir()) == ["mine", "reference"]


def test_clean_asks_a_person_and_takes_no_for_an_answer(
    outputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a terminal the executions are listed, and anything but yes removes nothing."""
    execution = executions.create("tiny")
    (outputs / "cache").mkdir()
    asked: list[str] = []
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or "")

    assert cli.main(["clean"]) == 0

    assert execution.name in asked[0]
    assert sorted(path.name for path in outputs.iterdir()) == [execution.name, "cache"]


def test_score_prints_means_of_a_run_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run with its one relevant document second has RR 1/2 and nDCG 1/log2(3), by hand."""
    (tmp_path / "run").write_text("q Q0 x 1 2.0 t\nq Q0 a 2 1.0 t\n")
    (tmp_path / "qrels").write_text("q 0 a 1\n")
    files = [str(tmp_path / "run"), str(tmp_path / "qrels")]

    assert cli.main(["score", *files, "--metrics", "MRR,nDCG@10"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ReciprocalRank\tall\t0.5000\tn=1",
        f"nDCG@10\tall\t{1 / math.log2(3):.4f}\tn=1",
    ]
    assert cli.main(["score", *files, "--json", "--per-question", "--metrics", "AP"]) == 0
    assert json.loads(capsys.readouterr().out)["questions"] == {"q": {"AP": 1 / 2}}


def test_list_shows_every_execution_with_its_status(
    outputs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Oldest first; before the first one it says how to make one."""
    assert cli.main(["list"]) == 0
    assert "make run" in capsys.readouterr().out

    execution = executions.create("tiny")
    executions.finish(execution, "failed")
    cli.main(["list"])

    assert capsys.readouterr().out.split()[:2] == [execution.name, "failed"]


def test_index_page_of_an_empty_execution_says_so(outputs: Path) -> None:
    """An execution that has neither summary nor notebooks still has an honest page."""
    execution = executions.create("tiny")

    text = pages.write_index(execution).read_text()

    assert "No values" in text
    assert "in progress" in text


def test_index_page_escapes_what_the_manifest_holds(outputs: Path) -> None:
    """Names of sets, reasons and inputs are text on the index page, whatever they contain."""
    execution = executions.create("tiny")
    evil = "<script>alert(1)</script>"
    execution.record_inputs(set={"name": evil, evil: [evil]})
    execution.record(lambda m: m["notebooks"].update({evil: {"status": evil, "reason": evil}}))
    execution.write_json(
        "summary", {"set": {"name": evil}, "headline": [{"mode": evil, "mean": 0.5}]}
    )
    executions.finish(execution, "failed", reason=evil)

    text = pages.write_index(execution).read_text()

    assert evil not in text
    assert text.count("&lt;script&gt;") >= 7


def test_lab_is_for_this_machine_and_asks_no_one_for_news(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JupyterLab keeps its own defaults (loopback, token); news and update checks are off."""
    started: list[tuple[list[str], dict[str, str]]] = []

    def run(command: list[str], *, env: dict[str, str], cwd: Path) -> SimpleNamespace:
        started.append((command, env))
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(cli, "_ROOT", tmp_path)
    monkeypatch.setattr(cli.subprocess, "run", run)

    assert cli.main(["lab"]) == 0
    ((command, environment),) = started
    assert command == [sys.executable, "-m", "jupyterlab", str(tmp_path / "notebooks")]
    settings = Path(environment["JUPYTERLAB_SETTINGS_DIR"])
    (file,) = settings.rglob("notification.jupyterlab-settings")
    assert json.loads(file.read_text()) == {"fetchNews": "false", "checkForUpdates": False}
