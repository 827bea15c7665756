"""The virtual environment: made once, completed when cut off, never pip's half-installed state."""

from pathlib import Path

import pytest

from evalkit.errors import EnvironmentSetupError
from evalkit.workbook import environment

LOCK = """\
plain==1.0 \\
    --hash=sha256:aa
tested==2.0 ; extra == 'test' \\
    --hash=sha256:bb
narrow==3.0 ; extra == 'test' and (sys_platform == 'linux') \\
    --hash=sha256:cc
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that would run; making the environment leaves its Python, as venv does."""
    made: list[list[str]] = []

    def call(command: list[str], doing: str) -> str:
        made.append(list(command))
        if "venv" in command:
            python = tmp_path / ".venv" / "bin" / "python"
            python.parent.mkdir(parents=True, exist_ok=True)
            python.touch()
        return ""

    (tmp_path / "requirements.lock").write_text(LOCK)
    monkeypatch.setattr(environment, "_call", call)
    return made


def test_mark_of_a_wanted_extra_is_lifted(tmp_path: Path) -> None:
    """Without the extra its lines stay marked, which pip skips; with it the mark is gone."""
    lock = tmp_path / "requirements.lock"
    lock.write_text(LOCK)

    assert environment.requirements(lock, ()) == LOCK
    lifted = environment.requirements(lock, ["test"])
    assert "tested==2.0 \\\n" in lifted
    assert "narrow==3.0 ; sys_platform == 'linux' \\\n" in lifted
    assert "extra" not in lifted


def test_finished_environment_costs_no_command(tmp_path: Path, calls: list[list[str]]) -> None:
    """The second call runs nothing; adding an extra runs pip once and keeps the first stamp."""
    environment.install(tmp_path)
    assert len(calls) == 2
    environment.install(tmp_path)
    assert len(calls) == 2

    environment.install(tmp_path, extras=["test"])
    assert len(calls) == 3
    environment.install(tmp_path)
    environment.install(tmp_path, extras=["test"])
    assert len(calls) == 3


def test_changed_lock_installs_again(tmp_path: Path, calls: list[list[str]]) -> None:
    """Another lock makes every stamp of the old one worthless."""
    environment.install(tmp_path, extras=["test"])
    (tmp_path / "requirements.lock").write_text(LOCK.replace("1.0", "1.1"))

    environment.install(tmp_path)
    environment.install(tmp_path, extras=["test"])

    assert len(calls) == 2 + 1 + 1


def test_cut_off_install_is_made_anew(
    tmp_path: Path, calls: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a kill during pip, the next call clears the environment before it installs."""
    whole = environment._call

    def killed(command: list[str], doing: str) -> str:
        if "pip" in command:
            raise KeyboardInterrupt
        return whole(command, doing)

    monkeypatch.setattr(environment, "_call", killed)
    with pytest.raises(KeyboardInterrupt):
        environment.install(tmp_path)
    monkeypatch.setattr(environment, "_call", whole)
    calls.clear()

    environment.install(tmp_path)

    assert "--clear" in calls[0]
    assert "--require-hashes" in calls[1]


def test_refused_install_keeps_what_was_there(
    tmp_path: Path, calls: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """When pip stops by itself (no network), the plain environment stays good."""
    environment.install(tmp_path)
    whole = environment._call

    def offline(command: list[str], doing: str) -> str:
        raise EnvironmentSetupError("no network")

    monkeypatch.setattr(environment, "_call", offline)
    with pytest.raises(EnvironmentSetupError):
        environment.install(tmp_path, extras=["test"])
    environment.install(tmp_path)  # would raise, if it called anything

    monkeypatch.setattr(environment, "_call", whole)
    assert environment.install(tmp_path).exists()
