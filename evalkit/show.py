"""What a notebook may display: escaped tables and sentences, figures with alt text, progress.

Corpus text, questions and file names are hostile until escaped: a script in JupyterLab's own page
could drive the kernel. This is the only module that hands HTML to a notebook, and every value in it
passes `visible` first.
"""

from __future__ import annotations

import html
import io
import re
import time
from collections.abc import Iterable, Mapping
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalkit import files

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from evalkit.datasets import Finding
    from evalkit.evaluation import Miss

# Controls, zero-width and direction marks, lone surrogates: shown as escapes, never obeyed.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_LONGEST = 1_200
_ROWS = 200
_SENTENCE = 40  # a cell with more characters is prose, and its column is kept wide enough to read


def visible(value: Any, *, longest: int = _LONGEST) -> str:
    r"""Text that is safe inside HTML: escaped, controls made visible, long text cut.

    >>> visible("<b>\u202eevil")
    '&lt;b&gt;\\u202eevil'
    """
    text = str(value)
    cut = f" … ({len(text):,} characters)" if len(text) > longest else ""
    text = _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text[:longest])
    return html.escape(text + cut)


def table(
    frame: pd.DataFrame,
    caption: str,
    *,
    formats: Mapping[str, str] | None = None,
    rows: int = _ROWS,
) -> None:
    """Displays a frame as an escaped HTML table with a caption and right-aligned numbers.

    Floats are shown with three decimals unless `formats` says otherwise; stored values are never
    rounded. Only the first `rows` rows are drawn, and the caption then says how many there are.
    """
    formats = formats or {}
    more = f" (first {rows} of {len(frame):,})" if len(frame) > rows else ""
    # Missing values of every kind become None, which is shown as a dash.
    frame = frame.astype(object).where(frame.notna(), None)
    columns = [str(column) for column in frame.columns]
    head = "".join(f'<th scope="col">{visible(column)}</th>' for column in columns)
    body = "".join(
        "<tr>"
        + "".join(_cell(value, formats.get(name)) for name, value in zip(columns, row, strict=True))
        + "</tr>"
        for row in frame.head(rows).itertuples(index=False)
    )
    text = f"{caption}{more}"
    _display(
        f'<div class="ek-table" tabindex="0"><table><caption>{visible(text)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>",
        plain=f"{text}\n{frame.head(rows).to_string(index=False)}",
    )


def facts(values: Mapping[str, Any], caption: str) -> None:
    """Displays names and values as a two-column table."""
    import pandas as pd

    listed = pd.DataFrame(
        {"what": list(values), "value": [_plain(value) for value in values.values()]}
    )
    table(listed, caption)


def say(*sentences: str) -> None:
    """Displays sentences as a paragraph; the place for numbers, which never stand in text cells."""
    text = " ".join(sentences)
    _display(f'<p class="ek-say">{visible(text, longest=4_000)}</p>', plain=text)


def verdict(word: str, *sentences: str) -> None:
    """Displays a verdict in words, with its reasons below it."""
    reasons = "".join(f"<p>{visible(sentence)}</p>" for sentence in sentences)
    name = re.sub(r"[^a-z]+", "-", word.lower()).strip("-")
    markup = f'<div class="ek-verdict ek-{name}" role="note"><strong>{visible(word)}</strong>'
    _display(f"{markup}{reasons}</div>", plain="\n".join((word, *sentences)))


def figure(ax: Axes, alt: str, *, keep: Path | None = None) -> None:
    """Displays the figure of `ax` as a PNG with alt text, which is also printed as its caption.

    `keep` names a file that gets the same picture, for use outside the notebook.
    """
    data = _png(ax)
    if keep is not None:
        files.write_bytes(keep, data)
    _publish({"image/png": data, "text/plain": alt}, metadata={"image/png": {"alt": alt}})


def save(ax: Axes, path: Path) -> None:
    """Writes the figure of `ax` as a PNG file, without a notebook."""
    files.write_bytes(path, _png(ax))


def _png(ax: Axes) -> bytes:
    import matplotlib.pyplot as plt

    drawn = ax.get_figure(root=True)
    if drawn is None:
        raise ValueError("this Axes belongs to no figure")
    data = io.BytesIO()
    # No Software entry: two machines with the same matplotlib write the same bytes.
    drawn.savefig(data, format="png", dpi=120, bbox_inches="tight", metadata={"Software": None})
    plt.close("all")
    return data.getvalue()


class Progress:
    """One line updated in place: live in JupyterLab, a single tidy line in executed notebooks."""

    def __init__(self, doing: str) -> None:
        self._doing, self._began = doing, time.monotonic()
        self._handle = _publish({"text/plain": f"{doing} ..."}, display_id=True)

    def __call__(self, done: int, total: int) -> None:
        """Shows how far the work is, and until it is done how long the rest may take."""
        left = (time.monotonic() - self._began) / max(done, 1) * (total - done)
        about = f", about {left:.0f} s left" if done < total else ""
        self._handle.update(
            {"text/plain": f"{self._doing}: {done:,} of {total:,}{about}"}, raw=True
        )


def hits(evidence: pd.DataFrame, caption: str) -> None:
    """Displays one ranking as a reviewer reads it: rank, score, grade, where from, text."""
    listed = evidence[["rank", "score", "grade", "doc_id", "text"]].copy()
    listed["doc_id"] = short(listed["doc_id"])
    table(listed, caption)


def misses(found: Iterable[Miss]) -> None:
    """Displays questions read closely: what came back beside the ideal order, what was missing."""
    for miss in found:
        text = f"{miss.query_id}: {miss.text} ({miss.metric} {miss.value:.3f})"
        returned = miss.returned.assign(doc_id=short(miss.returned["doc_id"]))
        table(returned, f"{text}. Returned, and the ideal order beside it")
        if len(miss.missing):
            missing = miss.missing.assign(doc_id=short(miss.missing["doc_id"]))
            table(missing, f"{miss.query_id}: relevant, not returned")


def reviewed(table_: pd.DataFrame, caption: str) -> None:
    """Displays one page of reviewed questions with the passage each would be answered from."""
    import pandas as pd

    passages = zip(short(table_["doc_id"]), table_["text"], strict=True)
    why = zip(table_["nearest"], table_["near_miss"], strict=True)
    shown = {
        "question": table_["question"],
        "score": table_["top_score"],
        "accepted": ["yes" if value else "no" for value in table_["accepted"]],
        "passage": [f"{doc_id}: {text}" for doc_id, text in passages],
        "nearest, and why it is near": [f"{nearest} ({reason})" for nearest, reason in why],
    }
    table(pd.DataFrame(shown), caption)


def rankings(found: Iterable[tuple[str, pd.DataFrame]]) -> None:
    """Displays pairs of rankings side by side, each under its caption."""
    for caption, both in found:
        shown = both.copy()
        for name in ("baseline doc_id", "candidate doc_id"):
            shown[name] = short(shown[name].fillna("").astype(str))
        table(shown, caption)


def findings(found: Iterable[Finding]) -> None:
    """Displays what the lint found, or that it found nothing."""
    import pandas as pd

    rows = [(each.level, each.query_id or "–", each.message) for each in found]
    if not rows:
        say("Nothing to object to: every judgment names an eligible chunk, once, on the scale.")
        return
    table(pd.DataFrame(rows, columns=["level", "question", "what was found"]), "Found in the set")


def short(doc_ids: Iterable[str]) -> list[str]:
    """Chunk keys without their chunking version, for tables where all share one version.

    >>> short(["a#s/p0@v1", "b#s/p1@v1"])
    ['a#s/p0', 'b#s/p1']
    """
    return [doc_id.rsplit("@", 1)[0] if "#" in doc_id else doc_id for doc_id in doc_ids]


def _cell(value: Any, form: str | None) -> str:
    text = _plain(value, form)
    kind = ""
    if isinstance(value, Real) and text not in ("True", "False"):
        kind = ' class="ek-number"'
    elif len(text) > _SENTENCE:
        kind = ' class="ek-text"'
    return f"<td{kind}>{visible(text)}</td>"


def _plain(value: Any, form: str | None = None) -> str:
    if value is None or (isinstance(value, float) and value != value):
        return "–"
    if form is not None:
        return format(value, form)
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_plain(inner)}" for name, inner in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_plain(inner) for inner in value)
    return str(value)


def _display(markup: str, *, plain: str) -> None:
    _publish({"text/html": markup, "text/plain": plain})


def _publish(bundle: Mapping[str, Any], **options: Any) -> Any:
    from IPython.display import display

    return display(bundle, raw=True, **options)  # type: ignore[no-untyped-call]
