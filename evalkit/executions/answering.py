"""Stored rankings as scored questions: those a threshold may see, and those it may not."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from evalkit.errors import ExecutionError, ParameterError
from evalkit.executions.store import Execution
from evalkit.metrics import scored
from evalkit.records import LabelledSet

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


def _signal(name: str) -> scored.Signal:
    signals: dict[str, scored.Signal] = {
        "top score": "top score",
        "margin": "margin",
        "standing": "standing",
    }
    if name not in signals:
        raise ParameterError(f"signal {name!r}: choose one of {', '.join(signals)}.")
    return signals[name]


def _counted(questions: scored.ScoredQuestions, doing: str) -> str:
    answerable = questions.frame["answerable"]
    return (
        f"{int(answerable.sum())} answerable and {int((~answerable).sum())} unsupported "
        f"questions ({questions.label}) {doing}."
    )
