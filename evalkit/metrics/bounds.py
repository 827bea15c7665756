"""How far a value could move: over the orders of tied chunks, and over what nobody judged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from evalkit.metrics.grading import Scored, in_order, value
from evalkit.metrics.policy import Metric
from evalkit.metrics.ranking import Grades, is_judged, relevant_count


def tied(scores: Sequence[float]) -> list[tuple[int, int]]:
    """First and last rank of each group of neighbours with equal scores.

    >>> tied([3.0, 2.0, 2.0, 1.0])
    [(2, 3)]
    """
    groups, rank = [], 1
    for _, same in groupby(scores):
        size = len(list(same))
        if size > 1:
            groups.append((rank, rank + size - 1))
        rank += size
    return groups


def tie_across(scores: Sequence[float], k: int) -> bool:
    """Whether ranks k and k + 1 are tied, so that what is graded is a matter of luck."""
    return any(first <= k < last for first, last in tied(scores))


def is_coarse(scores: Sequence[float]) -> bool:
    """Whether a longer ranking has 3 distinct scores or fewer, as rounded ones do."""
    return len(scores) > 3 and len(set(scores)) <= 3


def tie_range(metric: Metric, scored: Scored, grades: Grades) -> tuple[float, float]:
    """Least and greatest value of a ranking metric over all orders of the tied chunks.

    No ranking metric falls when, of two neighbours, the better grade moves above the other;
    so its extremes lie at each tied group sorted by grade, up and down. Exact, without trying
    any permutation. For Judged@k "better" means judged.

    >>> from evalkit.metrics.policy import parse_metric
    >>> tie_range(parse_metric("RR"), [("k", 3.0), ("m", 2.0), ("n", 2.0)], {"m": 1})
    (0.3333333333333333, 0.5)
    """

    def worth(pair: tuple[str, float]) -> int:
        grade = grades.get(pair[0])
        return int(is_judged(grade)) if metric.measure == "Judged" else max(grade or 0, 0)

    rows = in_order(scored, metric.policy)
    groups = [list(same) for _, same in groupby(rows, key=lambda pair: pair[1])]
    worst, best = (
        [doc for same in groups for doc, _ in sorted(same, key=worth, reverse=down)]
        for down in (False, True)
    )
    return value(metric, worst, grades), value(metric, best, grades)


def unjudged_range(
    metric: Metric, ids: Sequence[str], grades: Grades, highest: int
) -> tuple[float, float]:
    """Least and greatest value over all grades, 0 to `highest`, of the unjudged in the first k.

    The written value lies between them; they meet where Judged@k is 1. k is the depth of the
    judgments as written; chunks below it, and those never returned, are not questioned.

    With s of the unjudged at `highest` and the others at 0 the value is greatest when they are
    the s first and least when they are the s last, so few cases need trying; only the greatest
    nDCG may need grades in between (`_greatest_ndcg`). Exact.

    >>> from evalkit.metrics.policy import parse_metric
    >>> unjudged_range(parse_metric("P@2"), ["a", "u"], {"a": 1}, highest=1)
    (0.5, 1.0)
    """
    relevant = relevant_count(grades, metric.policy)
    k = metric.cutoff.depth(relevant)
    if metric.measure == "Judged" or k == 0:
        return (value(metric, ids, grades),) * 2
    if metric.measure == "ReciprocalRank" and metric.policy.rr_cutoff == "none":
        k = None
    metric = metric.at(k)
    unknown = [doc for doc in dict.fromkeys(ids[:k]) if not is_judged(grades.get(doc))]
    values = [value(metric, ids, grades)]
    for count in range(len(unknown) + 1):
        for best in (unknown[:count], unknown[len(unknown) - count :]):
            guess = dict.fromkeys(unknown, 0) | dict.fromkeys(best, highest)
            values.append(value(metric, ids, {**grades, **guess}))
    defined = [v for v in values if not math.isnan(v)]
    if not defined:
        return math.nan, math.nan
    if metric.measure == "nDCG":
        defined.append(_greatest_ndcg(metric, ids, grades, unknown, highest, max(defined)))
    return min(defined), max(defined)


def _greatest_ndcg(
    metric: Metric,
    ids: Sequence[str],
    grades: Grades,
    unknown: Sequence[str],
    highest: int,
    least: float,
) -> float:
    """Greatest nDCG over all grades of the unknown, by Dinkelbach's method on the ratio.

    DCG and its ideal are both sums over grade levels g of (gain(g) - gain(g - 1)) times the
    discounts of the chunks with at least grade g. So for a guessed ratio each level chooses
    alone how many of the unknown, from the top, reach it; the ratio so found is the next guess.
    """
    k = metric.cutoff.depth(0) or len(ids) + len(grades)
    places = list(dict.fromkeys(ids))
    known = [*grades.values()]
    if metric.policy.ideal == "retrieved":
        known = [grades.get(doc, 0) for doc in places]
    found = [0.0]
    for doc in unknown:
        found.append(found[-1] + 1 / math.log2(places.index(doc) + 2))
    ideal = [0.0]
    for rank in range(1, len(known) + len(unknown) + 1):
        ideal.append(ideal[-1] + (1 / math.log2(rank + 1) if rank <= k else 0.0))
    while True:
        reach = []
        for level in range(1, highest + 1):
            above = sum(grade >= level for grade in known)
            worth = [found[c] - least * ideal[above + c] for c in range(len(found))]
            reach.append(worth.index(max(worth)))
        guess = {doc: sum(c > i for c in reach) for i, doc in enumerate(unknown)}
        better = value(metric, ids, {**grades, **guess})
        if not better > least:
            return least
        least = better
