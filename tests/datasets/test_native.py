"""The native folder: read strictly, refused with file and line, written so that it reads back."""

import json
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.datasets import load, native, sealed, write_native
from evalkit.errors import DataError, LabelError
from evalkit.records import Document, LabelledSet, Query, Requirement

HEADER = """
name = "tiny"
version = "1"
chunking = "section-paragraphs-80w-overlap1-v1"
complete = true
[grades]
lowest = 0
highest = 2
[eligibility]
document_type = "runbook"
"""
DOCUMENT = "---\ntitle: A title: with a colon\ndocument_type: runbook\n---\n# A\n\nText.\n"
QUERY = {
    "query_id": "007",
    "text": "Why?",
    "category": "fact",
    "answerable": True,
    "judgments": {"a#intro/p0": 2},
    "requirements": [{"fact": "the cause", "any_of": ["a#intro/p0"]}],
    "note": "for reviewers",
}


def folder_of(path, header=HEADER, documents=(("a", DOCUMENT),), queries=(QUERY,)):
    """Writes a native folder; `queries` are objects, or raw lines."""
    (path / "documents").mkdir(exist_ok=True)
    (path / "set.toml").write_text(header, encoding="utf-8")
    for name, text in documents:
        (path / "documents" / f"{name}.md").write_text(text, encoding="utf-8")
    lines = [row if isinstance(row, str) else json.dumps(row) for row in queries]
    (path / "queries.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_native_folder_is_read_as_written(tmp_path):
    """Ids, front matter and judgments arrive exactly; doc_ids get the set's chunking."""
    labelled = load(folder_of(tmp_path))

    assert labelled.queries[0].query_id == "007"  # by definition: ids are text
    unit = "a#intro/p0@section-paragraphs-80w-overlap1-v1"
    assert labelled.queries[0].grades == {unit: 2}
    assert labelled.queries[0].requirements == (Requirement("the cause", (unit,)),)
    assert labelled.documents == (
        Document("a", "A title: with a colon", "# A\n\nText.\n", {"document_type": "runbook"}),
    )
    assert set(labelled.fingerprints) == {"corpus", "queries", "judgments"}


def test_byte_order_marks_and_windows_line_ends_change_nothing(tmp_path):
    """The same folder saved by a Windows editor has the same fingerprints (property)."""
    plain = load(folder_of(tmp_path))
    for path in tmp_path.rglob("*.*"):
        if path.is_file():
            path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))

    assert load(tmp_path).fingerprints == plain.fingerprints


BAD_LINES = [
    ('{"query_id": 7}', "quotation marks"),
    ('{"query_id": " q "}', "white space"),
    ('{"query_id": ""}', "is empty"),
    ('{"query_id": "q\\u0000"}', "NUL"),
    ('{"query_id": "\\ud800"}', "half a character"),
    ('{"query_id": "q\\n"}', "white space"),
    ('{"query_id": "q\\u0001q"}', "control"),
    ('{"query_id": "q", "query_id": "p"}', "twice"),
    ('{"query_id": NaN}', "finite"),
    ('{"query_id": 1e999}', "finite"),
    ('{"query_id": ' + "9" * 5000 + "}", "not read"),
    ("[" * 200_000, "nested"),
    ('["q"]', "expected an object"),
    ("{", "not JSON"),
    ({**QUERY, "judgment": {}}, "unknown field 'judgment'"),
    ({**QUERY, "answerable": "yes"}, "true or false"),
    ({**QUERY, "text": "  "}, "is empty"),
    ({**QUERY, "split": "test"}, "'split' must be one of"),
    ({**QUERY, "judgments": {"a": 2}}, "document#chunk"),
    ({**QUERY, "judgments": {"b#p0": 2}}, "not in the set"),
    ({**QUERY, "judgments": {"a#p0": 3}}, "from 0 to 2, found 3"),
    ({**QUERY, "judgments": {"a#p0": True}}, "found True"),
    ({**QUERY, "judgments": {"a#p0": 1.0}}, "found 1.0"),
    ({**QUERY, "judgments": ["a#p0"]}, "must be an object"),
    ({**QUERY, "requirements": ["x"]}, "any_of"),
    ({**QUERY, "requirements": [{"fact": "x", "any_of": []}]}, "at least one"),
    ({**QUERY, "requirements": [{"fact": "x", "any_of": "a#p0"}]}, "must be a list"),
    (QUERY, "stands twice"),
    ({key: QUERY[key] for key in ("query_id", "text")}, "'answerable' is missing"),
]


@pytest.mark.parametrize(("line", "said"), BAD_LINES, ids=[said for _, said in BAD_LINES])
def test_a_bad_line_is_refused_with_file_and_line(tmp_path, line, said):
    """Each malformed question stops the reading; the message says where and what."""
    folder_of(tmp_path, queries=(QUERY, "", line))

    with pytest.raises(DataError, match="(?s)queries.jsonl:3: .*" + said) as raised:
        load(tmp_path)
    assert raised.value.line == 3  # by hand: one query, one blank line, then the bad one


BAD_FILES = [
    ("queries.jsonl", b"", "holds no query"),
    ("queries.jsonl", b'\n{"query_id": "\xff"}', ":2: byte 0xff is not UTF-8"),
    ("queries.jsonl", b"\n\n\0", ":3: a NUL"),
    ("queries.jsonl", b"\x1f\x8b\x08", "damaged gzip"),
    ("set.toml", b"name = ", "not TOML"),
    ("set.toml", HEADER.replace("complete", "Complete").encode(), "unknown field 'Complete'"),
    ("set.toml", HEADER.replace("highest = 2", "").encode(), "'highest' is missing"),
    ("set.toml", HEADER.replace("highest = 2", "highest = 0").encode(), "lowest < relevant_from"),
    ("set.toml", HEADER.replace('version = "1"', "version = 1").encode(), "ids are text"),
    ("documents/a.md", b"# A\n", ":1: expected front matter"),
    ("documents/a.md", b"---\ntitle: A\n", ":1: the front matter is not closed"),
    ("documents/a.md", b"---\ntitle: A\nno colon\n---\n", ":3: front matter with no"),
    ("documents/a.md", b"---\ntitle: A\ntitle: B\n---\n", ":3: front matter with a key"),
    ("documents/a.md", b"---\nowner: A\n---\n", "no title"),
]


@pytest.mark.parametrize(("name", "data", "said"), BAD_FILES)
def test_a_bad_file_is_refused_by_name(tmp_path, name, data, said):
    """A file that is not what its name claims is an error that names it."""
    (folder_of(tmp_path) / name).write_bytes(data)

    with pytest.raises(DataError, match=said) as raised:
        load(tmp_path)
    assert raised.value.path == str(tmp_path / name)


def test_missing_parts_are_named(tmp_path):
    """A folder without documents, and a path that does not exist, say what was looked for."""
    with pytest.raises(DataError, match="built-in set"):
        load(tmp_path / "nowhere")
    with pytest.raises(DataError, match="not a labelled set"):
        load(tmp_path)
    folder_of(tmp_path, documents=())
    with pytest.raises(DataError, match="no Markdown file"):
        load(tmp_path)
    (tmp_path / "documents").rmdir()
    (tmp_path / "corpus.jsonl").write_text('{"document_id": "a", "text": ""}\n' * 2)
    with pytest.raises(DataError, match=r"corpus\.jsonl:2: the document 'a' stands twice"):
        load(tmp_path)


def test_hidden_files_are_no_documents(tmp_path):
    """JupyterLab leaves checkpoints beside what was opened; they are not read (by definition)."""
    folder_of(tmp_path)
    hidden = tmp_path / "documents" / ".ipynb_checkpoints"
    hidden.mkdir()
    (hidden / "a-checkpoint.md").write_text(DOCUMENT)

    assert [document.document_id for document in load(tmp_path).documents] == ["a"]


def test_a_grade_off_the_scale_is_a_label_error(tmp_path):
    """Labels that contradict the set are told from files that cannot be read (by definition)."""
    with pytest.raises(LabelError):
        load(folder_of(tmp_path, queries=({**QUERY, "judgments": {"a#p0": -1}},)))


def test_fingerprints_follow_content_and_not_order(tmp_path):
    """Swapping questions changes nothing; one grade changes only the judgments (property)."""
    second = {**QUERY, "query_id": "8", "text": "How?"}
    first = load(folder_of(tmp_path, queries=(QUERY, second)))
    swapped = load(folder_of(tmp_path, queries=(second, QUERY)))
    graded = load(folder_of(tmp_path, queries=(QUERY, {**second, "judgments": {"a#intro/p0": 1}})))

    assert swapped.fingerprints == first.fingerprints
    assert graded.fingerprints["corpus"] == first.fingerprints["corpus"]
    assert graded.fingerprints["queries"] == first.fingerprints["queries"]
    assert graded.fingerprints["judgments"] != first.fingerprints["judgments"]


ODD = ["007", "7", "NA", "1e5", "é", "e\u0301", "a#b", "#a", "true", "12345678901234567890"]
IDS = st.sampled_from(ODD) | st.text(
    st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=8
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
FIELDS = st.dictionaries(IDS, TEXTS, max_size=2)
QUESTIONS = st.builds(
    Query,
    query_id=IDS,
    text=TEXTS.filter(str.strip),
    answerable=st.booleans(),
    category=TEXTS,
    split=st.sampled_from(native.SPLITS),
    topic=TEXTS,
    grades=st.dictionaries(IDS, st.integers(-1, 3), max_size=3),
    query_input=FIELDS,
    requirements=st.lists(
        st.builds(Requirement, IDS, st.lists(IDS, min_size=1, unique=True).map(tuple)), max_size=2
    ).map(tuple),
)
SETS = st.builds(
    LabelledSet,
    name=IDS,
    version=IDS,
    documents=st.just(()),
    queries=st.lists(QUESTIONS, min_size=1, max_size=3, unique_by=lambda query: query.query_id).map(
        tuple
    ),
    chunking=st.just("document"),
    lowest_grade=st.just(-1),
    highest_grade=st.just(3),
    complete=st.booleans(),
    eligibility=FIELDS,
    language=TEXTS,
    source=TEXTS,
)


@given(labelled=SETS, text=TEXTS, title=TEXTS, fields=FIELDS)
def test_writing_then_reading_is_the_identity(tmp_path_factory, labelled, text, title, fields):
    """A set written as a native folder reads back equal, odd ids and texts included (property)."""
    judged = {key for query in labelled.queries for key in query.grades} | {
        key for query in labelled.queries for need in query.requirements for key in need.any_of
    }
    documents = tuple(Document(key, title, text, fields) for key in sorted(judged))
    whole = sealed(replace(labelled, documents=documents))
    folder = tmp_path_factory.mktemp("set")
    write_native(whole, folder)

    assert load(folder) == whole


def test_chunked_judgments_lose_and_regain_the_chunking(tmp_path):
    """Written keys are document#chunk again, so the folder reads back equal (property)."""
    labelled = load(folder_of(tmp_path))
    write_native(labelled, tmp_path / "copy")

    assert '"a#intro/p0": 2' in (tmp_path / "copy" / "queries.jsonl").read_text()
    assert load(tmp_path / "copy") == labelled


def test_reading_deeply_nested_toml_does_not_end_the_process(tmp_path):
    """Nesting past Python's own bound is a refusal like any other."""
    depth = sys.getrecursionlimit() * 2
    (folder_of(tmp_path) / "set.toml").write_text(f"name = {'[' * depth}{']' * depth}\n")

    with pytest.raises(DataError, match="not TOML"):
        load(tmp_path)
