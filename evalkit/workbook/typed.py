"""Words typed on a command line -> parameters of notebooks, and a label for the execution."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evalkit.errors import ParameterError

# The make variables, and what the notebooks call them.
VARIABLES = {
    "DATASET": "dataset",
    "MODES": "modes",
    "LABEL": "label",
    "EMBEDDER": "embedder",
    "K": "cutoffs",
    "BASELINE": "baseline",
    "CANDIDATE": "candidate",
    "VARYING": "varying",
}


def given(options: argparse.Namespace) -> dict[str, Any]:
    """Parameters from the file, from options, from NAME=VALUE words; the last one wins."""
    from evalkit.workbook.parameters import WORKBOOK, from_text, read_file

    given = read_file(options.parameters) if options.parameters else {}
    typed = {name: getattr(options, name) for name in ("dataset", "modes", "label", "embedder")}
    typed["cutoffs"] = options.cutoffs
    typed |= words(options.assignments)
    for name, text in typed.items():
        if text not in (None, ""):
            given[name] = from_text(WORKBOOK, name, text)
    return given


def words(assignments: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE words as text by parameter name; make's variables have other names."""
    typed = {}
    for word in assignments:
        name, equals, value = word.partition("=")
        if not equals:
            raise ParameterError(f"{word!r}: expected NAME=VALUE, as in DATASET=runbooks.")
        typed[VARIABLES.get(name, name)] = value
    return typed


def label(dataset: str) -> str:
    """A label made from a data set's name or path, as folder names allow.

    >>> label("/data/My Set v2/")
    'my-set-v2'
    """
    last = Path(dataset).name.lower()
    return re.sub(r"[^a-z0-9_-]+", "-", last).strip("-_")[:64] or "workbook"
