"""TREC topics, and topics with judgments as a labelled set."""

from __future__ import annotations

import re
from pathlib import Path

from evalkit.datasets.native import judged_whole
from evalkit.datasets.parsing import Row, read_lines
from evalkit.datasets.trec import read_qrels
from evalkit.errors import DataError
from evalkit.records import LabelledSet, Query


def read_topics(path: Path) -> dict[str, str]:
    """Topics by id: lines `id TAB text`, or the <top> blocks of TREC with <num> and <title>."""
    lines = list(read_lines(path))
    if any("<top>" in line.lower() for _, line in lines):
        return _read_top_blocks(path, lines)
    topics: dict[str, str] = {}
    for line, text in lines:
        row = Row({}, path, line)
        name, tab, words = text.partition("\t")
        if not tab or not words.strip():
            row.refuse("expected a topic id, a tab and the topic's text")
        row.new(row.as_id(name, "topic id"), topics, "topic")
        topics[name] = words.strip()
    return topics


def read_trec_set(topics: Path, qrels: Path) -> LabelledSet:
    """Topics and judgments as a labelled set without documents.

    Topics that were never judged are left out, as every TREC evaluation does; a topic all of
    whose judgments are below 1 counts as unsupported.
    """
    texts, judged = read_topics(topics), read_qrels(qrels)
    for query in judged:
        if query not in texts:
            raise DataError(f"judges the topic {query!r}, which {topics} lacks", path=str(qrels))
    queries = [
        Query(name, text, any(grade > 0 for grade in judged[name].values()), grades=judged[name])
        for name, text in texts.items()
        if name in judged
    ]
    return judged_whole(topics.resolve().parent.name, "trec", (), queries)


def _read_top_blocks(path: Path, lines: list[tuple[int, str]]) -> dict[str, str]:
    topics: dict[str, str] = {}
    row, name, words, within = Row({}, path, None), "", list[str](), ""
    for line, text in [*lines, (lines[-1][0], "</top>")]:
        tag = re.match(r"\s*<(/?\w+)>\s*(?:Number:|Topic:)?\s*(.*)", text, re.IGNORECASE)
        within, rest = (tag[1].lower(), tag[2]) if tag else (within, text)
        rest = re.sub(r"</\w+>", "", rest).strip()
        if tag and within == "num":
            row, name, words = Row({}, path, line), rest, []
        elif within == "title" and rest:
            words.append(rest)
        elif within == "/top" and name:
            row.new(row.as_id(name, "num"), topics, "topic")
            if not words:
                row.refuse(f"the topic {name!r} has no title")
            topics[name], name = " ".join(words), ""
    return topics
