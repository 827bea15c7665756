"""Keeps secrets that came from the environment out of every output."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

_NAMES = re.compile(r"(API_?KEY|ACCESS_?KEY|SECRET|PASSWORD|PASSWD|TOKEN)S?$", re.IGNORECASE)
_SHORTEST = 6  # a shorter value, such as "1" or "test", stands in outputs by chance
_TEXT = {".json", ".ipynb", ".html", ".txt", ".md", ".csv", ".jsonl", ".trec", ".xml"}


def secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables whose value must appear in no output, by name: keys, and passwords inside URLs.

    >>> secrets({"QDRANT_API_KEY": "abc123def", "QDRANT_URL": "http://me:hunter22@host", "A": "x"})
    {'QDRANT_API_KEY': 'abc123def', 'QDRANT_URL': 'hunter22'}
    """
    return {name: value for name, value in _candidates(environment) if len(value) >= _SHORTEST}


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in environment.items():
        if _NAMES.search(name):
            yield name, value
        elif "://" in value and "@" in value:
            try:
                yield name, urlsplit(value).password or ""
            except ValueError:
                continue  # not a URL after all


def redact(text: str, environment: Mapping[str, str]) -> str:
    """The text with each secret replaced by its variable's name, in whatever form it appears."""
    for name, value in secrets(environment).items():
        for form in _forms(value):
            text = text.replace(form, f"[{name}]")
    return text


def redact_notebook(notebook: Any, environment: Mapping[str, str]) -> list[str]:
    """Takes secrets out of every text of a notebook, in place; the variables that were found."""
    hidden = secrets(environment)
    found: set[str] = set()

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            cleaned = redact(value, hidden)
            if cleaned != value:
                found.update(name for name in hidden if f"[{name}]" in cleaned)
            return cleaned
        if isinstance(value, dict):
            for key, inner in value.items():
                value[key] = clean(inner)
        elif isinstance(value, list):
            value[:] = [clean(inner) for inner in value]
        return value

    if hidden:
        clean(notebook)
    return sorted(found)


def find(folder: Path, environment: Mapping[str, str]) -> dict[Path, list[str]]:
    """Text files below `folder` that hold a secret, with the variables whose value it is."""
    hidden = secrets(environment)
    if not hidden:
        return {}
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix in _TEXT and path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            names = [n for n, value in hidden.items() if any(f in text for f in _forms(value))]
            if names:
                found[path] = names
    return found


def _forms(value: str) -> list[str]:
    """The value as it is, percent-encoded, and in base64 (as headers carry it)."""
    encoded = base64.b64encode(value.encode()).decode()
    return list(dict.fromkeys((value, quote(value, safe=""), encoded, encoded.rstrip("="))))
