"""Stored scores x answerable -> a threshold, what it costs, and how far it can be trusted.

The arithmetic is in `metrics` (acceptance, operating, calibration); here stored rankings become
scored questions, split into those a threshold may see and those it may not, and its records
become the tables and sentences of 03_threshold_sweep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from evalkit import retrieval
from evalkit.errors import ExecutionError, ParameterError
from evalkit.executions import Execution
from evalkit.metrics import acceptance, calibration, operating, scored, uncertainty
from evalkit.records import LabelledSet

if TYPE_CHECKING:
    import pandas as pd

DEVELOPMENT, HELD_OUT = "development", "held-out"


@dataclass(frozen=True, slots=True)
class Answering:
    """The questions of one mode with their scores; `held_out` is None in a set without splits.

    `without_hits` counts unsupported questions for which nothing was eligible: they test the
    filter, not whether scores can tell, and no threshold is credited with them.
    """

    everything: scored.ScoredQuestions
    development: scored.ScoredQuestions
    held_out: scored.ScoredQuestions | None
    without_hits: int

    @property
    def sentence(self) -> str:
        """Which questions choose the threshold and which report on it."""
        parts = [_counted(self.development, "choose the threshold")]
        if self.held_out is not None:
            parts.append(_counted(self.held_out, "report on it"))
        else:
            parts.append("The set has no held-out split: nothing below is a fair report.")
        if self.without_hits:
            parts.append(
                f"{self.without_hits} unsupported questions returned nothing at all: they test "
                "the filter and are left out."
            )
        return " ".join(parts)


def answering(
    execution: Execution, labelled: LabelledSet, mode: str, signal: str, cutoff: int = 0
) -> Answering:
    """Scores every question of an evaluated mode by one signal of its ranking.

    `cutoff` is how many chunks a reader is given on acceptance, 0 the deepest that was asked.
    """
    outcomes = execution.read_frame("outcomes")
    modes = list(dict.fromkeys(outcomes["mode"]))
    if mode not in modes:
        raise ParameterError(f"mode {mode!r} was not evaluated; choose one of {', '.join(modes)}.")
    least = execution.inputs["retrieval"][mode].get("score_threshold")
    if least:
        raise ExecutionError(
            f"{execution.name} was asked with min_score {least}: questions below it have no score "
            "and no threshold there can be judged. Evaluate again with min_score 0."
        )
    outcomes = outcomes[outcomes["mode"] == mode].set_index("query_id")
    known = {query.query_id for query in labelled.queries}
    if known != set(outcomes.index):
        raise ExecutionError(f"{execution.name} did not ask the questions of {labelled.name}.")
    answered = outcomes["status"].isin(["scored", "zero_hit"])
    empty = ~outcomes["answerable"] & (outcomes["hits"] == 0)
    kept = set(outcomes.index[answered & ~empty])
    scoring = execution.inputs["scoring"]
    everything = scored.scored_questions(
        execution.read_frame(f"run-{mode}"),
        [query for query in labelled.queries if query.query_id in kept],
        axis=execution.inputs["retrieval"][mode]["axis"],
        cutoff=cutoff or max(scoring["cutoffs"]),
        signal=_signal(signal),
        relevant_from=labelled.relevant_from,
    )
    split = set(everything.frame["split"]) >= {DEVELOPMENT, HELD_OUT}
    return Answering(
        everything,
        everything.part(DEVELOPMENT) if split else everything,
        everything.part(HELD_OUT) if split else None,
        int(empty.sum()),
    )


def choose(asked: Answering, rule: str, value: float, delta: float) -> operating.Operating:
    """The threshold that the rule picks on the development questions, or the reason for none."""
    if rule not in get_args(operating.RuleKind):
        known = ", ".join(get_args(operating.RuleKind))
        raise ParameterError(f"rule {rule!r}: choose one of {known}.")
    chosen: Any = rule
    stated = operating.Rule(chosen, float("nan") if rule == "equal error" else value, delta)
    return _none_without_both(asked.development, stated) or operating.choose(sweep(asked), stated)


def _none_without_both(
    questions: scored.ScoredQuestions, rule: operating.Rule
) -> operating.Operating | None:
    """No threshold, with the reason, where the set has answerable or unsupported questions only."""
    answerable = int(questions.frame["answerable"].sum())
    unsupported = len(questions.frame) - answerable
    if answerable and unsupported:
        return None
    missing = "unsupported" if answerable else "answerable"
    nothing = float("nan")
    area = f"AUC of {questions.axis}"
    return operating.Operating(
        axis=questions.axis,
        scale=questions.scale,
        rule=rule,
        verdict="TOO FEW QUESTIONS",
        reason=f"the set has no {missing} question, and a threshold parts the two kinds",
        threshold=None,
        between=None,
        separation=uncertainty.Estimate(area, 0, nothing, nothing, nothing, 0.95, "undefined"),
        chosen_on=questions.label,
        answerable=answerable,
        unsupported=unsupported,
        false_acceptance=nothing,
        false_abstention=nothing,
    )


def sweep(asked: Answering) -> acceptance.Sweep:
    """All outcomes at every distinct threshold of the development questions."""
    return acceptance.sweep(asked.development)


def report(tuned: operating.Operating, asked: Answering, *, seed: int) -> pd.DataFrame:
    """The rates of the threshold on the questions it was chosen on and on the held-out ones."""
    import pandas as pd

    parts = {"chosen on": asked.development, "held out": asked.held_out}
    frames = [
        uncertainty.as_frame(_rates(tuned, part, seed)).assign(questions=name)
        for name, part in parts.items()
        if part is not None
    ]
    columns = ["questions", "name", "count", "total", "value", "low", "high"]
    return pd.concat(frames, ignore_index=True)[columns]


def optimism_sentence(tuned: operating.Operating, asked: Answering, *, seed: int) -> str:
    """How much better the threshold looked where it was chosen than on questions it never saw."""
    if tuned.threshold is None or asked.held_out is None:
        return "Without a threshold and a held-out split there is no optimism to show."
    seen, unseen = (_rates(tuned, part, seed) for part in (asked.development, asked.held_out))
    gaps = calibration.optimism(seen, unseen).set_index("name")
    said = []
    for name in ("false acceptance", "false abstention"):
        was, now, change, low, high = gaps.loc[[name]].to_numpy(dtype=float)[0]
        said.append(
            f"{name} {was:.3f} where it was chosen and {now:.3f} on the held-out questions "
            f"(difference {change:+.3f}, 95 % interval {low:+.3f} to {high:+.3f})"
        )
    return f"Optimism: {'; '.join(said)}."


def band_sentence(tuned: operating.Operating, asked: Answering, *, seed: int) -> str:
    """How far the threshold moves when the development questions are drawn again."""
    if tuned.threshold is None:
        return "There is no threshold to be firm or not."
    found = calibration.band(sweep(asked), tuned.rule, np.random.default_rng(seed))
    return (
        f"Chosen again on {found.resamples:,} resamples of the development questions, the "
        f"threshold lay between {found.low:.3f} and {found.high:.3f} in 95 % of those in which "
        f"the rule found one ({found.chosen:.0%}); {tuned.threshold:.3f} was chosen."
    )


def engine_sentence(
    tuned: operating.Operating, labelled: LabelledSet, mode: str, embedder: str, store: Path
) -> str:
    """Whether Qdrant's own score_threshold, at this point, accepts exactly the same questions."""
    if tuned.threshold is None:
        return "There is no threshold to hand to the engine."
    if mode != "semantic" or not tuned.axis.endswith("top score"):
        return f"No engine takes a threshold on the {tuned.axis}: it is applied after the search."
    chunks = retrieval.cut(labelled.documents, labelled.chunking)
    (engine,) = retrieval.open_retrievers([mode], labelled, chunks, embedder, store)
    texts = [query.text for query in labelled.queries]
    if not isinstance(engine, retrieval.SemanticRetriever):
        raise ExecutionError(f"{engine.mode} is no vector search.")
    differ = retrieval.accepts_same(engine, texts, tuned.threshold)
    if not differ:
        return f"Qdrant's own score_threshold accepts the same of all {len(texts)} questions."
    return f"Qdrant's score_threshold decides {len(differ)} otherwise: {'; '.join(differ[:3])}"


def promise(asked: Answering, alpha: float, delta: float) -> calibration.Guarantee:
    """The bound on false acceptance that all questions together can give.

    The test pays for its own choice of threshold, so no question need be held back from it.
    """
    none = _none_without_both(asked.everything, operating.Rule("guarantee", alpha, delta))
    if none:
        return calibration.Guarantee(alpha, delta, none.unsupported, -1, None, None, None, none)
    return calibration.guarantee(acceptance.sweep(asked.everything), alpha, delta)


def promise_sentences(found: calibration.Guarantee) -> list[str]:
    """What is promised, or why nothing is and how many questions it would take."""
    said = [str(found)]
    if found.operating.threshold is None and found.needed:
        said.append(
            f"About {found.needed:,} unsupported questions would be needed; {found.unsupported} "
            "are there."
        )
    elif found.operating.threshold is None and found.unsupported:
        said.append("No number of questions would give it with these scores.")
    elif found.operating.threshold is None:
        said.append("Add near misses that the corpus does not answer to learn whether it can tell.")
    else:
        said.append(
            f"It would turn away {found.operating.false_abstention:.0%} of answerable ones."
        )
    return said


def record(
    tuned: operating.Operating, promised: calibration.Guarantee, reported: pd.DataFrame
) -> dict[str, Any]:
    """Threshold, promise and rates as JSON: what 04_unsupported_review reads."""
    plain = reported.astype(object).where(reported.notna(), None)
    return {
        "operating": uncertainty.as_record(tuned),
        "promise": uncertainty.as_record(promised),
        "report": plain.to_dict(orient="records"),
    }


def _rates(
    tuned: operating.Operating, part: scored.ScoredQuestions, seed: int
) -> Sequence[uncertainty.Rate | uncertainty.Estimate]:
    return calibration.report(tuned, part, np.random.default_rng(seed))


def _signal(name: str) -> scored.Signal:
    if name not in get_args(scored.Signal):
        known = ", ".join(get_args(scored.Signal))
        raise ParameterError(f"signal {name!r}: choose one of {known}.")
    chosen: Any = name
    return chosen  # type: ignore[no-any-return]


def _counted(questions: scored.ScoredQuestions, doing: str) -> str:
    answerable = questions.frame["answerable"]
    return (
        f"{int(answerable.sum())} answerable and {int((~answerable).sum())} unsupported "
        f"questions ({questions.label}) {doing}."
    )
