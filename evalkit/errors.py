"""The errors evalkit raises on purpose. Each message names what was found, where, and what to do.

EvalkitError
├── DataError            a labelled set, a run file, a table: unreadable or inconsistent
│   └── LabelError       judgments that contradict the corpus or the grade scale
├── ParameterError       a notebook parameter or an option: unknown, ill-typed, secret
├── MetricError          a value that is not defined for this input
├── RetrievalError       the collection or the retriever answered something unusable
│   ├── SkippedQueryError         a question this retriever cannot take
│   ├── EngineUnavailableError    no server, no model, a time-out
│   ├── EmbeddingError            vectors of the wrong number, length or content
│   └── EligibilityError          a hit that the filter should have kept out
├── ExecutionError       an execution that is missing, unfinished or being written
├── NotebookError        a notebook that did not run to its end
└── EnvironmentSetupError         the Python, the lock file or the disk cannot serve
"""

from __future__ import annotations


class EvalkitError(Exception):
    """Base of all errors raised on purpose: shown as one sentence, without a traceback."""

    exit_code = 1


class DataError(EvalkitError, ValueError):
    """A file or table that cannot be read as what it claims to be; `path`, `line` say where."""

    def __init__(self, message: str, *, path: str = "", line: int | None = None) -> None:
        where = f"{path}:{line}: " if path and line else f"{path}: " if path else ""
        super().__init__(where + message)
        self.path, self.line = path, line


class LabelError(DataError):
    """Judgments that name chunks outside the eligible corpus, twice, or off the grade scale."""


class ParameterError(EvalkitError, ValueError):
    """A parameter that is unknown, ill-typed, out of range or looks like a secret."""

    exit_code = 2


class MetricError(EvalkitError, ValueError):
    """A metric asked of input for which it has no value (k below 1, no relevant chunk, ...)."""


class RetrievalError(EvalkitError, RuntimeError):
    """The collection or the retriever answered something that cannot be evaluated."""


class SkippedQueryError(RetrievalError):
    """A question that this retriever cannot take; it is recorded as skipped, with the reason."""


class EngineUnavailableError(RetrievalError):
    """An engine (Qdrant, Ollama) did not answer within its bound."""

    exit_code = 3


class EmbeddingError(RetrievalError):
    """Vectors of the wrong number, length or content."""


class EligibilityError(RetrievalError):
    """A hit whose payload breaks the filter it was retrieved under."""


class ExecutionError(EvalkitError, RuntimeError):
    """An execution that is missing, did not finish, or is being written by another process."""


class NotebookError(EvalkitError, RuntimeError):
    """A notebook that did not run to its end."""


class EnvironmentSetupError(EvalkitError, RuntimeError):
    """This machine cannot serve: wrong Python, missing lock file, no space."""
