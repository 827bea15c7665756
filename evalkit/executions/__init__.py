"""The store of executions: one folder each, whole files, every input fingerprinted."""

from evalkit.executions.cleaning import clean, removable
from evalkit.executions.exporting import mixpeek, write_aieval
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
from evalkit.executions.timeline import history_text, mode_inputs, timeline

__all__ = [
    "CURRENT",
    "LABEL",
    "Execution",
    "by_mode",
    "clean",
    "create",
    "current",
    "differences",
    "environment",
    "find",
    "finish",
    "history",
    "history_text",
    "mixpeek",
    "mode_inputs",
    "newest",
    "outcome_sentences",
    "outputs",
    "record_collection",
    "removable",
    "repository",
    "save",
    "summarise",
    "table",
    "timeline",
    "write_aieval",
]
