"""The five real notebooks: through the driver, through plain papermill, and on hostile data."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import papermill
import pytest

from evalkit import executions
from evalkit.executions import Execution
from evalkit.workbook import driver, pages
from evalkit.workbook.parameters import WORKBOOK

pytestmark = pytest.mark.notebook
ROOT = Path(__file__).parents[2]
PAGES = ["index", *(notebook.name for notebook in WORKBOOK)]
EVIL = [
    "<script>document.title='XSS'</script>",
    "<img src=http://127.0.0.1:9/p.png onerror=document.title='XSS'>",
    "</td></tr></table><h1>gone</h1>",
    "<style>*{display:none}</style>",
    "![x](http://127.0.0.1:9/i.png) [y](javascript:alert(1))",
    "</script><svg onload=alert(1)>",
    "$E=mc^2$ \\(x\\) a | b `c` *d* & <b>",
    '" onmouseover="alert(1)',
]


def hostile_set(folder: Path) -> Path:
    """A small set whose names, titles, passages, questions and categories attack the page."""
    subjects = ["ports", "queues", "disks", "clocks", "keys", "mail", "cache", "proxy"]
    documents, queries = [], []
    for number, (subject, evil) in enumerate(zip(subjects, EVIL, strict=True)):
        text = f"How to restart the {subject}: {evil} stop it, wait, and start it again."
        documents.append(
            {"document_id": f"{subject} {evil}", "title": f"{subject} {evil}", "text": text}
        )
        queries += [
            {
                "query_id": f"q{number}{half} {evil}",
                "text": f"How are {subject} restarted? {evil} {half}",
                "category": evil,
                "topic": subject,
                "split": ("development", "held-out")[number % 2],
                "answerable": answerable,
                "judgments": {f"{subject} {evil}": 2} if answerable else {},
                "requirements": [{"fact": evil, "any_of": [f"{subject} {evil}"]}] * answerable,
            }
            for half, answerable in (("a", True), ("b", number % 4 > 1))
        ]
    folder.mkdir()
    (folder / "set.toml").write_text(
        f"name = {json.dumps('set ' + EVIL[0])}\nversion = {json.dumps(EVIL[1])}\n"
        'language = "en"\nchunking = "document"\ncomplete = true\n'
        "[grades]\nlowest = 0\nhighest = 2\nrelevant_from = 1\n"
    )
    for name, rows in (("corpus", documents), ("queries", queries)):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines)
    return folder


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Execution]:
    """One execution of the whole workbook on the hostile set."""
    folder = tmp_path_factory.mktemp("hostile")
    before = os.environ.get("EVALKIT_OUTPUTS")
    os.environ["EVALKIT_OUTPUTS"] = str(folder / "outputs")
    given = {"dataset": str(hostile_set(folder / "set")), "cutoffs": [1, 3]}
    yield driver.run(driver.Plan(WORKBOOK, given, label="hostile"))
    os.environ.pop("EVALKIT_OUTPUTS")
    if before is not None:
        os.environ["EVALKIT_OUTPUTS"] = before


def test_workbook_completes_on_hostile_data(hostile: Execution) -> None:
    """All five notebooks end ok, every page is there, and the summary has values with counts."""
    assert hostile.manifest["status"] == "completed"
    assert [name for name in PAGES if not (hostile.folder / f"{name}.html").is_file()] == []
    lines = pages.headline(pages.summary_of(hostile))
    assert lines
    assert all("of 12" in line.count for line in lines)  # 8 a-questions and 4 b-questions


@pytest.mark.browser
@pytest.mark.parametrize("name", PAGES)
def test_page_of_hostile_data_is_inert_and_whole(
    chromium: Any, hostile: Execution, name: str
) -> None:
    """In Chromium at phone width: no request, no script, whole tables, alt texts, one column."""
    page = chromium.new_page(viewport={"width": 390, "height": 800})
    asked: list[str] = []
    dialogs: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    address = (hostile.folder / f"{name}.html").as_uri()

    page.goto(address)

    assert [url for url in asked if not url.startswith("data:image/png")] == [address]
    assert not dialogs
    assert page.title() != "XSS"
    assert page.locator("script, iframe, form, svg, main style").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    # A broken-out cell would leave rows with too few cells, or a heading made by the data.
    uneven = page.evaluate(
        "[...document.querySelectorAll('table')]"
        ".filter(t => new Set([...t.rows].map(r => r.cells.length)).size > 1).length"
    )
    assert uneven == 0
    assert page.get_by_role("heading", name="gone", exact=True).count() == 0
    alts = [image.get_attribute("alt") for image in page.locator("img").all()]
    assert all(alts)
    page.close()


def test_plain_papermill_runs_every_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without our driver the notebooks run one after the other, each finding the newest before."""
    monkeypatch.setenv("EVALKIT_OUTPUTS", str(tmp_path / "outputs"))
    monkeypatch.delenv(executions.CURRENT, raising=False)
    for notebook in WORKBOOK:
        papermill.execute_notebook(
            ROOT / "notebooks" / f"{notebook.name}.ipynb",
            tmp_path / f"{notebook.name}.ipynb",
            parameters={"dataset": "runbooks"},
            cwd=ROOT,
            progress_bar=False,
        )

    (execution,) = executions.history()
    assert pages.headline(pages.summary_of(execution))


def test_reference_is_repeated_number_by_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The committed execution, run again, gives its counts and ceilings exactly, and its means.

    Keyword values are equal to the last digit. The embedded model computes in 8-bit integers,
    which processors with and without VNNI round differently, so the others may move by a few
    questions of 216: 0.02.
    """
    committed = ROOT / "outputs" / "reference" / "summary.json"
    if not committed.is_file():
        pytest.skip("outputs/reference is not made yet (make reference)")
    monkeypatch.setenv("EVALKIT_OUTPUTS", str(tmp_path / "outputs"))
    wanted = json.loads(committed.read_text(encoding="utf-8"))

    execution = driver.run(driver.Plan(WORKBOOK, {"dataset": "handbook"}, label="handbook"))

    found = pages.summary_of(execution)
    assert (found["set"], found["questions"]) == (wanted["set"], wanted["questions"])
    for old, new in zip(wanted["headline"], found["headline"], strict=True):
        same = ("mode", "metric", "cutoff", "count", "of")
        assert [new[key] for key in same] == [old[key] for key in same]
        assert new["ceiling"] == pytest.approx(old["ceiling"], abs=1e-12)
        tolerance = 1e-12 if old["mode"] == "keyword" else 0.02
        assert new["mean"] == pytest.approx(old["mean"], abs=tolerance), (old, new)
