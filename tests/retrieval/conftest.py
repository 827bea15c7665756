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
        name="small",
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
            told = script.reply(self.command, self.path, body)
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
