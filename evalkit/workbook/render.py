"""Turns an executed notebook into one self-contained page that is safe to open.

Everything is escaped unless it passes `_clean`, an allow-list of tags and attributes without
styles, scripts or addresses to load; a content security policy forbids every request and every
style but our own, should anything slip through. nbconvert's own pages run what stands in the
data and fetch from three sites; its sanitiser shows tables as source text.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalkit import files

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES = Path(__file__).parent / "template"
_FOLDED = {"parameters", "injected-parameters", "setup", "record"}
_ALLOWED = (
    "a abbr b blockquote br caption code col colgroup dd del details div dl dt em h1 h2 h3 h4 h5 "
    "h6 hr i kbd li ol p pre s small span strong sub summary sup table tbody td tfoot th thead tr "
    "u ul"
)
_TAGS = frozenset(_ALLOWED.split())
_ATTRIBUTES = {
    "*": ["class", "lang", "role", "aria-label", "tabindex"],
    "a": ["href"],
    "abbr": ["title"],
    "details": ["open"],
    "ol": ["start"],
    "td": ["colspan", "rowspan"],
    "th": ["colspan", "rowspan", "scope"],
}
# Controls, zero-width and direction marks and lone surrogates are shown as escapes.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_ENTITY = re.compile(r"&#(?:x(?P<hex>[0-9a-f]{1,6})|(?P<dec>[0-9]{1,7}));?", re.IGNORECASE)
_ORDER = ("text/html", "image/png", "image/jpeg", "text/markdown", "text/plain")


def render_file(path: Path) -> Path:
    """Writes `<notebook>.html` beside an executed notebook, whole or not at all."""
    import nbformat

    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    target = path.with_suffix(".html")
    files.write_text(target, render(notebook, title=path.stem))
    return target


def render(notebook: Any, *, title: str) -> str:
    """The page of a notebook; `title` is used where it has no first-level heading."""
    headings = (
        re.match(r"# +(.+)", cell.source) for cell in notebook.cells if cell.cell_type == "markdown"
    )
    heading = next((found[1].strip() for found in headings if found), title)
    status = notebook.metadata.get("evalkit", {}).get("status", "ok")
    heading = heading if status == "ok" else f"{status}: {heading}"
    return page("notebook.html.j2", title=heading, cells=[_cell(cell) for cell in notebook.cells])


def page(template: str, **values: Any) -> str:
    """A page from one of our templates, with its style sheet and the policy that names it."""
    style = (_TEMPLATES / "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    text = _templates().get_template(template).render(style=style, style_digest=digest, **values)
    return _UNSEEN.sub(_escaped, text)


def _cell(cell: Any) -> dict[str, Any]:
    tags = set(cell.metadata.get("tags", []))
    if cell.cell_type == "markdown":
        return {"kind": "text", "html": _markdown(cell.source), "tags": tags}
    if cell.cell_type != "code":
        return {"kind": "raw", "text": cell.source}
    outputs = [shown for output in cell.outputs if (shown := _output(output))]
    return {
        "kind": "code",
        "folded": bool(tags & _FOLDED),
        "source": cell.source.strip(),
        "outputs": outputs,
    }


def _output(output: Any) -> dict[str, Any] | None:
    if output.output_type == "stream":
        return {"kind": output.name, "text": _plain(output.text)}
    if output.output_type == "error":
        return {"kind": "error", "text": _plain("\n".join(output.traceback))}
    kind = next((kind for kind in _ORDER if kind in output.data), None)
    if kind is None:
        return None
    data = output.data[kind]
    text = data if isinstance(data, str) else "".join(data)
    if kind == "text/html":
        return {"kind": "html", "html": _clean(text)}
    if kind == "text/markdown":
        return {"kind": "html", "html": _markdown(text)}
    if kind == "text/plain":
        return {"kind": "plain", "text": _plain(text)}
    alt = output.get("metadata", {}).get(kind, {}).get("alt", "")
    return {"kind": "image", "type": kind, "data": "".join(text.split()), "alt": alt}


def _markdown(source: str) -> Any:
    from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

    plain = IPythonRenderer(escape=False, exclude_anchor_links=True)
    return _clean(MarkdownWithMath(renderer=plain).render(source))


def _clean(html: str) -> Any:
    """Markup with nothing in it but the allowed tags; the rest is shown as the text it is."""
    import bleach  # type: ignore[import-untyped]
    from markupsafe import Markup

    html = _ENTITY.sub(_escaped_entity, _UNSEEN.sub(_escaped, html))
    cleaned = bleach.clean(
        html, tags=_TAGS, attributes=_ATTRIBUTES, protocols={"http", "https", "mailto"}
    )
    return Markup(cleaned)


def _plain(text: str) -> str:
    """Text without terminal colours."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _escaped_entity(match: re.Match[str]) -> str:
    """A numeric entity that stands for an unseen character, as that character's escape."""
    number = int(match["hex"], 16) if match["hex"] else int(match["dec"])
    unseen = number <= 0x10FFFF and _UNSEEN.match(chr(number))
    return f"\\u{number:04x}" if unseen else match[0]


@cache
def _templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
