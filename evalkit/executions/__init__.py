"""The store of executions: one folder each, whole files, every input fingerprinted."""

from evalkit.executions.saving import by_mode, outcome_sentences, save, summarise, table
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
    record_collection,
    repository,
)

__all__ = [
    "CURRENT",
    "LABEL",
    "Execution",
    "by_mode",
    "create",
    "current",
    "differences",
    "environment",
    "find",
    "finish",
    "history",
    "newest",
    "outcome_sentences",
    "outputs",
    "record_collection",
    "repository",
    "save",
    "summarise",
    "table",
]
