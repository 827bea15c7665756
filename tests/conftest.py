"""What holds for every test: nothing of the caller's environment decides a result."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

KEPT = {"EVALKIT_SHARED", "EVALKIT_REQUIRE_BROWSER"}
ENGINES = ("QDRANT_URL", "QDRANT_API_KEY", "QDRANT_GRPC_PORT", "OLLAMA_HOST", "OLLAMA_MODEL")
# read once, before anything is cleared: what `live` tests are allowed to talk to
LIVE = {name: os.environ[name] for name in ENGINES if os.environ.get(name)}


@pytest.fixture(scope="session", autouse=True)
def _no_settings_from_outside() -> Iterator[None]:
    """Clears what names an engine or an outputs folder, for all tests and their processes."""
    ours = {name for name in os.environ if name.startswith("EVALKIT_")} - KEPT
    with pytest.MonkeyPatch.context() as patch:
        for name in (*ENGINES, *ours):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Gives one of the caller's settings and sets its engines again; skips where it is not set."""

    def setting(name: str) -> str:
        if name not in LIVE or LIVE[name].startswith("edge:"):
            pytest.skip(f"{name} names no real server")
        for each, value in LIVE.items():
            monkeypatch.setenv(each, value)
        return LIVE[name]

    return setting
