"""TREC files: read by Arrow or by line with one meaning; written so that scores give the ranks."""

import gzip
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from evalkit.datasets import load, read_qrels_columns, read_run_columns, trec
from evalkit.datasets.topics import read_topics
from evalkit.errors import DataError

SHARED = os.environ.get("EVALKIT_SHARED", "")
shared = pytest.mark.skipif(not SHARED, reason="EVALKIT_SHARED names no folder of real run files")
IDS = st.sampled_from(
    ["007", "7", "NA", "1e5", "é", "e\u0301", "a#b", "true", "nan", "d\u00a01", '"q', "1" * 30]
) | st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=6).filter(
    lambda text: not text.startswith("#")
)


def run_of(path, text):
    """The rows of a run file with this text."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_run_columns(path).to_pylist()


ROW = {"query_id": "q1", "doc_id": "d1", "rank": 1, "score": 2.5}
SAME_ROW = [
    "q1 Q0 d1 1 2.5 tag\n",
    "q1 Q0 d1 1 2.5 tag",
    "q1\tQ0\td1\t1\t2.5\ttag\r\n",
    "\ufeffq1 Q0 d1 1 2.5 tag\n",
    "  q1  Q0\t d1 1   2.5 tag  \n",
    "\n\n# a comment\n#\nq1 Q0 d1 1 +2.50e0 tag\n\n",
    "q1 Q0 d1 +1 2.5 tag\r\n",
    "q1\tQ0\td1\t1\t  2.5\ttag and words\n",
    "q1 Q0 d1 1 2.5 tag more junk\n",
    gzip.compress(b"q1 Q0 d1 1 2.5 tag\n", mtime=0),  # the same test name in every process
]


@pytest.mark.parametrize("text", SAME_ROW)
def test_white_space_and_comments_do_not_change_a_row(tmp_path, text):
    """Blanks, tabs, line ends, marks, comments, gzip: one meaning (by definition)."""
    assert run_of(tmp_path / "a.run", text) == [ROW]


REFUSED = [
    ("q1 Q0 d1 1 tag\n", 1, "expected 6 fields"),
    ("\nq1  Q0 d1 1 2.5\n", 2, "expected 6 fields"),
    ("q1 Q0 7 1 2.5 t\nq1  Q0 7 1 2\n", 2, "expected 6 fields"),
    ("q1 Q0 d1 1 nan tag\n", 1, "finite number, found 'nan'"),
    ("q1 Q0 d1 1 inf tag\n", 1, "finite number"),
    ("q1 Q0 d1 1 1e999 tag\n", 1, "finite number"),
    ("q1 Q0 d1 1 1_0 tag\n", 1, "finite number"),
    ("q1 Q0 d1 1.5 2.5 tag\n", 1, "rank must be an integer"),
    ("q1 Q0 d1 \u0661 2.5 tag\n", 1, "rank must be an integer"),
    (f"q1 Q0 d1 {'9' * 5000} 2.5 tag\n", 1, "rank must be an integer"),
    ("q1\tQ0\td 1\t1\t2.5\ttag\n", 1, "cannot hold a blank"),
    ("q1 Q0 d 1 1 2.5 tag\n", 1, "cannot hold a blank"),
    ("q1 Q0 d1 1 2.5 tag\n#q2 Q0 d1 1 2.5 tag\n", 2, "a comment, or '#q2' an id"),
    (b"q1 Q0 d1 1 2.5 tag\nq1 Q0 \xff 1 2.5 tag\n", 2, "0xff is not UTF-8"),
    ("q1 Q0 d\0 1 2.5 tag\n", 1, "NUL"),
    ("", None, "holds no row"),
    ("\n# nothing\n", None, "holds no row"),
    (b"\x1f\x8b\x08\x00broken", None, "damaged gzip"),
]


@pytest.mark.parametrize(("text", "line", "said"), REFUSED)
def test_a_bad_line_is_refused_with_its_number(tmp_path, text, line, said):
    """What cannot be a row stops the reading and names file and line (by hand)."""
    with pytest.raises(DataError, match=said) as raised:
        run_of(tmp_path / "a.run", text)

    assert (raised.value.path, raised.value.line) == (str(tmp_path / "a.run"), line)


def test_judgments_are_refused_likewise(tmp_path):
    """Four columns, integer grades, no pair twice; the line counts comments (by hand)."""
    path = tmp_path / "a.qrels"
    for text, line, said in (
        ("q 0 d 1 x\n", 1, "expected 4 fields"),
        ("q 0 d 1.0\n", 1, "grade must be an integer"),
        ("# judged by two\nq 0 d 1\n\nq 0 d 1\n", 4, "judged twice"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=said) as raised:
            trec.read_qrels(path)
        assert raised.value.line == line


def test_columns_have_fixed_types(tmp_path):
    """Ids are Arrow strings, scores 64-bit, ranks and grades integers (by definition)."""
    run_of(tmp_path / "a.run", "1 Q0 007 1 2 t\n")
    (tmp_path / "a.qrels").write_text("1 0 007 2\n")

    types = [str(field.type) for field in read_run_columns(tmp_path / "a.run").schema]
    assert types == ["string", "string", "int64", "double"]
    types = [str(field.type) for field in read_qrels_columns(tmp_path / "a.qrels").schema]
    assert types == ["string", "string", "int64"]


LINES = st.lists(
    st.tuples(IDS, IDS, st.integers(-5, 10**6), st.floats(-1e30, 1e30)), min_size=1, max_size=6
)


@given(rows=LINES, gap=st.sampled_from([" ", "\t", "  ", " \t"]))
def test_the_fast_and_the_careful_reader_agree(rows, gap):
    """The same rows come out of Arrow and of the reader by line (property)."""
    lines = (gap.join([q, "Q0", d, str(r), repr(s), "t"]) for q, d, r, s in rows)
    data = ("\n".join(lines) + "\n").encode()
    exact = [(q, d, r, s) for q, d, r, s in rows]
    by_line = [fields for _, fields in trec._by_line(data, Path("x"), trec.RUN)]
    table = trec._by_arrow(trec._single_blanks(data), trec.RUN)

    assert [(f[0], f[2], int(f[3]), float(f[4])) for f in by_line] == exact
    assert table is not None
    assert [tuple(row.values()) for row in table.to_pylist()] == exact


def test_a_rank_column_that_contradicts_the_scores_is_reported(tmp_path):
    """The case ties-rank-column-contradicts-score: q1, line 3, and the order used."""
    path = tmp_path / "run.txt"
    run_of(path, "q1 Q0 a 1 0.50 s\nq1 Q0 b 2 0.40 s\nq1 Q0 c 3 0.90 s\n")
    (finding,) = trec.run_findings(read_run_columns(path), path)

    assert finding.query_id == "q1"
    assert "run.txt:3:" in finding.message
    assert "order used is that of the scores" in finding.message


def test_shuffled_rows_and_tied_scores_are_no_contradiction(tmp_path):
    """Ranks that agree with scores may stand in any order; a tie agrees with every order."""
    path = tmp_path / "run.txt"
    run_of(path, "q1 Q0 b 2 0.4 s\nq2 Q0 b 1 9 s\nq1 Q0 a 1 0.5 s\nq1 Q0 c 3 0.4 s\n")
    assert trec.run_findings(read_run_columns(path), path) == []

    run_of(path, "q1 Q0 b 2 0.6 s\nq2 Q0 b 1 9 s\nq1 Q0 a 1 0.5 s\nq1 Q0 c 3 0.4 s\n")
    assert "run.txt:1:" in trec.run_findings(read_run_columns(path), path)[0].message


@given(st.lists(st.floats(-100, 100, width=32) | st.floats(-1e30, 1e30), min_size=1))
def test_written_scores_fall_strictly_even_in_32_bits(scores):
    """Any order becomes the score order, and a score is only ever lowered (property)."""
    fallen = trec.falling(scores)
    short = np.asarray(fallen, dtype=np.float32)

    assert (short[1:] < short[:-1]).all()
    assert all(after <= before for before, after in zip(scores, fallen, strict=True))
    assert fallen[0] == scores[0]


@pytest.mark.parametrize("score", [float("nan"), float("inf"), 1e300])
def test_scores_that_no_order_can_carry_are_refused(tmp_path, score):
    """NaN, infinity and numbers beyond 32 bits have no place in a run file (by definition)."""
    with pytest.raises(DataError, match="32-bit"):
        trec.write_run(tmp_path / "a.run", frame_of([("q", "d", score)]), tag="t")


def frame_of(rows):
    """A run frame of (query, document, score) in rank order within each query."""
    frame = pd.DataFrame(rows, columns=["query_id", "doc_id", "score"])
    frame.insert(2, "rank", frame.groupby("query_id").cumcount() + 1)
    return frame


@given(
    st.lists(
        st.tuples(IDS, IDS, st.integers(-9, 9)), min_size=1, max_size=9, unique_by=lambda r: r[:2]
    )
)
def test_a_written_run_reads_back(tmp_path_factory, rows):
    """Ids, ranks and the order come back; scores too where they fall (property)."""
    path = tmp_path_factory.mktemp("run") / "a.run"
    frame = frame_of(rows)
    trec.write_run(path, frame, tag="t")
    read = read_run_columns(path).to_pandas()

    queries = list(dict.fromkeys(frame["query_id"]))
    for query in queries:
        mine, theirs = frame[frame["query_id"] == query], read[read["query_id"] == query]
        assert theirs["doc_id"].tolist() == mine["doc_id"].tolist()
        assert theirs["rank"].tolist() == mine["rank"].tolist()
        assert theirs["score"].tolist() == trec.falling(mine["score"].tolist())
    assert list(dict.fromkeys(read["query_id"])) == queries


def test_trec_eval_ranks_a_written_run_as_it_was(tmp_path):
    """Tied and rising scores keep the order given: RR 1/1, not the 1/3 of a tie broken by id."""
    path = tmp_path / "a.run"
    rows = [("q", "a", 0.5), ("q", "b", 0.5), ("q", "c", 0.5 + 1e-9), ("q", "d", 0.4)]
    trec.write_run(path, frame_of(rows), tag="t")
    written = read_run_columns(path).to_pylist()
    scores = {"q": {row["doc_id"]: row["score"] for row in written}}
    judge = pytrec_eval.RelevanceEvaluator({"q": {"a": 1}}, {"recip_rank"})

    assert judge.evaluate(scores)["q"]["recip_rank"] == 1.0  # trec_eval; by hand: a is first
    assert written[3]["score"] == 0.4  # a score that falls is written as it is


@pytest.mark.parametrize("bad", ["a b", "a\tb", "#a", "", "a\nb"])
def test_ids_that_a_trec_file_cannot_hold_are_refused(tmp_path, bad):
    """A blank would shift the columns, a first # would make a comment (by definition)."""
    with pytest.raises(DataError, match="cannot hold the id"):
        trec.write_run(tmp_path / "a.run", frame_of([("q", bad, 1.0)]), tag="t")
    with pytest.raises(DataError, match="cannot hold the id"):
        trec.write_qrels(tmp_path / "a.qrels", {"q": {bad: 1}})
    assert list(tmp_path.iterdir()) == []


@given(st.dictionaries(IDS, st.dictionaries(IDS, st.integers(-2, 5), min_size=1), min_size=1))
def test_written_judgments_read_back(tmp_path_factory, qrels):
    """Writing then reading judgments is the identity (property)."""
    path = tmp_path_factory.mktemp("qrels") / "a.qrels"
    trec.write_qrels(path, qrels)

    assert trec.read_qrels(path) == qrels


SGML = """<top>
<num> Number: 301
<title> International Organized Crime
<desc> Description:
Identify organizations.
</top>

<top>
<num>302</num>
<title>
Polio
post
</title>
</top>
"""


def test_topics_are_read_from_blocks_and_from_lines(tmp_path):
    """The two usual forms of topics give id and title (by hand)."""
    (tmp_path / "topics.txt").write_text(SGML)
    (tmp_path / "topics.tsv").write_text("301\tCrime\n007\tPolio post\n")

    assert read_topics(tmp_path / "topics.txt") == {
        "301": "International Organized Crime",
        "302": "Polio post",
    }
    assert read_topics(tmp_path / "topics.tsv") == {"301": "Crime", "007": "Polio post"}
    (tmp_path / "topics.tsv").write_text("301\tCrime\n301\tPolio\n")
    with pytest.raises(DataError, match=r"topics\.tsv:2: the topic '301' stands twice"):
        read_topics(tmp_path / "topics.tsv")


def test_topics_with_judgments_are_a_labelled_set(tmp_path):
    """Unjudged topics are left out; a topic without a positive grade is unsupported."""
    (tmp_path / "topics.tsv").write_text("1\tone\n2\ttwo\n3\tthree\n")
    (tmp_path / "qrels.txt").write_text("1 0 d 2\n2 0 d 0\n")
    labelled = load(tmp_path)

    assert [(q.query_id, q.answerable) for q in labelled.queries] == [("1", True), ("2", False)]
    assert (labelled.form, labelled.highest_grade) == ("trec", 2)
    (tmp_path / "qrels.txt").write_text("9 0 d 2\n")
    with pytest.raises(DataError, match="judges the topic '9'"):
        load(tmp_path)


@shared
def test_real_run_files_are_read_whole():
    """Row counts of public files, by `wc -l`; one has words after the tag, one comments."""
    folder = Path(SHARED)
    rows = {
        "conformance/trec_eval/results.test": 1500,
        "conformance/trec_eval/results.trunc": 584,
        "conformance/trec_eval/results.comment.test.gz": 30100,
        "data/trec-runs/robust03/input.uic0301.gz": 99969,
    }

    assert {name: read_run_columns(folder / name).num_rows for name in rows} == rows
    plain = trec.read_qrels(folder / "conformance/trec_eval/qrels.test")
    marked = trec.read_qrels(folder / "conformance/trec_eval/qrels.test.with-comments")
    plain["301"]["CR#93E-1860"] = plain["301"].pop("CR93E-1860")  # a '#' inside an id stays
    assert marked == plain
