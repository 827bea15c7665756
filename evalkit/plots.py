"""One figure a question. Each function takes frames (and perhaps an Axes) and returns the Axes.

Okabe-Ito colours, different markers besides, counts on the figure, rates always on the whole
0-1 axis. Labels that come from data are never read as mathematics (`$` is a dollar sign).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PURPLE = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#F0E442",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)
_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED)
_MARKERS = ("o", "s", "^", "D", "v", "P")
_PALE = "#9aa0a6"


def chunk_lengths(words: Sequence[int], limit: int, ax: Axes | None = None) -> Axes:
    """How long are the chunks? A histogram of words per chunk, with the packing limit."""
    ax = _axes(ax, "Words in the chunk", "Number of chunks")
    top = max(limit, *words)
    ax.hist(words, bins=list(range(0, top + 10, 5)), color=BLUE, edgecolor="white")
    ax.axvline(limit, color=RED, linestyle="--", linewidth=1.2)
    _note(ax, limit, f" packed up to {limit} words", RED)
    _count(ax, f"n = {len(words)} chunks, median {int(np.median(words))} words")
    return ax


def means(frame: pd.DataFrame, cutoff: int, ax: Axes | None = None) -> Axes:
    """How good is each mode at one depth? Mean, 95 % interval, and the ceiling of each metric."""
    at = frame[frame["cutoff"] == str(cutoff)]
    ax = _dots(at, "metric", f"Mean over questions at depth {cutoff}", ax)
    _count(ax, f"n = {int(at['count'].max())} answerable questions")
    return ax


def by_depth(frame: pd.DataFrame, metric: str, reading: str, ax: Axes | None = None) -> Axes:
    """How deep must a reader go? One metric over the cutoffs, a line a mode."""
    rows = frame[frame["metric"] == metric]
    ax = _axes(ax, "Depth k (chunks read)", reading)
    if rows.empty:
        return _nothing(ax, f"no question of this set has a {metric} value")
    for number, mode in enumerate(dict.fromkeys(rows["mode"])):
        line = rows[rows["mode"] == mode]
        depth = line["cutoff"].astype(int)
        colour = _COLOURS[number % len(_COLOURS)]
        ax.fill_between(depth, line["low"], line["high"], color=colour, alpha=0.15, linewidth=0)
        ax.plot(depth, line["mean"], marker=_MARKERS[number % 6], color=colour, label=mode)
    first = rows.drop_duplicates("cutoff")
    ax.plot(first["cutoff"].astype(int), first["ceiling"], "--", color=_PALE, label="ceiling")
    ax.set_xticks(sorted(set(rows["cutoff"].astype(int))))
    ax.set_ylim(0, 1.02)
    ax.legend(frameon=False, loc="lower right")
    _count(ax, f"n = {int(rows['count'].max())} answerable questions; bands: 95 % interval")
    return ax


def by_category(frame: pd.DataFrame, reading: str, ax: Axes | None = None) -> Axes:
    """Where is it weak? One metric by category, with interval, count and ceiling."""
    counted = [f"{name} (n = {n})" for name, n in zip(frame["category"], frame["of"], strict=True)]
    return _dots(frame.assign(counted=counted), "counted", reading, ax)


def top_scores(
    outcomes: pd.DataFrame, axis: str, threshold: float | None, ax: Axes | None = None
) -> Axes:
    """Do scores tell answerable from unsupported? Every question's score, one dot each."""
    column = "score" if "score" in outcomes else "top_score"
    ax = _axes(ax, axis[:1].upper() + axis[1:], "", height=3.2)
    kinds = ((True, "answerable", BLUE, "o"), (False, "unsupported", RED, "x"))
    for row, (answerable, name, colour, marker) in enumerate(kinds):
        scores = outcomes.loc[outcomes["answerable"] == answerable, column].dropna().to_numpy()
        # Spread by rank, not by chance: the same picture at every run.
        spread = ((np.arange(scores.size) * 0.618) % 1 - 0.5) * 0.6
        ax.plot(scores, row + spread, marker, color=colour, alpha=0.65, markersize=5)
        ax.text(
            0.005,
            row - 0.42,
            f"{name}, n = {scores.size}",
            transform=ax.get_yaxis_transform(),
            color=colour,
        )
    if threshold is not None:
        ax.axvline(threshold, color=BLACK, linestyle="--", linewidth=1.2)
        _note(ax, threshold, f" threshold {threshold:.3f}", BLACK)
    ax.set_yticks([])
    ax.set_ylim(1.6, -0.6)
    return ax


def rates(sweep: pd.DataFrame, axis: str, threshold: float | None, ax: Axes | None = None) -> Axes:
    """What does each threshold cost? False acceptance and false abstention over all thresholds."""
    ax = _axes(ax, f"Threshold on the {axis}", "Share of questions answered wrongly")
    shown = sweep[np.isfinite(sweep["threshold"])]
    lines = (
        ("false_acceptance", "unsupported but accepted", RED, "-"),
        ("false_abstention", "answerable but abstained", BLUE, "--"),
    )
    for column, name, colour, style in lines:
        ax.step(shown["threshold"], shown[column], style, where="post", color=colour, label=name)
    if threshold is not None:
        ax.axvline(threshold, color=BLACK, linestyle=":", linewidth=1.2)
        _note(ax, threshold, f" threshold {threshold:.3f}", BLACK)
    ax.set_ylim(0, 1.02)
    ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncol=2)
    return ax


def outcomes(
    sweep: pd.DataFrame, axis: str, threshold: float | None, ax: Axes | None = None
) -> Axes:
    """What happens to every question at each threshold? The five outcomes, stacked."""
    ax = _axes(ax, f"Threshold on the {axis}", "Number of questions", height=4.2)
    shown = sweep[np.isfinite(sweep["threshold"])]
    parts = (
        ("accepted_with_evidence", "answerable, accepted with its evidence", GREEN),
        ("accepted_without_evidence", "answerable, accepted without it", YELLOW),
        ("abstained_answerable", "answerable, refused", SKY),
        ("abstained_unsupported", "unsupported, refused", _PALE),
        ("accepted_unsupported", "unsupported, accepted", RED),
    )
    heights = [shown[column] for column, _, _ in parts]
    names, colours = [name for _, name, _ in parts], [colour for _, _, colour in parts]
    ax.stackplot(shown["threshold"], *heights, labels=names, colors=colours, step="post")
    if threshold is not None:
        ax.axvline(threshold, color=BLACK, linestyle="--", linewidth=1.2)
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return ax


def differences(
    paired: pd.DataFrame, names: tuple[str, str], reading: str, ax: Axes | None = None
) -> Axes:
    """Which questions moved? Candidate minus baseline, one bar a question, sorted."""
    values = np.sort(paired["difference"].to_numpy(dtype=float))
    ax = _axes(ax, "Questions, sorted by difference", reading)
    colours = np.where(values > 0, BLUE, RED)
    ax.bar(np.arange(values.size), values, color=colours, width=0.9)
    ax.axhline(0, color=BLACK, linewidth=0.8)
    higher, lower = int((values > 0).sum()), int((values < 0).sum())
    baseline, candidate = names
    ax.set_xticks([])
    ax.set_ylim(-1.05, 1.05)
    equal = values.size - higher - lower
    _count(ax, f"{candidate} higher: {higher}, {baseline} higher: {lower}, equal: {equal}")
    return ax


def over_time(frame: pd.DataFrame, metric: str, reading: str, ax: Axes | None = None) -> Axes:
    """Is it getting better? One metric at its deepest cutoff over executions, a line a mode.

    The line breaks where an input changed; an execution without a value is a cross at the foot.
    """
    starts = list(dict.fromkeys(frame["started"]))
    place = {start: number for number, start in enumerate(starts)}
    ax = _axes(ax, "Executions in the order they began (UTC)", reading)
    rows = frame[frame["metric"] == metric]
    for number, mode in enumerate(dict.fromkeys(rows["mode"])):
        line = rows[rows["mode"] == mode].groupby("started", sort=False).tail(1)
        colour = _COLOURS[number % len(_COLOURS)]
        for _, part in line.groupby((line["changed"] != "").cumsum()):
            x = [place[start] for start in part["started"]]
            ax.vlines(x, part["low"], part["high"], color=colour, alpha=0.4, linewidth=2)
            ax.plot(x, part["mean"], color=colour, marker=_MARKERS[number % len(_MARKERS)])
        ax.plot([], [], color=colour, marker=_MARKERS[number % len(_MARKERS)], label=mode)
        for start in line.loc[line["changed"] != "", "started"]:
            ax.axvline(place[start] - 0.5, color=_PALE, linestyle=":", linewidth=1)
    gaps = [place[start] for start in frame.loc[frame["mean"].isna(), "started"]]
    ax.plot(gaps, [0.01] * len(gaps), "x", color=RED, label="no value" if gaps else None)
    ax.set_xticks(
        range(len(starts)),
        [start[:16].replace("T", " ") for start in starts],
        rotation=30,
        ha="right",
    )
    ax.set_ylim(0, 1.02)
    ax.legend(frameon=False, loc="lower right")
    _count(ax, f"n = {len(starts)} executions; bars: 95 % interval; dotted: an input changed")
    return ax


def _dots(frame: pd.DataFrame, rows: str, reading: str, ax: Axes | None) -> Axes:
    """A row for each value of the column `rows`, a dot with its interval for each mode."""
    names, modes = list(dict.fromkeys(frame[rows])), list(dict.fromkeys(frame["mode"]))
    ax = _axes(ax, reading, "", height=1.1 + (0.35 + 0.16 * len(modes)) * len(names))
    places = np.arange(len(names))
    for number, mode in enumerate(modes):
        at = frame[frame["mode"] == mode].set_index(rows).reindex(names)
        y = places + (number - (len(modes) - 1) / 2) * 0.22
        colour = _COLOURS[number % len(_COLOURS)]
        ax.hlines(y, at["low"], at["high"], color=colour, linewidth=2, alpha=0.6)
        ax.plot(at["mean"], y, _MARKERS[number % len(_MARKERS)], color=colour, label=mode)
    ceilings = frame.drop_duplicates(rows).set_index(rows).reindex(names)["ceiling"]
    ax.plot(ceilings, places, "|", color=BLACK, markersize=22, label="ceiling")
    ax.set_yticks(places, names, parse_math=False)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlim(0, 1.02)
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return ax


def _axes(ax: Axes | None, x: str, y: str, *, height: float = 3.8) -> Axes:
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    if ax is None:
        with mpl.rc_context({"font.size": 10, "figure.dpi": 120}):
            _, ax = plt.subplots(figsize=(7.4, height))
    ax.set_xlabel(x, parse_math=False)
    ax.set_ylabel(y, parse_math=False)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(alpha=0.2)
    ax.set_axisbelow(True)
    return ax


def _nothing(ax: Axes, why: str) -> Axes:
    ax.text(0.5, 0.5, f"Nothing to draw: {why}", transform=ax.transAxes, ha="center", va="center")
    return ax


def _count(ax: Axes, text: str) -> None:
    ax.set_title(text, loc="right", fontsize=9, color="#444444", parse_math=False)


def _note(ax: Axes, x: float, text: str, colour: str) -> None:
    where = ax.get_xaxis_transform()
    ax.text(x, 0.97, text, transform=where, color=colour, va="top", fontsize=9, parse_math=False)
