"""Tiny notebooks, a scratch outputs folder, and a browser that opens pages without a network."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest

from evalkit.workbook.notebook import kernel_environment

ROOT = Path(__file__).parents[2]


@pytest.fixture
def outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An outputs folder of this test's own."""
    monkeypatch.setenv("EVALKIT_OUTPUTS", str(tmp_path / "outputs"))
    return tmp_path / "outputs"


@pytest.fixture
def make_notebook(tmp_path: Path) -> Callable[..., Path]:
    """Writes `<name>.ipynb` from sources of code cells; `parameters` becomes the tagged cell."""

    def make(name: str, *cells: str, parameters: str = "", kernelspec: object = None) -> Path:
        notebook = nbformat.v4.new_notebook()
        notebook.cells.append(nbformat.v4.new_markdown_cell(f"# {name}?"))
        if parameters:
            cell = nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]})
            notebook.cells.append(cell)
        notebook.cells += [nbformat.v4.new_code_cell(cell) for cell in cells]
        for number, cell in enumerate(notebook.cells):
            cell["id"] = f"cell-{number}"
        if kernelspec is not None:
            notebook.metadata["kernelspec"] = kernelspec
        path = tmp_path / "notebooks" / f"{name}.ipynb"
        path.parent.mkdir(exist_ok=True)
        nbformat.write(notebook, path)
        return path

    return make


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of a kernel whose start-up files lie in the test's own folder."""
    made = kernel_environment(ROOT, tmp_path / "scratch")
    Path(made["IPYTHONDIR"]).mkdir(parents=True)
    return made


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """Debian's Chromium through playwright; absent, a skip, or in CI a failure."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        reason = "no Chromium on this machine (apt-get install chromium)"
        if os.environ.get("EVALKIT_REQUIRE_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    quiet = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=quiet)
        yield browser
        browser.close()
