"""Two or more executions -> paired differences -> a verdict that may be "cannot tell"."""

from evalkit.comparison.comparing import (
    HELD,
    IMPROVED,
    KEEP,
    NOT_COMPARABLE,
    REGRESSED,
    UNDERPOWERED,
    Comparison,
    Rule,
    Side,
    compare,
    movers,
    side_by_side,
)
from evalkit.comparison.reading import (
    by_category,
    inputs_that_differ,
    movers_in_full,
    overall,
    record,
    sides,
)

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
    "by_category",
    "compare",
    "inputs_that_differ",
    "movers",
    "movers_in_full",
    "overall",
    "record",
    "side_by_side",
    "sides",
]
