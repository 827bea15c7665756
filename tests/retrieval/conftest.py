"""A small set every test of this room can index in milliseconds."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from evalkit.records import Chunk, Document, LabelledSet
from evalkit.retrieval.chunking import SECTIONS, cut

TEST_SET = "evalkit-test"  # what live tests leave on a server begins so, and is removed
DOCUMENTS = (
    ("worker", "Worker", "runbook", "published", "## Drain {#drain}\nThe worker drains its queue."),
    ("retry", "Retry", "runbook", "published", "## Budget {#budget}\nRetries have a small budget."),
    (
        "pool",
        "Pool",
        "runbook",
        "published",
        "## Handlers {#handlers}\nThe factory pools handlers.",
    ),
    ("plan", "Plan", "runbook", "draft", "## Drain {#drain}\nThe worker drains its queue soon."),
    ("memo", "Memo", "note", "published", "## Drain {#drain}\nThe worker queue was drained."),
)


@pytest.fixture
def labelled() -> LabelledSet:
    """Five documents, three of them eligible."""
    documents = tuple(
        Document(name, title, text, {"document_type": kind, "publication_state": state})
        for name, title, kind, state, text in DOCUMENTS
    )
    return LabelledSet(
        name=TEST_SET,
        version="1",
        documents=documents,
        queries=(),
        chunking=SECTIONS,
        highest_grade=2,
        language="en",
        eligibility={"document_type": "runbook", "publication_state": "published"},
    )


@pytest.fixture
def chunks(labelled: LabelledSet) -> list[Chunk]:
    """One chunk a document."""
    return cut(labelled.documents, SECTIONS)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The folder that holds collections and cache."""
    return tmp_path / "outputs"


@dataclass
class Scripted:
    """A server on loopback that answers from a script and remembers what it was sent.

    `reply(method, path, body)` gives a status and a body (bytes, or a value sent as JSON), or
    one of the words `drop` (close without a reply), `cut` (half a reply), `stall` (no reply
    until the test ends). A third element adds headers.
    """

    reply: Callable[[str, str, Any], Any] = lambda *_: (404, {})
    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    largest: int = 0
    ended: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def paths(self, part: str) -> list[Any]:
        """Bodies of the requests whose path holds `part`."""
        return [body for _, path, body in self.asked if part in path]


@pytest.fixture
def server() -> Iterator[Scripted]:
    """A scripted HTTP server that lives for one test."""
    script = Scripted()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def answer(self) -> None:
            sent = self.rfile.read(int(self.headers.get("content-length") or 0))
            body = json.loads(sent) if sent else None
            script.asked.append((self.command, self.path, body))
            script.headers.append({k.lower(): v for k, v in self.headers.items()})
            script.largest = max(script.largest, len(sent))
            try:
                told = script.reply(self.command, self.path, body)
            except Exception as error:  # a mistake in the script shows in the test's own message
                told = (500, {"status": {"error": f"the script failed: {error!r}"}})
            if told == "stall":
                script.ended.wait(30)
            if told in ("stall", "drop"):
                self.close_connection = True
                return
            status, value, *more = (200, b'{"result":') if told == "cut" else told
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data) + (100 if told == "cut" else 0)))
            for name, text in (more[0] if more else {}).items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(data)
            self.close_connection = told == "cut"

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = answer

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # clients that gave up are what these tests are about

    running = Quiet(("127.0.0.1", 0), Handler)
    script.port = running.server_port
    thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield script
    script.ended.set()
    running.shutdown()
    running.server_close()
    thread.join()


def case(kind: str, name: str) -> dict[str, Any]:
    """One stored case by kind and id."""
    path = Path(__file__).parents[1] / "data" / "cases" / kind / f"{name}.json"
    loaded: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return loaded


@pytest.fixture
def load_case() -> Callable[[str, str], dict[str, Any]]:
    """Reads one stored case by kind and id."""
    return case


class SmallQdrant:
    """Qdrant's wire format for the requests of this room, the in-memory engine behind it.

    `fault(method, path, body)` may answer in its place; None lets the engine answer.
    """

    def __init__(self, fault: Callable[[str, str, Any], Any] | None = None) -> None:
        from qdrant_client import QdrantClient

        self.fault, self.engine = fault, QdrantClient(":memory:")

    def reply(self, method: str, path: str, body: Any) -> Any:
        """The answer to one request, a refusal of the engine as 404."""
        if self.fault and (told := self.fault(method, path, body)) is not None:
            return told
        parts = path.partition("?")[0].strip("/").split("/", 2)
        try:
            value = (
                self.listing(parts, body)
                if len(parts) == 1 or parts[1] == "aliases"
                else (
                    self.collection(method, parts[1], body)
                    if len(parts) == 2
                    else self.points(method, parts[1], parts[2], body)
                )
            )
        except ValueError as error:
            return 404, {"status": {"error": str(error)}, "time": 0}
        return 200, {"result": plain(value), "status": "ok", "time": 0}

    def listing(self, parts: list[str], body: Any) -> Any:
        from qdrant_client import models

        if parts == ["collections"]:
            return self.engine.get_collections()
        if parts == ["aliases"]:
            return self.engine.get_aliases()
        asked = models.ChangeAliasesOperation.model_validate(body)
        return self.engine.update_collection_aliases(asked.actions)

    def collection(self, method: str, name: str, body: Any) -> Any:
        from qdrant_client import models

        if method == "GET":
            return self.engine.get_collection(name)
        if method == "DELETE":
            return self.engine.delete_collection(name)
        asked = models.CreateCollection.model_validate(body)
        return self.engine.create_collection(
            name,
            vectors_config=asked.vectors,
            sparse_vectors_config=asked.sparse_vectors,
            metadata=body.get("metadata"),
        )

    def points(self, method: str, name: str, rest: str, body: Any) -> Any:
        from qdrant_client import models

        if rest == "index":
            return models.UpdateResult(operation_id=1, status=models.UpdateStatus.COMPLETED)
        if rest == "points" and method == "PUT":
            return self.engine.upsert(name, models.Batch.model_validate(body["batch"]))
        if rest == "points/count":
            chosen = body.get("filter") and models.Filter.model_validate(body["filter"])
            return self.engine.count(name, count_filter=chosen, exact=body.get("exact", False))
        if rest == "points/scroll":
            page, offset = self.engine.scroll(
                name,
                limit=body.get("limit", 10),
                offset=body.get("offset"),
                with_payload=body.get("with_payload", True),
                with_vectors=body.get("with_vector", False),
            )
            return {"points": page, "next_page_offset": offset}
        asked = [models.QueryRequest.model_validate(search) for search in body["searches"]]
        return self.engine.query_batch_points(name, asked)


def plain(value: Any) -> Any:
    """A client's answer as JSON values."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value


@pytest.fixture
def as_qdrant(server: Scripted, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Starts the small Qdrant, with QDRANT_URL naming it and no waiting between attempts."""
    from evalkit.retrieval import qdrant

    monkeypatch.setattr(qdrant, "BACKOFF_S", 0.0)
    monkeypatch.setenv("QDRANT_URL", server.url)
    monkeypatch.delenv("QDRANT_API_KEY", raising=False)

    def start(fault: Callable[[str, str, Any], Any] | None = None) -> Any:
        small = SmallQdrant(fault)
        server.reply = small.reply
        return small.engine

    return start


ENGINES = ("memory", "edge", "server", pytest.param("live", marks=pytest.mark.live))


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, use_engine: Callable[[str], None]) -> str:
    """Every engine behind the seam, one after the other; `live` is the caller's own server."""
    use_engine(str(request.param))
    return str(request.param)


@pytest.fixture
def use_engine(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    live: Callable[[str], str],
) -> Iterator[Callable[[str], None]]:
    """Moves this test to an engine by name."""
    used: list[str] = []

    def use(name: str) -> None:
        used.append(name)
        if name == "memory":
            monkeypatch.delenv("QDRANT_URL", raising=False)
        elif name == "edge":
            pytest.importorskip("qdrant_edge", reason="the extra qdrant-edge-py is not installed")
            monkeypatch.setenv("QDRANT_URL", f"edge:{tmp_path / 'edge'}")
        elif name == "server":
            request.getfixturevalue("as_qdrant")()
        else:
            live("QDRANT_URL")

    yield use
    if "live" in used:
        from evalkit.retrieval import server

        client = server.connect(live("QDRANT_URL"))
        for alias in client.get_aliases().aliases:
            if alias.alias_name.startswith(TEST_SET):
                client.delete_collection(alias.collection_name)
