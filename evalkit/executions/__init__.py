"""The store of executions: one folder each, whole files, every input fingerprinted."""

from evalkit.executions.saving import save, summarise
from evalkit.executions.store import (
    CURRENT,
    LABEL,
    Execution,
    create,
    current,
    differences,
    environment,
    find,
    finish,
    history,
    newest,
    outputs,
    repository,
)

__all__ = [
    "CURRENT",
    "LABEL",
    "Execution",
    "create",
    "current",
    "differences",
    "environment",
    "find",
    "finish",
    "history",
    "newest",
    "outputs",
    "repository",
    "save",
    "summarise",
]
