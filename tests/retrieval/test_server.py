"""A Qdrant server over real sockets: how it fails, the switch by alias, what is found there."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalkit.errors import EmbeddingError, EngineUnavailableError, ParameterError, RetrievalError
from evalkit.records import Chunk, LabelledSet
from evalkit.retrieval import Existing, Fields, Options, index, open_existing, open_retrievers
from evalkit.retrieval import qdrant as engine
from evalkit.retrieval import server as module
from evalkit.retrieval.embedding import EmbedderSpec
from evalkit.retrieval.qdrant import QdrantCollection

Case = Callable[[str, str], dict[str, Any]]
Start = Callable[..., Any]


def reopen(labelled: LabelledSet, chunks: list[Chunk], store: Path) -> Any:
    return open_retrievers(["semantic"], labelled, chunks, "deterministic", store)[0]


def test_the_alias_moves_last_and_the_old_collection_goes(
    as_qdrant: Start, server: Any, labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """Fresh name, keyword indexes on each filter field, upsert with wait, verified, one switch."""
    memory = as_qdrant()
    for _ in range(2):
        index(labelled, chunks, "deterministic", store)
    (alias,) = memory.get_aliases().aliases
    (only,) = memory.get_collections().collections
    assert only.name == alias.collection_name and alias.alias_name.startswith("evalkit-test-")
    (_, switch) = server.paths("/collections/aliases")
    assert [list(action) for action in switch["actions"]] == [["delete_alias"], ["create_alias"]]
    writes = [path for method, path, _ in server.asked if path.partition("?")[0].endswith("points")]
    assert writes and all("wait=true" in path for path in writes)
    fields = {body["field_name"] for body in server.paths("/index")}
    assert fields == {"chunking_version", "document_type", "publication_state"}


def test_a_failed_upload_leaves_the_alias_and_no_rubbish(
    as_qdrant: Start, server: Any, labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """An upsert refused for good: the new collection is dropped, the old one still served."""
    broken: list[bool] = []

    def fault(method: str, path: str, body: Any) -> Any:
        if broken and method == "PUT" and "/points" in path:
            return 500, {"status": {"error": "disk full"}}
        return None

    memory = as_qdrant(fault)
    index(labelled, chunks, "deterministic", store)
    before = memory.get_aliases()
    broken.append(True)
    with pytest.raises(RetrievalError, match=r"500.*disk full"):
        index(labelled, chunks, "deterministic", store)
    assert memory.get_aliases() == before
    assert len(memory.get_collections().collections) == 1


def test_reading_sends_no_write(
    as_qdrant: Start, server: Any, labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """Opening and searching are GETs and POSTs that only read (A01, promise 4)."""
    as_qdrant()
    index(labelled, chunks, "deterministic", store)
    server.asked.clear()
    reopen(labelled, chunks, store).search(["retries"], 3)
    ends = {path.partition("?")[0].rpartition("/")[2] for method, path, _ in server.asked}
    assert {method for method, _, _ in server.asked} == {"GET", "POST"}
    assert ends - {"collections", "aliases", "count", "scroll", "batch"} == {
        server.paths("/query/batch") and memory_name(server)
    }


def memory_name(script: Any) -> str:
    """The alias under which the collection was described."""
    (path,) = {p for m, p, _ in script.asked if m == "GET" and p.startswith("/collections/")}
    return str(path).rpartition("/")[2]


def test_drift_on_the_server_is_refused(
    as_qdrant: Start, labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """A point deleted, a text edited, or another corpus: nothing is scored (A03)."""
    memory = as_qdrant()
    index(labelled, chunks, "deterministic", store)
    (alias,) = memory.get_aliases().aliases
    name = alias.collection_name
    points, _ = memory.scroll(name, limit=10)
    memory.set_payload(name, {"text": "edited"}, [points[0].id])
    with pytest.raises(RetrievalError, match="not what was sent"):
        reopen(labelled, chunks, store)
    memory.delete(name, [points[0].id])
    with pytest.raises(RetrievalError, match="holds 4 points"):
        reopen(labelled, chunks, store)
    with pytest.raises(RetrievalError):
        reopen(labelled, chunks[1:], store)


def test_a_missing_collection_names_those_there(
    as_qdrant: Start, labelled: LabelledSet, chunks: list[Chunk], store: Path
) -> None:
    """The message lists what the server has and says to index."""
    from qdrant_client import models

    memory = as_qdrant()
    memory.create_collection(
        "mine", vectors_config=models.VectorParams(size=2, distance=models.Distance.DOT)
    )
    with pytest.raises(RetrievalError, match=r"there: mine\); run the index notebook"):
        reopen(labelled, chunks, store)


@pytest.mark.parametrize(
    ("told", "kind", "says"),
    [
        ((502, b"<html>bad gateway</html>"), EngineUnavailableError, "502"),
        ((503, {"status": {"error": "starting"}}), EngineUnavailableError, "503.*starting"),
        ((429, {"status": {"error": "rate"}}, {"Retry-After": "0"}), EngineUnavailableError, "429"),
        ((429, {"status": {"error": "rate"}}), EngineUnavailableError, "429"),
        ("drop", EngineUnavailableError, "did not answer"),
        ("cut", EngineUnavailableError, "did not answer"),
        ((302, b"", {"Location": "http://127.0.0.1:1/"}), RetrievalError, "302"),
        ((401, {"status": {"error": "no"}}), RetrievalError, "QDRANT_API_KEY"),
        ((200, b"<html>login</html>"), RetrievalError, "unexpected answer"),
        ((200, {}), RetrievalError, "unexpected answer"),
        ((200, {"result": {"surprise": 1}}), RetrievalError, "unexpected answer"),
    ],
)
def test_every_family_of_failure_is_one_sentence(
    told: Any, kind: type[Exception], says: str, as_qdrant: Start, server: Any
) -> None:
    """What may pass is asked four times, what may not once; neither ends in the client's own error.

    The families are those observed with qdrant-client 1.20 against a stub server.
    """
    as_qdrant(lambda *_: told)
    with pytest.raises(kind, match=f"(?s){says}"):
        server_connect(server)
    passing = kind is EngineUnavailableError
    assert len(server.asked) == (engine.ATTEMPTS if passing else 1)


def server_connect(script: Any) -> Any:
    return module.connect(script.url)


def test_two_refusals_then_an_answer_succeed(as_qdrant: Start, server: Any) -> None:
    """502 twice, then 200: the third attempt is used."""
    times: list[int] = []

    def fault(*_: Any) -> Any:
        times.append(1)
        return (502, b"") if len(times) < 3 else None

    as_qdrant(fault)
    server_connect(server)
    assert len(times) == 3


def test_a_long_retry_after_is_bounded(
    monkeypatch: pytest.MonkeyPatch, as_qdrant: Start, server: Any
) -> None:
    """A server that asks for an hour is waited for as long as we choose, here not at all."""
    monkeypatch.setattr(engine, "LONGEST_WAIT_S", 0.0)
    as_qdrant(lambda *_: (429, {}, {"Retry-After": "3600"}))
    with pytest.raises(EngineUnavailableError, match="429"):
        server_connect(server)


def test_a_server_that_is_down_fails_the_preflight(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's constructor never fails, so a real call does, with address and cure."""
    monkeypatch.setattr(engine, "BACKOFF_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(EngineUnavailableError, match=rf"{url}.*unset QDRANT_URL") as raised:
        module.connect(url)
    assert raised.value.exit_code == 3


def test_a_server_that_never_answers_is_bounded(
    monkeypatch: pytest.MonkeyPatch, as_qdrant: Start, server: Any
) -> None:
    """Each attempt ends at the timeout that is set; two attempts are made here."""
    monkeypatch.setattr(engine, "ATTEMPTS", 2)
    monkeypatch.setattr(module, "TIMEOUT_S", 0.1)
    as_qdrant(lambda *_: "stall")
    with pytest.raises(EngineUnavailableError, match="timed out"):
        server_connect(server)
    assert len(server.asked) == 2


def test_a_key_never_leaves_in_clear_text(
    monkeypatch: pytest.MonkeyPatch, as_qdrant: Start, server: Any
) -> None:
    """Over http to another machine it is refused; to loopback it is a header, never shown."""
    as_qdrant(lambda *_: (401, {"status": {"error": "no"}}))
    monkeypatch.setenv("QDRANT_API_KEY", "s3cret")
    with pytest.raises(ParameterError, match=r"clear text to qdrant\.example") as remote:
        module.connect("http://qdrant.example:6333")
    with pytest.raises(RetrievalError) as local:
        module.connect(server.url)
    assert server.headers[0]["api-key"] == "s3cret"
    assert "s3cret" not in str(remote.value) + str(local.value)
    with pytest.raises(ParameterError, match="QDRANT_API_KEY instead") as userinfo:
        module.connect("https://me:s3cret@qdrant.example")
    assert "s3cret" not in str(userinfo.value)


@pytest.mark.parametrize(
    "url", ["qdrant", "ftp://host", "http://", "http://host:port", "http://[::1"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    """The message shows the forms that are."""
    with pytest.raises(ParameterError, match=r"http\(s\)://host:port"):
        module.connect(url)


def points_of(memory: Any, given: dict[str, Any], name: str = "mine") -> None:
    """The points of a case, in a collection of its own distance."""
    from qdrant_client import models

    distance = given.get("distance") or given.get("collection", {}).get("distance", "Dot")
    memory.create_collection(
        name, vectors_config=models.VectorParams(size=2, distance=models.Distance(distance))
    )
    memory.upsert(
        name,
        [
            models.PointStruct(id=p["id"], vector=p.get("vector", [1, 0]), payload=p["payload"])
            for p in given["points"]
        ],
    )


def found(memory: Any, fields: Fields, query: list[float], k: int = 10) -> list[tuple[str, float]]:
    opened = QdrantCollection(memory, "mine", 2, fields=fields)
    return [(p["doc_id"], s) for p, s in opened.query(np.array([query], np.float32), k)[0]]


def test_identities_live_in_the_payload(as_qdrant: Start, load_case: Case) -> None:
    """Case qdrant-document-id-from-payload: numbers become digits, the unusable are counted."""
    case = load_case("qdrant", "qdrant-document-id-from-payload")
    given, expected = case["input"], case["expected"]
    memory = as_qdrant()
    points_of(memory, given)
    top = found(memory, Fields(identity="doc_id", text="", title=""), given["query"], 2)
    assert top == [tuple(row) for row in expected["run"]]
    by_point = found(memory, Fields(identity="", text="", title=""), given["query"])
    assert [list(row) for row in by_point] == [
        [name, pytest.approx(score)] for name, score in expected["with_point_ids"]
    ]
    with pytest.raises(RetrievalError, match=r"4 points .*9, 10, 11, 12"):
        server_survey(memory, Fields())
    with pytest.raises(RetrievalError, match="5 points"):
        server_survey(memory, Fields(identity="meta.doc_id"))
    memory.delete("mine", [7, 8, 9, 10, 11])
    nested = found(memory, Fields(identity="meta.doc_id"), given["query"])
    assert nested == [(n, pytest.approx(s)) for n, s in expected["with_id_field_meta.doc_id"]]


def server_survey(memory: Any, fields: Fields) -> dict[str, Any]:
    return module.survey(QdrantCollection(memory, "mine", 2, fields=fields))


def test_one_document_on_several_points_is_given_once(
    as_qdrant: Start, load_case: Case, store: Path
) -> None:
    """Case qdrant-grouping-drops-points: nothing is left out in silence; A is found once.

    Points 3, 4, 6 and 7 have no single identity and are refused by number. Of the others, '5'
    as number and as text are one document, which the report names as shared.
    """
    case = load_case("qdrant", "qdrant-grouping-drops-points")
    memory = as_qdrant()
    points_of(memory, case["input"])
    fields = Fields(identity="doc", text="", title="")
    with pytest.raises(RetrievalError, match=r"4 points .* points 3, 4, 6, 7"):
        server_survey(memory, fields)
    memory.delete("mine", [3, 4, 6, 7])
    report = server_survey(memory, fields)
    assert report["shared_identities"] == 2 and set(report["shared_examples"]) == {"A", "5"}
    from evalkit.retrieval import SemanticRetriever
    from evalkit.retrieval.embedding import CachedEmbedder

    opened = QdrantCollection(memory, "mine", 2, fields=fields)
    retriever = SemanticRetriever(opened, CachedEmbedder(Right(), None), {}, once=True)
    hits = retriever.search(["q"], 2)[0]
    assert [(hit.doc_id, hit.score) for hit in hits] == [("A", 9.0), ("5", 5.0)]


class Right:
    """Every text is the vector (1, 0)."""

    spec = EmbedderSpec("right", 2, "d")

    def embed(self, texts: Any) -> Any:
        return np.array([[1, 0]] * len(texts), dtype=np.float32)

    def overlong(self, texts: Any) -> list[int]:
        return []


def test_all_hits_that_were_asked_for_come_back(as_qdrant: Start, load_case: Case) -> None:
    """Case qdrant-default-limit-ten: 20 hits at a cutoff of 20, and every point is paged to."""
    case = load_case("qdrant", "qdrant-default-limit-ten")
    memory = as_qdrant()
    points = [{"id": i, "vector": [i, 0], "payload": {"doc_id": str(i)}} for i in range(1, 31)]
    points_of(memory, {"points": points, "distance": "Dot"})
    for cutoff in case["input"]["cutoffs"]:
        hits = found(memory, Fields(text="", title=""), [1, 0], cutoff)
        relevant = sum(name in case["input"]["qrels"]["q1"] for name, _ in hits)
        assert relevant / 30 == pytest.approx(case["expected"]["R"][f"@{cutoff}"])
    assert server_survey(memory, Fields())["points"] == case["expected"]["points_counted"]


def test_every_point_is_paged_to(as_qdrant: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven pages of at most four points give all 25."""
    memory = as_qdrant()
    points = [{"id": i, "payload": {"doc_id": str(i)}} for i in range(25)]
    points_of(memory, {"points": points, "distance": "Dot"})
    monkeypatch.setattr(engine, "PAGE", 4)
    assert server_survey(memory, Fields())["documents"] == 25


def test_counts_are_asked_for_exactly(as_qdrant: Start, server: Any, load_case: Case) -> None:
    """Case qdrant-count-must-be-exact: the reported size is the exact reply, not the estimate."""
    case = load_case("qdrant", "qdrant-count-must-be-exact")
    replies = case["input"]["replies"]

    def fault(method: str, path: str, body: Any) -> Any:
        if path.partition("?")[0].endswith("/count"):
            exact = "true" if body.get("exact") else "false"
            return 200, {"result": {"count": replies[f"count exact={exact}"]}, "status": "ok"}
        return None

    as_qdrant(fault)
    opened = QdrantCollection(server_connect(server), "mine", 2)
    assert opened.count() == case["expected"]["size_reported"]
    assert server.paths("/count")[0]["exact"] is case["expected"]["request_has"]["exact"]


def test_a_refused_filter_is_an_error(
    as_qdrant: Start,
    server: Any,
    load_case: Case,
    labelled: LabelledSet,
    chunks: list[Chunk],
    store: Path,
) -> None:
    """Case qdrant-refused-filter-is-an-error: field, index and collection named, at the opening."""
    case = load_case("qdrant", "qdrant-refused-filter-is-an-error")
    told = case["input"]["reply"]
    strict: list[bool] = []

    def fault(method: str, path: str, body: Any) -> Any:
        return (told["status"], told["body"]) if strict and body and body.get("filter") else None

    as_qdrant(fault)
    index(labelled, chunks, "deterministic", store)
    strict.append(True)
    with pytest.raises(RetrievalError) as raised:
        reopen(labelled, chunks, store)
    for part in case["expected"]["message_must_name"]:
        assert part in str(raised.value)
    assert not server.paths("/query/batch")


def test_a_condition_is_an_exact_match(as_qdrant: Start, load_case: Case) -> None:
    """Case qdrant-null-empty-missing: the product's filter is field = value, and no other state.

    The case's four filters give what it says in this engine; ours, n = 1 with text values only,
    matches neither null, nor an empty list, nor a missing field, nor the number 1.
    """
    from qdrant_client import models

    case = load_case("qdrant", "qdrant-null-empty-missing")
    memory = as_qdrant()
    points_of(memory, case["input"] | {"distance": "Dot"})
    for name, given in case["input"]["filters"].items():
        page, _ = memory.scroll("mine", models.Filter.model_validate(given), limit=100)
        assert [point.id for point in page] == case["expected"][name]
    opened = QdrantCollection(memory, "mine", 2, {"n": "1"}, Fields("", "", ""))
    assert [p["doc_id"] for p, _ in opened.query(np.ones((1, 2), np.float32), 9)[0]] == ["6"]
    assert opened.describe()["filter"] == {"n": "1"}


def test_stored_vectors_are_compared_by_direction(as_qdrant: Start, load_case: Case) -> None:
    """Case qdrant-stored-vectors-are-normalised: (3, 4) comes back as (0.6, 0.8), and passes."""
    from evalkit.retrieval.collection import same_direction

    case = load_case("qdrant", "qdrant-stored-vectors-are-normalised")
    memory = as_qdrant()
    sent = case["input"]["upsert"]
    points = [{"id": 1, "vector": sent, "payload": {}}]
    points_of(memory, {"points": points, "collection": case["input"]["collection"]})
    (point,) = QdrantCollection(memory, "mine", 2).points(vectors=True)
    assert point.vector == pytest.approx(case["expected"]["stored"], abs=1e-6)
    assert same_direction(point.vector, case["input"]["fresh_embedding"])
    assert not same_direction(point.vector, [4, 3])


def test_a_question_without_a_direction_is_refused(as_qdrant: Start, load_case: Case) -> None:
    """Case qdrant-zero-vectors: zero, NaN, infinite and short question vectors stop unscored."""
    from evalkit.retrieval.embedding import checked

    case = load_case("qdrant", "qdrant-zero-vectors")
    memory = as_qdrant()
    points_of(memory, case["input"])
    queries = case["input"]["queries"]
    ranking = found(memory, Fields(text="", title=""), queries["ok"])
    assert [name for name, _ in ranking] == case["expected"]["ok"]["order"]
    assert ranking[0][1] == pytest.approx(1.0, abs=1e-6) and ranking[1][1] == 0.0
    for name in ("zero", "nan", "inf"):
        vector = [float(x) for x in queries[name]]
        with pytest.raises(EmbeddingError, match=f"'the {name} question'"):
            checked([vector], [f"the {name} question"], 2)
    with pytest.raises(EmbeddingError, match="vectors of 2 numbers and the question has 1"):
        found(memory, Fields(), queries["short"])


@pytest.mark.parametrize("score", [None, "NaN"])
def test_a_score_that_is_no_number_is_refused(score: Any, as_qdrant: Start, server: Any) -> None:
    """Case qdrant-zero-vectors, a null or NaN score in a reply: an error, never a rank."""
    value = float("nan") if score == "NaN" else None

    def fault(method: str, path: str, body: Any) -> Any:
        if "/query/batch" not in path:
            return None
        point = {"id": 1, "version": 1, "score": value, "payload": {"doc_id": "a"}}
        return 200, {"result": [{"points": [point]}], "status": "ok"}

    as_qdrant(fault)
    with pytest.raises(RetrievalError, match=r"score of a|unexpected answer"):
        found(server_connect(server), Fields(), [1, 0])


def test_requests_are_bounded_and_answers_keep_their_order(
    as_qdrant: Start, server: Any, load_case: Case
) -> None:
    """Case scale-requests-in-batches, at a tenth of its questions: below 32 MiB, in order."""
    case = load_case("qdrant", "scale-requests-in-batches")
    dimension, limit = case["input"]["dimension"], case["input"]["limit"]
    questions = case["input"]["queries"] // 10

    def fault(method: str, path: str, body: Any) -> Any:
        if "/query/batch" not in path:
            return None
        results = [
            {
                "points": [
                    {
                        "id": 1,
                        "version": 1,
                        "score": s["query"]["nearest"][0],
                        "payload": {"doc_id": "a"},
                    }
                ]
            }
            for s in body["searches"]
        ]
        return 200, {"result": results, "status": "ok"}

    as_qdrant(fault)
    vectors = np.full((questions, dimension), 1 / 3, dtype=np.float32)
    vectors[:, 0] = np.arange(questions)
    opened = QdrantCollection(server_connect(server), "mine", dimension)
    answers = opened.query(vectors, limit)
    assert [hits[0][1] for hits in answers] == list(range(questions))
    assert 0 < server.largest < case["expected"]["largest_request_bytes_below"]
    sent = [search for body in server.paths("/query/batch") for search in body["searches"]]
    assert all(search["with_payload"] == ["doc_id", "text", "title"] for search in sent)
    assert max(len(b["searches"]) for b in server.paths("/query/batch")) * limit <= 1000


def test_no_score_threshold_is_sent(as_qdrant: Start, server: Any, load_case: Case) -> None:
    """Case thresholds-boundary-equality: the engine's strict rule at equality is not used.

    Five points above or at 5.0 would be cut to one by the server; our request has no threshold.
    """
    case = load_case("qdrant", "thresholds-boundary-equality")
    memory = as_qdrant()
    points = [p | {"payload": {"doc_id": str(p["id"])}} for p in case["input"]["points"]]
    points_of(memory, case["input"] | {"points": points})
    cut = memory.query_points("mine", query=[1.0, 0.0], score_threshold=5.0).points
    assert [point.id for point in cut] == case["expected"]["kept_by_server"]
    hits = found(server_connect(server), Fields(text="", title=""), case["input"]["query"])
    assert hits == [("2", 6.0), ("1", 5.0), ("3", 4.0)]
    (search,) = server.paths("/query/batch")[0]["searches"]
    assert search.get("score_threshold") is None and search.get("params") is None


def test_fused_scores_say_they_are_rank_scores(load_case: Case) -> None:
    """Case thresholds-on-fused-scores: our axis is rrf; the case's values for k = 60 up to scale.

    Qdrant counts ranks from 0, so its 1/60 is our 1/61 at another constant: with ranks from 1
    and constant 60, item 1 is 1/61 + 1/62, item 3 1/63 + 1/61, times 61/2.
    """
    from evalkit.records import Hit
    from evalkit.retrieval.search import HybridRetriever, fused

    assert HybridRetriever.axis == "rrf"
    case = load_case("qdrant", "thresholds-on-fused-scores")
    lists = [["1", "2", "3"], ["3", "1", "4"]]  # by dot product with (1, 0), by hand
    hits = fused([[Hit(d, 0, r + 1) for r, d in enumerate(ids)] for ids in lists], [1, 1])
    assert [int(hit.doc_id) for hit in hits] == [row[0] for row in case["expected"]["rrf k=60"]]
    assert hits[0].score == pytest.approx((1 / 61 + 1 / 62) * 61 / 2)


def test_a_collection_made_elsewhere_is_read_as_it_is(
    as_qdrant: Start, server: Any, store: Path
) -> None:
    """Named vector, Euclid, nested identity: found, nearest first, and not one write is sent."""
    from qdrant_client import models

    memory = as_qdrant()
    params = models.VectorParams(size=256, distance=models.Distance.EUCLID)
    memory.create_collection("mine", vectors_config={"dense": params, "other": params})
    from evalkit.retrieval.embedded import Deterministic

    texts = {"a": "the worker drains", "b": "retries have a budget", "c": "a secret note"}
    rows = Deterministic().embed(list(texts.values())).tolist()
    memory.upsert(
        "mine",
        [
            models.PointStruct(
                id=i,
                vector={"dense": row},
                payload={
                    "meta": {"id": name},
                    "body": text,
                    "state": "no" if name == "c" else "ok",
                },
            )
            for i, (row, (name, text)) in enumerate(zip(rows, texts.items(), strict=True))
        ],
    )
    mine = Existing("mine", Fields("meta.id", "body", ""), {"state": "ok"}, "dense")
    retriever, report = open_existing(mine, "deterministic", store)
    assert (report["points"], report["eligible"], report["distance"]) == (3, 2, "Euclid")
    hits = retriever.search(["the worker drains", "a secret note"], 3)
    assert [hit.doc_id for hit in hits[0]] == ["a", "b"] and hits[0][0].text == texts["a"]
    assert retriever.axis == "-euclid" and hits[0][0].score == pytest.approx(0, abs=1e-6)
    assert hits[0][0].score > hits[0][1].score  # turned, so that more is nearer
    assert {h.doc_id for h in hits[1]} == {"a", "b"}
    near, _ = open_existing(mine, "deterministic", store, Options(min_score=-0.5))
    assert [hit.doc_id for hit in near.search(["the worker drains"], 3)[0]] == ["a"]  # 0 > -0.5
    assert {method for method, _, _ in server.asked} == {"GET", "POST"}


def test_what_an_existing_collection_lacks_is_said(as_qdrant: Start, store: Path) -> None:
    """Wrong vector name, wrong dimension: expected and found stand in the message."""
    from qdrant_client import models

    memory = as_qdrant()
    params = models.VectorParams(size=3, distance=models.Distance.COSINE)
    memory.create_collection("named", vectors_config={"dense": params})
    memory.create_collection("plain", vectors_config=params)
    with pytest.raises(RetrievalError, match="has the vectors dense; name one"):
        open_existing(Existing("named"), "deterministic", store)
    with pytest.raises(RetrievalError, match="one unnamed vector and no 'dense'"):
        open_existing(Existing("plain", vector_name="dense"), "deterministic", store)
    with pytest.raises(RetrievalError, match="vectors of 3 numbers and 'deterministic' gives 256"):
        open_existing(Existing("plain"), "deterministic", store)
    with pytest.raises(RetrievalError, match=r"404.*nothing"):
        open_existing(Existing("nothing"), "deterministic", store)


def test_the_cases_are_all_here(load_case: Case) -> None:
    """Every stored case of this kind is named by a test of this file."""
    here = Path(__file__).read_text("utf-8")
    folder = Path(__file__).parents[1] / "data" / "cases" / "qdrant"
    for file in folder.glob("*.json"):
        assert json.loads(file.read_text("utf-8"))["id"] in here


def test_a_collection_of_your_own_is_named_by_parameters(as_qdrant: Start, store: Path) -> None:
    """The options of a notebook reach it; the set's eligibility is its filter (by hand)."""
    from qdrant_client import models

    from evalkit.retrieval import Options, open_embedder

    memory = as_qdrant()
    model = open_embedder("deterministic", cache=None)
    params = {"dense": models.VectorParams(size=256, distance=models.Distance.COSINE)}
    memory.create_collection("mine", vectors_config=params)
    texts = {"a": ("the worker drains", "ok"), "b": ("the worker drains fast", "draft")}
    memory.upsert(
        "mine",
        [
            models.PointStruct(
                id=number,
                vector={"dense": model.questions([text])[0].tolist()},
                payload={"meta": {"id": name}, "body": text, "state": state},
            )
            for number, (name, (text, state)) in enumerate(texts.items())
        ],
    )
    labelled = LabelledSet("own", "1", (), (), "document", 1, eligibility={"state": "ok"})
    fields = {"identity": "meta.id", "text": "body", "vector": "dense"}
    options = Options(collection="mine", fields=fields)
    (own,) = open_retrievers(["semantic"], labelled, [], "deterministic", store, options)

    hits = own.search(["the worker drains"], 5)[0]
    assert [(hit.doc_id, hit.text) for hit in hits] == [("a", "the worker drains")]
    with pytest.raises(ParameterError, match="fields key: give the payload fields"):
        open_retrievers(
            ["semantic"], labelled, [], "deterministic", store, Options(0, 10, collection="mine",
            fields={"key": "meta.id"}),
        )  # fmt: skip
