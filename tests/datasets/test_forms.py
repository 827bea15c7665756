"""BEIR, Mixpeek, Kioku, CSV and Parquet: read under their own rules, written so they read back."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalkit.datasets import beir, check, kioku, load, mixpeek, read_qrels_columns, tables
from evalkit.datasets import read_run_columns as read_run
from evalkit.errors import DataError, LabelError
from evalkit.records import Requirement

SHARED = os.environ.get("EVALKIT_SHARED", "")


def lines(path, *rows):
    """Writes JSON Lines."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def beir_folder(folder, qrels="q1\t007\t1\nq1\tNA\t2\n"):
    """A BEIR folder of two documents and four queries, three of them of the test split."""
    lines(folder / "corpus.jsonl", {"_id": "007", "title": "T", "text": "x"},
          {"_id": "NA", "text": "", "metadata": {"year": 1970, "lang": "en"}})  # fmt: skip
    lines(
        folder / "queries.jsonl",
        {"_id": "q1", "text": "one?", "metadata": {"category": "c", "split": "test"}},
        {"_id": "q2", "text": "two?", "metadata": {"answerable": False, "split": "held-out"}},
        {"_id": "q3", "text": "three?", "metadata": {"answerable": False, "split": "train"}},
        {"_id": "q4", "text": "four?"},
    )
    (folder / "qrels").mkdir(exist_ok=True)
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + qrels)
    (folder / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq4\t007\t1\n")
    return folder


def test_a_beir_folder_gives_one_split_and_its_unanswerable_queries(tmp_path):
    """q3 belongs to train, q4 is judged only there (by definition)."""
    test, train = load(beir_folder(tmp_path)), load(tmp_path, split="train")

    assert [(q.query_id, q.answerable) for q in test.queries] == [("q1", True), ("q2", False)]
    assert test.queries[0].grades == {"007": 1, "NA": 2}
    assert (test.queries[0].split, test.queries[1].split) == ("", "held-out")
    assert test.documents[1].fields == {"year": "1970", "lang": "en"}
    assert (test.lowest_grade, test.highest_grade, test.chunking) == (0, 2, "document")
    assert [q.query_id for q in train.queries] == ["q2", "q3", "q4"]


@pytest.mark.parametrize(
    ("qrels", "said"),
    [
        ("q1\tx\t1\n", "test.tsv:2: judges 'x', which is not in corpus"),
        ("q9\t007\t1\n", "judges 'q9', which is not in queries"),
        ("q1\t007\t1\nq1\t007\t1\n", "test.tsv:3: the pair 'q1' '007' is judged twice"),
        ("q1\t007\t1.0\n", "test.tsv:2: the score must be an integer"),
        ("q1\t 007\t1\n", "test.tsv:2: 'corpus-id' holds the id ' 007'"),
        ("", "holds no judgment"),
    ],
)
def test_beir_judgments_that_fit_nothing_are_refused(tmp_path, qrels, said):
    """Unknown ids, doubled pairs and odd grades name file and line (by hand)."""
    with pytest.raises(DataError, match=said):
        load(beir_folder(tmp_path, qrels))


def test_a_missing_beir_file_is_named(tmp_path):
    """A split that does not exist says which file was looked for."""
    with pytest.raises(DataError, match=r"dev\.tsv: no such file"):
        load(beir_folder(tmp_path), split="dev")


def test_a_set_written_as_beir_reads_back(tmp_path):
    """What BEIR has no place for travels in metadata; nothing is lost (property)."""
    labelled = load(beir_folder(tmp_path / "a"))
    rich = replace(
        labelled.queries[0], topic="t", split="development", query_input={"text": "one?"},
        requirements=(Requirement("f", ("007", "NA")),),
    )  # fmt: skip
    labelled = replace(labelled, queries=(rich, labelled.queries[1]))
    beir.write_beir(labelled, tmp_path / "b" / "a")
    again = load(tmp_path / "b" / "a")

    assert again.queries == labelled.queries
    assert again.documents == labelled.documents


MIXPEEK = {
    "dataset_name": "shop",
    "relevance_field": "metadata.frame_key",
    "queries": [
        {"query_id": "q1", "query_input": {"text": "red shoe", "top_k": 5},
         "relevant_documents": ["f1", "f2"], "relevance_scores": {"f1": 5, "f2": 1}},
        {"query_id": "q2", "query_input": {"image": "u", "text": "x"},
         "relevant_documents": ["f3"]},
    ],
}  # fmt: skip


def mixpeek_file(path, **changes):
    """The data set above, its first query changed; a field set to None is left out."""
    first = {**MIXPEEK["queries"][0], **changes}
    first = {name: value for name, value in first.items() if value is not None}
    path.write_text(json.dumps({**MIXPEEK, "queries": [first, MIXPEEK["queries"][1]]}, indent=1))
    return path


def test_a_mixpeek_data_set_is_read(tmp_path):
    """B01: inputs, grades, the field to grade by; without scores every document has grade 1."""
    labelled = load(mixpeek_file(tmp_path / "set.json"))

    assert (labelled.name, labelled.relevance_field) == ("shop", "metadata.frame_key")
    assert labelled.queries[0].grades == {"f1": 5, "f2": 1}
    assert labelled.queries[0].text == "red shoe"
    assert labelled.queries[1].grades == {"f3": 1}
    assert labelled.queries[1].query_input == {"image": "u", "text": "x"}
    assert labelled.highest_grade == 5


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"relevant_documents": []}, "'q1' has no relevant document"),
        ({"relevance_scores": {"f1": 5}}, "lack the relevant document 'f2'"),
        ({"relevance_scores": {"f1": 6, "f2": 1}}, "integer 0 to 5, found 6"),
        ({"relevance_scores": {"f1": True, "f2": 1}}, "found True"),
        ({"relevance_scores": {"f1": 1, "f2": 1, "f9": 1}}, "'f9' a score, but"),
        ({"relevant_documents": ["f1", "f1"]}, "twice"),
        ({"relevant_documents": "f1"}, "must be a list"),
        ({"relevant_documents": [7]}, "ids are text"),
        ({"query_input": None}, "'query_input' is missing"),
        ({"query_id": "q2"}, "'q2' stands twice"),
        ({"relevant": []}, "unknown field"),
    ],
)
def test_mixpeek_rules_are_kept(tmp_path, changes, said):
    """B02: each broken rule is an error at the line of its query (by hand)."""
    with pytest.raises(DataError, match=said) as raised:
        load(mixpeek_file(tmp_path / "set.json", **changes))

    text = (tmp_path / "set.json").read_text().split("\n")
    starts = [number for number, line in enumerate(text, 1) if line == "  {"]
    assert raised.value.line == (starts[1] if changes == {"query_id": "q2"} else starts[0])


def test_a_mixpeek_set_without_queries_is_refused(tmp_path):
    """B02: zero queries is no data set."""
    (tmp_path / "set.json").write_text('{"dataset_name": "x", "queries": []}')

    with pytest.raises(DataError, match="at least one query"):
        load(tmp_path / "set.json")


def test_undeclared_inputs_name_what_is_accepted():
    """B03: the message lists the accepted keys; declared keys give no message."""
    query = replace(load_query(), query_input={"txt": "x", "text": "y"})

    assert "'txt'" in mixpeek.undeclared_input(query, ["text", "top_k"])
    assert "accepts text, top_k" in mixpeek.undeclared_input(query, ["text", "top_k"])
    assert mixpeek.undeclared_input(query, ["text", "txt"]) == ""


def load_query():
    """Any answerable question."""
    return load("runbooks").queries[0]


def test_a_mixpeek_set_written_reads_back(tmp_path):
    """Graded everywhere, it is the identity; an unsupported question is refused (property)."""
    labelled = load(mixpeek_file(tmp_path / "set.json"))
    mixpeek.write_mixpeek(labelled, tmp_path / "again.json")

    assert load(tmp_path / "again.json") == labelled
    with pytest.raises(LabelError, match="unsupported"):
        mixpeek.write_mixpeek(load("runbooks"), tmp_path / "no.json")


def vault(folder, relevant):
    """A vault of two notes with a golden set of one query and one probe."""
    (folder / "Salud").mkdir(parents=True)
    (folder / "Salud" / "Burnout Laboral.md").write_text("---\ntags: [a]\n---\nTexto.\n")
    (folder / "b.md").write_text("Otro.\n")
    queries = [{"id": "q1", "query": "burnout", "relevant": relevant},
               {"id": "q2", "query": "nada", "relevant": []}]  # fmt: skip
    (folder / "golden-set.json").write_text(json.dumps({"queries": queries}))
    return folder


def test_a_vault_with_its_golden_set_is_read(tmp_path):
    """C01, C02: default grade 1, an empty list is a probe, paths compare as Kioku compares."""
    relevant = [{"path": " /salud\\burnout laboral.md"}, {"path": "B.md", "grade": 3}]
    labelled = load(vault(tmp_path, relevant))

    assert labelled.queries[0].grades == {"Salud/Burnout Laboral.md": 1, "b.md": 3}
    assert [query.answerable for query in labelled.queries] == [True, False]
    assert [note.document_id for note in labelled.documents] == ["Salud/Burnout Laboral.md", "b.md"]
    assert labelled.form == "kioku"


def test_the_golden_lint_names_query_and_path(tmp_path):
    """C03: an unknown path and a grade outside 1..3 are errors that name both."""
    from evalkit.retrieval.chunking import cut

    labelled = load(vault(tmp_path, [{"path": "gone.md"}, {"path": "b.md", "grade": 4}]))
    found = [str(each) for each in check(labelled, cut(labelled.documents, labelled.chunking))]

    assert any("'q1' judges 'gone.md', which does not exist" in each for each in found)
    assert any("'q1': the grade 4 of 'b.md' is off the scale 1..3" in each for each in found)
    assert any("needs 20" in each for each in found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"queries": []}', "at least one query"),
        ('{"queries": {}}', "expected a list of queries"),
        ("[1]", ":1: expected an object"),
        ('[{"id": "a", "query": "", "relevant": []}]', "'question' is missing"),
        ('[{"id": "a", "query": " ", "relevant": []}]', "empty text"),
        ('[{"id": "a", "query": "x", "relevant": ["b", "b"]}]', "stands twice"),
        ('[{"id": "a", "query": "x", "relevant": [{"path": "b", "grade": "3"}]}]', "an integer"),
        ('[{"id": "a", "query": "x", "relevant": [{"path": "b", "grade": true}]}]', "bool true"),
        ('[\n{"id": "a", "query": "x", "relevant": []},\n{"id": "a"}]', ":3: .*'query|question"),
    ],
)
def test_a_golden_set_that_is_none_is_refused(tmp_path, text, said):
    """C01: an empty or malformed golden set does not load."""
    (tmp_path / "golden.json").write_text(text)

    with pytest.raises(DataError, match=said):
        load(tmp_path / "golden.json")


def test_a_kioku_set_written_reads_back(tmp_path):
    """Grades and probes come back; a grade Kioku does not have is refused (property)."""
    labelled = load(vault(tmp_path / "a", [{"path": "b.md", "grade": 2}]) / "golden-set.json")
    kioku.write_kioku(labelled, tmp_path / "golden-set.json")

    assert load(tmp_path / "golden-set.json") == labelled
    odd = replace(labelled.queries[0], grades={"b.md": 0})
    with pytest.raises(LabelError, match="1 to 3"):
        kioku.write_kioku(replace(labelled, queries=(odd,)), tmp_path / "x.json")


def test_csv_files_are_a_labelled_set(tmp_path):
    """Questions, judgments and documents in three tables; other columns become fields."""
    (tmp_path / "queries.csv").write_text(
        'query_id,text,category,answerable\n007,"one, two?",fact,\n8,no?,,false\n'
    )
    (tmp_path / "qrels.csv").write_text("query_id,doc_id,grade\n007,NA,2\n")
    (tmp_path / "corpus.csv").write_text("document_id,title,text,owner\nNA,T,x,ops\n")
    labelled = load(tmp_path)

    assert [(q.query_id, q.text, q.answerable) for q in labelled.queries] == [
        ("007", "one, two?", True),
        ("8", "no?", False),
    ]
    assert labelled.queries[0].grades == {"NA": 2}
    assert labelled.documents[0].fields == {"owner": "ops"}
    (tmp_path / "qrels.csv").write_text("query_id,doc_id,grade\n007,na,2\n")
    with pytest.raises(DataError, match=r"judges 'na', not in corpus\.csv"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", None, "expected a header"),
        ("q1,d1,1\n", 1, "the header must name query_id, doc_id, grade"),
        ("query_id,doc_id,grade,gradee\nq,d,1,1\n", 1, "the header must name"),
        ("query_id,doc_id,grade\nq,d\n", 2, "found 2 fields, the header has 3"),
        ("query_id,doc_id,grade\n\nq,d,1.0\n", 3, "the grade must be a number"),
        ("query_id,doc_id,grade\nq,d,\n", 2, "the grade must be a number, found ''"),
        ('query_id,doc_id,grade\nq,"d"x,1\n', 2, "not CSV"),
        ("query_id,doc_id,grade\nq,d,1\nq,d,2\n", 3, "stands twice"),
        ("query_id,doc_id,grade\n", None, "holds no row"),
    ],
)
def test_a_csv_that_is_none_is_refused(tmp_path, text, line, said):
    """Header, width and numbers are checked; the line is the file's own (by hand)."""
    (tmp_path / "a.csv").write_text(text)

    with pytest.raises(DataError, match=said) as raised:
        read_qrels_columns(tmp_path / "a.csv")
    assert raised.value.line == line


RUN = pa.table(
    {"query_id": ["007", "007"], "doc_id": ["NA", "1e5"], "rank": [1, 2], "score": [0.1 + 0.2, 0.1]}
)


@pytest.mark.parametrize("name", ["run.csv", "run.parquet"])
def test_a_run_written_as_a_table_reads_back(tmp_path, name):
    """Ids, ranks and every digit of the scores survive (property)."""
    tables.write_table(tmp_path / name, RUN)

    assert read_run(tmp_path / name).equals(RUN)


def test_ids_written_in_two_ways_are_warned_about():
    """Case, zeros and Unicode form between a run and its judgments; exact partners are silent."""
    qrels = pa.table({"query_id": ["7", "7"], "doc_id": ["NA", "1E5"], "grade": [1, 1]})
    same = qrels.set_column(0, "query_id", pa.array(["007", "007"]))

    assert [str(found)[:46] for found in tables.join_findings(RUN, qrels)] == [
        "warning: the query '007' of the run is '7' in "
    ]
    assert ["'1e5'" in str(found) for found in tables.join_findings(RUN, same)] == [True]
    assert tables.join_findings(RUN, RUN) == []


def test_a_run_without_ranks_is_ranked_as_it_stands(tmp_path):
    """The rows of a query are in rank order where no column says so (by definition)."""
    (tmp_path / "a.csv").write_text("query_id,doc_id,score\nq,a,1\np,a,5\nq,b,2\n")

    assert read_run(tmp_path / "a.csv")["rank"].to_pylist() == [1, 1, 2]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"doc_id": [7, 1]}, "ids are text"),
        ({"doc_id": ["a", None]}, "empty cell"),
        ({"doc_id": ["a", " b"]}, "white space"),
        ({"score": [1.0, float("nan")]}, "NaN"),
        ({"rank": [1.0, 1.5]}, "'rank'"),
    ],
)
def test_a_parquet_table_with_odd_columns_is_refused(tmp_path, changes, said):
    """Numbers as ids, empty cells, padded ids and NaN scores are errors (by definition)."""
    pq.write_table(pa.table({**RUN.to_pydict(), **changes}), tmp_path / "a.parquet")

    with pytest.raises(DataError, match=said):
        read_run(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_text("no")
    with pytest.raises(DataError, match="not Parquet"):
        read_run(tmp_path / "b.parquet")


def test_a_path_that_is_no_set_says_what_was_looked_for(tmp_path):
    """The refusal lists the forms, so that a reader knows what to supply."""
    with pytest.raises(DataError, match=r"set\.toml \(native\), qrels/ \(BEIR\)"):
        load(tmp_path)
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(DataError, match="expected a folder"):
        load(tmp_path / "a.txt")


@pytest.mark.skipif(not SHARED, reason="EVALKIT_SHARED names no folder of real collections")
@pytest.mark.parametrize(
    ("name", "documents", "queries", "answerable", "judgments"),
    [  # the counts their ORIGIN.md states
        ("cranfield", 1400, 225, 225, 1837),
        ("scifact", 5183, 300, 300, 339),
        ("xquad-es", 240, 1190, 1190, 1190),
        ("squad2-dev", 1216, 6078, 2910, 2910),
        ("kioku-evalvault", 27, 24, 22, 43),
    ],
)
def test_real_collections_have_their_published_counts(
    name, documents, queries, answerable, judgments
):
    """Documents, queries, answerable queries and judgments as published."""
    labelled = load(Path(SHARED) / "data" / name)

    assert len(labelled.documents) == documents
    assert len(labelled.queries) == queries
    assert sum(query.answerable for query in labelled.queries) == answerable
    assert sum(len(query.grades) for query in labelled.queries) == judgments
