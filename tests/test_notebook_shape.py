"""The shape of the source notebooks: essays without definitions, outputs or hidden parameters."""

import ast
import logging
from pathlib import Path
from statistics import median
from typing import Any

import nbformat
import pytest
from papermill.inspection import inspect_notebook

from evalkit.workbook.parameters import WORKBOOK

FOLDER = Path(__file__).parents[1] / "notebooks"
TAGS = {"parameters", "setup", "figure", "record"}
FORBIDDEN = (ast.FunctionDef, ast.ClassDef, ast.Lambda, ast.For, ast.While, ast.AsyncFunctionDef)
# These hand text to the page unescaped, or restyle it: only `show` may display.
RAW = ("HTML(", "Markdown(", ".style", "escape=False", "display_html", "%%html", "%run", "import *")
CLOSING = "## What this shows, and what it cannot show"


def notebook(name: str) -> Any:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def code(name: str) -> list[Any]:
    return [cell for cell in notebook(name).cells if cell.cell_type == "code"]


def tagged(name: str, tag: str) -> list[Any]:
    return [cell for cell in code(name) if tag in cell.metadata.get("tags", [])]


each = pytest.mark.parametrize("name", [notebook.name for notebook in WORKBOOK])


def test_every_notebook_is_declared() -> None:
    """The folder holds exactly the notebooks whose parameters are declared."""
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == [n.name for n in WORKBOOK]


@each
def test_source_is_clean(name: str) -> None:
    """No outputs, no counts, the plain kernel, and ids that are unique."""
    source = notebook(name)

    assert source.metadata["kernelspec"]["name"] == "python3"
    assert not [cell for cell in code(name) if cell.outputs or cell.execution_count]
    assert len({cell.id for cell in source.cells}) == len(source.cells)


@each
def test_cells_are_short_and_define_nothing(name: str) -> None:
    """Beside parameters and setup, at most two statements in the median; no cell over six lines."""
    lines = []
    for cell in code(name):
        parameters = "parameters" in cell.metadata.get("tags", [])
        assert len(cell.source.splitlines()) <= (15 if parameters else 6), cell.source
        assert not [n for n in ast.walk(ast.parse(cell.source)) if isinstance(n, FORBIDDEN)]
        assert not [raw for raw in RAW if raw in cell.source], cell.source
        if not {"parameters", "setup"} & set(cell.metadata.get("tags", [])):
            lines.append(len(ast.parse(cell.source).body))
    assert median(lines) <= 2


@each
def test_order_is_title_parameters_setup_questions_limits_record(name: str) -> None:
    """One title first, one parameter cell, then setup; at the end the limits, then the record."""
    cells = notebook(name).cells

    assert cells[0].source.startswith("# ")
    assert [c for c in cells[1:] if c.cell_type == "markdown" and c.source[:2] == "# "] == []
    assert [cell.metadata.get("tags") for cell in code(name)[:2]] == [["parameters"], ["setup"]]
    assert tagged(name, "record") == [cells[-1]]
    assert cells[-2].source.startswith(CLOSING)
    used = {tag for cell in cells for tag in cell.metadata.get("tags", [])}
    assert used <= TAGS


@each
def test_papermill_sees_the_parameters_that_are_declared(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Names, defaults and help as papermill reads them are those of the strict record."""
    with caplog.at_level(logging.WARNING):
        seen = inspect_notebook(FOLDER / f"{name}.ipynb")
    (declared,) = [each.parameters for each in WORKBOOK if each.name == name]

    defaults = {key: ast.literal_eval(told["default"]) for key, told in seen.items()}
    assert defaults == declared().model_dump()
    assert not [key for key, told in seen.items() if not told["help"]]
    assert not caplog.records
    (cell,) = tagged(name, "parameters")
    assert len(cell.source.splitlines()) == len(seen), "one line a parameter"
    assert not [line for line in cell.source.splitlines() if line.count("=") != 1]


@each
def test_first_cell_checks_its_own_parameters(name: str) -> None:
    """The setup cell calls check_parameters with the notebook's own name."""
    (setup,) = tagged(name, "setup")

    assert f'workbook.check_parameters("{name}", globals())' in setup.source


def test_package_displays_only_through_show() -> None:
    """No module but `show` builds IPython display objects or unescaped tables."""
    found = [
        f"{path.name}: {raw}"
        for path in (FOLDER.parent / "evalkit").rglob("*.py")
        for raw in ("HTML(", "Markdown(", "to_html(", "escape=False)", ".style.")
        if raw in path.read_text(encoding="utf-8") and path.name not in {"show.py", "render.py"}
    ]

    assert found == []
