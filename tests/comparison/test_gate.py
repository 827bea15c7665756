"""The gate: exit codes, JUnit, Markdown, and the notebook executed once for real."""

import json
from xml.etree import ElementTree

import pytest

from evalkit import comparison, executions
from evalkit.comparison import Rule
from evalkit.workbook import gate

SAME = Rule(varying="")


@pytest.fixture
def recorded(pair):
    """The record of a comparison of two lists of values."""

    def make(old, new, rule=SAME, **options):
        sides = pair(old, new, **options)
        found = comparison.record(comparison.compare(*sides, rule), rule)
        return json.loads(json.dumps(found))

    return make


@pytest.mark.parametrize(
    ("new", "verdict", "code"),
    [
        ([0.7] * 8, "IMPROVED", 0),
        ([0.5] * 8, "HELD", 0),
        ([0.3] * 8, "REGRESSED", 1),
        ([0.3, 0.7, 0.5, 0.9, 0.2, 0.6, 0.4, 0.5], "UNDERPOWERED", 2),
    ],
)
def test_every_verdict_has_its_exit_code(recorded, new, verdict, code):
    """0 kept, 1 regressed, 2 cannot tell (issue text); p of eight equal signs is 2/2^8."""
    record = recorded([0.5] * 8, new)

    assert record["verdict"] == verdict
    assert gate.exit_code(verdict) == code


def test_the_code_of_cannot_tell_is_configurable():
    """0 lets through what cannot be told, 1 stops it; the other codes stay."""
    assert gate.exit_code("UNDERPOWERED", 0) == gate.exit_code("NOT COMPARABLE", 0) == 0
    assert gate.exit_code("UNDERPOWERED", 1) == 1
    assert [gate.exit_code(word, 5) for word in ("IMPROVED", "HELD", "REGRESSED")] == [0, 0, 1]


def cases(record):
    suite = ElementTree.fromstring(gate.junit(record))
    return suite, {
        case.get("name"): [child.tag for child in case] for case in suite.iter("testcase")
    }


def test_junit_fails_what_regressed(recorded):
    """REGRESSED: one failure among two tests, with the difference in its message."""
    suite, found = cases(recorded([0.5] * 8, [0.3] * 8))

    assert found == {"comparable": [], "nDCG@5": ["failure"]}
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == [
        "2",
        "1",
        "0",
        "0",
    ]
    assert "-0.200" in suite.find(".//failure").get("message")


def test_junit_skips_what_cannot_be_told(recorded):
    """UNDERPOWERED is skipped: neither passed nor failed."""
    _, found = cases(recorded([0.5] * 4, [0.3] * 4))

    assert found == {"comparable": [], "nDCG@5": ["skipped"]}


def test_junit_errs_on_what_may_not_be_compared(recorded, pair, changed, execution):
    """NOT COMPARABLE is an error of the first test, and the metric is skipped."""
    values = {"semantic": {f"q{n}": 0.5 for n in range(8)}}
    old = comparison.Side(execution("old", values), "semantic")
    new = comparison.Side(execution("new", values, inputs=changed({"chunking": "x"})), "semantic")
    record = comparison.record(comparison.compare(old, new, SAME), SAME)

    assert cases(record)[1] == {"comparable": ["error"], "nDCG@5": ["skipped"]}


def test_each_declared_metric_is_a_test(recorded):
    """Improve or hold: nDCG holds, recall regresses; one passes, one fails."""
    old = {f"q{n}": {"nDCG": 0.5, "Recall": 0.9} for n in range(9)}
    new = {f"q{n}": {"nDCG": 0.5, "Recall": 0.6} for n in range(9)}
    record = recorded(old, new, comparison.improve_or_hold("5", varying=""))

    assert record["verdict"] == comparison.REGRESSED
    assert cases(record)[1] == {"comparable": [], "nDCG@5": [], "Recall@5": ["failure"]}


def test_the_summary_begins_with_the_verdict(recorded):
    """Verdict, sides, reasons, table; details folded: what a reviewer reads in this order."""
    text = gate.markdown(recorded([0.5] * 10, [0.3] * 9 + [0.7]))

    assert text.startswith("## 🔴 REGRESSED\n\n`")
    assert "| `nDCG@5` | 10 | 0.500 | 0.340 | -0.160 |" in text
    assert "1 / 0 / 9" in text
    for title in (
        "Every category",
        "Every metric",
        "Questions that moved most",
        "Inputs that differ",
    ):
        assert f"<details><summary>{title}</summary>" in text
    assert "| `q009` | 0.500 | 0.700 | +0.200 |" in text


def test_names_from_data_are_not_obeyed(recorded):
    """A category and a question that would open a tag, a mention, a table cell or a script."""
    evil = "<img src=x>|@everyone`**\x01"
    record = recorded({evil: 0.5, "b": 0.5}, {evil: 0.2, "b": 0.5}, categories={evil: evil})
    text = gate.markdown(record)

    assert "| `<img src=x>\\|@everyone'**" in text
    rows = [line for line in text.splitlines() if line.startswith("| `<img")]
    assert all(line.count("`") == 2 for line in rows)
    outside = "".join(part for line in text.splitlines() for part in line.split("`")[::2])
    assert "<img" not in outside
    assert "@everyone" not in outside
    ElementTree.fromstring(gate.junit(record))


def test_what_broke_is_code_3(outputs, capsys):
    """No baseline, and a code nobody can return: an error in words, never a verdict."""
    assert gate.run(gate.Gate(baseline="missing")) == 3
    assert "No execution 'missing'" in capsys.readouterr().err
    assert gate.run(gate.Gate(cannot_tell=300)) == 3
    assert "0 to 255" in capsys.readouterr().err


def test_a_gate_without_anything_newer_says_so(outputs, execution, capsys):
    """Only the baseline is there: comparing it with itself would always hold."""
    made = execution("base", {"semantic": {"q": 0.5}})

    assert gate.run(gate.Gate(baseline=made.name)) == 3
    assert "name a candidate" in capsys.readouterr().err


@pytest.mark.notebook
def test_the_notebook_runs_and_the_summaries_lie_beside_it(pair, outputs, capsys):
    """A regression: code 1, the executed page, comparison.json, gate.xml and gate.md together."""
    rankings = {f"q{n:03d}": [("a#s/p0@v", 2), ("b#s/p0@v", 0)] for n in range(8)}
    old, new = pair([0.5] * 8, [0.3] * 8, rankings=rankings)
    code = gate.run(gate.Gate(old.execution.name, new.execution.name))
    said = capsys.readouterr()

    assert code == 1, said.err
    assert said.out.startswith("REGRESSED: ")
    own = next(each for each in executions.history() if each.manifest["label"] == "gate")
    names = {path.name for path in own.folder.iterdir()}
    assert names >= {
        "05_compare.ipynb",
        "05_compare.html",
        "comparison.json",
        "gate.xml",
        "gate.md",
    }
    assert own.manifest["baseline"] == old.execution.name
    assert old.execution not in executions.removable(1)
