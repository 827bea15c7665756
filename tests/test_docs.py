"""What the files beside the code promise: environment, lock, Makefile and README agree."""

import re
import runpy
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def names(requirements: list[str]) -> set[str]:
    found = (re.match(r"[A-Za-z0-9_.-]+", each) for each in requirements)
    return {normal(match[0]) for match in found if match}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(extra: str | None) -> set[str]:
    """Packages of the lock without a mark, or with that extra's mark."""
    mark = re.compile(r"extra == '([a-z]+)'")
    heads = re.findall(r"^([A-Za-z0-9_.\[\]-]+)==(.*)$", LOCK, flags=re.MULTILINE)
    marks = ((normal(name), mark.search(rest)) for name, rest in heads)
    return {name for name, found in marks if (found[1] if found else None) == extra}


def test_environment_yml_installs_the_lock_and_nothing_else() -> None:
    """Conda gets a supported Python, pip, and the one lock file; no package of its own."""
    made = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    python, pip, listed = made["dependencies"]

    assert (made["name"], pip, listed) == ("evalkit", "pip", {"pip": ["-r requirements.lock"]})
    minor = int(re.fullmatch(r"python=3\.(\d+)", python)[1])  # type: ignore[index]
    assert PROJECT["requires-python"] == ">=3.11,<3.15"
    assert 11 <= minor < 15


def test_lock_holds_every_declared_package() -> None:
    """Each dependency of pyproject.toml is in the lock, each of an extra under its mark."""
    assert names(PROJECT["dependencies"]) <= locked(None)
    for extra, requirements in PROJECT["optional-dependencies"].items():
        assert names(requirements) <= locked(None) | locked(extra), extra


def test_lock_pins_what_pyproject_pins() -> None:
    """Where pyproject.toml names one version, the lock has that one."""
    heads = re.findall(r"^([A-Za-z0-9_.-]+)==([^\s;]+)", LOCK, flags=re.MULTILINE)
    pinned = {(normal(name), version) for name, version in heads}
    extras = [each for group in PROJECT["optional-dependencies"].values() for each in group]
    for requirement in [*PROJECT["dependencies"], *extras]:
        found = re.match(r"([A-Za-z0-9_.-]+)==([^\s;]+)", requirement)
        if found:
            assert (normal(found[1]), found[2]) in pinned, requirement


def test_every_locked_package_has_a_hash() -> None:
    """No line of the lock can be installed without its sha256."""
    heads = re.findall(r"^[A-Za-z0-9].*$", LOCK, flags=re.MULTILINE)

    assert heads
    assert all(head.endswith("\\") for head in heads)
    assert len(heads) == len(re.findall(r"\\\n    --hash=sha256:[0-9a-f]{64}", LOCK)) - len(
        re.findall(r"--hash=sha256:[0-9a-f]{64} \\", LOCK)
    )


def targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", MAKEFILE, flags=re.MULTILINE))


def test_help_lists_every_target_with_a_line() -> None:
    """`make help` names each target once, from the comment beside it."""
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)

    listed = re.findall(r"^  make ([a-z]+) +\S", shown.stdout, flags=re.MULTILINE)
    assert sorted(listed) == sorted(targets())
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, flags=re.MULTILINE)
    assert phony
    assert set(phony[1].split()) == targets()


def test_every_target_is_in_the_readme() -> None:
    """README names each make target."""
    readme = ROOT / "README.md"
    if not readme.is_file():
        pytest.skip("README.md is not written yet")

    text = readme.read_text(encoding="utf-8")
    assert [target for target in sorted(targets()) if f"make {target}" not in text] == []


def test_variables_reach_the_command_quoted() -> None:
    """A value with a space is one word for `python -m evalkit run`."""
    shown = subprocess.run(
        ["make", "-n", "run", "DATASET=my set", "K=1,3"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert 'evalkit run DATASET="my set"' in shown.stdout
    assert 'K="1,3"' in shown.stdout


def test_the_room_table_of_the_readme_is_the_walls() -> None:
    """Each row names the rooms that the test of imports lets its rooms know."""
    rooms = runpy.run_path(str(ROOT / "tests" / "test_rooms.py"))
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| ((?:`\w+`(?:, )?)+) \| [^|]+ \| ?([^|]*?) ?\|$", text, flags=re.MULTILINE
    )
    table = [(re.findall(r"\w+", names), set(re.findall(r"\w+", may))) for names, may in rows]
    known = [(names, may) for names, may in table if set(names) <= rooms["ROOMS"].keys()]

    assert {name for names, _ in known for name in names} == {
        name for name in rooms["ROOMS"] if not name.startswith("__")
    }
    for names, may in known:
        walls = set().union(*(rooms["ROOMS"][name] for name in names)) - rooms["PLAIN"]
        everything = may == {"all", "of", "them"}
        assert may == walls or (everything and walls >= {"comparison", "reviews", "show"}), names
