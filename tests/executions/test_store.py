"""The store: whole files, one writer, inputs that cannot change, order by recorded start."""

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pytest

from evalkit import executions
from evalkit.errors import ExecutionError, ParameterError


def rewrite(execution, **facts):
    executions.Execution(execution.folder).record(lambda manifest: manifest.update(facts))


def test_an_execution_begins_in_progress_under_its_utc_start(outputs):
    """The folder is named by start and label; the manifest has status, start and versions."""
    made = executions.create("first-try")
    manifest = made.manifest

    assert re.fullmatch(r"\d{8}T\d{6}Z-first-try", made.name)
    assert manifest["status"] == "in_progress"
    assert manifest["started"].replace("-", "").replace(":", "") == made.name.split("-")[0]
    assert manifest["environment"]["packages"]["numpy"] == __import__("numpy").__version__
    assert set(manifest["environment"]["code"]) == {"revision", "dirty"}


def test_two_that_start_in_one_second_have_two_folders(outputs, monkeypatch):
    """The second gets -2, the third -3: none writes into another's folder."""
    from evalkit.executions import store

    frozen = store.datetime(2026, 1, 2, 3, 4, 5, tzinfo=store.UTC)

    class Clock:
        @staticmethod
        def now(_zone):
            return frozen

    monkeypatch.setattr(store, "datetime", Clock)
    names = [executions.create("a").name for _ in range(3)]

    assert names == ["20260102T030405Z-a", "20260102T030405Z-a-2", "20260102T030405Z-a-3"]


@pytest.mark.parametrize("label", ["", "Up", "../out", "a b", "-a", "a" * 65, "ä"])
def test_a_label_that_is_no_folder_name_is_refused(outputs, label):
    """Nothing is created outside of outputs or under a name some system cannot hold."""
    with pytest.raises(ParameterError, match="label"):
        executions.create(label)
    assert not outputs.exists()


def test_a_name_cannot_lead_out_of_the_outputs(outputs):
    """`find` takes names of folders, not paths."""
    executions.create("a")
    for name in ("../outputs", ".", "", "a/b"):
        with pytest.raises(ExecutionError, match="No execution"):
            executions.find(name)


def test_an_unknown_name_is_answered_with_those_there_are(outputs):
    """The error lists the executions of the store."""
    made = executions.create("a")

    with pytest.raises(ExecutionError, match=rf"There are: {made.name}"):
        executions.find("b")


def test_an_input_recorded_twice_must_be_the_same(outputs):
    """A folder whose numbers come from two corpora would compare with neither."""
    made = executions.create("a")
    made.record_inputs(chunking="v1", cutoffs=(1, 3))
    made.record_inputs(chunking="v1", cutoffs=[1, 3])

    with pytest.raises(ExecutionError, match="was made with another chunking"):
        made.record_inputs(chunking="v2")
    assert made.inputs == {"chunking": "v1", "cutoffs": [1, 3]}


def test_writers_at_once_lose_nothing(outputs):
    """Twenty threads add one fact each under the lock: all twenty are there (property)."""
    made = executions.create("a")

    def add(number):
        made.record(lambda manifest: manifest["notebooks"].update({str(number): number}))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(20)))

    assert len(made.manifest["notebooks"]) == 20


def test_a_killed_writer_leaves_the_old_file_whole(outputs):
    """A process that dies inside a write leaves the table of before."""
    made = executions.create("a")
    made.write_frame("results", pd.DataFrame({"value": [1.0]}))
    code = (
        "import os, sys, pathlib, evalkit.files as files\n"
        "with files.replacing(pathlib.Path(sys.argv[1])) as scratch:\n"
        "    scratch.write_bytes(b'half a tab')\n"
        "    os._exit(9)\n"
    )
    path = made.folder / "results.parquet"
    killed = subprocess.run([sys.executable, "-c", code, str(path)])

    assert killed.returncode == 9
    assert made.read_frame("results")["value"].tolist() == [1.0]


def test_a_write_that_fails_leaves_the_old_file(outputs):
    """A NaN cannot stand in JSON: the write is an error, and the summary of before remains."""
    made = executions.create("a")
    made.write_json("summary", {"mean": 0.5})

    with pytest.raises(ValueError, match="nan"):
        made.write_json("summary", {"mean": float("nan")})
    assert made.read_json("summary") == {"mean": 0.5}
    assert not list(made.folder.glob(".*partial*"))


def test_a_missing_table_says_which_notebook_makes_it(outputs):
    """The reader is told what to run, not shown a stack of pandas."""
    with pytest.raises(ExecutionError, match=r"has no results\.parquet: run 02_evaluate"):
        executions.create("a").read_frame("results")


def test_history_is_ordered_by_recorded_start_and_not_by_directory_time(outputs):
    """b began in January, a in February; a was restored from an archive first (A57)."""
    a, b = executions.create("a"), executions.create("b")
    rewrite(a, started="2026-02-01T00:00:00Z")
    rewrite(b, started="2026-01-01T00:00:00Z")
    for each in (a, b):
        (each.folder / "outcomes.parquet").touch()
    os.utime(a.folder, (1, 1))

    assert [each.name for each in executions.history()] == [b.name, a.name]
    assert executions.newest().name == a.name


def test_one_broken_manifest_does_not_hide_the_others(outputs):
    """Half a manifest from another tool: history goes on without it, the timeline shows it."""
    good, bad = executions.create("good"), executions.create("bad")
    (bad.folder / "manifest.json").write_text('{"execution": ')
    (outputs / "collections" / "x").mkdir(parents=True)
    (outputs / "collections" / "manifest.json").write_text('{"format": 1}')

    assert [each.name for each in executions.history()] == [good.name]
    shown = executions.timeline().set_index("execution")["status"].to_dict()
    assert shown == {bad.name: "unreadable", good.name: "in_progress"}


def test_the_newest_is_of_the_set_asked_for(outputs):
    """Two sets: each has its own newest; a set nobody evaluated is an error."""
    for label, about in (("a", "runbooks"), ("b", "handbook")):
        made = executions.create(label)
        made.record_inputs(set={"name": about})
        (made.folder / "outcomes.parquet").touch()

    assert executions.newest(dataset="runbooks").manifest["label"] == "a"
    with pytest.raises(ExecutionError, match="on vault"):
        executions.newest(dataset="vault")


def test_a_notebook_works_in_the_one_named_then_the_drivers_then_the_newest(outputs, monkeypatch):
    """Name before environment before store; with a label a new one is begun."""
    named, newest = executions.create("named"), executions.create("newest")
    rewrite(newest, started="2999-01-01T00:00:00Z")
    (newest.folder / "outcomes.parquet").touch()

    assert executions.current("").name == newest.name
    assert executions.current("", label="fresh").manifest["label"] == "fresh"
    monkeypatch.setenv(executions.CURRENT, named.name)
    assert executions.current("", label="fresh").name == named.name
    assert executions.current(newest.name).name == newest.name


def test_finishing_records_status_end_and_facts(outputs):
    """The manifest says how it ended, when and why."""
    made = executions.create("a")
    executions.finish(made, "failed", reason="a question failed")

    manifest = json.loads((made.folder / "manifest.json").read_text(encoding="utf-8"))
    assert (manifest["status"], manifest["reason"]) == ("failed", "a question failed")
    assert manifest["ended"] >= manifest["started"]


def test_differences_name_leaves_on_both_sides():
    """A changed, an added and a removed leaf, by dotted name (by hand)."""
    old = {"set": {"name": "a", "version": "1"}, "only": 1}
    new = {"set": {"name": "b", "version": "1"}, "new": {"x": 2}}

    assert executions.differences(old, new) == {
        "new.x": (None, 2),
        "only": (1, None),
        "set.name": ("a", "b"),
    }
