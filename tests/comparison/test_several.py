"""More than two sides: candidates against one baseline, and means side by side."""

import pytest

from evalkit import comparison
from evalkit.comparison import Rule, Side
from evalkit.errors import ParameterError

SAME = Rule(varying="retrieval")


@pytest.fixture
def side(execution, changed):
    """A semantic side whose questions all have the values given."""

    def make(label, values, **inputs):
        found = {f"q{number}": value for number, value in enumerate(values)}
        return Side(execution(label, {"semantic": found}, inputs=changed(inputs)), "semantic")

    return make


def test_trying_more_candidates_raises_the_bar(side):
    """Seven gains of seven: p = 2/2^7, 0.0156; times 1, 2 and 4 candidates (Holm, by hand)."""
    baseline = side("base", [0.5] * 7)
    candidates = [side(f"try{n}", [0.6] * 7) for n in range(4)]
    adjusted = {
        count: [
            table.loc[table["slice"] == "all", "p_adjusted"].item()
            for table in (
                each.table for each in comparison.against(baseline, candidates[:count], SAME)
            )
        ]
        for count in (1, 2, 4)
    }

    assert adjusted[1] == pytest.approx([2 / 2**7])
    assert adjusted[2] == pytest.approx([4 / 2**7] * 2)
    assert adjusted[4] == pytest.approx([8 / 2**7] * 4)


def test_the_words_follow_the_adjusted_p(side):
    """Alone IMPROVED (0.0156); as one of four 0.0625 is above 0.05, and it has only held."""
    baseline = side("base", [0.5] * 7)
    candidates = [side(f"try{n}", [0.6] * 7) for n in range(4)]

    alone = comparison.against(baseline, candidates[:1], SAME)
    four = comparison.against(baseline, candidates, SAME)
    assert [each.verdict for each in alone] == [comparison.IMPROVED]
    assert {each.verdict for each in four} == {comparison.HELD}
    assert "p = 0.0625" in four[0].reasons[0]


def test_one_table_has_a_row_a_candidate(side):
    """Means, difference, interval, verdict; the one that may not be compared says why."""
    baseline = side("base", [0.5] * 8)
    candidates = [
        side("good", [0.7] * 8, **{"retrieval.semantic.exact": True}),
        side("bad", [0.2] * 8, **{"retrieval.semantic.exact": True}),
        side("other", [0.9] * 8, chunking="another"),
    ]
    table = comparison.one_table(comparison.against(baseline, candidates, SAME), SAME)

    assert table["candidate side"].tolist() == [each.name for each in candidates]
    assert table["verdict"].tolist() == ["IMPROVED", "REGRESSED", "NOT COMPARABLE"]
    assert table["difference"].tolist() == pytest.approx([0.2, -0.3, 0.4])
    assert table["undeclared"].tolist() == ["", "", "chunking"]
    assert {"n", "low", "high", "p_adjusted", "detectable", "needed"} <= set(table.columns)


def test_candidates_are_named_once(side):
    """None, or one twice, is refused: the adjustment counts looks."""
    baseline = side("base", [0.5] * 8)
    for candidates in ([], [baseline, baseline]):
        with pytest.raises(ParameterError, match="each once"):
            comparison.against(baseline, candidates, SAME)


def test_means_side_by_side_are_over_the_questions_all_scored(execution):
    """q0-q2 and q1-q3: only q1 and q2 stand side by side (by hand: 0.3 and 0.5), n = 2 (B21)."""
    one = execution("one", {"semantic": {"q0": 0.9, "q1": 0.2, "q2": 0.4}})
    two = execution("two", {"semantic": {"q1": 0.4, "q2": 0.6, "q3": 0.0}})
    sides = [Side(one, "semantic"), Side(two, "semantic")]
    row = comparison.metrics_by_k(sides).iloc[0]

    assert [row["metric"], row["cutoff"], row["n"]] == ["nDCG", "5", 2]
    assert row[sides[0].name] == pytest.approx((0.2 + 0.4) / 2)
    assert row[sides[1].name] == pytest.approx((0.4 + 0.6) / 2)
