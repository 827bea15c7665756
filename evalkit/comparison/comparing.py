"""Two executions -> paired differences -> a verdict that may be "cannot tell".

A *side* is one mode of one execution. Two sides are compared over the questions both scored, and
only when their recorded inputs differ in nothing but what was said to vary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from evalkit.comparison.rules import NOT_COMPARABLE, Rule, undeclared, verdict, word
from evalkit.errors import ExecutionError, ParameterError
from evalkit.executions import Execution, differences, mode_inputs
from evalkit.metrics import paired, uncertainty

if TYPE_CHECKING:
    import pandas as pd

Floats = paired.Floats
_KEYS = ["metric", "cutoff"]
_VALUES = ("baseline", "candidate", "difference")


@dataclass(frozen=True, slots=True)
class Side:
    """One mode of one execution: its values, rankings and recorded inputs."""

    execution: Execution
    mode: str
    called: str = ""  # shown instead of the execution's name, which holds the time of its start

    @property
    def name(self) -> str:
        """`execution:mode`, as it is shown."""
        return f"{self.called or self.execution.name}:{self.mode}"

    def inputs(self) -> dict[str, Any]:
        """The execution's inputs as far as this mode used them."""
        try:
            return mode_inputs(self.execution.inputs, self.mode)
        except ExecutionError as problem:
            raise ExecutionError(f"{self.execution.name}: {problem}") from None

    def frame(self, name: str) -> pd.DataFrame:
        """The rows of a stored table that belong to this mode."""
        frame = self.execution.read_frame(name)
        return frame[frame["mode"] == self.mode].drop(columns="mode")

    def values(self) -> pd.Series[float]:
        """Values by (query_id, metric, cutoff)."""
        return self.frame("results").set_index(["query_id", *_KEYS])["value"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The verdict with everything it rests on; `notes` say what was left out or overridden.

    `table`: one row a metric, cutoff and slice ("all" or a category). `questions`: query_id,
    category, baseline, candidate, difference under the rule's metric. `unpaired`: answerable
    questions that were not scored by both. `differing`: inputs that differ, `undeclared` those
    nobody declared. `environment`: package versions, code and machine where they differ, which is
    reported and does not forbid a comparison: a change of code is what is mostly compared.
    """

    baseline: str
    candidate: str
    verdict: str
    reasons: tuple[str, ...]
    table: pd.DataFrame
    questions: pd.DataFrame
    notes: tuple[str, ...]
    unpaired: tuple[str, ...]
    differing: Mapping[str, tuple[Any, Any]]
    undeclared: tuple[str, ...]
    environment: Mapping[str, tuple[Any, Any]]


def compare(baseline: Side, candidate: Side, rule: Rule) -> Comparison:
    """Compares two sides by the rule; `rules.word` says what each verdict means."""
    both = _paired(baseline, candidate)
    scored = {f"{metric}@{cutoff}" for _, metric, cutoff in both.index}
    wanted = [f"{metric}@{rule.cutoff}" for metric in rule.declared]
    if missing := [name for name in wanted if name not in scored]:
        raise ParameterError(
            f"{', '.join(missing)}: not scored by both; choose from {', '.join(sorted(scored))}."
        )
    questions = both.xs((rule.metric, rule.cutoff), level=_KEYS).reset_index()
    answerable = _answerable(baseline) | _answerable(candidate)
    unpaired = tuple(sorted(answerable - set(questions["query_id"])))
    differing = differences(baseline.inputs(), candidate.inputs())
    table = _table(both, rule)
    said, reasons = verdict(table, rule)
    forbidden = list(_objections(undeclared(differing, rule), unpaired, len(answerable), rule))
    notes: tuple[str, ...] = ()
    if forbidden and not rule.override:
        said, reasons = NOT_COMPARABLE, tuple(forbidden)
    elif forbidden:
        notes = tuple(f"Overridden: {sentence}" for sentence in forbidden)
    elif unpaired:
        notes = (f"Left out, not scored by both: {', '.join(unpaired)}.",)
    return Comparison(
        baseline=baseline.name,
        candidate=candidate.name,
        verdict=said,
        reasons=(*reasons, *notes),
        notes=notes,
        table=table,
        questions=questions,
        unpaired=unpaired,
        differing=differing,
        undeclared=undeclared(differing, rule),
        environment=_environment(baseline, candidate),
    )


def _objections(
    names: tuple[str, ...], unpaired: tuple[str, ...], answerable: int, rule: Rule
) -> Iterator[str]:
    """Why two sides may not be compared, if so."""
    if names:
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        yield (
            f"{len(names)} inputs differ that were not declared to vary: "
            f"{', '.join(names[:5])}{more}. Nothing tells which of them moved the numbers."
        )
    if len(unpaired) > rule.unpaired * answerable:
        more = f" and {len(unpaired) - 10} more" if len(unpaired) > 10 else ""
        yield (
            f"{len(unpaired)} of {answerable} answerable questions were not scored by both: "
            f"{', '.join(unpaired[:10])}{more}. The rest may be the easier ones."
        )


def _paired(baseline: Side, candidate: Side) -> pd.DataFrame:
    """Both values, their difference and the category by (query_id, metric, cutoff)."""
    import pandas as pd

    sides = {"baseline": baseline.values(), "candidate": candidate.values()}
    both = pd.concat(sides, axis=1, join="inner").dropna()
    both["difference"] = both["candidate"] - both["baseline"]
    categories = baseline.frame("outcomes").set_index("query_id")["category"]
    both["category"] = categories.reindex(both.index.get_level_values("query_id")).to_numpy()
    return both


def _answerable(side: Side) -> set[str]:
    outcomes = side.frame("outcomes")
    return set(outcomes.loc[outcomes["answerable"], "query_id"])


def _environment(baseline: Side, candidate: Side) -> dict[str, Any]:
    old, new = (side.execution.manifest.get("environment", {}) for side in (baseline, candidate))
    return differences(old, new)


def _table(both: pd.DataFrame, rule: Rule) -> pd.DataFrame:
    """One row a metric, cutoff and slice, with its word.

    The rule's metrics over all questions were declared before looking and are adjusted among
    themselves (one alone keeps its p); every other row is one of many looks, and Holm's rule
    adjusts all those as one family.
    """
    import pandas as pd

    slices = [("all", both)]
    for name, part in both[both["category"] != ""].groupby("category"):
        slices.append((str(name) if name != "all" else "category all", part))
    frame = pd.DataFrame([row for name, part in slices for row in _rows(name, part, rule)])
    declared = (frame["slice"] == "all") & (frame["cutoff"] == rule.cutoff)
    declared &= frame["metric"].isin(rule.declared)
    for family in (declared, ~declared):
        frame.loc[family, "p_adjusted"] = paired.holm(frame.loc[family, "p"].to_numpy())
    frame["verdict"] = [word(dict(row), rule) for _, row in frame.iterrows()]
    return frame


def _rows(name: str, part: pd.DataFrame, rule: Rule) -> Iterator[dict[str, Any]]:
    """Rows of one slice, in the order the metrics were scored."""
    flat = part.reset_index()
    wide = {side: flat.pivot_table(side, "query_id", _KEYS) for side in _VALUES}
    order = dict.fromkeys(zip(flat["metric"], flat["cutoff"], strict=True))
    found = {}
    for columns in _same_questions(wide["difference"]):
        # Shared signs need whole rows: metrics defined for the same questions are tested together.
        change = wide["difference"][columns].dropna().to_numpy()
        tested = zip(
            columns,
            paired.sign_flip(change, seed=rule.seed),
            _harm(change, rule),
            *uncertainty.mean_intervals(
                change, np.random.default_rng(rule.seed), level=1 - rule.alpha
            ),
            strict=True,
        )
        for (column, *numbers), values in zip(tested, change.T, strict=True):
            found[column] = {
                "slice": name,
                "metric": column[0],
                "cutoff": column[1],
                "n": len(values),
                **{side: float(wide[side][column].mean()) for side in _VALUES},
                **dict(zip(("p", "p_harm", "low", "high"), map(float, numbers), strict=True)),
                **_counted(values, rule),
            }
    yield from (found[column] for column in order)


def _harm(change: Floats, rule: Rule) -> Floats:
    """One-sided p-values of "the mean loss is `smallest` or more", by the same sign flips."""
    shifted = change + rule.smallest
    p = paired.sign_flip(shifted, seed=rule.seed) / 2
    return np.where(shifted.mean(axis=0) > 0, p, 1.0)


def _counted(change: Floats, rule: Rule) -> dict[str, Any]:
    """Wins, ties, losses; the effect so many questions would show, and how many `smallest` needs.

    One question has no spread: nothing is detectable, and any number needed is unknown (0).
    """
    spread = float(change.std(ddof=1)) if len(change) > 1 else float("nan")
    needed = 0
    if len(change) > 1:
        needed = paired.questions_needed(rule.smallest, spread, alpha=rule.alpha)
    return {
        "wins": int((change > 0).sum()),
        "ties": int((change == 0).sum()),
        "losses": int((change < 0).sum()),
        "detectable": paired.detectable(spread, len(change), alpha=rule.alpha),
        "needed": needed,
    }


def _same_questions(wide: pd.DataFrame) -> list[list[Any]]:
    """Columns grouped by the questions they have values for."""
    groups: dict[bytes, list[Any]] = {}
    for column in wide.columns:
        groups.setdefault(wide[column].notna().to_numpy().tobytes(), []).append(column)
    return list(groups.values())
