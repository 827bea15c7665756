"""What a notebook displays: escaped, with controls made visible, with alt text."""

import ast
import re
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit import plots, show

ROOT = Path(__file__).parents[1]
HOSTILE = [
    "<script>document.title='ran'</script>",
    '<img src=x onerror="document.title=1">',
    "</td></table><h1>out",
    "[click](javascript:alert(1))",
    "\u202egnp.exe",
    "a\x00b\x1b[31m",
    "$\\int$ {{7*7}}",
    "=cmd|' /C calc'!A0",
]


@pytest.fixture
def displayed(monkeypatch):
    """The bundles that show would hand to a notebook."""
    found = []

    def publish(bundle, **options):
        found.append((bundle, options))

    monkeypatch.setattr(show, "_publish", publish)
    return found


class Tags(HTMLParser):
    """The tags a browser would open, and the text between them."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.tags, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += data


def parsed(markup):
    parser = Tags()
    parser.feed(markup)
    return parser


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_in_a_table_stays_text(displayed, text):
    """Whatever stands in a cell, a header or a caption, the table has table tags only."""
    show.table(pd.DataFrame({text: [text]}), caption=text)
    found = parsed(displayed[0][0]["text/html"])

    assert set(found.tags) == {"div", "table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert found.tags.count("td") == 1


@given(st.text())
def test_visible_text_has_no_controls_and_no_markup(text):
    """Nothing that a browser or terminal would obey passes (property)."""
    found = show.visible(text)

    assert not re.search("[<>\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", found)


def test_a_long_text_is_cut_and_says_so():
    """Two thousand characters are cut to the limit, with their number beside."""
    assert show.visible("x" * 2000).endswith("x … (2,000 characters)")


def test_a_long_table_says_how_many_rows_there_are(displayed):
    """The caption counts all rows when only the first are drawn."""
    show.table(pd.DataFrame({"n": range(5000)}), "Questions", rows=3)

    assert "(first 3 of 5,000)" in displayed[0][0]["text/html"]
    assert displayed[0][0]["text/html"].count("<tr>") == 4


def test_numbers_are_rounded_only_when_shown(displayed):
    """Three decimals in the cell; a missing number is a dash, never nan."""
    frame = pd.DataFrame({"mean": [2 / 3, np.nan], "n": [np.int64(7), np.int64(8)]})

    show.table(frame, "Means")

    cells = re.findall(r"<td[^>]*>([^<]*)</td>", displayed[0][0]["text/html"])
    assert cells == ["0.667", "7", "–", "8"]
    assert frame["mean"][0] == 2 / 3


def test_a_figure_carries_its_alt_text(displayed):
    """The PNG's metadata and its plain form both hold the sentence."""
    show.figure(plots.chunk_lengths([10, 20, 80], limit=80), alt="Words in three chunks.")
    bundle, options = displayed[0]

    assert bundle["image/png"].startswith(b"\x89PNG")
    assert options["metadata"]["image/png"]["alt"] == bundle["text/plain"]


def test_the_same_figure_is_the_same_bytes(displayed):
    """A figure drawn twice is byte for byte the same."""
    for _ in range(2):
        show.figure(plots.chunk_lengths([10, 20, 80], limit=80), alt="Words.")

    assert displayed[0][0]["image/png"] == displayed[1][0]["image/png"]


def sources():
    """All code that runs in a notebook: cells, and the package but for `show` itself."""
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for cell in nbformat.read(path, 4).cells:
            if cell.cell_type == "code":
                yield path.name, cell.source
    for path in sorted((ROOT / "evalkit").rglob("*.py")):
        if path.name != "show.py":
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def test_only_show_hands_markup_to_a_notebook():
    """No HTML(), Markdown(), Styler or unescaped table anywhere else: they run scripts in Lab."""
    banned = {"HTML", "Markdown", "display_html", "display", "to_html", "Javascript"}
    found = [
        (name, getattr(node.func, "attr", getattr(node.func, "id", "")))
        for name, text in sources()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
    ]

    assert [each for each in found if each[1] in banned] == []
    assert not [name for name, text in sources() if re.search(r"\.style\b|%%html", text)]


def test_progress_ends_as_one_line_without_a_time(monkeypatch):
    """On the way it says how long the rest may take; at the end only how much was done."""
    shown = []

    class Handle:
        def update(self, bundle, **options):
            shown.append(bundle["text/plain"])

    monkeypatch.setattr(show, "_publish", lambda bundle, **options: Handle())
    progress = show.Progress("Embedding")
    progress(1, 4)
    progress(4, 4)

    assert re.fullmatch(r"Embedding: 1 of 4, about \d+ s left", shown[0])
    assert shown[1] == "Embedding: 4 of 4"
