"""The choices behind a metric's value, the presets that name them, and the grammar of names.

Two tools print different numbers under one name because they chose differently. Here every
choice is a field of `MetricPolicy`, and a choice of formula that departs from the default shows
in the printed name: `nDCG@10` has gain 2^g - 1 whoever prints it, `nDCG_lin@10` has gain g.
Choices about the data (`relevant_from`, `order`, `duplicates`, ...) hold for a whole table at
once and are recorded with it, not in each name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, get_args, get_type_hints

from evalkit.errors import MetricError, ParameterError


@dataclass(frozen=True, slots=True)
class MetricPolicy:
    """What each formula divides by, counts and refuses; the defaults are evalkit's own.

    `gain`: 2^g - 1 or g. `precision_denominator`: k, or as many of the first k ranks as were
    returned, min(k, returned). `ideal`: the best order of all judged chunks, or
    only of those retrieved (which hides misses). `rr_cutoff`: whether ReciprocalRank@k sees
    ranks beyond k. `ap_denominator`: all relevant, or at most k of them. `f_average`: the mean
    of each question's F, or F of mean precision and mean recall. `duplicates`: refused, or the
    first counts and later ranks close up. `unjudged`: a chunk without a grade is refused, refused
    where the set claims complete judgments, or not relevant. `order`: as returned, or score
    descending with ties by id descending. `no_relevant`: a question without a relevant chunk
    has no value (nan, left out of means), 0, or is refused. `missing_query`: a judged question
    without a ranking scores 0, is left out of the means, or is refused.
    """

    gain: Literal["exp2", "linear"] = "exp2"
    precision_denominator: Literal["fixed_k", "returned"] = "fixed_k"
    ideal: Literal["judged", "retrieved"] = "judged"
    rr_cutoff: Literal["k", "none"] = "k"
    ap_denominator: Literal["all_relevant", "min_k_relevant"] = "all_relevant"
    f_average: Literal["mean_of_queries", "f_of_means"] = "mean_of_queries"
    duplicates: Literal["error", "first_wins"] = "error"
    unjudged: Literal["error", "error_if_complete", "irrelevant"] = "error_if_complete"
    order: Literal["as_returned", "trec_eval"] = "as_returned"
    no_relevant: Literal["undefined", "zero", "error"] = "undefined"
    missing_query: Literal["zero", "skip", "error"] = "zero"
    relevant_from: int = 1

    def __post_init__(self) -> None:
        for name, allowed in _ALLOWED.items():
            if allowed and getattr(self, name) not in allowed:
                found = f"policy {name}={getattr(self, name)!r}"
                raise ParameterError(f"{found}: choose one of {', '.join(allowed)}")
        if type(self.relevant_from) is not int or self.relevant_from < 1:
            raise ParameterError(
                f"policy relevant_from={self.relevant_from!r}: give the lowest relevant grade, "
                "a whole number of at least 1"
            )


_ALLOWED: Final = {name: get_args(hint) for name, hint in get_type_hints(MetricPolicy).items()}
POLICY: Final = MetricPolicy()

PRESETS: Final[Mapping[str, MetricPolicy]] = {
    "evalkit": POLICY,
    # sample 07 of the .NET evaluation libraries: a label that is missing stops the run
    "dotnet": MetricPolicy(unjudged="error", no_relevant="error", missing_query="error"),
    # its public benchmark code, and the F of its example response
    "mixpeek": MetricPolicy(
        precision_denominator="returned",
        ideal="retrieved",
        f_average="f_of_means",
        duplicates="first_wins",
        unjudged="irrelevant",
        no_relevant="error",
        missing_query="skip",
    ),
    # Kioku counts a duplicate twice in precision and nDCG (above 1); that fault is not kept
    "kioku": MetricPolicy(rr_cutoff="none", duplicates="first_wins", unjudged="irrelevant"),
    # with -c, so that a question without results counts
    "trec_eval": MetricPolicy(
        gain="linear",
        rr_cutoff="none",
        unjudged="irrelevant",
        order="trec_eval",
        no_relevant="zero",
    ),
    # ranx sorts by score and leaves ties to its sort; here ties go by id, to be repeatable
    "ranx": MetricPolicy(
        gain="linear", unjudged="irrelevant", order="trec_eval", no_relevant="zero"
    ),
}


def preset(name: str) -> MetricPolicy:
    """The policy of that name, or an error that lists the names."""
    if name not in PRESETS:
        raise ParameterError(f"no preset {name!r}: choose one of {', '.join(PRESETS)}")
    return PRESETS[name]


@dataclass(frozen=True, slots=True)
class Cutoff:
    """Depth in ranks: a number, a multiple of R = the question's relevant chunks, or uncut.

    >>> [Cutoff.parse(text).depth(relevant=4) for text in ("10", "2R", "")]
    [10, 8, None]
    """

    number: int = 0
    of_relevant: bool = False

    @classmethod
    def parse(cls, text: str) -> Cutoff:
        """Read `10`, `2R` or the empty text; anything else is an error, 0 and 1.5 included."""
        if text == "":
            return cls()
        found = re.fullmatch(r"([1-9][0-9]*)([Rr]?)", text)
        if not found:
            raise MetricError(
                f"cutoff {text!r}: give a whole number of ranks of at least 1, or a multiple "
                "of the relevant chunks such as 2R"
            )
        return cls(int(found[1]), bool(found[2]))

    def __str__(self) -> str:
        return f"{self.number}{'R' if self.of_relevant else ''}" if self.number else ""

    def depth(self, relevant: int) -> int | None:
        """Ranks graded for a question with that many relevant chunks; None is all of them."""
        if not self.number:
            return None
        return self.number * relevant if self.of_relevant else self.number


EVIDENCE_MEASURES: Final = ("RequirementRecall", "CompleteAnswer", "RankOfCompletion")
# measure -> the policy fields its formula reads, which are those its name can show
FORMULA_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "Precision": ("precision_denominator",),
    "F": ("precision_denominator", "f_average"),
    "ReciprocalRank": ("rr_cutoff",),
    "AP": ("ap_denominator",),
    "nDCG": ("gain", "ideal"),
    **dict.fromkeys(("Recall", "Success", "Rprec", "bpref", "Judged", *EVIDENCE_MEASURES), ()),
}
_UNCUT_ONLY: Final = ("Rprec", "bpref")
_IDLE_UNCUT: Final = (
    "precision_denominator",
    "rr_cutoff",
    "ap_denominator",
)  # without k, one value
_MARKS: Final = {  # in a name: (field, value); the default's mark is read but never printed
    "_exp": ("gain", "exp2"),
    "_lin": ("gain", "linear"),
    "Returned": ("precision_denominator", "returned"),
    "_retrieved": ("ideal", "retrieved"),
    "_whole": ("rr_cutoff", "none"),
    "_mink": ("ap_denominator", "min_k_relevant"),
    "_ofmeans": ("f_average", "f_of_means"),
}
_ALIASES: Final = {measure.lower(): measure for measure in FORMULA_CHOICES if measure != "F"} | {
    **{"p": "Precision", "r": "Recall", "hit": "Success", "map": "AP"},
    **{"rr": "ReciprocalRank", "mrr": "ReciprocalRank"},
}
_NAME: Final = re.compile(
    r"(?P<base>[A-Za-z]+?|F(?P<beta>\d+(?:\.\d+)?))"
    rf"(?P<marks>(?:{'|'.join(_MARKS)})*)(?:(?:@|_at_)(?P<cutoff>.*))?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Metric:
    """One column of a result: measure, cutoff, and the policy its value is computed under."""

    measure: str
    cutoff: Cutoff = Cutoff()
    beta: float = 0.0
    policy: MetricPolicy = POLICY

    @property
    def label(self) -> str:
        """The name without its cutoff, as the results frame's `metric` column holds it."""
        idle = () if self.cutoff.number else _IDLE_UNCUT
        shown = {
            (name, getattr(self.policy, name))
            for name in FORMULA_CHOICES[self.measure]
            if name not in idle and getattr(self.policy, name) != getattr(POLICY, name)
        }
        beta = str(self.beta).removesuffix(".0") if self.measure == "F" else ""
        return self.measure + beta + "".join(mark for mark, said in _MARKS.items() if said in shown)

    def at(self, k: int | None) -> Metric:
        """The same metric at a depth of k ranks, or uncut."""
        return replace(self, cutoff=Cutoff(k or 0))

    def __str__(self) -> str:
        return f"{self.label}@{self.cutoff}" if self.cutoff.number else self.label


def parse_metric(name: str, policy: MetricPolicy = POLICY) -> Metric:
    """Read a metric's name; marks in the name win over `policy`, which fills in the rest.

    >>> str(parse_metric("MRR@10")), str(parse_metric("f2_at_2r"))
    ('ReciprocalRank@10', 'F2@2R')
    >>> str(parse_metric("nDCG@10", PRESETS["trec_eval"]))
    'nDCG_lin@10'
    """
    found = _NAME.fullmatch(name)
    measure = (
        "F" if found and found["beta"] else _ALIASES.get(found["base"].lower()) if found else ""
    )
    if not found or not measure or (found["beta"] and not 0 < float(found["beta"]) <= 1000):
        known = ", ".join("F<beta>" if m == "F" else m for m in FORMULA_CHOICES)
        raise ParameterError(f"no metric {name!r}: choose from {known}, each with @k or @2R")
    if found["cutoff"] == "":
        raise ParameterError(
            f"metric {name!r} has an @ but no cutoff: write {name}10 or {name[:-1]}"
        )
    cutoff = Cutoff.parse(found["cutoff"] or "")
    if cutoff.number and measure in _UNCUT_ONLY:
        raise ParameterError(f"metric {name!r}: {measure} sets its own depth; write {measure}")
    by_mark = {mark.lower(): said for mark, said in _MARKS.items()}
    for mark in re.findall("|".join(_MARKS), found["marks"], re.IGNORECASE):
        field, value = by_mark[mark.lower()]
        if field not in FORMULA_CHOICES[measure]:
            raise ParameterError(f"metric {name!r}: {measure} has no choice {mark!r}")
        choice: dict[str, Any] = {field: value}
        policy = replace(policy, **choice)
    return Metric(measure, cutoff, float(found["beta"] or 0), policy)


def parse_metrics(names: Iterable[str], policy: MetricPolicy = POLICY) -> tuple[Metric, ...]:
    """Read several names, in order; none at all, or one metric asked for twice, is an error."""
    metrics: dict[str, Metric] = {}
    for name in names:
        metric = parse_metric(name, policy)
        if str(metric) in metrics:
            raise ParameterError(f"metric {name!r} is asked for twice, as {metric}: name it once")
        metrics[str(metric)] = metric
    if not metrics:
        raise ParameterError("no metric is named: give at least one, such as nDCG@10")
    return tuple(metrics.values())


def differing_choices(metric: str, one: MetricPolicy, other: MetricPolicy) -> tuple[str, ...]:
    """The fields in which two policies differ that can change this metric's value."""
    read = FORMULA_CHOICES[parse_metric(metric).measure]
    of_other_formulas = {name for names in FORMULA_CHOICES.values() for name in names} - {*read}
    names = (field.name for field in fields(MetricPolicy) if field.name not in of_other_formulas)
    return tuple(name for name in names if getattr(one, name) != getattr(other, name))
