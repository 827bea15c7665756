"""Any retriever: a plain callable becomes one."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evalkit.errors import ParameterError, RetrievalError, SkippedQueryError
from evalkit.files import file_digest
from evalkit.records import Hit
from evalkit.retrieval.search import check_depth

Answer = Iterable[tuple[Any, ...]]


class CallableRetriever:
    """Asks a function once a question; its answers are checked, its order is kept."""

    def __init__(
        self, function: Callable[..., Answer], name: str, axis: str, inputs: Sequence[str]
    ) -> None:
        self.mode, self.axis, self.inputs = name, axis, tuple(inputs)
        self._function = function

    def search(self, questions: Sequence[str], k: int) -> list[list[Hit]]:
        """The function's hits for each question, given under the first declared input."""
        return self.search_inputs([{self.inputs[0]: question} for question in questions], k)

    def search_inputs(self, inputs: Sequence[Mapping[str, Any]], k: int) -> list[list[Hit]]:
        """The same for query inputs of several keys; an undeclared key is refused, not ignored.

        `k` reaches the function only where it is declared, and a value the data set gives wins.
        """
        check_depth(k)
        return [self._ask(dict(given), k) for given in inputs]

    def describe(self) -> dict[str, Any]:
        """Settings for the manifest."""
        where = f"{self._function.__module__}.{getattr(self._function, '__qualname__', '?')}"
        return {
            "mode": self.mode,
            "axis": self.axis,
            "inputs": list(self.inputs),
            "function": where,
            "source_sha256": _source_digest(self._function),
        }

    def _ask(self, given: dict[str, Any], k: int) -> list[Hit]:
        unknown = sorted(set(given) - set(self.inputs))
        if unknown:
            raise SkippedQueryError(
                f"{self.mode} does not take {', '.join(unknown)}; it takes {', '.join(self.inputs)}"
            )
        if "k" in self.inputs:
            given.setdefault("k", k)
        hits = [self._hit(row, rank) for rank, row in enumerate(self._function(**given), start=1)]
        if len(hits) > k:
            raise RetrievalError(f"{self.mode} gave {len(hits)} hits where {k} were asked for")
        return hits

    def _hit(self, row: tuple[Any, ...], rank: int) -> Hit:
        if not 2 <= len(row) <= 4 or not isinstance(row[0], str) or not row[0]:
            raise RetrievalError(
                f"{self.mode} gave {row!r} at rank {rank}; give (id as text, score), or with text "
                "and payload after them"
            )
        if isinstance(row[1], bool) or not math.isfinite(float(row[1])):
            raise RetrievalError(f"{self.mode} gave {row[0]} the score {row[1]!r}")
        return Hit(row[0], float(row[1]), rank, *row[2:])


def from_module(mode: str) -> CallableRetriever:
    """The retriever of a mode written `module:function`, named `module.function` in files.

    The function's own parameters are its inputs, the first of them the question, and an
    attribute `axis` of the function says what its scores are. Its file lies beside the folder
    `evalkit`: that is the one place where the kernels of the workbook look for modules.
    """
    module, _, path = mode.partition(":")
    try:
        function: Any = importlib.import_module(module)
    except Exception as error:  # whatever the module's own code raises
        raise ParameterError(
            f"mode {mode!r}: importing {module!r} failed ({type(error).__name__}: {error}); "
            "put its file beside the folder evalkit, or mend it"
        ) from error
    for name in path.split("."):
        function = getattr(function, name, None)
    if not callable(function):
        raise ParameterError(f"mode {mode!r}: {module!r} has no function {path!r}")
    given = inspect.signature(function).parameters.values()
    inputs = [
        each.name for each in given if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    axis = str(getattr(function, "axis", "score"))
    return from_callable(function, f"{module}.{path}", axis, inputs)


def _source_digest(function: Any) -> str:
    """SHA-256 of the file the function stands in; '' where it stands in none, as in a notebook."""
    try:
        file = Path(inspect.getsourcefile(function) or "")
    except TypeError:
        return ""
    return file_digest(file) if file.is_file() else ""


def from_callable(
    function: Callable[..., Answer],
    name: str,
    axis: str = "score",
    inputs: Sequence[str] = ("question", "k"),
) -> CallableRetriever:
    """A retriever of a function that gives (id, score), or (id, score, text), best first.

    It is called with the declared `inputs` by name, of which the first is the question's text.

    >>> fixed = from_callable(lambda question, k: [("a", 0.9), ("b", 0.1)][:k], "fixed")
    >>> [hit.doc_id for hit in fixed.search(["why?"], 1)[0]]
    ['a']
    """
    if not inputs or not name or name in ("keyword", "semantic", "hybrid"):
        raise ParameterError(f"retriever {name!r}: give it a name of its own and an input")
    return CallableRetriever(function, name, axis, inputs)
