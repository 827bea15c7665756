"""The rule a comparison is judged by, stated before looking, and the five words it can give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from evalkit.errors import ParameterError

if TYPE_CHECKING:
    import pandas as pd

IMPROVED, HELD, REGRESSED = "IMPROVED", "HELD", "REGRESSED"
UNDERPOWERED, NOT_COMPARABLE = "UNDERPOWERED", "NOT COMPARABLE"
KEEP = (IMPROVED, HELD)  # the "improve or hold" rule: a change with one of these may be kept

# The input that was changed, and then what cannot but change with it. Anything else that differs
# is a second cause.
_VARIES = {
    "mode": ("mode", "retrieval*", "embedder*"),
    "embedder": ("embedder*", "retrieval*.collection"),
    "chunking": (
        "chunking",
        "retrieval*.filter.chunking_version",
        "retrieval*.chunks",
        "set.fingerprints.judgments",
        "set.version",
    ),
    "retrieval": ("retrieval*",),
    "judgments": ("set.fingerprints.judgments", "set.version"),
}


@dataclass(frozen=True, slots=True)
class Rule:
    """What counts as better: declared before looking.

    The verdict is about `metric` at `cutoff` over all questions, and about each metric of `also`
    at the same depth. `smallest` is the smallest difference in a mean that matters to anyone;
    `alpha` the level of the tests, and one minus the confidence of the intervals. `varying` names
    the one input that was changed on purpose; empty, none was (two revisions of the code).
    `unpaired` is the share of answerable questions that may lack a value on one side.
    """

    metric: str = "nDCG"
    cutoff: str = "5"
    also: tuple[str, ...] = ()
    smallest: float = 0.02
    alpha: float = 0.05
    varying: str = "mode"
    override: bool = False
    unpaired: float = 0.05
    seed: int = 0

    @property
    def reading(self) -> str:
        """The axis label of a figure of differences."""
        return f"{self.metric}@{self.cutoff}, candidate minus baseline"

    @property
    def declared(self) -> tuple[str, ...]:
        """The metrics the verdict is about."""
        return (self.metric, *self.also)

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


def improve_or_hold(cutoff: str = "10", **rule: Any) -> Rule:
    """The rule of that name: nDCG and recall at 10 must each improve or hold.

    "Hold" is not "within noise, by eye": the interval has to exclude a loss that matters.
    """
    return Rule(metric="nDCG", cutoff=cutoff, also=("Recall",), **rule)


def undeclared(differing: Mapping[str, Any], rule: Rule) -> tuple[str, ...]:
    """The inputs that differ although the rule's `varying` does not account for them.

    What follows from a change is excused only where the change itself is there.

    >>> undeclared({"chunking": ("a", "b"), "set.version": ("1", "2")}, Rule(varying="chunking"))
    ()
    >>> undeclared({"set.version": ("1", "2")}, Rule(varying="chunking"))
    ('set.version',)
    """
    patterns = _VARIES.get(rule.varying, ())
    changed = any(fnmatchcase(name, pattern) for name in differing for pattern in patterns[:1])
    return tuple(
        name
        for name in differing
        if not (changed and any(fnmatchcase(name, pattern) for pattern in patterns))
    )


def word(row: Mapping[str, Any], rule: Rule) -> str:
    """The word for one metric over one set of questions.

        IMPROVED      adjusted p <= alpha, and the interval reaches a gain of `smallest`
        REGRESSED     adjusted p <= alpha, and the interval reaches a loss of `smallest`
        HELD          neither, and a loss of `smallest` is excluded, by the interval and by a
                      test of its own (p_harm <= alpha / 2); or every value is equal
        UNDERPOWERED  none of these: these questions cannot tell

    So an effect of the size that matters is found with the power that `questions_needed` promises
    (to ask for an observed difference of that size would halve it), and a difference that is
    certain but too small to matter is HELD. Few questions hold nothing: the interval alone is
    too narrow there, and 1 / 2^5 is already above 0.025. What no question showed is not excluded:
    equal values say something of these questions only, not of rare losses among others.
    """
    if row["wins"] == row["losses"] == 0:
        return HELD
    if row["p_adjusted"] <= rule.alpha:
        if row["difference"] > 0 and row["high"] >= rule.smallest:
            return IMPROVED
        if row["difference"] < 0 and row["low"] <= -rule.smallest:
            return REGRESSED
    excluded = row["low"] > -rule.smallest and row["p_harm"] <= rule.alpha / 2
    return HELD if excluded else UNDERPOWERED


def verdict(table: pd.DataFrame, rule: Rule) -> tuple[str, tuple[str, ...]]:
    """The word for the declared metrics over all questions together, and why.

    One regressed metric makes the verdict REGRESSED, one that cannot tell makes it UNDERPOWERED;
    otherwise one improved metric makes it IMPROVED.
    """
    whole = table[(table["slice"] == "all") & (table["cutoff"] == rule.cutoff)]
    rows = whole.set_index("metric").loc[list(rule.declared)].reset_index().to_dict("records")
    words = [row["verdict"] for row in rows]
    order = (REGRESSED, UNDERPOWERED, IMPROVED, HELD)
    said = [sentence for row in rows for sentence in _sentences(row, rule)]
    return min(words, key=order.index), (*said, *_alarms(table, rule))


def _sentences(row: Mapping[Any, Any], rule: Rule) -> Iterator[str]:
    name = f"{row['metric']}@{row['cutoff']}"
    if row["wins"] == row["losses"] == 0:
        yield f"{name}: no difference; all {row['n']} values are equal."
        return
    yield (
        f"{name} changed by {row['difference']:+.3f} ({1 - rule.alpha:.0%} BCa bootstrap interval "
        f"{row['low']:+.3f} to {row['high']:+.3f}, sign-flip p = {row['p_adjusted']:.3g}) over "
        f"{row['n']} questions: {row['wins']} better, {row['ties']} equal, {row['losses']} worse."
    )
    if row["detectable"] == float("inf"):
        yield f"With {row['n']} questions no difference of any size could have been shown."
    else:
        yield (
            f"The smallest effect that matters was set to {rule.smallest:g}; this many questions "
            f"would show one of {row['detectable']:.3f} four times in five."
        )
    if row["verdict"] == UNDERPOWERED and row["needed"]:
        yield f"About {row['needed']:,} questions would be needed to tell."


def _alarms(table: pd.DataFrame, rule: Rule) -> Iterator[str]:
    """Categories that fell by an amount that matters while the mean did not fall."""
    rows = table[(table["metric"] == rule.metric) & (table["cutoff"] == rule.cutoff)]
    overall = rows.loc[rows["slice"] == "all", "difference"].iloc[0]
    fallen = rows[(rows["slice"] != "all") & (rows["difference"] <= -rule.smallest)]
    if overall >= 0 and len(fallen):
        named = ", ".join(
            f"{row['slice']} ({row['difference']:+.3f} over {row['n']} questions, {row['verdict']})"
            for row in fallen.to_dict("records")
        )
        yield f"Alarm: the mean did not fall, but these categories did: {named}."
