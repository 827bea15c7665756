"""Cuts documents into the passages that are indexed and judged.

A chunking's name states the splitting rule and its version, never the revision of the text:
the same name on the same document always gives the same chunks with the same ids.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from evalkit.errors import DataError, ParameterError
from evalkit.records import Chunk, ChunkKey, Document
from evalkit.retrieval.notes import FENCE, HEADING, NOTES, notes

WHOLE = "document"
SECTIONS = "section-paragraphs-80w-overlap1-v1"
MOST_WORDS = 80

ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s|^\s{2,}\S")


def cut(documents: Sequence[Document], chunking: str) -> list[Chunk]:
    """The chunks of all documents, in document order, under the named splitting rule.

    `document` keeps each document whole and its id unchanged. The section rule cuts at Markdown
    headings and packs whole paragraphs up to 80 words, each chunk beginning with the last
    paragraph of the one before where both fit. Two sections of one document with the same slug
    are refused: their chunks would be two texts under one identity.

    >>> note = Document("n", "Note", "# Note\\nFirst.\\n\\n## The end {#end}\\nLast.")
    >>> [(c.chunk_id, c.title, c.text) for c in cut([note], SECTIONS)]
    [('intro/p0', 'Note', 'First.'), ('end/p0', 'Note > The end', 'Last.')]
    """
    rule = RULES.get(chunking)
    if rule is None:
        raise ParameterError(f"unknown chunking {chunking!r}; known: {', '.join(sorted(RULES))}")
    chunks = [chunk for document in documents for chunk in rule(document)]
    seen: set[tuple[str, str]] = set()
    for chunk in chunks:
        key = (chunk.document_id, chunk.chunk_id)
        if key in seen:
            raise DataError(
                f"chunk {chunk.document_id}#{chunk.chunk_id} is cut twice; ids must be unique"
            )
        seen.add(key)
    return chunks


def evidence(chunk: Chunk) -> dict[str, str]:
    """A chunk as the payload stored beside its vector, and shown beside its score."""
    return {
        **chunk.fields,
        "doc_id": chunk.doc_id,
        "document_id": chunk.document_id,
        "chunk_id": chunk.chunk_id,
        "title": chunk.title,
        "text": chunk.text,
    }


def slug(heading: str) -> str:
    """A heading as an identifier: lower case, letters and digits, single dashes.

    >>> slug("What happens on *SIGTERM*?")
    'what-happens-on-sigterm'
    """
    return re.sub(r"[^\w]+", "-", heading.lower()).strip("-") or "section"


def paragraphs(text: str) -> list[str]:
    """Blocks between blank lines; a code fence is one block, and so is a list with its gaps."""
    blocks: list[list[str]] = []
    fence, gap = "", True
    for line in text.splitlines():
        mark = FENCE.match(line)
        if not fence and not line.strip():
            gap = True
            continue
        if gap and not (blocks and ITEM.match(line) and ITEM.match(blocks[-1][0])):
            blocks.append([])
        gap = False
        blocks[-1].append(line.rstrip())
        if mark and not fence:
            fence = mark[1]
        elif mark and fence and line.strip().startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
    return ["\n".join(block).strip("\n") for block in blocks]


def sections(document: Document) -> Iterator[tuple[str, str, str]]:
    """(slug, heading, text) per section; what precedes the first `##` is `intro`, heading ''."""
    name, heading, lines, fence = "intro", "", list[str](), ""
    seen = set[str]()
    for line in document.text.splitlines():
        mark = FENCE.match(line)
        if mark:
            fence = mark[1][0] if not fence else "" if mark[1][0] == fence else fence
        found = None if fence else HEADING.match(line)
        if not found:
            lines.append(line)
        elif len(found[1]) > 1 or found[3]:
            yield name, heading, "\n".join(lines)
            heading, lines = found[2], []
            name = found[3] or slug(heading)
            if name in seen:
                raise DataError(
                    f"document {document.document_id} has two sections {name!r}: "
                    f"give one of the headings its own id, as in '## {heading} {{#other-id}}'"
                )
            seen.add(name)
    yield name, heading, "\n".join(lines)


def packed(blocks: Sequence[str], most: int = MOST_WORDS) -> list[list[str]]:
    """Whole paragraphs packed to at most `most` words, overlapping by one where both fit.

    A paragraph longer than `most` is a chunk of its own: nothing is cut inside, nothing is lost.

    >>> packed(["a b", "c", "d e"], most=3)
    [['a b', 'c'], ['c', 'd e']]
    >>> packed(["a b", "c d", "e f g h"], most=3)
    [['a b'], ['c d'], ['e f g h']]
    """
    packs: list[list[str]] = []
    current: list[str] = []
    for block in blocks:
        size = len(block.split())
        if current and sum(len(b.split()) for b in current) + size > most:
            packs.append(current)
            last = current[-1]
            current = [last] if len(last.split()) + size <= most else []
        current = [*current, block]
    return [*packs, current] if current else packs


def _whole(document: Document) -> Iterator[Chunk]:
    name = document.document_id
    yield Chunk(name, name, "", document.title, document.text, document.fields)


def _section_paragraphs(document: Document) -> Iterator[Chunk]:
    for name, heading, text in sections(document):
        title = f"{document.title} > {heading}" if heading else document.title
        for number, pack in enumerate(packed(paragraphs(text))):
            key = ChunkKey(document.document_id, f"{name}/p{number}", SECTIONS)
            yield Chunk(
                str(key), key.document_id, key.chunk_id, title, "\n\n".join(pack), document.fields
            )


RULES: dict[str, Callable[[Document], Iterator[Chunk]]] = {
    WHOLE: _whole,
    SECTIONS: _section_paragraphs,
    NOTES: notes,
}
