"""The heading-aware splitting rule for notes: breadcrumbs, equal windows, small pieces merged.

Chunks of a note keep the note's own id as doc_id, so that judgments name notes and outlive any
change of the rule; a note's score is that of its best chunk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from evalkit.records import Chunk, Document

NOTES = "notes-headings-4000c-v1"
MOST_CHARACTERS = 4000

HEADING = re.compile(r"^(#{1,6})[ \t]+(.*?)[ \t]*(?:\{#([\w.-]+)\})?[ \t]*#*[ \t]*$")
FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")


def notes(document: Document, most: int = MOST_CHARACTERS) -> Iterator[Chunk]:
    """One chunk for a note up to `most` characters; else one a section, by its breadcrumb.

    A section that is longer is cut into equal windows; neighbours merge while the first is
    shorter than a quarter and both fit together. Joined in order, the chunks are the note.
    """
    name, title = document.document_id, document.title
    if len(document.text) <= most:
        yield Chunk(name, name, "c0", title, document.text, document.fields)
        return
    pieces = [
        (crumb, window) for crumb, text in breadcrumbs(document) for window in windows(text, most)
    ]
    for number, (crumb, text) in enumerate(merged(pieces, most)):
        yield Chunk(name, name, f"c{number}", crumb, text, document.fields)


def breadcrumbs(document: Document) -> Iterator[tuple[str, str]]:
    """(`Note > H1 > H2`, text with its heading line) in order; a first heading that repeats the
    note's name is not said twice.
    """
    stack: list[tuple[int, str]] = []
    lines: list[str] = []
    fence = ""

    def crumb() -> str:
        names = [text for _, text in stack]
        if names and names[0].casefold() == document.title.casefold():
            names = names[1:]
        return " > ".join([document.title, *names])

    for line in document.text.splitlines(keepends=True):
        if mark := FENCE.match(line):
            fence = mark[1][0] if not fence else "" if mark[1][0] == fence else fence
        if not fence and (found := HEADING.match(line.rstrip("\r\n"))):
            if lines:
                yield crumb(), "".join(lines)
            level = len(found[1])
            stack = [(other, text) for other, text in stack if other < level]
            stack.append((level, found[2]))
            lines = []
        lines.append(line)
    if lines:
        yield crumb(), "".join(lines)


def windows(text: str, most: int) -> list[str]:
    """The fewest windows of equal length, to a character, that hold the text.

    >>> windows("abcdefg", 3)
    ['abc', 'de', 'fg']
    """
    count = max(1, -(-len(text) // most))
    size, longer = divmod(len(text), count)
    cuts = [i * size + min(i, longer) for i in range(count + 1)]
    return [text[a:b] for a, b in pairwise(cuts)]


def merged(pieces: Sequence[tuple[str, str]], most: int) -> list[tuple[str, str]]:
    """Neighbours joined under the first breadcrumb while the buffer is under a quarter.

    >>> merged([("A", "x"), ("B", "yyyy"), ("C", "zzzzz")], most=8)
    [('A', 'xyyyy'), ('C', 'zzzzz')]
    """
    joined: list[tuple[str, str]] = []
    for crumb, text in pieces:
        if joined and len(joined[-1][1]) < most / 4 and len(joined[-1][1]) + len(text) <= most:
            joined[-1] = (joined[-1][0], joined[-1][1] + text)
        else:
            joined.append((crumb, text))
    return joined
