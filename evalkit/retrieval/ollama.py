"""Embeddings from an Ollama server, in batches, with every reply checked."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from evalkit.errors import EmbeddingError, EngineUnavailableError
from evalkit.retrieval.embedded import known_profile
from evalkit.retrieval.embedding import (
    EmbedderSpec,
    UnembeddableTexts,
    Vectors,
    checked,
    parts,
    quoted,
)

CONNECT_S, READ_S = 5.0, 60.0  # the client itself would wait for ever
ATTEMPTS, BACKOFF_S = 4, 0.5
BATCH = 32
MOST_BATCH_CHARACTERS = 200_000
OF_ONE_TEXT = ("NaN", "input length", "context length")  # refusals that one text has caused


class OllamaEmbedder:
    """A model of an Ollama server (OLLAMA_HOST), by `/api/embed` with truncation off.

    The digest of the weights comes from the server's list of models, the dimension from one
    probe, the prompts from the model's family.
    """

    def __init__(self, model: str) -> None:
        import httpx
        import ollama

        self.model = model
        # userinfo in the address is used to connect and never shown
        self.host = os.environ.get("OLLAMA_HOST", "").rpartition("@")[2] or "127.0.0.1:11434"
        self._client = ollama.Client(timeout=httpx.Timeout(READ_S, connect=CONNECT_S))
        weakref.finalize(self, self._client.close)
        digest = self._digest()
        self.dimension = len(self._rows(["probe"])[0])
        self.spec = EmbedderSpec(
            f"ollama:{model}", self.dimension, digest, profile=known_profile(model)
        )

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Rows for prompted texts; a text the model cannot take is found and named."""
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        reasons: dict[int, str] = {}
        for batch in parts([len(text) for text in texts], BATCH, MOST_BATCH_CHARACTERS):
            self._fill(texts, batch, vectors, reasons)
        if reasons:
            raise UnembeddableTexts(reasons, texts, vectors)
        return vectors

    def overlong(self, texts: Sequence[str]) -> list[int]:
        """None: with truncation off a text that is too long is an error instead."""
        return []

    def _fill(
        self, texts: Sequence[str], batch: range, vectors: Vectors, reasons: dict[int, str]
    ) -> None:
        """Embeds one batch; halves it while one bad text spoils the reply for all."""
        chosen = [texts[i] for i in batch]
        try:
            vectors[batch.start : batch.stop] = checked(self._rows(chosen), chosen, self.dimension)
        except UnembeddableTexts as error:
            vectors[batch.start : batch.stop] = error.vectors
            reasons.update({batch.start + i: why for i, why in error.reasons.items()})
        except _RefusedText as error:
            if len(batch) == 1:
                reasons[batch.start] = str(error)
                return
            middle = (batch.start + batch.stop) // 2
            for half in (range(batch.start, middle), range(middle, batch.stop)):
                self._fill(texts, half, vectors, reasons)

    def _digest(self) -> str:
        models = self._ask(self._client.list).models
        wanted = {self.model, f"{self.model}:latest"}
        for model in models:
            if model.model in wanted and model.digest:
                return str(model.digest)
        there = ", ".join(sorted(str(model.model) for model in models)) or "none"
        raise EngineUnavailableError(
            f"Ollama at {self.host} has no model {self.model!r} (it has: {there}); "
            f"run: ollama pull {self.model}"
        )

    def _rows(self, texts: Sequence[str]) -> list[Sequence[float]]:
        reply = self._ask(self._client.embed, model=self.model, input=list(texts), truncate=False)
        rows = list(reply.embeddings)
        if not rows or not len(rows[0]):
            raise EmbeddingError(
                f"Ollama answered {len(rows)} vectors for {len(texts)} texts of {self.model!r}; "
                f"the first text is {quoted(texts[0])}"
            )
        return rows

    def _ask(self, request: Any, **options: Any) -> Any:
        import httpx
        import ollama
        import tenacity
        from pydantic import ValidationError

        passing = (ConnectionError, httpx.TransportError, _Busy)

        def once() -> Any:
            try:
                return request(**options)
            except ollama.ResponseError as error:
                raise self._meaning(error) from error

        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(ATTEMPTS),
            wait=tenacity.wait_exponential(multiplier=BACKOFF_S, max=8),
            retry=tenacity.retry_if_exception(
                lambda error: (
                    isinstance(error, passing)
                    and not isinstance(error, httpx.ReadTimeout | httpx.WriteTimeout)
                )
            ),
            reraise=True,
        )
        try:
            return retrying(once)
        except httpx.TimeoutException as error:
            raise EngineUnavailableError(
                f"Ollama at {self.host} did not answer before the timeout ({CONNECT_S:g} s to "
                f"connect, {READ_S:g} s to answer)"
            ) from error
        except (ConnectionError, httpx.TransportError) as error:
            raise EngineUnavailableError(
                f"Ollama at {self.host} cannot be reached ({type(error).__name__}): is it running? "
                "Start it with: ollama serve"
            ) from error
        except (json.JSONDecodeError, ValidationError) as error:
            raise EmbeddingError(
                f"unexpected answer from {self.host}, {type(error).__name__}: is OLLAMA_HOST an "
                "Ollama server, and its reply numbers only?"
            ) from error

    def _meaning(self, error: Any) -> Exception:
        said = str(error.error)
        if any(sign in said for sign in OF_ONE_TEXT):
            return _RefusedText(said)
        message = f"Ollama at {self.host} answered {error.status_code}: {said[:200]}"
        if error.status_code == 404:
            return EngineUnavailableError(f"{message}; run: ollama pull {self.model}")
        if error.status_code in (429, 502, 503, 504):
            return _Busy(message)
        return EmbeddingError(message)


class _RefusedText(EmbeddingError):
    """The server refused a batch because of what is in one of its texts."""


class _Busy(EngineUnavailableError):
    """The server, or a proxy before it, may answer later."""
