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
from collections.abc import Sequence
from pathlib import Path

from evalkit.errors import EnvironmentSetupError

LOCK = "requirements.lock"
_EXTRA = re.compile(r"\s*;\s*extra == '(?P<extra>[a-z]+)'(?: and \((?P<rest>.*)\))?\s*\\")


def install(root: Path, *, extras: Sequence[str] = (), venv: Path | None = None) -> Path:
    """Makes the virtual environment if its stamp does not match the lock; returns its Python.

    A finished environment costs no process and no network. One whose making was cut off is made
    anew: pip takes a package for installed whose files are only half there.
    """
    venv = venv or root / ".venv"
    python = venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    wanted = requirements(root / LOCK, extras)
    stamp, begun = venv / ".evalkit-installed", root / ".cache" / "install-begun"
    satisfied = stamp.read_text().split() if stamp.is_file() else []
    if _digest(wanted) in satisfied and python.exists() and not begun.exists():
        return python
    _check_python()
    print(f"Installing into {venv} from {LOCK} (about a minute) ...", file=sys.stderr, flush=True)
    fresh = begun.exists() or not python.exists()
    begun.parent.mkdir(exist_ok=True)
    begun.touch()
    if fresh:
        make = [sys.executable, "-m", "venv", "--clear", str(venv)]
        _call(make, "making the virtual environment")
    listed = venv / "requirements.txt"
    listed.write_text(wanted, encoding="utf-8")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        # Bytecode is compiled here, once: a kernel that compiles debugpy and pandas itself starts
        # 2.6 times slower, and every time where PYTHONDONTWRITEBYTECODE is set.
        _call([*pip, "--compile", "--require-hashes", "-r", str(listed)], "installing the packages")
    except EnvironmentSetupError:
        begun.unlink()  # pip has put back what it had changed
        raise
    # A bigger set of extras satisfies the smaller ones of the same lock; another lock does not.
    plain = _digest(requirements(root / LOCK, ()))
    kept = satisfied if plain in satisfied and not fresh else []
    stamp.write_text("\n".join(sorted({plain, _digest(wanted), *kept})) + "\n")
    begun.unlink()
    return python


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


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
    import tomllib  # not in the Pythons that `install` refuses with a sentence

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
