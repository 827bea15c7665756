"""Makes `.venv` from the lock file, and the lock file from `pyproject.toml`.

Runs on the machine's own Python before anything is installed, so it imports the standard library
only. The lock is one hashed requirements file: lines of the optional groups carry the marker
`extra == '<group>'`, which pip alone skips, so that `pip install -r requirements.lock` is the
plain workbook and `install(extras=["test"])` adds the test group of the same resolution.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from evalkit.errors import EnvironmentSetupError

LOCK = "requirements.lock"
_EXTRA = re.compile(r"\s*;\s*extra == '(?P<extra>[a-z]+)'(?: and \((?P<rest>.*)\))?\s*\\")


def install(root: Path, *, extras: Sequence[str] = (), venv: Path | None = None) -> Path:
    """Makes the virtual environment if its stamp does not match the lock; returns its Python.

    The stamp is written last: an interrupted install is completed by the next call, and a
    finished one costs no process and no network.
    """
    venv = venv or root / ".venv"
    python = venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    wanted = requirements(root / LOCK, extras)
    stamp = venv / ".evalkit-installed"
    fingerprint = hashlib.sha256(wanted.encode()).hexdigest()
    if stamp.is_file() and python.exists() and fingerprint in stamp.read_text().split():
        return python
    _check_python()
    print(f"Installing into {venv} from {LOCK} (about a minute) ...", file=sys.stderr, flush=True)
    if not python.exists():
        _call([sys.executable, "-m", "venv", str(venv)], "making the virtual environment")
    listed = venv / "requirements.txt"
    listed.write_text(wanted, encoding="utf-8")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # Bytecode is compiled here, once: a kernel that compiles debugpy and pandas itself starts 2.6
    # times slower, and every time where PYTHONDONTWRITEBYTECODE is set.
    _call([*pip, "--compile", "--require-hashes", "-r", str(listed)], "installing the packages")
    already = stamp.read_text().split() if stamp.is_file() else []
    # A bigger set of extras satisfies the smaller ones, so their stamps are added, not replaced.
    satisfied = {fingerprint, hashlib.sha256(requirements(root / LOCK, ()).encode()).hexdigest()}
    stale = not satisfied & set(already)
    stamp.write_text("\n".join(sorted(satisfied if stale else satisfied | set(already))))
    return python


def requirements(lock: Path, extras: Sequence[str]) -> str:
    """The lock's text with the marker of each wanted extra lifted, so that pip installs it."""
    if not lock.is_file():
        raise EnvironmentSetupError(f"{lock}: no such file; it is part of the repository.")

    def lift(match: re.Match[str]) -> str:
        if match["extra"] not in extras:
            return match[0]
        return f" ; {match['rest']} \\" if match["rest"] else " \\"

    return _EXTRA.sub(lift, lock.read_text(encoding="utf-8"))


def write_lock(root: Path, uv: str = "uv") -> Path:
    """Resolves `pyproject.toml` anew with uv and writes the hashed requirements file."""
    _call([uv, "lock", "--quiet"], "resolving pyproject.toml")
    plain = _export(uv, ())
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    parts = [
        "# Written by `make lock` from pyproject.toml; do not edit. Lines marked extra == '...'",
        "# are skipped by `pip install -r`; `python -m evalkit setup --extra ...` lifts the mark.",
        *plain.values(),
    ]
    for extra in project["optional-dependencies"]:
        for name, lines in _export(uv, (extra,)).items():
            if plain.get(name) != lines:
                parts.append(_mark(lines, extra))
    (root / LOCK).write_text("\n".join(parts) + "\n", encoding="utf-8")
    (root / "uv.lock").unlink()  # one lock file: the one that pip, and so every machine, can read
    return root / LOCK


def _export(uv: str, extras: Sequence[str]) -> dict[str, str]:
    """Requirement heads (`name==version ; marker`) -> the whole entry with its hashes."""
    flags = [flag for extra in extras for flag in ("--extra", extra)]
    command = [uv, "export", "--quiet", "--format", "requirements-txt", "--no-header"]
    command += ["--no-annotate", "--no-emit-project", "--frozen", *flags]
    text = _call(command, "exporting the lock")
    entries = re.findall(r"^(?:[^\s#].*\\\n)(?:    .*\n?)+", text, flags=re.MULTILINE)
    return {entry.splitlines()[0]: entry.rstrip("\n") for entry in entries}


def _mark(entry: str, extra: str) -> str:
    head, rest = entry.split("\n", 1)
    name, _, marker = head.removesuffix("\\").strip().partition(" ; ")
    condition = f"extra == '{extra}'" + (f" and ({marker})" if marker else "")
    return f"{name} ; {condition} \\\n{rest}"


def _check_python() -> None:
    found = sys.version_info
    if not (3, 11) <= found < (3, 15):
        raise EnvironmentSetupError(
            f"Python {found.major}.{found.minor} found; evalkit needs 3.11 to 3.14. "
            "Name one with `make PYTHON=python3.12 ...`."
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        raise EnvironmentSetupError(
            "This Python cannot make virtual environments (venv or ensurepip is missing). "
            "On Debian and Ubuntu: apt install python3-venv."
        ) from None


def _call(command: Sequence[str], doing: str) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    try:
        done = subprocess.run(command, env=environment, text=True, stdout=subprocess.PIPE)
    except FileNotFoundError:
        raise EnvironmentSetupError(f"{command[0]} was not found while {doing}.") from None
    if done.returncode:
        raise EnvironmentSetupError(
            f"{command[0]} stopped with exit code {done.returncode} while {doing}; "
            "its own message stands above."
        )
    return done.stdout
