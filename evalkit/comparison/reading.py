"""What 05_compare asks for: sides from parameters, tables to read, the record to keep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from evalkit.comparison.comparing import Comparison, Side
from evalkit.comparison.rules import Rule
from evalkit.errors import ParameterError
from evalkit.executions import Execution, current, find
from evalkit.metrics import MetricPolicy, parse_metric
from evalkit.metrics.policy import EVIDENCE_MEASURES

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = ["metric", "cutoff", "slice", "n", "baseline", "candidate", "difference", "low", "high"]
_TESTED = ["p_adjusted", "wins", "ties", "losses", "detectable", "needed", "verdict"]


def sides(parameters: Any) -> tuple[Side, Side, Rule]:
    """Baseline, candidate and rule from the notebook's parameters; empty ones as documented."""
    candidate = current(parameters.candidate, dataset=parameters.dataset)
    called = "" if parameters.candidate else "this execution"
    baseline = find(parameters.baseline) if parameters.baseline else candidate
    modes = _modes(candidate)
    if baseline is candidate:  # two modes of one execution
        pair = (
            Side(baseline, parameters.baseline_mode or modes[0], called),
            Side(candidate, parameters.candidate_mode or modes[-1], called),
        )
    else:  # one mode of two executions
        common = [mode for mode in modes if mode in _modes(baseline)] or modes
        pair = (
            Side(baseline, parameters.baseline_mode or common[-1]),
            Side(candidate, parameters.candidate_mode or common[-1], called),
        )
    shared = set.intersection(*(set(side.inputs()["scoring"]["cutoffs"]) for side in pair))
    if not shared:
        raise ParameterError(f"{pair[0].name} and {pair[1].name} asked no common depth.")
    rule = Rule(
        metric=_label(parameters.metric, pair[1]),
        cutoff=str(parameters.cutoff or max(shared)),
        smallest=parameters.smallest,
        alpha=parameters.alpha,
        varying=parameters.varying,
        override=parameters.override,
        seed=parameters.seed,
    )
    return (*pair, rule)


def _label(metric: str, side: Side) -> str:
    """The metric's name under the policy the side was scored with (nDCG may be nDCG_lin)."""
    if metric in EVIDENCE_MEASURES:
        return metric
    policy = MetricPolicy(**side.inputs()["scoring"]["policy"])
    return parse_metric(metric, policy).label


def inputs_that_differ(comparison: Comparison) -> pd.DataFrame:
    """The recorded inputs that differ, undeclared ones first and one by one.

    Declared ones are gathered under their first name: what was changed on purpose often changes
    dozens of settings. The record holds every one of them.
    """
    import pandas as pd

    rows = [(name, *map(str, comparison.differing[name]), "no") for name in comparison.undeclared]
    declared: dict[str, list[str]] = {}
    for name in comparison.differing:
        if name not in comparison.undeclared:
            declared.setdefault(name.split(".")[0], []).append(name)
    for group, names in declared.items():
        values = [comparison.differing[name] for name in names]
        sides = (_gathered(names, [pair[side] for pair in values]) for side in (0, 1))
        rows.append((names[0] if len(names) == 1 else group, *sides, "yes"))
    return pd.DataFrame(rows, columns=["input", "baseline", "candidate", "declared"])


def _gathered(names: list[str], values: list[Any], most: int = 6) -> str:
    """The values one side has, by the last part of their names; a side without any has none."""
    there = [(name, value) for name, value in zip(names, values, strict=True) if value is not None]
    if len(names) == 1:
        return str(values[0])
    shown = ", ".join(f"{name.rsplit('.', 1)[-1]} {value}" for name, value in there[:most])
    more = f" and {len(there) - most} more" if len(there) > most else ""
    return f"{shown}{more}" if there else "not used"


def overall(comparison: Comparison) -> pd.DataFrame:
    """All metrics over all questions."""
    table = comparison.table[comparison.table["slice"] == "all"]
    return table[[name for name in _SHOWN if name != "slice"] + _TESTED]


def by_category(comparison: Comparison, rule: Rule) -> pd.DataFrame:
    """The verdict's metric in each category."""
    table = comparison.table[comparison.table["slice"] != "all"]
    at = (table["metric"] == rule.metric) & (table["cutoff"] == rule.cutoff)
    return table[at][[name for name in _SHOWN if name not in ("metric", "cutoff")] + _TESTED]


def movers(comparison: Comparison, most: int = 5) -> pd.DataFrame:
    """The questions that moved most, losses first; ties by id, so that the list repeats."""
    import pandas as pd

    change = comparison.questions["difference"]
    lost = comparison.questions[change < 0].sort_values(["difference", "query_id"])
    won = comparison.questions[change > 0].sort_values(
        ["difference", "query_id"], ascending=[False, True]
    )
    return pd.concat([lost.head(most), won.head(most)], ignore_index=True)


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


def movers_in_full(
    comparison: Comparison, baseline: Side, candidate: Side, most: int
) -> Iterator[tuple[str, pd.DataFrame]]:
    """For each question that moved most: a caption, and both rankings side by side."""
    texts = baseline.frame("outcomes").set_index("query_id")["text"]
    moved = movers(comparison, most)
    for query_id, change in zip(moved["query_id"], moved["difference"], strict=True):
        caption = f"{query_id}: {texts.get(query_id, '')} ({change:+.3f})"
        yield caption, side_by_side(baseline, candidate, str(query_id))


def record(comparison: Comparison, rule: Rule) -> dict[str, Any]:
    """The comparison as JSON: verdict, reasons, rule, differing inputs, movers, whole table."""
    table = comparison.table.astype(object)
    plain = table.where(table.notna(), None).to_dict(orient="records")
    return {
        "baseline": comparison.baseline,
        "candidate": comparison.candidate,
        "verdict": comparison.verdict,
        "reasons": list(comparison.reasons),
        "rule": asdict(rule),
        "differing": {name: list(pair) for name, pair in comparison.differing.items()},
        "undeclared": list(comparison.undeclared),
        "environment": {name: list(pair) for name, pair in comparison.environment.items()},
        "unpaired": list(comparison.unpaired),
        "movers": movers(comparison).to_dict(orient="records"),
        "table": [{str(k): _finite(v) for k, v in row.items()} for row in plain],
    }


def _finite(value: Any) -> Any:
    return str(value) if isinstance(value, float) and abs(value) == float("inf") else value


def _modes(execution: Execution) -> list[str]:
    return list(execution.inputs.get("retrieval", {})) or [""]
