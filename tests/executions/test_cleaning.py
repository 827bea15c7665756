"""Old executions removed: only after asking, never a baseline, never a person's file."""

import pytest
from filelock import FileLock

from evalkit import executions
from evalkit.errors import ParameterError


def yes(_question):
    return True


def dated(execution, day):
    execution.record(lambda manifest: manifest.update(started=f"2026-01-{day:02}T00:00:00Z"))
    return execution


@pytest.fixture
def four(evaluated):
    """Four executions, oldest first."""
    return [dated(evaluated(f"day{day}"), day) for day in range(1, 5)]


def test_the_newest_are_kept_by_recorded_start(four):
    """keep 1 of 4: the three older ones go, whole."""
    said = executions.clean(1, yes)

    assert [each.folder.exists() for each in four] == [False, False, False, True]
    assert said == [f"removed {each.name}" for each in four[:3]]


def test_nothing_goes_without_a_yes(four):
    """The question lists every execution by name; "no" leaves all of them."""
    asked = []
    said = executions.clean(2, lambda question: asked.append(question) or False)

    assert all(each.name in asked[0] for each in four[:2])
    assert not any(each.name in asked[0] for each in four[2:])
    assert said == ["Nothing was removed."]
    assert all(each.folder.exists() for each in four)


def test_baselines_stay(four, outputs):
    """`reference`, one marked keep, and one that another names as its baseline are kept."""
    reference = dated(executions.create("reference", name="reference"), 1)
    four[0].record(lambda manifest: manifest.update(keep=True))
    four[3].record(lambda manifest: manifest.update(baseline=four[1].name))
    executions.clean(0, yes)

    kept = [each.folder.exists() for each in (reference, *four)]
    assert kept == [True, True, True, False, False]


def test_a_persons_file_is_never_deleted(four):
    """Notes and reviewed findings beside the tables stay, and so does their folder."""
    for name in ("notes.md", "findings.csv", "my-analysis.ipynb"):
        (four[0].folder / name).write_text("mine")
    said = executions.clean(3, yes)

    left = ["findings.csv", "my-analysis.ipynb", "notes.md"]
    assert sorted(path.name for path in four[0].folder.iterdir()) == left
    assert said == [f"removed from {four[0].name} all but {', '.join(left)}"]


def test_folders_that_are_no_executions_are_not_looked_at(four, outputs):
    """Collections, caches and a stranger's folder are not executions."""
    for name in ("collections", "cache", "a-persons-folder"):
        (outputs / name).mkdir()
        (outputs / name / "manifest.json").write_text('{"format": 1}')
    executions.clean(0, yes)

    assert sorted(path.name for path in outputs.iterdir()) == [
        "a-persons-folder",
        "cache",
        "collections",
    ]


def test_an_execution_at_work_is_kept(four):
    """Another process holds its lock: it stays, and the others go."""
    with FileLock(four[0].folder / ".run.lock"):
        said = executions.clean(2, yes)

    assert said[0] == f"kept {four[0].name}: a run is writing to it"
    assert (four[0].folder / "results.parquet").exists()
    assert not four[1].folder.exists()


def test_a_link_is_not_followed(evaluated, outputs, tmp_path):
    """An execution linked in from elsewhere was not made here: nothing in it is touched."""
    made = evaluated()
    elsewhere = tmp_path / "elsewhere"
    made.folder.rename(elsewhere)
    made.folder.symlink_to(elsewhere, target_is_directory=True)
    said = executions.clean(0, yes)

    assert said == [f"kept {made.name}: it is a link"]
    assert (elsewhere / "results.parquet").exists()


def test_keeping_more_than_there_are_removes_none(four):
    """keep 9 of 4, and keep 4 of 4: nothing to remove; a negative number is refused."""
    assert executions.clean(9, yes) == executions.clean(4, yes) == ["Nothing to remove."]
    with pytest.raises(ParameterError, match="0 or more"):
        executions.clean(-1, yes)
