"""Several candidates at once against one baseline, and several sides beside one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from evalkit.comparison.comparing import Comparison, Side, compare
from evalkit.comparison.rules import NOT_COMPARABLE, Rule, verdict, word
from evalkit.errors import ParameterError
from evalkit.metrics import paired

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = ["n", "baseline", "candidate", "difference", "low", "high", "p_adjusted"]
_COUNTED = ["wins", "ties", "losses", "detectable", "needed"]


def against(baseline: Side, candidates: Sequence[Side], rule: Rule) -> list[Comparison]:
    """Each candidate against the baseline, the p-values adjusted for the number of candidates.

    All candidates meet the same random signs. Trying ten and keeping the best is ten looks: what
    the rule declared is adjusted over all candidates together, and the words are given anew.
    """
    if len({side.name for side in candidates}) < len(candidates) or not candidates:
        raise ParameterError("candidates: name one or more sides, each once.")
    found = [compare(baseline, candidate, rule) for candidate in candidates]
    looks = [(each, row) for each in found for row in each.table.index[_declared(each.table, rule)]]
    adjusted = paired.holm([each.table.loc[row, "p"] for each, row in looks])
    for (each, row), p_value in zip(looks, adjusted, strict=True):
        each.table.loc[row, "p_adjusted"] = p_value
        each.table.loc[row, "verdict"] = word(each.table.loc[row].to_dict(), rule)
    return [_judged_again(each, rule) for each in found]


def one_table(comparisons: Sequence[Comparison], rule: Rule) -> pd.DataFrame:
    """One row a candidate and declared metric: both means, the difference, and the verdict."""
    import pandas as pd

    rows = []
    for each in comparisons:
        part = each.table[_declared(each.table, rule)][["metric", "cutoff", *_SHOWN, *_COUNTED]]
        part.insert(0, "candidate side", each.candidate)
        part["verdict"] = each.verdict
        part["undeclared"] = ", ".join(each.undeclared)
        rows.append(part)
    return pd.concat(rows, ignore_index=True)


def metrics_by_k(sides: Sequence[Side]) -> pd.DataFrame:
    """Means of every metric at every cutoff, one column a side, over the questions all scored.

    Means over different questions do not belong side by side; `n` says how many are left.
    """
    import pandas as pd

    values = pd.concat({side.name: side.values() for side in sides}, axis=1, join="inner").dropna()
    grouped = values.groupby(["metric", "cutoff"], sort=False)
    table = grouped.mean()
    table.insert(0, "n", grouped.size())
    return table.reset_index()


def _declared(table: pd.DataFrame, rule: Rule) -> pd.Series[bool]:
    at = (table["slice"] == "all") & (table["cutoff"] == rule.cutoff)
    return at & table["metric"].isin(rule.declared)


def _judged_again(comparison: Comparison, rule: Rule) -> Comparison:
    if comparison.verdict == NOT_COMPARABLE:
        return comparison
    said, reasons = verdict(comparison.table, rule)
    return replace(comparison, verdict=said, reasons=(*reasons, *comparison.notes))
