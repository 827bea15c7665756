"""All executions over time: values with counts, breaks, and those that have none."""

import pytest

from evalkit import executions
from evalkit.errors import ExecutionError


def started(execution, day):
    execution.record(lambda manifest: manifest.update(started=f"2026-01-{day:02}T00:00:00Z"))
    return execution


def recall(frame):
    return frame[(frame["metric"] == "Recall") & (frame["cutoff"] == "2")]


def test_values_stand_in_the_order_the_executions_began(evaluated):
    """The one written first began later: it comes second. Recall@2 1 of 2 and 2 of 2 (by hand)."""
    later = started(evaluated("later", {"keyword": {"first?": "ab", "second?": "c"}}), 20)
    sooner = started(evaluated("sooner", {"keyword": {"first?": "ab"}}), 10)
    frame = recall(executions.timeline())

    assert frame["execution"].tolist() == [sooner.name, later.name]
    assert frame["mean"].tolist() == [(1 + 0) / 2, 1.0]
    assert frame["count"].tolist() == frame["of"].tolist() == [2, 2]
    assert (frame["low"] <= frame["mean"]).all()


def test_a_changed_input_breaks_the_line_and_is_named(evaluated):
    """k1 changes in the third of four: the third names it, the fourth goes on unbroken."""
    for day, k1 in enumerate([1.2, 1.2, 0.9, 0.9], start=1):
        started(evaluated(f"day{day}", k1=k1), day)

    assert recall(executions.timeline())["changed"].tolist() == ["", "", "retrieval.k1", ""]


def test_another_mode_or_another_set_is_another_line(evaluated, labelled):
    """keyword before semantic, then keyword again: nothing changed in either line."""
    for day, mode in enumerate(["keyword", "semantic", "keyword"], start=1):
        started(evaluated(mode, {mode: {"first?": "a"}}), day)

    assert recall(executions.timeline())["changed"].tolist() == ["", "", ""]
    assert executions.timeline("another set").empty


def test_what_failed_or_was_cut_off_is_visible(evaluated, outputs):
    """One complete, one failed before it had values, one still at work: three executions."""
    started(evaluated(), 1)
    failed = started(executions.create("failed"), 2)
    executions.finish(failed, "failed", reason="01_index failed: no engine")
    started(executions.create("working"), 3)
    frame = executions.timeline().drop_duplicates("execution")

    assert frame["status"].tolist() == ["completed", "failed", "in_progress"]
    assert frame["reason"].tolist()[1:] == [
        "01_index failed: no engine",
        "it has no summary: the evaluation did not finish",
    ]
    assert frame["mean"].isna().tolist() == [False, True, True]


def test_an_execution_that_only_compared_others_is_no_gap(evaluated):
    """A gate's own execution completes without a set: it has no row."""
    started(evaluated(), 1)
    executions.finish(started(executions.create("gate"), 2), "completed")

    assert executions.timeline()["execution"].nunique() == 1


def test_a_mode_whose_questions_failed_shows_its_count(evaluated, broken):
    """The mean over 1 of 2 questions is shown as such, never as a mean over all."""
    evaluated(rankings=broken)
    row = recall(executions.timeline()).iloc[0]

    assert [row["mean"], row["count"], row["of"]] == [1.0, 1, 2]


def test_the_terminal_shows_breaks_and_gaps(evaluated):
    """One line a mode with value, interval and counts; a break and a failure in words."""
    started(evaluated("one", k1=1.2), 1)
    started(evaluated("two", k1=0.9), 2)
    executions.finish(started(executions.create("three"), 3), "failed", reason="no engine")
    text = executions.history_text("Recall")

    assert text.count("keyword      Recall@2 0.750 (") == 2
    assert "over 2 of 2" in text
    assert "---- not comparable with the one before: retrieval.k1" in text
    assert text.endswith("no engine")


def test_an_empty_store_says_so(outputs):
    """No table of nothing: the command that makes an execution is named."""
    assert "make run" in executions.history_text()


def test_keyword_search_does_not_depend_on_the_embedder(evaluated):
    """Its inputs hold no embedder, so that another one is no change for it."""
    inputs = evaluated(embedder={"name": "m"}).inputs

    assert "embedder" not in executions.mode_inputs(inputs, "keyword")
    with pytest.raises(ExecutionError, match="no mode 'hybrid' was run"):
        executions.mode_inputs(inputs, "hybrid")
