"""Files are whole or not there."""

import json
import os
import stat

import pytest

from evalkit import files


def test_a_failure_while_writing_leaves_the_old_file(tmp_path):
    """What was there stays byte for byte, and no scratch file remains."""
    target = tmp_path / "results.json"
    target.write_text("old")

    with pytest.raises(RuntimeError, match="half-way"), files.replacing(target) as scratch:
        scratch.write_text("new but broken")
        raise RuntimeError("half-way")

    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    """When the flush to disk fails, the file before stays and the error is the system's."""
    target = tmp_path / "results.json"
    target.write_text("old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(OSError, match="No space left"):
        files.write_text(target, "new")
    assert target.read_text() == "old"


def test_a_nan_is_no_json(tmp_path):
    """The word NaN, which other readers refuse, never reaches a file."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.write_json(tmp_path / "x.json", {"mean": float("nan")})

    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="Windows has no file modes of this kind")
def test_a_written_file_has_the_usual_mode(tmp_path):
    """It follows the umask and not the privacy of a temporary file (by hand: 0o666 & ~0o022)."""
    before = os.umask(0o022)
    try:
        files.write_text(tmp_path / "a.txt", "a")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o644


def test_a_fingerprint_is_of_the_value_and_not_of_its_spelling():
    """Key order does not matter; a different value does."""
    one, same = {"b": [1, 2], "a": "ü"}, json.loads('{"a": "\\u00fc", "b": [1, 2]}')

    assert files.fingerprint(one) == files.fingerprint(same)
    assert files.fingerprint(one) != files.fingerprint({"b": [2, 1], "a": "ü"})
