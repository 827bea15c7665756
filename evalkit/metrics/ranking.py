"""Ranking metrics, one question at a time, written to be read: the definitions themselves.

`ranking` holds the ids of the returned chunks, best first; `grades` the judged chunks of the
question with their grades; `k` is the number of ranks graded (None: all that were returned).
The vectorised engine must give these values; where the two differ, this file is right.
The edges are decided once, in `evalkit.metrics`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from evalkit.errors import MetricError
from evalkit.metrics.policy import POLICY, MetricPolicy

Grades = Mapping[str, int]
HIGHEST_GRADE: Final = 1000  # 2^g - 1 must stay a finite number


def precision(
    ranking: Sequence[str], grades: Grades, k: int | None = None, policy: MetricPolicy = POLICY
) -> float:
    """Share of the first k ranks that hold a relevant chunk.

        P@k = relevant chunks in the first k / k

    Ranks that a short ranking leaves empty count as misses, as in trec_eval; Elasticsearch and
    Quepid divide by what was returned (`precision_denominator="returned"`). Uncut, the
    denominator is the number returned. Nothing returned is 0.

    Source: C. J. van Rijsbergen, Information Retrieval, 1979, chapter 7.

    >>> precision(["a", "x"], {"a": 1}, k=5)
    0.2
    """
    found, looked_at = hits(ranking, grades, k, policy)
    if not relevant_count(grades, policy):
        return without_relevant(policy)
    return found / looked_at if looked_at else 0.0


def recall(
    ranking: Sequence[str], grades: Grades, k: int | None = None, policy: MetricPolicy = POLICY
) -> float:
    """Share of the relevant chunks that stand in the first k ranks.

        R@k = relevant chunks in the first k / all relevant chunks, returned or not

    It cannot reach 1 while more than k chunks are relevant; the "capped" recall of MTEB divides
    by min(k, relevant) and is another metric.

    Source: as precision.

    >>> recall(["a", "x", "b"], {"a": 1, "b": 2, "c": 1, "x": 0}, k=2)
    0.3333333333333333
    """
    found, _ = hits(ranking, grades, k, policy)
    relevant = relevant_count(grades, policy)
    return found / relevant if relevant else without_relevant(policy)


def f_beta(
    ranking: Sequence[str],
    grades: Grades,
    k: int | None = None,
    policy: MetricPolicy = POLICY,
    *,
    beta: float = 1.0,
) -> float:
    """Weighted harmonic mean of precision and recall; beta = 2 weighs recall more.

        F = (1 + beta^2) P R / (beta^2 P + R)

    The parameter is beta, not its square: trec_eval's `set_F.4` is F2. 0 when nothing
    relevant is found. Source: as precision.

    >>> round(f_beta(["x", "x2", "x3", "x4", "a"], {"a": 1}, k=5, beta=2), 6)
    0.555556
    """
    p, r = precision(ranking, grades, k, policy), recall(ranking, grades, k, policy)
    return harmonic_mean(p, r, beta)


def harmonic_mean(p: float, r: float, beta: float) -> float:
    """F of one precision and one recall: 0 where both are 0, nan where one is undefined.

    >>> round(harmonic_mean(0.6, 0.55, beta=1), 6)  # F of the means of (1, .1) and (.2, 1)
    0.573913
    """
    if math.isnan(p) or math.isnan(r):
        return math.nan
    if p == 0 and r == 0:
        return 0.0
    return min(1.0, (1 + beta**2) * p * r / (beta**2 * p + r))


def success(
    ranking: Sequence[str], grades: Grades, k: int | None = None, policy: MetricPolicy = POLICY
) -> float:
    """1 if any relevant chunk stands in the first k ranks, else 0 ("hit rate" as a mean).

    Useful where one good passage is enough. Some tools print this number as recall.

    Source: trec_eval, `success`.

    >>> success(["x", "a"], {"a": 1}, k=1), success(["x", "a"], {"a": 1}, k=2)
    (0.0, 1.0)
    """
    found, _ = hits(ranking, grades, k, policy)
    return float(found > 0) if relevant_count(grades, policy) else without_relevant(policy)


def reciprocal_rank(
    ranking: Sequence[str], grades: Grades, k: int | None = None, policy: MetricPolicy = POLICY
) -> float:
    """1 / rank of the first relevant chunk, 0 if none stands in the first k.

    Later relevant chunks do not matter. With `rr_cutoff="none"` (trec_eval, Kioku) every
    returned rank counts whatever k is.

    Source: E. Voorhees, TREC-8 Question Answering Track Report, 1999.

    >>> reciprocal_rank(["x", "a", "b"], {"a": 1, "b": 1})
    0.5
    """
    seen = _first(ranking, grades, k, policy)
    if policy.rr_cutoff == "none":
        seen = _first(ranking, grades, None, policy)
    if not relevant_count(grades, policy):
        return without_relevant(policy)
    ranks = [rank for rank, grade in enumerate(seen, 1) if _is_relevant(grade, policy)]
    return 1 / ranks[0] if ranks else 0.0


def average_precision(
    ranking: Sequence[str], grades: Grades, k: int | None = None, policy: MetricPolicy = POLICY
) -> float:
    """Mean, over all relevant chunks, of the precision at the rank of each.

        AP@k = sum of P@i over ranks i <= k that hold a relevant chunk / all relevant chunks

    A relevant chunk that is not found adds 0 and stays in the denominator (trec_eval). pyvespa
    divides by min(k, relevant), `ap_denominator="min_k_relevant"`.

    Source: Buckley & Voorhees, SIGIR 2000.

    >>> average_precision(["a", "x", "b"], {"a": 1, "b": 1})  # (1/1 + 2/3) / 2
    0.8333333333333333
    """
    seen = _first(ranking, grades, k, policy)
    relevant = relevant_count(grades, policy)
    if not relevant:
        return without_relevant(policy)
    ranks = [rank for rank, grade in enumerate(seen, 1) if _is_relevant(grade, policy)]
    total = math.fsum(found / rank for found, rank in enumerate(ranks, 1))
    if k is not None and policy.ap_denominator == "min_k_relevant":
        return total / min(k, relevant)
    return total / relevant


def ndcg(
    ranking: Sequence[str], grades: Grades, k: int | None = None, policy: MetricPolicy = POLICY
) -> float:
    """Discounted gain of the first k chunks, relative to the best order there is.

        DCG@k  = sum over ranks i = 1..k of gain(grade_i) / log2(i + 1)
        nDCG@k = DCG@k / DCG@k of the judged chunks, highest grade first

    gain = 2^grade - 1 (Burges et al., ICML 2005); trec_eval, BEIR and ranx use the grade itself,
    `gain="linear"`. Grades of 0 and below, and unjudged chunks, gain nothing but keep their rank.
    `ideal="retrieved"` knows only the chunks that came back and cannot see a miss.
    Defined wherever a grade is above 0, even below `relevant_from`.

    Source: Järvelin & Kekäläinen, ACM TOIS 20(4), 2002.

    >>> round(ndcg(["c", "a", "b"], {"a": 2, "b": 1, "c": 0}, k=3), 6)
    0.659002
    """
    seen = _first(ranking, grades, k, policy)
    if not any(grade > 0 for grade in grades.values()):
        return without_relevant(policy)
    judged = [*grades.values()]
    if policy.ideal == "retrieved":
        judged = [grade or 0 for grade in _first(ranking, grades, None, policy)]
    best = dcg(sorted(judged, reverse=True)[:k], policy)
    return min(1.0, dcg(seen, policy) / best) if best else 0.0


def dcg(seen: Iterable[int | None], policy: MetricPolicy = POLICY) -> float:
    """Sum of gain / log2(rank + 1) over grades in rank order; None is unjudged.

    >>> dcg([2, None, 1])  # 3/1 + 0 + 1/2
    3.5
    """
    return math.fsum(gain(grade, policy) / math.log2(i + 1) for i, grade in enumerate(seen, 1))


def gain(grade: int | None, policy: MetricPolicy = POLICY) -> float:
    """What a chunk of this grade is worth: 2^grade - 1, or the grade; nothing up to grade 0."""
    if grade is None or grade <= 0:
        return 0.0
    if grade > HIGHEST_GRADE:
        raise MetricError(f"grade {grade} is above {HIGHEST_GRADE}: no metric can weigh it")
    return 2.0**grade - 1 if policy.gain == "exp2" else float(grade)


def r_precision(
    ranking: Sequence[str], grades: Grades, k: None = None, policy: MetricPolicy = POLICY
) -> float:
    """Precision at R, the number of relevant chunks of the question; recall there is the same.

    Source: trec_eval, `Rprec`.

    >>> r_precision(["a", "x", "b"], {"a": 1, "b": 1})
    0.5
    """
    relevant = relevant_count(grades, policy)
    return recall(ranking, grades, relevant or None, policy)


def bpref(
    ranking: Sequence[str], grades: Grades, k: None = None, policy: MetricPolicy = POLICY
) -> float:
    """How seldom a chunk judged not relevant stands above a relevant one; unjudged are skipped.

        bpref = 1/R sum over found relevant chunks of  1 - min(n, R) / min(N, R)

    n is the number of chunks judged not relevant above it, N their number in the judgments.
    Without any (N = 0) the metric cannot be computed: nan, where ranx divides by zero. Under
    `no_relevant="zero"` each found chunk then counts 1, as in trec_eval.

    Source: Buckley & Voorhees, SIGIR 2004, as corrected in trec_eval.

    >>> bpref(["x", "a", "y", "b"], {"a": 1, "b": 1, "x": 0, "y": 0})  # (1 - 1/2 + 1 - 2/2) / 2
    0.25
    """
    seen = _first(ranking, grades, None, policy)
    relevant = relevant_count(grades, policy)
    not_relevant = sum(0 <= grade < policy.relevant_from for grade in grades.values())
    if not relevant or (not not_relevant and policy.no_relevant != "zero"):
        return without_relevant(policy)
    above, terms = 0, []
    for grade in seen:
        if _is_relevant(grade, policy):
            terms.append(1 - min(above, relevant) / min(not_relevant, relevant) if above else 1.0)
        elif grade is not None and grade >= 0:
            above += 1
    return math.fsum(terms) / relevant


def judged(
    ranking: Sequence[str], grades: Grades, k: int | None = None, policy: MetricPolicy = POLICY
) -> float:
    """Share of the chunks returned in the first k ranks that have a judgment.

    A grade below 0 is TREC's "pooled, not judged" and does not count. ir_measures divides by k,
    so that short rankings look unjudged. Undefined (nan) when nothing is returned.

    >>> judged(["a", "x", "b"], {"a": 1, "b": 0}, k=2)
    0.5
    """
    seen = _first(ranking, grades, k, policy)
    return sum(is_judged(grade) for grade in seen) / len(seen) if seen else math.nan


def is_judged(grade: int | None) -> bool:
    """Whether this is a judgment: None and grades below 0 are not."""
    return grade is not None and grade >= 0


def relevant_count(grades: Grades, policy: MetricPolicy = POLICY) -> int:
    """R: how many judged chunks reach `relevant_from`."""
    return sum(grade >= policy.relevant_from for grade in grades.values())


def _is_relevant(grade: int | None, policy: MetricPolicy) -> bool:
    return grade is not None and grade >= policy.relevant_from


def hits(
    ranking: Sequence[str], grades: Grades, k: int | None, policy: MetricPolicy
) -> tuple[int, int]:
    """Relevant chunks in the first k, and the ranks that precision divides them by."""
    seen = _first(ranking, grades, k, policy)
    found = sum(_is_relevant(grade, policy) for grade in seen)
    if k is not None and policy.precision_denominator == "fixed_k":
        return found, k
    return found, len(seen)


def _first(
    ranking: Sequence[str], grades: Grades, k: int | None, policy: MetricPolicy
) -> list[int | None]:
    """Grades of the first k returned chunks, None where unjudged; refuses what has no value."""
    if k is not None and (k is True or k != int(k) or k < 1):
        raise MetricError(f"cutoff {k!r}: give a whole number of ranks of at least 1")
    distinct = list(dict.fromkeys(ranking))
    if policy.duplicates == "error" and len(distinct) < len(ranking):
        twice = next(doc for doc in distinct if ranking.count(doc) > 1)
        raise MetricError(
            f"chunk {twice!r} is ranked {ranking.count(twice)} times: a chunk counts once, "
            "so remove the repeats or grade with duplicates='first_wins'"
        )
    seen = [grades.get(doc) for doc in distinct]
    if policy.unjudged == "error" and not all(map(is_judged, seen)):
        doc = next(doc for doc in distinct if not is_judged(grades.get(doc)))
        raise MetricError(
            f"returned chunk {doc!r} has no judgment: judge it, or use unjudged='irrelevant'"
        )
    return seen[:k]


def without_relevant(policy: MetricPolicy) -> float:
    """The value where no chunk is relevant: nan (left out of means), 0, or a refusal."""
    if policy.no_relevant == "error":
        raise MetricError(
            "no judged chunk is relevant: a question without an answer is reported apart, "
            "never in a relevance mean"
        )
    return 0.0 if policy.no_relevant == "zero" else math.nan
