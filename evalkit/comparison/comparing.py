"""Two executions -> paired differences -> a verdict that may be "cannot tell".

A *side* is one mode of one execution. Two sides are compared over the questions both scored, and
only when their recorded inputs differ in nothing but what was said to vary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from evalkit.errors import ExecutionError, ParameterError
from evalkit.executions import Execution, differences
from evalkit.metrics import paired, uncertainty

if TYPE_CHECKING:
    import pandas as pd

IMPROVED, HELD, REGRESSED = "IMPROVED", "HELD", "REGRESSED"
UNDERPOWERED, NOT_COMPARABLE = "UNDERPOWERED", "NOT COMPARABLE"
KEEP = (IMPROVED, HELD)  # the "improve or hold" rule: a change with one of these may be kept

# What else changes when the thing named changes; everything beyond is a second difference.
_VARIES = {
    "mode": ("mode", "axis", "retrieval", "embedder"),
    "embedder": ("embedder", "retrieval"),
    "chunking": ("chunking", "chunks"),
    "retrieval": ("retrieval",),
    "judgments": ("set.fingerprints.judgments", "set.version"),
}


@dataclass(frozen=True, slots=True)
class Rule:
    """What counts as better: declared before looking.

    `smallest` is the smallest difference in the mean that matters to anyone; `alpha` the level
    of the tests after Holm's adjustment, and one minus the confidence of the intervals.
    """

    metric: str = "nDCG"
    cutoff: str = "5"
    smallest: float = 0.02
    alpha: float = 0.05
    varying: str = "mode"
    override: bool = False
    seed: int = 0

    @property
    def reading(self) -> str:
        """The axis label of a figure of differences."""
        return f"{self.metric}@{self.cutoff}, candidate minus baseline"

    def __post_init__(self) -> None:
        if self.smallest <= 0 or not 0 < self.alpha < 1:
            raise ParameterError(
                f"smallest {self.smallest} and alpha {self.alpha}: give the smallest difference "
                "that matters, above 0, and a level between 0 and 1."
            )
        if self.varying and self.varying not in _VARIES:
            raise ParameterError(
                f"varying {self.varying!r}: say which one input was changed: {', '.join(_VARIES)}."
            )


@dataclass(frozen=True, slots=True)
class Side:
    """One mode of one execution: its values, rankings and recorded inputs."""

    execution: Execution
    mode: str

    @property
    def name(self) -> str:
        """`execution:mode`, as it is shown."""
        return f"{self.execution.name}:{self.mode}"

    def inputs(self) -> dict[str, Any]:
        """The execution's inputs as far as this mode used them."""
        inputs = self.execution.inputs
        modes = inputs.pop("retrieval", {})
        if self.mode not in modes:
            raise ExecutionError(
                f"{self.execution.name} has no mode {self.mode!r}; it ran {', '.join(modes)}."
            )
        if self.mode == "keyword":
            inputs.pop("embedder", None)
        return {**inputs, "mode": self.mode, "retrieval": modes[self.mode]}

    def frame(self, name: str) -> pd.DataFrame:
        """The rows of a stored table that belong to this mode."""
        frame = self.execution.read_frame(name)
        return frame[frame["mode"] == self.mode].drop(columns="mode")

    def values(self) -> pd.Series[float]:
        """Values by (query_id, metric, cutoff)."""
        return self.frame("results").set_index(["query_id", "metric", "cutoff"])["value"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The verdict with everything it rests on.

    `table`: one row a metric, cutoff and slice ("all" or a category). `questions`: query_id,
    category, baseline, candidate, difference under the rule's metric. `unpaired`: questions that
    only one side scored. `differing`: inputs that differ, `undeclared` those nobody declared.
    """

    baseline: str
    candidate: str
    verdict: str
    reasons: tuple[str, ...]
    table: pd.DataFrame
    questions: pd.DataFrame
    unpaired: tuple[str, ...]
    differing: Mapping[str, tuple[Any, Any]]
    undeclared: tuple[str, ...]


def compare(baseline: Side, candidate: Side, rule: Rule) -> Comparison:
    """Compares two sides by the rule; see `verdict` for what each word means."""
    differing = differences(baseline.inputs(), candidate.inputs())
    allowed = _VARIES.get(rule.varying, ())
    undeclared = tuple(
        name
        for name in differing
        if not any(name == each or name.startswith(f"{each}.") for each in allowed)
    )
    both, unpaired = _paired(baseline, candidate)
    columns = {(metric, cutoff) for _, metric, cutoff in both.index}
    if (rule.metric, rule.cutoff) not in columns:
        scored = sorted({f"{metric}@{cutoff}" for metric, cutoff in columns})
        raise ParameterError(
            f"{rule.metric}@{rule.cutoff} was not scored by both; choose from {', '.join(scored)}."
        )
    table = _table(both, rule)
    questions = _at(both, rule.metric, rule.cutoff).reset_index()
    word, reasons = verdict(table, rule)
    if undeclared and not rule.override:
        word = NOT_COMPARABLE
        reasons = (
            f"{len(undeclared)} inputs differ that were not declared to vary: "
            f"{', '.join(undeclared[:5])}. Nothing below says which of them moved the numbers.",
        )
    return Comparison(
        baseline.name,
        candidate.name,
        word,
        reasons,
        table,
        questions,
        unpaired,
        differing,
        undeclared,
    )


def verdict(table: pd.DataFrame, rule: Rule) -> tuple[str, tuple[str, ...]]:
    """The word for the rule's metric over all questions, and why.

    IMPROVED / REGRESSED  adjusted p <= alpha and the difference is at least `smallest`.
    HELD                  the interval excludes a loss of `smallest`: no harm that matters.
    UNDERPOWERED          neither: this many questions cannot tell.
    """
    rows = table[(table["metric"] == rule.metric) & (table["cutoff"] == rule.cutoff)]
    row = rows[rows["slice"] == "all"].iloc[0]
    said = [
        f"{rule.metric}@{rule.cutoff} changed by {row['difference']:+.3f} "
        f"({1 - rule.alpha:.0%} interval {row['low']:+.3f} to {row['high']:+.3f}, adjusted "
        f"p = {row['p_adjusted']:.3g}) over {row['n']} questions: {row['wins']} better, "
        f"{row['ties']} equal, {row['losses']} worse.",
        f"The smallest effect that matters was set to {rule.smallest:g}; this many questions "
        f"would show one of {row['detectable']:.3f} four times in five.",
    ]
    clear = row["p_adjusted"] <= rule.alpha and abs(row["difference"]) >= rule.smallest
    if clear:
        word = IMPROVED if row["difference"] > 0 else REGRESSED
    elif row["low"] > -rule.smallest:
        word = HELD
    else:
        word = UNDERPOWERED
        said.append(f"About {row['needed']:,} questions would be needed to tell.")
    fallen = rows[(rows["slice"] != "all") & (rows["difference"] <= -rule.smallest)]
    if row["difference"] >= 0 and len(fallen):
        named = ", ".join(
            f"{name} ({change:+.3f}, adjusted p = {p:.3g})"
            for name, change, p in zip(
                fallen["slice"], fallen["difference"], fallen["p_adjusted"], strict=True
            )
        )
        said.append(f"Alarm: the mean did not fall, but these categories did: {named}.")
    return word, tuple(said)


def movers(comparison: Comparison, most: int = 5) -> pd.DataFrame:
    """The questions that moved most, losses first; ties by id, so that the list repeats."""
    import pandas as pd

    moved = comparison.questions[comparison.questions["difference"] != 0]
    moved = moved.sort_values(["difference", "query_id"])
    lost, won = moved[moved["difference"] < 0].head(most), moved[moved["difference"] > 0]
    return pd.concat([lost, won.tail(most)[::-1]], ignore_index=True)


def side_by_side(baseline: Side, candidate: Side, query_id: str) -> pd.DataFrame:
    """Both rankings of one question, rank by rank, with grades; entered and left are marked."""
    shown = []
    for side, name in ((baseline, "baseline"), (candidate, "candidate")):
        evidence = side.execution.read_frame(f"evidence-{side.mode}")
        rows = evidence[evidence["query_id"] == query_id].set_index("rank")
        shown.append(rows[["doc_id", "grade"]].add_prefix(f"{name} "))
    both = shown[0].join(shown[1], how="outer")
    old, new = set(both["baseline doc_id"].dropna()), set(both["candidate doc_id"].dropna())
    both["entered or left"] = [
        ", ".join(
            word
            for word, doc, other in (("left", left, new), ("entered", right, old))
            if isinstance(doc, str) and doc not in other
        )
        for left, right in zip(both["baseline doc_id"], both["candidate doc_id"], strict=True)
    ]
    return both.reset_index()


def _paired(baseline: Side, candidate: Side) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Differences by (query_id, metric, cutoff) over the questions both scored, and the rest."""
    import pandas as pd

    both = pd.concat(
        {"baseline": baseline.values(), "candidate": candidate.values()}, axis=1, join="inner"
    ).dropna()
    both["difference"] = both["candidate"] - both["baseline"]
    outcomes = baseline.frame("outcomes").set_index("query_id")
    ids = both.index.get_level_values("query_id")
    both["category"] = outcomes["category"].reindex(ids).to_numpy()
    answerable = set(outcomes.index[outcomes["answerable"]])
    answerable |= set(candidate.frame("outcomes").query("answerable")["query_id"])
    return both, tuple(sorted(answerable - set(ids)))


def _table(both: pd.DataFrame, rule: Rule) -> pd.DataFrame:
    """One row a metric, cutoff and slice.

    The rule's metric over all questions was declared before looking and keeps its own p; every
    other row is one of many looks, and Holm's rule adjusts them as one family.
    """
    import pandas as pd

    rows = []
    slices = {"all": both, **dict(iter(both.groupby("category")))}
    for name, part in slices.items():
        # Each metric keeps the questions it is defined for; shared signs need whole rows.
        wide = part.reset_index().pivot_table("difference", "query_id", ["metric", "cutoff"])
        for columns in _same_questions(wide):
            table = wide[columns].dropna()
            p = paired.sign_flip(table.to_numpy(), seed=rule.seed)
            rng = np.random.default_rng(rule.seed)
            lows, highs = uncertainty.mean_intervals(
                table.to_numpy(), rng, level=1 - rule.alpha, method="BCa bootstrap"
            )
            for column, *tested in zip(columns, p, lows, highs, strict=True):
                here = _at(part, *column)
                rows.append(_row(str(name), column, here, tested, rule))
    frame = pd.DataFrame(rows)
    declared = (frame["slice"] == "all") & (frame["metric"] == rule.metric)
    declared &= frame["cutoff"] == rule.cutoff
    frame["p_adjusted"] = frame["p"]
    frame.loc[~declared, "p_adjusted"] = paired.holm(frame.loc[~declared, "p"].to_numpy())
    return frame


def _at(both: pd.DataFrame, metric: str, cutoff: str) -> pd.DataFrame:
    index = both.index
    wanted = (index.get_level_values("metric") == metric) & (
        index.get_level_values("cutoff") == cutoff
    )
    return both[wanted].droplevel(["metric", "cutoff"])


def _same_questions(wide: pd.DataFrame) -> list[list[Any]]:
    """Columns grouped by the questions they have values for."""
    groups: dict[bytes, list[Any]] = {}
    for column in wide.columns:
        groups.setdefault(wide[column].notna().to_numpy().tobytes(), []).append(column)
    return list(groups.values())


def _row(
    name: str,
    column: tuple[str, str],
    here: pd.DataFrame,
    tested: Sequence[float],
    rule: Rule,
) -> dict[str, Any]:
    change = here["difference"]
    spread = float(change.std(ddof=1)) if len(change) > 1 else float("nan")
    needed = (
        0 if spread != spread else paired.questions_needed(rule.smallest, spread, alpha=rule.alpha)
    )
    p_value, low, high = (float(number) for number in tested)
    return {
        "slice": name,
        "metric": column[0],
        "cutoff": column[1],
        "n": len(change),
        "baseline": float(here["baseline"].mean()),
        "candidate": float(here["candidate"].mean()),
        "difference": float(change.mean()),
        "low": low,
        "high": high,
        "p": p_value,
        "wins": int((change > 0).sum()),
        "ties": int((change == 0).sum()),
        "losses": int((change < 0).sum()),
        "detectable": paired.detectable(spread, len(change), alpha=rule.alpha),
        "needed": needed,
    }
