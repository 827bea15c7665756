"""Any retriever as a plain callable: checked answers, and the libraries people bring."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import ParameterError, RetrievalError, SkippedQueryError
from evalkit.files import file_digest
from evalkit.records import LabelledSet
from evalkit.retrieval import from_callable, open_retrievers


def test_the_functions_order_and_evidence_are_kept() -> None:
    """Ranks count from 1 in the order given, with text and payload where they are given."""
    rows = [("b", 0.1), ("a", 0.9, "words", {"lang": "en"})]
    hits = from_callable(lambda question, k: rows, "mine").search(["q"], 2)[0]
    assert [(h.doc_id, h.score, h.rank, h.text) for h in hits] == [
        ("b", 0.1, 1, ""),
        ("a", 0.9, 2, "words"),
    ]
    assert hits[1].payload == {"lang": "en"}


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([(7, 0.5)], "id as text"),
        ([("", 0.5)], "id as text"),
        ([("a",)], "id as text"),
        ([("a", float("nan"))], "score nan"),
        ([("a", float("inf"))], "score inf"),
        ([("a", True)], "score True"),
        ([("a", 0.2), ("b", 0.1)], "2 hits where 1 were asked for"),
    ],
)
def test_an_unusable_answer_is_refused(rows: list[Any], says: str) -> None:
    """Ids are text, scores are finite numbers, and never more than k come back."""
    with pytest.raises(RetrievalError, match=says):
        from_callable(lambda question, k: rows, "mine").search(["q"], 1)


def test_an_undeclared_input_is_refused_and_the_accepted_are_named() -> None:
    """The key would otherwise be ignored and the question answered by half (B03)."""
    mine = from_callable(lambda text, k: [], "mine", inputs=["text", "k"])
    with pytest.raises(SkippedQueryError, match="does not take tetx; it takes text, k"):
        mine.search_inputs([{"tetx": "q"}], 3)


def test_k_is_given_only_where_it_is_declared_and_the_data_sets_value_wins() -> None:
    """A declared k is filled in; one in the data set stays; an undeclared one is not sent (B16)."""
    seen: list[dict[str, Any]] = []

    def remember(**given: Any) -> list[tuple[str, float]]:
        seen.append(given)
        return []

    from_callable(remember, "with", inputs=["question", "k"]).search(["q"], 3)
    from_callable(remember, "own", inputs=["question", "k"]).search_inputs(
        [{"question": "q", "k": 2}], 3
    )
    from_callable(remember, "without", inputs=["question"]).search(["q"], 3)
    assert seen == [{"question": "q", "k": 3}, {"question": "q", "k": 2}, {"question": "q"}]


def test_a_name_of_ours_cannot_be_taken() -> None:
    """A table with two rows named semantic would mislead."""
    with pytest.raises(ParameterError, match="a name of its own"):
        from_callable(lambda question, k: [], "semantic")


MODULE = """
def search(question, k):
    return [(f"{question}-{rank}", 1 / rank) for rank in range(1, k + 1)]
search.axis = "mine"
class Service:
    @staticmethod
    def ask(text):
        return [(text, 1.0)]
number = 7
"""


@pytest.fixture
def my_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module of the user's, and one that cannot be imported."""
    (tmp_path / "my_search.py").write_text(MODULE, "utf-8")
    (tmp_path / "my_broken.py").write_text("1 / 0", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("my_search", None)


def test_a_mode_may_be_a_function_of_your_own(my_search: Path, store: Path) -> None:
    """`module:function` beside our modes: its parameters are its inputs, its name fits a file.

    Nothing is indexed and no embedder is opened for it.
    """
    modes = ["my_search:search", "keyword", "my_search:Service.ask"]
    labelled = LabelledSet("none", "1", (), (), "document", 1)
    mine, _, other = open_retrievers(modes, labelled, [], "none such", store)
    assert (mine.mode, mine.axis) == ("my_search.search", "mine")
    assert [hit.doc_id for hit in mine.search(["q"], 2)[0]] == ["q-1", "q-2"]
    assert (other.mode, other.describe()["inputs"]) == ("my_search.Service.ask", ["text"])
    assert not set(mine.mode) & set('<>:"/\\|?*')  # none that a file's name cannot have
    assert mine.describe()["source_sha256"] == file_digest(my_search / "my_search.py")


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("no_such_module:search", "importing 'no_such_module' failed .*No module named"),
        ("my_broken:search", "importing 'my_broken' failed .*ZeroDivisionError"),
        ("my_search:serch", "'my_search' has no function 'serch'"),
        ("my_search:number", "'my_search' has no function 'number'"),
        ("my_search:Service.gone.ask", "has no function 'Service.gone.ask'"),
        ("my_search:", "or module:function"),
    ],
)
def test_a_mode_that_names_no_function_is_one_sentence(
    mode: str, says: str, my_search: Path, store: Path
) -> None:
    """The module, the function, and what to do."""
    labelled = LabelledSet("none", "1", (), (), "document", 1)
    with pytest.raises(ParameterError, match=says):
        open_retrievers([mode], labelled, [], "none such", store)


def test_a_langchain_retriever() -> None:
    """A real LangChain vector store in two lines; its own scores are kept."""
    from langchain_core.documents import Document
    from langchain_core.embeddings import DeterministicFakeEmbedding
    from langchain_core.vectorstores import InMemoryVectorStore

    library = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    library.add_documents([Document(id=name, page_content=name) for name in ("a", "b", "c")])

    def ask(question: str, k: int) -> list[tuple[str, float, str]]:
        found = library.similarity_search_with_score(question, k=k)
        return [(str(doc.id), score, doc.page_content) for doc, score in found]

    hits = from_callable(ask, "langchain", "cosine").search(["b"], 2)[0]
    assert hits[0].doc_id == "b" and hits[0].score == pytest.approx(1.0)  # the same text


def test_a_llamaindex_retriever() -> None:
    """A real LlamaIndex retriever in two lines."""
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, TextNode

    class Fixed(BaseRetriever):
        def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
            nodes = [TextNode(id_=name, text=name) for name in ("a", "b", "c")]
            return [NodeWithScore(node=node, score=1 / (i + 1)) for i, node in enumerate(nodes)]

    library = Fixed()

    def ask(question: str, k: int) -> list[tuple[str, float, str]]:
        found = library.retrieve(question)[:k]
        return [(row.node.node_id, row.score, row.node.get_content()) for row in found]

    hits = from_callable(ask, "llamaindex").search(["q"], 2)[0]
    assert [(h.doc_id, h.score) for h in hits] == [("a", 1.0), ("b", 0.5)]


def test_an_http_endpoint(server: Any) -> None:
    """An endpoint that speaks JSON, in four lines."""
    server.reply = lambda method, path, body: (
        200,
        {
            "hits": [
                {"id": f"{body['query']}-{i}", "score": 1 / i} for i in range(1, body["top"] + 1)
            ]
        },
    )

    def ask(question: str, k: int) -> list[tuple[str, float]]:
        data = json.dumps({"query": question, "top": k}).encode()
        with urllib.request.urlopen(server.url + "/search", data, timeout=10) as reply:
            return [(row["id"], row["score"]) for row in json.load(reply)["hits"]]

    hits = from_callable(ask, "service").search(["q"], 2)[0]
    assert [(h.doc_id, h.score) for h in hits] == [("q-1", 1.0), ("q-2", 0.5)]
