"""summary.md: the stored means as tables, in a form another tool can read back."""

import re

import pytest

from evalkit.evaluation import Plan
from evalkit.executions.markdown import summary_text

EMBEDDER = {"name": "embedded", "dimension": 384, "digest": "d18d64ed1a3d3bdf89fc"}


def parsed(text):
    """Header lines by name, and for each mode its rows by depth and column, and its probes."""
    head, *modes = text.split("\n## ")
    header = dict(re.findall(r"^- ([^:]+): (.*)$", head, re.MULTILINE))
    tables = {}
    for part in modes:
        lines = part.splitlines()
        rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
        probes = re.search(r"^No-answer probes: avg (\S+) results returned \(lower", part, re.M)
        tables[lines[0]] = {
            **{row[0]: dict(zip(rows[0][1:], row[1:], strict=True)) for row in rows[1:]},
            "probes": probes[1],
        }
    return header, tables


def page(execution):
    return (execution.folder / "summary.md").read_text("utf-8")


def test_the_page_says_what_the_summary_says(evaluated):
    """Read back: every mean of summary.json to three decimals, and what each probe returned.

    By hand: Recall@2 of q1 (c, a) 1/2 and q2 (c) 1; u gets nothing in one mode, 2 in the other.
    """
    rankings = {
        "keyword": {"first?": "cab", "second?": "ca"},
        "semantic": {"first?": "abc", "second?": "ba", "unanswerable?": "ab"},
    }
    made = evaluated(rankings=rankings, question_embedder=EMBEDDER)
    header, tables = parsed(page(made))

    assert list(tables) == ["keyword", "semantic"]
    assert tables["keyword"]["2"]["Recall@k"] == f"{(1 / 2 + 1) / 2:.3f}"
    assert [tables[mode]["probes"] for mode in tables] == ["0.0", "2.0"]
    short = {"ReciprocalRank": "MRR", "nDCG": "NDCG@k"}
    for row in made.read_json("summary")["headline"]:
        column = short.get(row["metric"], f"{row['metric']}@k")
        assert tables[row["mode"]][row["cutoff"]][column] == f"{row['mean']:.3f}"
    assert header["Embedder"] == "embedded, 384 dimensions, digest d18d64ed1a3d; available"
    assert header["Label"] == "small"
    assert header["Questions"] == "2 answerable with 3 relevant pairs; 1 probes without an answer"


def test_the_table_is_headed_as_kioku_heads_it(evaluated):
    """C08: | k | Precision@k | Recall@k | MRR | NDCG@k |, one row a depth."""
    lines = page(evaluated(plan=Plan(cutoffs=(5, 10)))).splitlines()
    start = lines.index("| k | Precision@k | Recall@k | MRR | NDCG@k |")

    assert lines[start + 1] == "|---|---|---|---|---|"
    assert [line.split(" | ")[0] for line in lines[start + 2 : start + 4]] == ["| 5", "| 10"]


def test_the_date_is_the_manifests(evaluated):
    """The one part that differs between reruns is read from the manifest, not from a clock."""
    made = evaluated()
    header, _ = parsed(page(made))

    assert header["Date (UTC)"] == made.manifest["started"]


def test_the_minimum_score_of_each_mode_is_said(evaluated):
    """0 where there is no threshold; a failed mode says so beside its counts."""
    header, _ = parsed(page(evaluated()))
    assert (header["Minimum score"], header["Embedder"]) == ("keyword 0", "none")
    header, _ = parsed(page(evaluated(score_threshold=0.4)))
    assert header["Minimum score"] == "keyword 0.4"


def test_a_failed_question_shows_in_the_counts(evaluated, broken):
    """The mean over 1 of 2 questions is not printed as if it were of both."""
    assert "Questions in each mean: 1 of 2; failed" in page(evaluated(rankings=broken))


@pytest.mark.parametrize("name", ["evil\n## fake\n", "a | b"])
def test_a_hostile_name_stays_on_its_line(evaluated, labelled, name):
    """A set's name comes from outside: it can add no heading."""
    from dataclasses import replace

    made = evaluated()
    text = summary_text(made.manifest, replace(labelled, name=name), made.read_json("summary"))

    assert list(parsed(text)[1]) == ["keyword"]
