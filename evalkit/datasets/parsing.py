"""Strict reading: bytes to text, text to JSON, JSON to ids. Every refusal says file and line."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from evalkit.errors import DataError

_ASIDE = "\ufeff"  # a byte-order mark is a signature, not data


def read_bytes(path: Path) -> bytes:
    """The bytes of a file, unpacked where they are gzip (told by content, not by name)."""
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"damaged gzip file ({error})", path=str(path)) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DataError(f"cannot be read: {reason}", path=str(path)) from None


def decode(data: bytes, path: Path) -> str:
    """UTF-8 text without its byte-order mark; a bad byte or a NUL is an error with its line."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        found = f"byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise DataError(found, path=str(path), line=line) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataError("a NUL character; this is not a text file", path=str(path), line=line)
    return text.removeprefix(_ASIDE)


def read_text(path: Path) -> str:
    """The text of a UTF-8 file with Unix line ends."""
    return decode(read_bytes(path), path).replace("\r\n", "\n")


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers from 1."""
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if line.strip():
            yield number, line


def markdown_files(folder: Path) -> list[tuple[str, Path]]:
    """The Markdown files below a folder by their paths in it; hidden ones (checkpoints) are not."""
    found = ((path.relative_to(folder), path) for path in sorted(folder.rglob("*.md")))
    shown = [(rel, path) for rel, path in found if not any(p[0] == "." for p in rel.parts)]
    if not shown:
        raise DataError("no Markdown file in this folder", path=str(folder))
    return [(Row({}, path, None).as_id(rel.as_posix(), "file name"), path) for rel, path in shown]


def parse_json(text: str, path: Path, line: int | None = None) -> Any:
    """JSON without what readers disagree on: a key twice, NaN, infinity, half characters."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"the key {twice!r} stands twice in one object")
        return found

    def finite(text: str) -> float:
        if (number := float(text)) - number != 0:
            raise ValueError(f"{text} is not a finite number")
        return number

    try:
        value = json.loads(
            text, object_pairs_hook=unique, parse_float=finite, parse_constant=finite
        )
        if "\\u" in text:
            _refuse_odd_characters(value)
    except json.JSONDecodeError as error:
        at = error.lineno if line is None else line
        found = f"not JSON: {error.msg} (column {error.colno})"
        raise DataError(found, path=str(path), line=at) from None
    except RecursionError:
        raise DataError("not read: nested too deeply", path=str(path), line=line) from None
    except ValueError as error:  # ours above, and Python's bound on the digits of an integer
        raise DataError(f"not read: {error}", path=str(path), line=line) from None
    return value


def _refuse_odd_characters(value: Any) -> None:
    if isinstance(value, str):
        if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
            raise ValueError(f"the text {value[:40]!r} holds a NUL or half a character")
    elif isinstance(value, dict):
        for name, item in value.items():
            _refuse_odd_characters(name)
            _refuse_odd_characters(item)
    elif isinstance(value, list):
        for item in value:
            _refuse_odd_characters(item)


def read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a JSON Lines file with their line numbers."""
    for line, text in read_lines(path):
        row = parse_json(text, path, line)
        if not isinstance(row, dict):
            found = f"expected an object, found {_kind(row)}"
            raise DataError(found, path=str(path), line=line)
        yield line, row


def read_json_rows(path: Path, key: str) -> tuple[dict[str, Any], list[tuple[int, dict[str, Any]]]]:
    """A JSON file that is a list of objects, or an object with such a list under `key`.

    Returns the rest of the object, and the rows with the lines they start at.
    """
    text = read_text(path)
    whole = parse_json(text, path)
    head = dict(whole) if isinstance(whole, dict) else {}
    rows = head.pop(key, None) if isinstance(whole, dict) else whole
    if not isinstance(rows, list):
        raise DataError(f'expected a list of queries, or one under "{key}"', path=str(path), line=1)
    start = text.find("[", text.find(f'"{key}"') if isinstance(whole, dict) else 0) + 1
    numbered, decoder = [], json.JSONDecoder()
    for row in rows:
        while text[start] in ", \t\r\n":
            start += 1
        line = text.count("\n", 0, start) + 1
        if not isinstance(row, dict):
            found = f"expected an object, found {_kind(row)}"
            raise DataError(found, path=str(path), line=line)
        numbered.append((line, row))
        start = decoder.raw_decode(text, start)[1]
    return head, numbered


class Row:
    """One object of a file: typed access to its fields, with errors that name file, line, field."""

    def __init__(self, values: Mapping[str, Any], path: Path, line: int | None) -> None:
        self.values, self.path, self.line = values, path, line

    def refuse(self, message: str) -> NoReturn:
        """Raises the error for this row."""
        raise DataError(message, path=str(self.path), line=self.line)

    def only(self, *names: str) -> None:
        """Refuses a field nobody will read: most often a misspelt one."""
        for name in self.values:
            if name not in names:
                self.refuse(f"unknown field {name!r}; known are {', '.join(names)}")

    def get(self, name: str, kind: type, default: Any = ...) -> Any:
        """The field's value, of exactly this type; without a default it must be there."""
        if name not in self.values:
            if default is ...:
                self.refuse(f"the field {name!r} is missing")
            return default
        value = self.values[name]
        if type(value) is not kind:
            wanted = {str: "text", int: "an integer", bool: "true or false", list: "a list"}
            self.refuse(f"{name!r} must be {wanted.get(kind, 'an object')}, found {_kind(value)}")
        return value

    def new(self, key: str, seen: Collection[str], what: str) -> None:
        """Refuses a key that was seen before: two rows under one id."""
        if key in seen:
            self.refuse(f"the {what} {key!r} stands twice")

    def id(self, name: str) -> str:
        """The field as an id: text, exactly as written."""
        if name not in self.values:
            self.refuse(f"the field {name!r} is missing")
        return self.as_id(self.values[name], name)

    def as_id(self, value: Any, name: str) -> str:
        """`value` if it can be an id: text that is not empty, not padded, without control marks."""
        if type(value) is not str:
            hint = ": put it in quotation marks" if type(value) is int else ""
            self.refuse(f"{name!r} holds the id {_kind(value)}; ids are text{hint}")
        if problem := id_problem(value):
            self.refuse(f"{name!r} holds the id {value!r}, which {problem}")
        return str(value)


def id_problem(value: str) -> str:
    """Why a text cannot be an id, or nothing.

    >>> id_problem("007"), id_problem(" 7")
    ('', 'begins or ends with white space')
    """
    if not value:
        return "is empty"
    if value != value.strip():
        return "begins or ends with white space"
    if any(ord(character) < 32 or ord(character) == 127 for character in value):
        return "holds a control character"
    return ""


def _kind(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return f"{type(value).__name__} {text[:40]}" + ("..." if len(text) > 40 else "")
