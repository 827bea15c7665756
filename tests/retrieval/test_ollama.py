"""Ollama over real sockets: batches, bounded waits, every reply checked, bad texts named."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import EmbeddingError, EngineUnavailableError, RetrievalError
from evalkit.records import Chunk, LabelledSet
from evalkit.retrieval import index, ollama, open_embedder, open_retrievers
from evalkit.retrieval.collection import same_direction
from evalkit.retrieval.ollama import OllamaEmbedder

MODEL = "embeddinggemma:300m"
Case = Callable[[str, str], dict[str, Any]]


def speaking(embed: Callable[[list[str]], Any], digest: str = "abc", model: str = MODEL) -> Any:
    """A script for a server that has one model; `embed` answers all but the probe."""

    def reply(method: str, path: str, body: Any) -> Any:
        if path == "/api/tags":
            return 200, {"models": [{"model": model, "name": model, "digest": digest}]}
        if body["input"] == ["probe"]:
            return 200, {"embeddings": [[1, 0]]}
        return embed(body["input"])

    return reply


def fine(texts: list[str]) -> Any:
    return 200, {"embeddings": [[len(text), 1] for text in texts]}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, server: Any) -> None:
    monkeypatch.setattr(ollama, "BACKOFF_S", 0.0)
    monkeypatch.setenv("OLLAMA_HOST", server.url)


def test_texts_go_in_batches_untruncated_and_in_order(server: Any) -> None:
    """70 texts are three requests of at most 32, none truncated, rows in order."""
    server.reply = speaking(fine)
    texts = ["x" * (i + 1) for i in range(70)]
    rows = OllamaEmbedder(MODEL).embed(texts)
    assert rows[:, 0].tolist() == [len(text) for text in texts]
    sent = [body for body in server.paths("/api/embed") if body["input"] != ["probe"]]
    assert [len(body["input"]) for body in sent] == [32, 32, 6]
    assert all(body["truncate"] is False for body in sent)


def test_prompts_are_put_around_questions_and_documents(server: Any) -> None:
    """EmbeddingGemma's own prompts reach the server; an untitled chunk says none (A10)."""
    server.reply = speaking(fine)
    embedder = open_embedder(f"ollama:{MODEL}", cache=None)
    embedder.questions(["why?"])
    embedder.documents([Chunk("a", "a", "", "T", "x"), Chunk("b", "b", "", "", "y")])
    sent = [text for body in server.paths("/api/embed") for text in body["input"]]
    assert set(sent[1:]) == {
        "task: search result | query: why?",
        "title: T | text: x",
        "title: none | text: y",
    }


def test_the_prefix_is_used_once_and_recorded(server: Any, load_case: Case) -> None:
    """Case ollama-task-prefixes."""
    given = load_case("ollama", "ollama-task-prefixes")
    model = given["input"]["model"]
    server.reply = speaking(fine, model=model)
    embedder = open_embedder(f"ollama:{model}", cache=None)
    embedder.questions([*given["input"]["queries"], "search_query: fox"])
    sent = [body["input"] for body in server.paths("/api/embed")][1:]
    assert sent == [given["expected"]["request_input"]]  # both are the same text, sent once
    assert embedder.spec.describe()["profile"]["question"] == "search_query: {text}"


@pytest.mark.parametrize(
    "reply", ["two", "none", "empty", "ragged", "four", "missing_field", "html"]
)
def test_a_wrong_number_of_vectors_is_refused(reply: str, server: Any, load_case: Case) -> None:
    """Case ollama-wrong-number-of-vectors: every reply is an error; counts are named."""
    given = load_case("ollama", "ollama-wrong-number-of-vectors")
    value = given["input"]["replies"][reply]
    data = value.encode() if isinstance(value, str) else value
    server.reply = speaking(lambda _: (200, data))
    with pytest.raises(EmbeddingError) as raised:
        OllamaEmbedder(MODEL).embed(given["input"]["texts"])
    for part in given["expected"].get(reply, {}).get("message_must_name", []):
        assert part in str(raised.value)


def test_one_text_that_makes_nan_is_found_by_halving(server: Any, load_case: Case) -> None:
    """Case ollama-nan-vectors, status 500: 'cursed' has no vector, the others have (C07)."""
    given = load_case("ollama", "ollama-nan-vectors")
    told = given["input"]["replies"]["status_500"]
    server.reply = speaking(
        lambda texts: (told["status"], told["body"]) if "cursed" in texts else fine(texts)
    )
    embedder = open_embedder(f"ollama:{MODEL}", cache=None)
    vectors, reasons = embedder.embed(given["input"]["texts"])
    failed = [given["input"]["texts"][i] for i in reasons]
    assert failed == given["expected"]["status_500"]["failed"]
    assert vectors[:, 1].tolist() == [1, 0, 1] and "NaN" in reasons[1]


@pytest.mark.parametrize("reply", ["nan_in_body", "zero"])
def test_a_nan_or_zero_vector_is_refused(reply: str, server: Any, load_case: Case) -> None:
    """Case ollama-nan-vectors: the text is named and its vector goes nowhere."""
    given = load_case("ollama", "ollama-nan-vectors")
    value = given["input"]["replies"][reply]
    data = value.encode() if isinstance(value, str) else value
    server.reply = speaking(lambda _: (200, data))
    with pytest.raises(EmbeddingError) as raised:
        OllamaEmbedder(MODEL).embed(given["input"]["texts"])
    for part in given["expected"][reply].get("message_must_name", []):
        assert part in str(raised.value)


def test_a_null_in_a_vector_is_refused(server: Any) -> None:
    """The client's own ValidationError becomes one sentence (observed with ollama 0.6.3)."""
    server.reply = speaking(lambda _: (200, b'{"embeddings": [[null, 1]]}'))
    with pytest.raises(EmbeddingError, match="unexpected answer"):
        OllamaEmbedder(MODEL).embed(["a"])


def test_a_text_that_is_too_long_is_named(server: Any, load_case: Case) -> None:
    """Case ollama-silent-truncation: truncation is off, and the refusal names text and length."""
    given = load_case("ollama", "ollama-silent-truncation")
    (long,) = given["input"]["texts"]
    told = given["input"]["reply_when_truncate_false"]
    server.reply = speaking(
        lambda texts: (told["status"], told["body"]) if long in texts else fine(texts)
    )
    with pytest.raises(
        EmbeddingError, match=rf"'x x x.*\({len(long)} characters\).*context length"
    ):
        OllamaEmbedder(MODEL).embed(["short", long])
    assert all(body["truncate"] is False for body in server.paths("/api/embed"))


def test_another_dimension_stops_before_the_first_question(
    server: Any, load_case: Case, labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """Case ollama-dimension-mismatch: one probe, then both dimensions, model and collection."""
    given = load_case("ollama", "ollama-dimension-mismatch")
    size = given["input"]["collection"]["size"]
    server.reply = lambda m, path, body: (
        speaking(fine)(m, path, body)
        if path == "/api/tags"
        else (200, {"embeddings": [[1] * size] * len(body["input"])})
    )
    index(labelled, chunks, f"ollama:{MODEL}", store)
    server.asked.clear()
    now = given["input"]["embedding_vector_length"]
    server.reply = lambda m, path, body: (
        speaking(fine)(m, path, body)
        if path == "/api/tags"
        else (200, {"embeddings": [[1] * now] * len(body["input"])})
    )
    with pytest.raises(RetrievalError) as raised:
        open_retrievers(["semantic"], labelled, chunks, f"ollama:{MODEL}", store)
    for part in (str(size), str(now), MODEL, "evalkit-test-ollama-embeddinggemma-300m"):
        assert part in str(raised.value)
    assert len(server.paths("/api/embed")) <= given["expected"]["embed_requests_made_at_most"]


def test_changed_weights_are_never_mixed(
    server: Any, labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """Same model name, other digest: the collection is refused and nothing comes from the cache."""
    server.reply = speaking(fine, digest="old")
    index(labelled, chunks, f"ollama:{MODEL}", store)
    server.reply = speaking(fine, digest="new")
    with pytest.raises(RetrievalError, match="other weights"):
        open_retrievers(["semantic"], labelled, chunks, f"ollama:{MODEL}", store)
    assert index(labelled, chunks, f"ollama:{MODEL}", store)["reused"] == 0


def test_a_server_that_never_answers_is_left_after_one_timeout(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case ollama-no-default-timeout, stall: host and timeout are named; one attempt is made."""
    monkeypatch.setattr(ollama, "READ_S", 0.1)
    server.reply = speaking(lambda _: "stall")
    with pytest.raises(EngineUnavailableError, match=rf"127\.0\.0\.1:{server.port}.*timeout"):
        OllamaEmbedder(MODEL).embed(["a"])
    assert len(server.paths("/api/embed")) == 2  # the probe, and the text once


def test_a_dropped_connection_is_tried_again(server: Any) -> None:
    """Case ollama-no-default-timeout, drop: succeeds after one retry."""
    dropped: list[int] = []

    def drop_once(texts: list[str]) -> Any:
        dropped.append(1)
        return "drop" if len(dropped) == 1 else fine(texts)

    server.reply = speaking(drop_once)
    assert OllamaEmbedder(MODEL).embed(["abc"]).tolist() == [[3, 1]]
    assert len(dropped) == 2


def test_a_server_that_is_not_running_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Case ollama-no-default-timeout, refused: host and port, and whether it is running."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("OLLAMA_HOST", f"http://user:s3cret@127.0.0.1:{port}")
    with pytest.raises(EngineUnavailableError, match=rf"127\.0\.0\.1:{port}.*running") as raised:
        OllamaEmbedder(MODEL)
    assert "s3cret" not in str(raised.value) and raised.value.exit_code == 3


def test_a_missing_model_says_what_to_pull(server: Any) -> None:
    """The list of models has another: the message names the command."""
    server.reply = speaking(fine, model="other:latest")
    with pytest.raises(EngineUnavailableError, match=rf"other:latest.*ollama pull {MODEL}"):
        OllamaEmbedder(MODEL)


def test_a_model_without_a_tag_is_the_latest(server: Any) -> None:
    """`nomic` in a parameter is `nomic:latest` in the server's list."""
    server.reply = speaking(fine, model="nomic:latest", digest="d7")
    assert OllamaEmbedder("nomic").spec.digest == "d7"


@pytest.mark.parametrize("status", [429, 502, 503])
def test_a_busy_server_is_asked_again_a_bounded_number_of_times(status: int, server: Any) -> None:
    """Two refusals then an answer succeed; refusals for ever end after four attempts."""
    times: list[int] = []

    def twice(texts: list[str]) -> Any:
        times.append(1)
        return (status, {"error": "later"}) if len(times) < 3 else fine(texts)

    server.reply = speaking(twice)
    OllamaEmbedder(MODEL).embed(["a"])
    assert len(times) == 3
    server.asked.clear()
    server.reply = speaking(lambda _: (status, {"error": "later"}))
    with pytest.raises(EngineUnavailableError, match=str(status)):
        OllamaEmbedder(MODEL).embed(["a"])
    assert len(server.paths("/api/embed")) == 1 + ollama.ATTEMPTS


def test_another_fault_is_not_halved(server: Any) -> None:
    """A 500 that no single text explains is one error, not a search through the batch."""
    server.reply = speaking(lambda _: (500, {"error": "out of memory"}))
    with pytest.raises(EmbeddingError, match="500: out of memory"):
        OllamaEmbedder(MODEL).embed(["a", "b", "c"])
    assert len(server.paths("/api/embed")) == 2


@pytest.mark.live
def test_a_real_server_embeds(live: Callable[[str], str]) -> None:
    """With OLLAMA_HOST set (and OLLAMA_MODEL): batches give what single texts give, near enough."""
    live("OLLAMA_HOST")
    embedder = OllamaEmbedder(os.environ.get("OLLAMA_MODEL", "embeddinggemma:300m"))
    texts = ["The worker drains its queue.", "Retries have a small budget."]
    both = embedder.embed(texts)
    alone = [embedder.embed([text])[0] for text in texts]
    assert embedder.spec.digest and both.shape == (2, embedder.dimension)
    assert all(same_direction(a, b, 0.999) for a, b in zip(both, alone, strict=True))
    assert not same_direction(both[0], both[1], 0.999)


def test_the_cases_are_all_here(load_case: Case) -> None:
    """Every stored case of this kind is named by a test of this file."""
    here = Path(__file__).read_text("utf-8")
    folder = Path(__file__).parents[1] / "data" / "cases" / "ollama"
    for file in folder.glob("*.json"):
        assert json.loads(file.read_text("utf-8"))["id"] in here
