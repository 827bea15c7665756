"""Pure arithmetic over rankings and judgments: no engine, no file, no notebook.

`policy` names the choices, `ranking` holds the definitions one question at a time, `grading`
grades whole runs with them, plainly, and `engine` does the same at speed. `evidence` knows facts
and other units than the chunk, `bounds` how far a value could move.

The edges, decided once for all of them (policies other than the default may differ, and say so):

- A ranking is the retriever's, best first, in the order it came; scores decide nothing but ties,
  and are never rounded. A score of 0 or below is still a returned chunk; nan is refused.
- A chunk twice in one ranking is refused, or the first counts and later ranks close up. It is
  never counted twice, so every value lies in [0, 1].
- A grade is a whole number; 0 and below gain nothing and are not relevant. A grade below 0 is
  TREC's "pooled, not judged": not judged for Judged@k, skipped by bpref.
- An unjudged chunk is refused where the set claims complete judgments; otherwise it is not
  relevant, keeps its rank, and Judged@k and `unjudged_range` say how much hangs on it.
- Nothing returned is 0, not an exception; so is a judged question that the run lacks, which is
  listed as well. A question in the run that nobody judged is listed and never scored.
- No relevant chunk: no value (nan), left out of the mean and counted; never 0. nDCG is defined
  wherever a grade is above 0. bpref needs a chunk judged not relevant.
- A cutoff is a whole number of at least 1, a multiple of R (`2R`), or absent; 0, -1 and 1.5 are
  refused. A short ranking is not padded and not forgiven: precision divides by k.
- A mean is over questions, of per-question values, each question once; its count is printed.
  F is averaged over questions; F of the means is another metric, `F1_ofmeans`.
- No question in common between run and judgments is an error, never a page of zeros.
"""

from evalkit.metrics.bounds import is_coarse, tie_across, tie_range, tied, unjudged_range
from evalkit.metrics.engine import Scores, evaluate
from evalkit.metrics.evidence import (
    best_chunk_by_document,
    complete_answer,
    group_by_field,
    rank_of_completion,
    requirement_recall,
    requirement_values,
)
from evalkit.metrics.grading import average, ceiling, grade_run, micro_average, value
from evalkit.metrics.policy import (
    POLICY,
    PRESETS,
    Metric,
    MetricPolicy,
    differing_choices,
    parse_metric,
    parse_metrics,
    preset,
)

__all__ = [
    "POLICY",
    "PRESETS",
    "Metric",
    "MetricPolicy",
    "Scores",
    "average",
    "best_chunk_by_document",
    "ceiling",
    "complete_answer",
    "differing_choices",
    "evaluate",
    "grade_run",
    "group_by_field",
    "is_coarse",
    "micro_average",
    "parse_metric",
    "parse_metrics",
    "preset",
    "rank_of_completion",
    "requirement_recall",
    "requirement_values",
    "tie_across",
    "tie_range",
    "tied",
    "unjudged_range",
    "value",
]
