"""Every case of kind parsing: small files from public bug reports, with what must be read."""

import base64
import json
from pathlib import Path

import pytest

from evalkit.datasets import beir, kioku, load, read_qrels_columns, read_run_columns, trec
from evalkit.errors import DataError

CASES = Path(__file__).parents[1] / "data" / "cases" / "parsing"


@pytest.fixture
def case(request, tmp_path):
    """The case of the marked name: its expectation, its files written to a folder."""
    content = json.loads((CASES / f"parsing-{request.param}.json").read_text(encoding="utf-8"))
    for name, file in content["input"]["files"].items():
        data = base64.b64decode(file["base64"]) if "base64" in file else file["text"].encode()
        (tmp_path / name).write_bytes(data)
    return content["expected"], tmp_path


def about(name):
    """Runs the test on the named case."""
    return pytest.mark.parametrize("case", [name], indirect=True, ids=[f"parsing-{name}"])


def grades(table):
    """Judgment columns as query -> document -> grade."""
    found = {}
    for row in table.to_pylist():
        found.setdefault(row["query_id"], {})[row["doc_id"]] = row["grade"]
    return found


def test_every_case_of_the_kind_is_tested():
    """A case file added without a test fails here (by definition)."""
    source = Path(__file__).read_text(encoding="utf-8")

    assert all(f'@about("{path.stem[8:]}")' in source for path in CASES.glob("*.json"))


@about("byte-order-mark")
def test_a_byte_order_mark_is_never_data(case):
    """The same ids come out of every reader, CSV, JSON, JSON Lines and TREC (case)."""
    expected, folder = case
    found = {
        "qrels.csv": list(grades(read_qrels_columns(folder / "qrels.csv"))),
        "qrels.trec": list(trec.read_qrels(folder / "qrels.trec")),
        "run.trec": read_run_columns(folder / "run.trec")["query_id"].to_pylist(),
        "golden.json": [query.query_id for query in load(folder / "golden.json").queries],
        "golden.jsonl": [query.query_id for query in load(folder / "golden.jsonl").queries],
    }

    assert found == expected["query_ids"]


@about("csv-ids-na-and-numbers")
def test_csv_ids_are_text(case):
    """NA, null, 007 and 1e5 are ids, not missing values or numbers (case)."""
    expected, folder = case
    found = grades(read_qrels_columns(folder / "qrels.csv"))

    assert found == expected["qrels"]
    assert len(found["q1"]) == expected["judgments"]


@about("expected-ids-given-as-string")
def test_a_string_is_no_list_of_ids(case):
    """One id typed as a string is refused; the message names query, field and list (case)."""
    expected, folder = case
    with pytest.raises(DataError) as raised:
        load(folder / "golden.json")

    assert all(word in str(raised.value) for word in expected["any_of"][0]["message_must_name"])


@about("header-row")
def test_a_beir_header_is_there_or_missed_aloud(case):
    """Two judgments with a header; an error without one, or with TREC's four columns (case)."""
    expected, folder = case

    assert beir.read_qrels(folder / "with.tsv") == expected["with.tsv"]
    with pytest.raises(DataError, match="header"):
        beir.read_qrels(folder / "without.tsv")
    with pytest.raises(DataError, match="4 columns"):
        beir.read_qrels(folder / "trec_like.tsv")
    trec_like = expected["trec_like.tsv"]["any_of"][0]
    assert grades(read_qrels_columns(folder / "trec_like.tsv")) == trec_like


@about("json-integer-ids")
def test_json_integers_are_no_ids(case):
    """Decision: ids are text, so 7, 7.0, true and null are refused with their line (case)."""
    _, folder = case
    for name in ("golden.jsonl", "bad.jsonl", "bad2.jsonl", "bad3.jsonl"):
        with pytest.raises(DataError, match="'id' holds the id") as raised:
            load(folder / name)
        assert raised.value.line == 1


@about("large-integer-ids")
def test_nineteen_digits_survive_and_an_empty_id_is_refused(case):
    """Two ids that share a float64 stay two; an empty cell names line 3 and doc_id (case)."""
    expected, folder = case

    assert grades(read_qrels_columns(folder / "ok.csv")) == expected["ok.csv"]
    with pytest.raises(DataError, match="'doc_id' holds the id '', which is empty") as raised:
        read_qrels_columns(folder / "empty.csv")
    assert raised.value.line == 3


@about("tsv-lone-quotes")
def test_quotation_marks_in_tab_files_are_characters(case):
    """A stray quote swallows no line (case)."""
    expected, folder = case

    assert beir.read_qrels(folder / "test.tsv") == expected["qrels"]
    assert grades(read_qrels_columns(folder / "test.tsv")) == expected["qrels"]


@about("white-space-in-ids")
def test_blanks_and_tabs_separate_and_other_spaces_belong_to_ids(case):
    """TREC fields end at blanks and tabs only; a padded CSV id is refused, not trimmed (case)."""
    expected, folder = case
    for name in ("tabs.trec", "mixed.trec", "nbsp.trec", "ideographic.trec"):
        assert read_run_columns(folder / name)["doc_id"].to_pylist() == expected[name]
    with pytest.raises(DataError, match="white space") as raised:
        read_qrels_columns(folder / "padded.csv")
    assert raised.value.line == 2


def test_the_plain_golden_form_keeps_ids_exact(tmp_path):
    """Plain ids are not paths: case and slashes stay (by definition)."""
    path = tmp_path / "golden.json"
    path.write_text('[{"id": "Q", "question": "x?", "relevant": ["/A\\\\b", "a"]}]')

    assert list(kioku.read_golden(path).queries[0].grades) == ["/A\\b", "a"]
