"""Labelled sets: forms in and out, checks, fingerprints, the built-in sets.

The readers of files with many rows need pyarrow; they are imported when such a file is read,
so that scoring Python dicts starts fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evalkit.datasets.check import Finding, check, near_matches, refuse_errors
from evalkit.datasets.native import read_native, sealed, write_native
from evalkit.errors import DataError
from evalkit.records import LabelledSet

if TYPE_CHECKING:
    import pyarrow as pa

BUILT_IN = ("handbook", "runbooks", "vault")

__all__ = [
    "BUILT_IN",
    "Finding",
    "check",
    "load",
    "near_matches",
    "read_native",
    "read_qrels_columns",
    "read_run_columns",
    "refuse_errors",
    "sealed",
    "write_native",
]


def load(name_or_path: str | Path, split: str = "test") -> LabelledSet:
    """A labelled set by its built-in name, or from a folder or file, by what that holds.

    Folders: native (set.toml), BEIR (corpus.jsonl and qrels/, of which `split` is read), CSV
    (queries.csv, qrels.csv), TREC (topics and qrels files), a vault with its golden-set.json.
    Files: a Mixpeek data set or a golden set, in JSON or JSON Lines.
    """
    if name_or_path in BUILT_IN:
        return read_native(Path(__file__).parent / str(name_or_path))
    path = Path(name_or_path)
    if path.is_dir():
        return _load_folder(path, split)
    if not path.exists():
        known = ", ".join(BUILT_IN)
        found = f"no such folder or file, and no built-in set (those are {known})"
        raise DataError(found, path=str(path))
    return _load_file(path)


def read_run_columns(path: str | Path) -> pa.Table:
    """A run file of any form as the columns query_id, doc_id, rank, score."""
    from evalkit.datasets import tables

    return tables.read_run_columns(Path(path))


def read_qrels_columns(path: str | Path) -> pa.Table:
    """A judgment file of any form as the columns query_id, doc_id, grade."""
    from evalkit.datasets import tables

    return tables.read_qrels_columns(Path(path))


def _load_folder(path: Path, split: str) -> LabelledSet:
    from evalkit.datasets import beir, kioku, tables, topics

    if (path / "set.toml").exists():
        return read_native(path)
    if (path / "qrels").is_dir():
        return beir.read_beir(path, split)
    if (path / "queries.csv").exists():
        return tables.read_csv_set(path)
    for golden in (path / "golden-set.json", path / ".kioku" / "golden-set.json"):
        if golden.exists():
            return kioku.read_golden(golden, vault=path)
    named = {kind: sorted(path.glob(f"{kind}*")) for kind in ("topics", "qrels")}
    if len(named["topics"]) == 1 and len(named["qrels"]) == 1:
        return topics.read_trec_set(named["topics"][0], named["qrels"][0])
    raise DataError("not a labelled set: found no set.toml (native), qrels/ (BEIR), queries.csv "
                    "(CSV), golden-set.json (Kioku), nor one topics and one qrels file (TREC)",
                    path=str(path))  # fmt: skip


def _load_file(path: Path) -> LabelledSet:
    from evalkit.datasets import kioku, mixpeek
    from evalkit.datasets.parsing import parse_json, read_text

    if ".jsonl" not in path.suffixes and ".json" not in path.suffixes:
        raise DataError("not a labelled set: expected a folder, .json or .jsonl", path=str(path))
    whole = parse_json(read_text(path), path) if ".json" in path.suffixes else []
    if isinstance(whole, dict) and "dataset_name" in whole:
        return mixpeek.read_mixpeek(path)
    return kioku.read_golden(path)
