"""Figures: one a question, with counts, whole axes and labels that are never mathematics."""

import inspect

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from evalkit import plots

mpl.use("agg")


@pytest.fixture(autouse=True)
def closed():
    """Leaves no figure open."""
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def means_frame(label="$a_1$ & 100 %"):
    rows = [
        (mode, metric, cutoff, 0.5, 0.4, 0.6, 0.9, 7, 7, label)
        for mode in ("keyword", "semantic")
        for metric in ("Recall", "nDCG")
        for cutoff in ("1", "3")
    ]
    names = ["mode", "metric", "cutoff", "mean", "low", "high", "ceiling", "count", "of"]
    return pd.DataFrame(rows, columns=[*names, "category"])


SWEEP = pd.DataFrame(
    {
        "threshold": [-np.inf, 0.2, 0.4, np.inf],
        "false_acceptance": [1.0, 0.5, 0.0, 0.0],
        "false_abstention": [0.0, 0.0, 0.5, 1.0],
        "accepted_with_evidence": [2, 2, 1, 0],
        "accepted_without_evidence": [0, 0, 0, 0],
        "abstained_answerable": [0, 0, 1, 2],
        "accepted_unsupported": [2, 1, 0, 0],
        "abstained_unsupported": [0, 1, 2, 2],
    }
)
OUTCOMES = pd.DataFrame({"answerable": [True, False], "top_score": [0.7, 0.3]})
PAIRED = pd.DataFrame({"difference": [0.5, -0.25, 0.0]})
DRAWN = {
    "chunk_lengths": lambda: plots.chunk_lengths([10, 90], 80),
    "means": lambda: plots.means(means_frame(), 3),
    "by_depth": lambda: plots.by_depth(means_frame(), "Recall", "$x$"),
    "by_category": lambda: plots.by_category(
        means_frame().query("metric == 'Recall' and cutoff == '3'"), "$x$"
    ),
    "top_scores": lambda: plots.top_scores(OUTCOMES, "cosine $top$ score", 0.5),
    "rates": lambda: plots.rates(SWEEP, "cosine", 0.3),
    "outcomes": lambda: plots.outcomes(SWEEP, "cosine", 0.3),
    "differences": lambda: plots.differences(PAIRED, ("old", "new"), "$nDCG$"),
}


def history():
    """Three executions; an input changed before the third, and a fourth failed."""
    rows = [
        (f"2026-12-0{day}T00:00:00Z", "semantic", "nDCG", 0.5, 0.4, 0.6, "embedder" * (day == 3))
        for day in (1, 2, 3)
    ]
    names = ["started", "mode", "metric", "mean", "low", "high", "changed"]
    failed = ("2026-12-04T00:00:00Z", None, None, np.nan, np.nan, np.nan, "")
    return pd.DataFrame([*rows, failed], columns=names)


DRAWN["over_time"] = lambda: plots.over_time(history(), "nDCG", "$nDCG$")


def test_a_changed_input_breaks_the_line():
    """Two executions alike make one line, the changed one another; the failed one is a cross."""
    ax = DRAWN["over_time"]()
    lines = [len(line.get_xdata()) for line in ax.get_lines() if line.get_marker() == "o"]

    assert sorted(lines) == [0, 1, 2]
    assert [line.get_marker() for line in ax.get_lines()].count("x") == 1


def public():
    return {
        name
        for name, found in inspect.getmembers(plots, inspect.isfunction)
        if found.__module__ == plots.__name__ and not name.startswith("_")
    }


def test_every_figure_is_drawn_here():
    """A figure that no test draws is not kept."""
    assert public() <= set(DRAWN)


@pytest.mark.parametrize("name", sorted(DRAWN))
def test_labels_from_data_are_not_mathematics(name):
    """A dollar sign or percent sign in a name draws as itself and raises nothing."""
    ax = DRAWN[name]()
    ax.get_figure().canvas.draw()

    assert ax.get_xlabel() or ax.get_ylabel()


@pytest.mark.parametrize("name", ["means", "by_category", "by_depth", "rates"])
def test_rates_are_shown_on_the_whole_axis(name):
    """A share is drawn from 0 to 1, so that a small difference looks small."""
    ax = DRAWN[name]()
    shown = ax.get_xlim() if name in ("means", "by_category") else ax.get_ylim()

    assert shown == (0, 1.02)


def test_counts_stand_on_the_figure():
    """Means say over how many questions; differences say how many moved which way."""
    assert "n = 7" in DRAWN["means"]().get_title(loc="right")
    assert "new higher: 1, old higher: 1, equal: 1" in DRAWN["differences"]().get_title(loc="right")
