"""Made-up runs and judgments of known shapes, as dicts, frames and TREC files.

Scores are multiples of 1/64 below 2^18, exact in 32-bit floats and different within a query, so
that pytrec_eval, which holds scores in 32 bits, orders them as we do.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np


@dataclass(frozen=True, slots=True)
class Shape:
    """How many queries, how deep, how much is judged, and what ids look like."""

    queries: int
    depth: int
    judged: float  # a query, on average
    highest: int  # grade
    corpus: int
    prefix: str  # of a document's id
    retrieved: float  # share of the judged documents that the run returns
    order: str = "sorted"  # or "shuffled": each query's rows in any order
    tied: bool = False  # about 40 different scores a query


SHAPES = {
    "S": Shape(225, 100, 8.2, 3, 1_400, "", 0.6),
    "H": Shape(1_000, 1_000, 500, 3, 500_000, "doc_", 0.6),
    "M": Shape(6_980, 1_000, 1.066, 1, 8_841_823, "", 0.85),
    "L": Shape(100_000, 100, 20, 3, 2_000_000, "D", 0.5),
    "M/10": Shape(700, 1_000, 1.066, 1, 8_841_823, "", 0.85),
    "L/10": Shape(10_000, 100, 20, 3, 2_000_000, "D", 0.5),
    "UUID": Shape(2_000, 50, 5, 2, 100_000, "3f2504e0-4f89-11d3-9a0c-0305e82c", 0.7),
}


@dataclass(frozen=True, slots=True)
class Workload:
    """One run and its judgments as columns of numbers; ids are made from them."""

    shape: Shape
    query: np.ndarray
    doc: np.ndarray
    score: np.ndarray
    judged_query: np.ndarray
    judged_doc: np.ndarray
    grade: np.ndarray

    def query_ids(self) -> list[str]:
        """Every query's id."""
        return [f"{1_000_000 + 7 * i}" for i in range(self.shape.queries)]

    def doc_ids(self, numbers: np.ndarray) -> list[str]:
        """The ids of documents, each a text of its own as if read from a file."""
        return [f"{self.shape.prefix}{number}" for number in numbers.tolist()]


def make(shape: Shape, seed: int) -> Workload:
    """The workload of a shape; another seed gives other data of the same shape."""
    rng = np.random.default_rng(seed)
    n, depth = shape.queries, shape.depth
    doc = np.sort(rng.integers(0, shape.corpus, (n, depth)), axis=1)
    while (again := np.diff(doc, axis=1, prepend=-1) == 0).any():
        doc[again] = rng.integers(0, shape.corpus, int(again.sum()))
        doc.sort(axis=1)
    doc = rng.permuted(doc, axis=1)
    gaps = rng.integers(1, (1 << 24) // depth, (n, depth))
    score = np.flip(np.cumsum(gaps, axis=1), axis=1) / 64
    if shape.tied:
        score = np.floor(score / score[:, :1] * 40)
    judged_query, judged_doc = _judged(shape, doc, rng)
    highest = shape.highest
    grade = np.ones(judged_query.size, int)
    if highest > 1:
        weights = np.array([0.4, 0.3, 0.2, 0.1][: highest + 1])
        grade = rng.choice(highest + 1, judged_query.size, p=weights / weights.sum())
    if shape.order == "shuffled":
        turn = np.argsort(rng.random((n, depth)), axis=1)
        doc, score = np.take_along_axis(doc, turn, 1), np.take_along_axis(score, turn, 1)
    query = np.repeat(np.arange(n), depth)
    return Workload(shape, query, doc.ravel(), score.ravel(), judged_query, judged_doc, grade)


def _judged(shape: Shape, doc: np.ndarray, rng: np.random.Generator):
    """Judged documents: some returned, more of them at the top, and some that were not."""
    if shape.judged < 2:
        many = 1 + (rng.random(shape.queries) < shape.judged - 1)
    else:
        many = np.maximum(1, rng.poisson(shape.judged, shape.queries))
    query = np.repeat(np.arange(shape.queries), many)
    rank = (shape.depth * rng.beta(0.6, 1.5, query.size)).astype(int)
    returned = rng.random(query.size) < shape.retrieved
    number = np.where(returned, doc[query, rank], rng.integers(0, shape.corpus, query.size))
    pairs = np.unique(query.astype(np.int64) * shape.corpus + number)
    query, number = pairs // shape.corpus, pairs % shape.corpus
    turn = np.lexsort((rng.random(query.size), query))
    return query[turn], number[turn]


def variant(shape: Shape, *, tied: bool = False, shuffled: bool = False) -> Shape:
    """The same shape with heavy ties, or with each query's rows shuffled."""
    return replace(shape, tied=tied, order="shuffled" if shuffled else "sorted")


def dicts(work: Workload):
    """{query: {doc: grade}} and {query: {doc: score}}."""
    ids, docs, scores = work.query_ids(), work.doc_ids(work.doc), work.score.tolist()
    depth = work.shape.depth
    run = {
        query: dict(zip(docs[i : i + depth], scores[i : i + depth], strict=True))
        for query, i in zip(ids, range(0, len(docs), depth), strict=True)
    }
    qrels: dict[str, dict[str, int]] = {}
    rows = zip(
        work.judged_query.tolist(), work.doc_ids(work.judged_doc), work.grade.tolist(), strict=True
    )
    for query, doc, grade in rows:
        qrels.setdefault(ids[query], {})[doc] = grade
    return qrels, run


def frames(work: Workload):
    """The same as pandas frames, with pandas' own text columns."""
    import pandas as pd

    ids = pd.Series(work.query_ids(), dtype="str")
    run = pd.DataFrame(
        {
            "query_id": ids.take(work.query).to_numpy(),
            "doc_id": work.doc_ids(work.doc),
            "score": work.score,
        }
    )
    qrels = pd.DataFrame(
        {
            "query_id": ids.take(work.judged_query).to_numpy(),
            "doc_id": work.doc_ids(work.judged_doc),
            "grade": work.grade,
        }
    )
    kinds = {"query_id": "str", "doc_id": "str"}
    return qrels.astype(kinds), run.astype(kinds)


def write(work: Workload, folder: Path) -> tuple[Path, Path]:
    """The same as TREC files: paths of the judgments and of the run."""
    import pyarrow as pa
    import pyarrow.csv as pcsv

    folder.mkdir(parents=True, exist_ok=True)
    ids = pa.array(work.query_ids())
    plain = pcsv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
    n, m = work.query.size, work.grade.size
    run = pa.table(
        {
            "query": ids.take(pa.array(work.query)),
            "q0": pa.repeat("Q0", n),
            "doc": work.doc_ids(work.doc),
            "rank": np.tile(np.arange(1, work.shape.depth + 1), work.shape.queries),
            "score": work.score,
            "tag": pa.repeat("made-up", n),
        }
    )
    qrels = pa.table(
        {
            "query": ids.take(pa.array(work.judged_query)),
            "zero": pa.repeat("0", m),
            "doc": work.doc_ids(work.judged_doc),
            "grade": work.grade,
        }
    )
    pcsv.write_csv(qrels, folder / "qrels.txt", plain)
    pcsv.write_csv(run, folder / "run.txt", plain)
    return folder / "qrels.txt", folder / "run.txt"
