"""One collection of Qdrant, in memory or on a server, read through one adapter for its errors."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from evalkit.errors import EmbeddingError, EngineUnavailableError, RetrievalError
from evalkit.retrieval.embedding import Vectors

T = TypeVar("T")
Found = tuple[dict[str, Any], float]  # payload with `doc_id` as text, score
Sparse = tuple[list[int], list[float]]  # numbers of words, and a weight for each

KEYWORD = "keyword"  # the sparse vector beside the dense one, for fusion inside the engine
FUSION_CONSTANT = 2  # Qdrant's own default; its ranks count from 0, less 1: so Rrf(61) is our 60

ATTEMPTS = 4
BACKOFF_S = 0.5  # doubles with every attempt
LONGEST_WAIT_S = 30.0  # however long a Retry-After asks for
MOST_REQUEST_BYTES = 8_000_000  # servers refuse requests above 32 MiB
MOST_HITS_A_REPLY = 1_000
PAGE = 1_000


@dataclass(frozen=True, slots=True)
class Fields:
    """Where a collection's payload keeps what a hit needs; dots reach into objects.

    `identity` '' takes the point's own id. `others` are fetched as evidence too.
    """

    identity: str = "doc_id"
    text: str = "text"
    title: str = "title"
    others: tuple[str, ...] = ()

    @property
    def wanted(self) -> list[str]:
        """The payload fields that are fetched, and no others."""
        names = (self.identity, self.text, self.title, *self.others)
        return list(dict.fromkeys(name for name in names if name))


def dig(payload: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path, or None.

    >>> dig({"meta": {"doc_id": "n1"}}, "meta.doc_id")
    'n1'
    """
    value: Any = payload
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def identity(value: Any) -> str | None:
    """A payload's identity as text: text as it is, a whole number as its digits, else None."""
    if isinstance(value, str) and value:
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass(slots=True)
class QdrantCollection:
    """A collection read with one filter; every field of `must` is matched inside Qdrant."""

    client: Any
    name: str
    dimension: int
    must: Mapping[str, str] = field(default_factory=dict)
    fields: Fields = Fields()
    using: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    scans: bool = False  # the engine in memory is exact by itself, and warns when told to be
    farther_is_more: bool = False  # a distance: its sign is turned, so that more is nearer

    def query(
        self, vectors: Vectors, k: int, *, exact: bool = False, above: float | None = None
    ) -> list[list[Found]]:
        """The k best points a vector, in the engine's order; `above` is its score_threshold.

        The engine keeps only what scores above it: a score equal to the threshold is dropped.
        """
        from qdrant_client import models

        threshold = -above if above is not None and self.farther_is_more else above

        def request(i: int) -> Any:
            return models.QueryRequest(
                query=vectors[i].tolist(),
                using=self.using,
                filter=self.filter(),
                limit=k,
                score_threshold=threshold,
                with_payload=self.fields.wanted or False,
                params=models.SearchParams(exact=True) if exact and not self.scans else None,
            )

        return self._answers(vectors, k, request)

    def fuse(
        self, vectors: Vectors, words: Sequence[Sparse], pool: int, weights: Sequence[float]
    ) -> list[list[Found]]:
        """All points of the best `pool` by words and by vector, fused by the engine's own RRF."""
        from qdrant_client import models

        def request(i: int) -> Any:
            sparse = models.SparseVector(indices=words[i][0], values=words[i][1])
            legs = [(sparse, KEYWORD, weights[0]), (vectors[i].tolist(), self.using, weights[1])]
            asked = legs if sparse.indices else legs[1:]  # no known word: no ranking by words
            own = [weight for *_, weight in asked] if set(weights) != {1.0} else None
            return models.QueryRequest(
                prefetch=[
                    models.Prefetch(query=query, using=using, filter=self.filter(), limit=pool)
                    for query, using, _ in asked
                ],
                query=models.RrfQuery(rrf=models.Rrf(k=FUSION_CONSTANT, weights=own)),
                limit=2 * pool,
                with_payload=self.fields.wanted or False,
            )

        return self._answers(vectors, 2 * pool, request)

    def _answers(
        self, vectors: Vectors, k: int, request: Callable[[int], Any]
    ) -> list[list[Found]]:
        """What comes back for each vector's request, asked in batches of bounded size."""
        if vectors.ndim != 2 or vectors.shape[1] != self.dimension:
            raise EmbeddingError(
                f"Query dimension mismatch: collection {self.name!r} holds vectors of "
                f"{self.dimension} numbers and the question has {vectors.shape[-1]}"
            )
        size = max(1, min(MOST_REQUEST_BYTES // (self.dimension * 12), MOST_HITS_A_REPLY // k))
        found: list[list[Found]] = []
        for start in range(0, len(vectors), size):
            requests = [request(i) for i in range(start, min(start + size, len(vectors)))]
            replies = self._ask(self.client.query_batch_points, requests)
            if len(replies) != len(requests):
                raise RetrievalError(
                    f"{len(requests)} questions got {len(replies)} answers from {self.name!r}"
                )
            found += [[self._found(point) for point in reply.points] for reply in replies]
        return found

    def filter(self) -> Any:
        """The filter as Qdrant takes it; None where nothing is asked."""
        from qdrant_client import models

        if not self.must:
            return None
        return models.Filter(
            must=[
                models.FieldCondition(key=name, match=models.MatchValue(value=value))
                for name, value in self.must.items()
            ]
        )

    def count(self, *, eligible: bool = False) -> int:
        """The exact number of points; the collection info's counter is an estimate."""
        chosen = self.filter() if eligible else None
        reply = self._ask(self.client.count, count_filter=chosen, exact=True)
        return int(reply.count)

    def points(
        self, *, vectors: bool = False, fields: Sequence[str] | None = None
    ) -> Iterator[Any]:
        """Every point, page by page until the engine has no next page."""
        offset: Any = None
        size = min(PAGE, max(1, MOST_REQUEST_BYTES // (self.dimension * 12)))
        while True:
            page, offset = self._ask(
                self.client.scroll,
                limit=size if vectors else PAGE,
                offset=offset,
                with_payload=True if fields is None else list(fields),
                with_vectors=vectors,
            )
            yield from page
            if offset is None:
                return

    def dense(self, point: Any) -> Any:
        """A point's own vector, which stands alone or, by name, beside others."""
        vector = point.vector
        return vector[self.using or ""] if isinstance(vector, Mapping) else vector

    def describe(self) -> dict[str, Any]:
        """Settings for an execution's manifest."""
        return {
            "collection": self.name,
            "filter": dict(self.must),
            "payload_fields": self.fields.wanted,
            "search_params": None,
            "vector_name": self.using or "",
            **self.settings,
        }

    def _found(self, point: Any) -> Found:
        payload = dict(point.payload or {})
        raw = dig(payload, self.fields.identity) if self.fields.identity else str(point.id)
        doc_id = identity(raw)
        if doc_id is None:
            raise RetrievalError(
                f"point {point.id} of {self.name!r} has no usable identity in payload field "
                f"{self.fields.identity!r} (found {raw!r}); name the field that holds it"
            )
        if point.score is None or not math.isfinite(point.score):
            raise RetrievalError(f"the score of {doc_id} in {self.name!r} is {point.score}")
        for name, path in (("text", self.fields.text), ("title", self.fields.title)):
            payload[name] = dig(payload, path) if path else ""
        score = -float(point.score) if self.farther_is_more else float(point.score)
        return payload | {"doc_id": doc_id}, score

    def _ask(self, request: Callable[..., Any], *args: Any, **options: Any) -> Any:
        call = partial(request, self.name, *args, **options)
        return patiently(call, f"collection {self.name!r}")


def patiently(request: Callable[[], T], subject: str) -> T:
    """The answer to one request, after a bounded number of attempts with growing waits.

    Only what may pass by itself is repeated: no connection, a time-out, 429, 502, 503, 504.
    """
    import tenacity

    def pause(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = float(getattr(error, "retry_after_s", 0.0) or 0.0)
        wait = max(asked, BACKOFF_S * 2.0 ** (state.attempt_number - 1))
        return min(wait, LONGEST_WAIT_S)

    def once() -> T:
        with answering(subject):
            return request()

    return tenacity.Retrying(
        stop=tenacity.stop_after_attempt(ATTEMPTS),
        wait=pause,
        retry=tenacity.retry_if_exception_type(EngineUnavailableError),
        reraise=True,
    )(once)


@contextmanager
def answering(subject: str) -> Iterator[None]:
    """Turns each way in which the client reports a failure into one sentence of ours."""
    from pydantic import ValidationError
    from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    try:
        yield
    except ResourceExhaustedResponse as error:
        busy = EngineUnavailableError(f"Qdrant is busy (429) for {subject}: {error}")
        busy.retry_after_s = error.retry_after_s  # type: ignore[attr-defined]
        raise busy from error
    except UnexpectedResponse as error:
        raise _refused(error, subject) from error
    except ResponseHandlingException as error:
        if isinstance(error.source, json.JSONDecodeError | ValidationError):
            raise RetrievalError(f"unexpected answer from Qdrant for {subject}: {error}") from error
        raise EngineUnavailableError(
            f"Qdrant did not answer for {subject}: {error}. Start it, or unset QDRANT_URL to use "
            "the engine inside this process"
        ) from error
    except (json.JSONDecodeError, AssertionError, ValidationError) as error:
        raise RetrievalError(
            f"unexpected answer from Qdrant for {subject}: {type(error).__name__}: {error}. "
            "Is QDRANT_URL a Qdrant server, and not a proxy's page?"
        ) from error
    except ValueError as error:  # the in-memory engine's refusals
        raise RetrievalError(f"Qdrant refused the request for {subject}: {error}") from error
    except Exception as error:
        if type(error).__module__.startswith("grpc"):
            raise _grpc(error, subject) from error
        raise


def _refused(error: Any, subject: str) -> RetrievalError:
    try:
        said = json.loads(error.content)["status"]["error"]
    except (ValueError, KeyError, TypeError):
        said = (error.content or b"").decode("utf-8", "replace")[:200]
    message = f"Qdrant answered {error.status_code} for {subject}: {said}"
    if error.status_code in (429, 502, 503, 504):
        return EngineUnavailableError(message)
    cure = {401: ". Check QDRANT_API_KEY", 403: ". Check QDRANT_API_KEY"}.get(error.status_code, "")
    if "Index required" in said:
        cure = ". Create a payload index for that field, or evaluate without it"
    return RetrievalError(message + cure)


def _grpc(error: Any, subject: str) -> RetrievalError:
    code = error.code().name if hasattr(error, "code") else type(error).__name__
    details = error.details() if hasattr(error, "details") else str(error)
    message = f"Qdrant answered {code} for {subject}: {details}"
    if code in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"):
        return EngineUnavailableError(message)
    return RetrievalError(message)
