"""Labelled sets: forms in and out, checks, fingerprints, the built-in sets."""

from __future__ import annotations

from pathlib import Path

from evalkit.datasets.check import Finding, check, near_matches, refuse_errors
from evalkit.datasets.native import read_native, sealed, write_native
from evalkit.errors import DataError
from evalkit.records import LabelledSet

BUILT_IN = ("handbook", "runbooks", "vault")

__all__ = [
    "BUILT_IN",
    "Finding",
    "check",
    "load",
    "near_matches",
    "read_native",
    "refuse_errors",
    "sealed",
    "write_native",
]


def load(name_or_path: str | Path) -> LabelledSet:
    """A labelled set by its built-in name, or from a folder or file, by what that is."""
    if name_or_path in BUILT_IN:
        return read_native(Path(__file__).parent / str(name_or_path))
    path = Path(name_or_path)
    if not path.exists():
        known = ", ".join(BUILT_IN)
        raise DataError(f"no such folder or file, and no built-in set (those are {known})",
                        path=str(path))  # fmt: skip
    if (path / "set.toml").exists():
        return read_native(path)
    raise DataError("not a labelled set: no set.toml in it", path=str(path))
