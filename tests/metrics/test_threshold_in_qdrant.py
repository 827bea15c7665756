"""Our thresholds beside Qdrant's own score_threshold: the same questions at every midpoint."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from qdrant_client import QdrantClient, models

from evalkit.metrics import acceptance, scored
from evalkit.records import Query

CASES = Path(__file__).parents[1] / "data" / "cases" / "thresholds"


def case(name):
    return json.loads((CASES / f"thresholds-{name}.json").read_text(encoding="utf-8"))


@pytest.fixture
def client():
    engine = QdrantClient(":memory:")
    yield engine
    engine.close()


def test_a_score_at_the_threshold_is_dropped_by_qdrant(client):
    """Qdrant keeps only what is strictly better (case thresholds-boundary-equality).

    Ours keeps a score at the threshold; a midpoint has no score at it, so both keep the same.
    """
    given = case("boundary-equality")
    points = [models.PointStruct(**point) for point in given["input"]["points"]]
    size = models.VectorParams(size=2, distance=models.Distance.DOT)
    client.create_collection("c", vectors_config=size)
    client.upsert("c", points)

    def kept(threshold):
        found = client.query_points(
            "c", given["input"]["query"], score_threshold=threshold, limit=10
        )
        return [point.id for point in found.points]

    assert kept(given["input"]["score_threshold"]) == given["expected"]["kept_by_server"]
    for threshold in acceptance.midpoints(np.array([4.0, 5.0, 6.0]))[1:-1]:
        assert kept(threshold) == [i for i, s in ((2, 6), (1, 5), (3, 4)) if s >= threshold]


def test_fused_scores_have_no_common_scale(client):
    """One order, scores 25 times apart under two constants (case thresholds-on-fused-scores)."""
    given = case("on-fused-scores")
    sizes = {name: models.VectorParams(size=2, distance=models.Distance.DOT) for name in ("a", "b")}
    client.create_collection("c", vectors_config=sizes)
    client.upsert(
        "c",
        [
            models.PointStruct(id=p["id"], vector={n: p[n] for n in "ab" if n in p})
            for p in given["input"]["points"]
        ],
    )
    legs = [models.Prefetch(**leg) for leg in given["input"]["prefetch"]]
    for name, query in (
        ("rrf", models.FusionQuery(fusion=models.Fusion.RRF)),
        ("rrf k=60", models.RrfQuery(rrf=models.Rrf(k=60))),
    ):
        found = client.query_points("c", query, prefetch=legs, limit=10).points

        assert [point.id for point in found] == [doc for doc, _ in given["expected"][name]]
        assert [point.score for point in found] == pytest.approx(
            [score for _, score in given["expected"][name]]
        )


def test_qdrant_accepts_the_same_questions_at_every_threshold(client):
    """40 questions on 30 points: at each midpoint, those with a hit left are those accepted."""
    rng = np.random.default_rng(0)
    vectors, questions = rng.normal(size=(30, 8)), rng.normal(size=(40, 8))
    size = models.VectorParams(size=8, distance=models.Distance.COSINE)
    client.create_collection("c", vectors_config=size)
    client.upsert("c", [models.PointStruct(id=i, vector=list(v)) for i, v in enumerate(vectors)])

    def search(threshold):
        requests = [
            models.QueryRequest(query=list(q), limit=3, score_threshold=threshold)
            for q in questions
        ]
        return [answer.points for answer in client.query_batch_points("c", requests)]

    rows = [
        (f"q{number}", str(point.id), rank, point.score)
        for number, points in enumerate(search(None))
        for rank, point in enumerate(points, 1)
    ]
    run = pd.DataFrame(rows, columns=["query_id", "doc_id", "rank", "score"])
    queries = [Query(f"q{number}", "?", number % 2 == 0, grades={"0": 1}) for number in range(40)]
    found = scored.scored_questions(run, queries, axis="cosine", cutoff=3, keeps="hits")

    for threshold in acceptance.sweep(found).frame["threshold"].iloc[1:-1:10]:
        table = acceptance.decisions(found, threshold)
        left = search(threshold)
        assert table["accepted"].tolist() == [bool(points) for points in left]
        assert table["results"].tolist() == [len(points) for points in left]
