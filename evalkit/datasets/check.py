"""The lint: what would make a labelled set's numbers mean something else than they say."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from evalkit.errors import LabelError
from evalkit.records import Chunk, LabelledSet, Query

FEW = 50  # answerable questions under which a mean says little; Mixpeek's bound
KIOKU_QUERIES = 20  # Kioku's own lint: at least so many queries, and one probe


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing the lint found; an error forbids evaluation, a warning travels with its numbers."""

    level: Literal["error", "warning"]
    message: str
    query_id: str = ""

    def __str__(self) -> str:
        return f"{self.level}: {self.message}"


def check(labelled: LabelledSet, chunks: Sequence[Chunk]) -> list[Finding]:
    """Everything found in a set and the chunks cut from its documents, errors first.

    `chunks` are all chunks of the source documents, eligible or not: the judgments are checked
    against the source and never against what a retriever returned, so that a chunk missing from
    a collection lowers recall instead of vanishing from its denominator. Sets without documents
    (a run file's judgments, grading by a field) are checked in themselves only.
    """
    findings = [*_check_set(labelled), *_check_corpus(labelled, chunks)]
    for query in labelled.queries:
        findings += _check_query(labelled, query)
    if chunks and not labelled.relevance_field:
        findings += _check_identities(labelled, chunks)
    findings += [*_check_texts(labelled.queries), *_check_splits(labelled.queries)]
    return sorted(findings, key=lambda finding: finding.level)


def refuse_errors(labelled: LabelledSet, chunks: Sequence[Chunk]) -> list[Finding]:
    """The warnings of `check`; its errors are raised together, the first five in words."""
    findings = check(labelled, chunks)
    errors = [finding for finding in findings if finding.level == "error"]
    if errors:
        shown = "".join(f"\n  {finding.message}" for finding in errors[:5])
        more = f"\n  and {len(errors) - 5} more" if len(errors) > 5 else ""
        raise LabelError(
            f"the set {labelled.name!r} cannot be evaluated ({len(errors)} errors):{shown}{more}"
        )
    return findings


def near_matches(ids: Iterable[str], others: Collection[str]) -> list[tuple[str, str]]:
    """Pairs that differ only in case, white space, Unicode form or leading zeros.

    Only ids without an exact partner are looked at: such a pair is most often one thing
    written in two ways, and a join on it finds nothing without saying so.

    >>> near_matches(["Q7", "q8"], ["q007", "q8"])
    [('Q7', 'q007')]
    """
    exact = set(others)
    alone = [key for key in dict.fromkeys(ids) if key not in exact]
    loose = {_loosely(other): other for other in others} if alone else {}
    return [(key, loose[_loosely(key)]) for key in alone if _loosely(key) in loose]


def _loosely(key: str) -> str:
    folded = "".join(unicodedata.normalize("NFKC", key).casefold().split())
    return re.sub(r"(?<!\d)0+(?=\d)", "", folded)


def _check_set(labelled: LabelledSet) -> Iterator[Finding]:
    for what, ids in (
        ("document", [document.document_id for document in labelled.documents]),
        ("query", [query.query_id for query in labelled.queries]),
    ):
        for key in _twice(ids):
            yield Finding("error", f"the {what} {key!r} stands twice")
    scored = [query for query in labelled.queries if query.answerable]
    if not scored:
        yield Finding("error", "no answerable question: there is nothing to score")
    elif len(scored) < FEW:
        yield Finding("warning", f"{len(scored)} answerable questions, fewer than {FEW}: a mean "
                      "over so few moves with every one of them")  # fmt: skip
    if labelled.form == "kioku" and len(labelled.queries) < KIOKU_QUERIES:
        few = len(labelled.queries)
        yield Finding("error", f"{few} queries; a golden set needs {KIOKU_QUERIES}")
    if labelled.form == "kioku" and len(scored) == len(labelled.queries):
        yield Finding("error", "no probe: a golden set needs a query with an empty 'relevant' list")


def _check_corpus(labelled: LabelledSet, chunks: Sequence[Chunk]) -> Iterator[Finding]:
    if not labelled.documents:
        yield Finding("warning", "no documents: judgments cannot be checked against a corpus")
        return
    identities = Counter((chunk.doc_id, chunk.chunk_id) for chunk in chunks)
    for key in [doc_id for (doc_id, _), count in identities.items() if count > 1]:
        yield Finding("error", f"the chunk {key!r} stands twice")
    if not any(labelled.is_eligible(chunk.fields) for chunk in chunks):
        wanted = dict(labelled.eligibility)
        yield Finding("error", f"no chunk is eligible: none has the fields {wanted}")


def _check_query(labelled: LabelledSet, query: Query) -> Iterator[Finding]:
    name, lowest, highest = query.query_id, labelled.lowest_grade, labelled.highest_grade
    relevant = _relevant(labelled, query)
    for key, grade in query.grades.items():
        if not lowest <= grade <= highest:
            found = f"{name!r}: the grade {grade} of {key!r} is off the scale {lowest}..{highest}"
            yield Finding("error", found, name)
    if query.answerable and not relevant:
        found = f"{name!r} is answerable, but no chunk is judged relevant to it"
        yield Finding("error", f"{found}; judge one, or mark it unsupported", name)
    if not query.answerable and (relevant or query.requirements):
        found = f"{name!r} is unsupported, but has relevant chunks or requirements"
        yield Finding("error", f"{found}; one of the two is wrong", name)
    for needed in query.requirements:
        if not needed.any_of or _twice(needed.any_of):
            found = f"{name!r}: the requirement {needed.fact!r} lists no chunk, or one twice"
            yield Finding("error", found, name)
        for key in needed.any_of:
            if query.answerable and key not in relevant:
                found = f"{name!r}: {key!r} satisfies {needed.fact!r} but is not judged relevant"
                yield Finding("error", found, name)
    if not query.category:
        yield Finding("warning", f"{name!r} has no category: it will stand under none", name)


def _check_identities(labelled: LabelledSet, chunks: Sequence[Chunk]) -> Iterator[Finding]:
    units = {chunk.doc_id: chunk for chunk in chunks}
    siblings: defaultdict[str, list[str]] = defaultdict(list)
    for chunk in chunks:
        siblings[chunk.document_id].append(chunk.chunk_id)
    near = dict(near_matches((key for query in labelled.queries for key in query.grades), units))
    for query in labelled.queries:
        relevant = _relevant(labelled, query)
        for key in query.grades:
            found, document = "", key.partition("#")[0]
            if key in near:
                found = f"judges {key!r}, which does not exist; did you mean {near[key]!r}?"
            elif key not in units:
                has = f"; {document!r} has the chunks {', '.join(siblings[document])}"
                found = f"judges {key!r}, which does not exist" + has * (document in siblings)
            elif key in relevant and not labelled.is_eligible(units[key].fields):
                wanted = dict(labelled.eligibility)
                found = f"judges {key!r} relevant, but it is not eligible (that takes {wanted})"
            if found:
                yield Finding("error", f"{query.query_id!r} {found}", query.query_id)


def _check_texts(queries: Sequence[Query]) -> Iterator[Finding]:
    same: defaultdict[str, list[Query]] = defaultdict(list)
    for query in queries:
        if query.text.strip():
            same[" ".join(query.text.casefold().split())].append(query)
    for group in (group for group in same.values() if len(group) > 1):
        names = ", ".join(query.query_id for query in group)
        yield Finding("warning", f"{names} ask the same: {group[0].text!r}", group[0].query_id)
        if len({query.split for query in group}) > 1:
            found = f"{names} ask the same in different splits: held-out is then not held out"
            yield Finding("error", found, group[0].query_id)
        if len({query.answerable for query in group}) > 1:
            found = (
                f"{names} ask the same, once answerable and once unsupported: one label is wrong"
            )
            yield Finding("warning", found, group[0].query_id)


def _check_splits(queries: Sequence[Query]) -> Iterator[Finding]:
    splits: defaultdict[str, set[str]] = defaultdict(set)
    for query in queries:
        if query.topic:
            splits[query.topic].add(query.split)
    for topic, found in splits.items():
        if len(found) > 1:
            sides = " and ".join(sorted(split or "(none)" for split in found))
            yield Finding("error", f"the topic {topic!r} crosses splits ({sides}): paraphrases of "
                          "one need must stay on one side")  # fmt: skip
    named = {query.split for query in queries}
    if named == {"development"} or named == {"held-out"}:
        yield Finding("warning", f"all questions are in the split {named.pop()!r}: a threshold "
                      "chosen here cannot be reported elsewhere")  # fmt: skip
    elif "" in named and len(named) > 1:
        yield Finding("warning", "some questions have a split and some have none")


def _relevant(labelled: LabelledSet, query: Query) -> set[str]:
    return {key for key, grade in query.grades.items() if grade >= labelled.relevant_from}


def _twice(keys: Iterable[str]) -> list[str]:
    return [key for key, count in Counter(keys).items() if count > 1]
