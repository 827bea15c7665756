"""Two or more executions -> paired differences -> a verdict that may be "cannot tell".

`rules` holds the rule and its words, `comparing` the comparison of two sides, `several` of more
than two, `reading` the tables of the notebook.
"""

from evalkit.comparison.comparing import Comparison, Side, compare
from evalkit.comparison.reading import (
    by_category,
    inputs_that_differ,
    movers,
    movers_in_full,
    overall,
    record,
    side_by_side,
    sides,
)
from evalkit.comparison.rules import (
    HELD,
    IMPROVED,
    KEEP,
    NOT_COMPARABLE,
    REGRESSED,
    UNDERPOWERED,
    Rule,
    improve_or_hold,
    undeclared,
    verdict,
)
from evalkit.comparison.several import against, metrics_by_k, one_table

__all__ = [
    "HELD",
    "IMPROVED",
    "KEEP",
    "NOT_COMPARABLE",
    "REGRESSED",
    "UNDERPOWERED",
    "Comparison",
    "Rule",
    "Side",
    "against",
    "by_category",
    "compare",
    "improve_or_hold",
    "inputs_that_differ",
    "metrics_by_k",
    "movers",
    "movers_in_full",
    "one_table",
    "overall",
    "record",
    "side_by_side",
    "sides",
    "undeclared",
    "verdict",
]
