"""Pages: everything from outside is shown as text; nothing loads, runs or restyles."""

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest

from evalkit import show
from evalkit.workbook.render import _TAGS, _clean, render

CASE = json.loads(
    (Path(__file__).parents[1] / "data/cases/notebooks/notebooks-html-escaping.json").read_text()
)
TEXTS: list[str] = CASE["input"]["texts"] + [
    "<svg onload=\"document.title='XSS'\">",
    "<style>body{display:none}</style>",
    '<iframe src="http://127.0.0.1:9/f"></iframe>',
    '<a href="javascript:document.title=1">go</a>',
    "[go](javascript:document.title=1)",
    "![x](http://127.0.0.1:9/i.png)",
    "<img src=http://127.0.0.1:9/p.png>",
    '<meta http-equiv="refresh" content="0;url=http://127.0.0.1:9/">',
    "<base href=http://127.0.0.1:9/>",
    "<form action=http://127.0.0.1:9/><input name=q></form>",
    "live \u202eevil\u2066 \u200b zero",
    "bell \x07 nul \x00 escape \x1b[31mred",
    "&#x202e;entity &#8238; &lt;b&gt;",
    "<!-- comment --><b title='a' onclick='x()' style='position:fixed'>bold</b>",
    "```mermaid\ngraph TD\n```",
]
PNG = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
        "0000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
    )
).decode()


def hostile_notebook() -> Any:
    """Every hostile text in every place: markdown, HTML, plain, stream, error, table, alt text."""
    new = nbformat.v4
    cells = [new.new_markdown_cell("# Hostile?"), new.new_markdown_cell("\n\n".join(TEXTS))]
    table = (
        '<div class="ek-table" tabindex="0"><table><caption>All texts</caption><thead><tr>'
        '<th scope="col">number</th><th scope="col">text</th></tr></thead><tbody>'
        + "".join(f"<tr><td>{n}</td><td>{show.visible(t)}</td></tr>" for n, t in enumerate(TEXTS))
        + "</tbody></table></div>"
    )
    wide = "".join(f"<td>column {n}</td>" for n in range(40))
    outputs = [new.new_output("display_data", {"text/html": table})]
    outputs += [
        new.new_output(
            "display_data", {"text/html": f"<table class='wide'><tr>{wide}</tr></table>"}
        )
    ]
    for text in TEXTS:
        outputs += [
            new.new_output("display_data", {"text/html": text}),
            new.new_output("display_data", {"text/markdown": text}),
            new.new_output("execute_result", {"text/plain": text}, execution_count=1),
            new.new_output("stream", name="stderr", text=text),
            new.new_output("error", ename="E", evalue=text, traceback=[text]),
            new.new_output("display_data", {"application/javascript": text, "image/svg+xml": text}),
            new.new_output(
                "display_data", {"image/png": PNG}, metadata={"image/png": {"alt": text}}
            ),
        ]
    code = new.new_code_cell("print('<script>')\n" + "x" * 300, outputs=outputs)
    return new.new_notebook(cells=[*cells, code, new.new_raw_cell(TEXTS[0])])


class Elements(HTMLParser):
    """Every (tag, attribute, value) of a page, and (tag, "", "") for every tag."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [(tag, "", ""), *((tag, name, value or "") for name, value in attrs)]


def test_hostile_texts_make_no_element_but_allowed_ones() -> None:
    """No script, style, frame, form or foreign image is an element of the page (case)."""
    page = render(hostile_notebook(), title="t")
    reader = Elements()
    reader.feed(page.split("</head>")[1])

    assert {tag for tag, _, _ in reader.found} <= _TAGS | {
        "body",
        "nav",
        "main",
        "section",
        "figure",
        "figcaption",
        "img",
    }
    assert {name for _, name, _ in reader.found if name} <= {
        "class",
        "tabindex",
        "href",
        "src",
        "alt",
        "scope",
        "title",
    }
    for tag, name, value in reader.found:
        if name == "src":
            assert (tag, value[:22]) == ("img", "data:image/png;base64,")
        if name == "href":
            assert value == "index.html"
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_invisible_characters_are_shown() -> None:
    """Direction marks, zero-width and control characters appear as escapes, entities too."""
    page = render(hostile_notebook(), title="t")

    assert not re.search("[\x00-\x08\x0b-\x1f\u200b\u202e\u2066]", page)
    assert "\\u202e" in page
    assert not re.search("&#x?(202e|8238);", page)


def test_policy_allows_our_style_and_nothing_else() -> None:
    """The page's own policy forbids scripts, requests and any style whose hash it does not name."""
    page = render(hostile_notebook(), title="t")

    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert policy[1].startswith("default-src 'none'; img-src data:; style-src 'sha256-")


@pytest.mark.parametrize(
    ("html", "shown"),
    [
        (
            "<table><tbody><tr><th scope='col' onclick='x'>a</th></tr></tbody></table>",
            '<table><tbody><tr><th scope="col">a</th></tr></tbody></table>',
        ),
        ("<p style='color:red' class='ek-say'>1</p>", '<p class="ek-say">1</p>'),
        ("<script>x</script>", "&lt;script&gt;x&lt;/script&gt;"),
        ("<a href='javascript:x'>a</a>", "<a>a</a>"),
        ("<!-- x -->", ""),
    ],
)
def test_clean_keeps_tables_and_shows_the_rest(html: str, shown: str) -> None:
    """Table markup passes without handlers and styles; everything else is text."""
    assert str(_clean(html)) == shown


def test_figures_have_alt_text_and_a_caption() -> None:
    """The alt text in the output's metadata is the image's, and is printed below it."""
    new = nbformat.v4
    output = new.new_output(
        "display_data", {"image/png": PNG}, metadata={"image/png": {"alt": "Recall by depth"}}
    )
    cells = [new.new_code_cell("show.figure(ax)", outputs=[output])]
    page = render(new.new_notebook(cells=cells), title="t")

    assert 'alt="Recall by depth"' in page
    assert "<figcaption>Recall by depth</figcaption>" in page


def test_code_of_parameters_setup_and_record_is_folded() -> None:
    """Tagged cells are there to be opened; the one call under a heading is shown."""
    new = nbformat.v4
    cells = [
        new.new_code_cell("x = 1", metadata={"tags": ["parameters"]}),
        new.new_code_cell("show.table(y)"),
    ]
    page = render(new.new_notebook(cells=cells), title="t")

    assert re.search(r"<details><summary>Code</summary><pre[^>]*><code>x = 1", page)
    assert not re.search(r"<details>[^/]*show\.table", page)


def test_unfinished_notebook_says_so_in_its_title() -> None:
    """The browser's tab shows that a page is no result."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Sweep?")])
    notebook.metadata["evalkit"] = {"status": "kernel-died"}

    assert "<title>kernel-died: Sweep?</title>" in render(notebook, title="t")


def test_rendering_twice_gives_the_same_bytes() -> None:
    """A page depends on its notebook only."""
    notebook = hostile_notebook()

    assert render(notebook, title="t") == render(notebook, title="t")


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1200, "dark")])
def test_hostile_page_is_inert_in_a_browser(
    chromium: Any, tmp_path: Path, width: int, scheme: str
) -> None:
    """Opened in Chromium: no request, no script, whole tables, alt texts, no sideways scrolling."""
    path = tmp_path / "hostile.html"
    path.write_text(render(hostile_notebook(), title="t"), encoding="utf-8")
    page = chromium.new_page(
        viewport={"width": width, "height": 800}, color_scheme=scheme, java_script_enabled=True
    )
    asked: list[str] = []
    dialogs: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))

    page.goto(path.as_uri())

    assert [url for url in asked if not url.startswith("data:image/png")] == [path.as_uri()]
    assert not dialogs
    assert page.title() == "Hostile?"
    rows = page.locator(".ek-table tbody tr")
    assert rows.count() == len(TEXTS)
    shown = [rows.nth(n).locator("td").nth(1).text_content() for n in range(rows.count())]
    assert shown[0] == "<script>alert(1)</script>"
    assert "\\u202e" in shown[TEXTS.index("live \u202eevil\u2066 \u200b zero")]
    images = page.locator("img")
    assert images.count() == len(TEXTS)
    assert images.first.get_attribute("alt") == TEXTS[0]
    assert page.locator("script, svg, iframe, form").count() == 0
    wider = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert wider <= 0
    box = page.locator("table.wide").locator("xpath=..")
    assert box.evaluate("box => box.scrollWidth > box.clientWidth")
    page.close()
