"""What a reader is shown: movers, rankings side by side, tables, and the record."""

import json

from evalkit import comparison
from evalkit.comparison import Rule

SAME = Rule(varying="")


def test_movers_are_the_largest_losses_and_gains_ties_by_id(pair):
    """Losses -0.4 (b) and -0.1 (a), gains +0.2 (c, d by id); e did not move (by hand)."""
    old = {"a": 0.5, "b": 0.5, "d": 0.5, "c": 0.5, "e": 0.5}
    new = {"a": 0.4, "b": 0.1, "d": 0.7, "c": 0.7, "e": 0.5}
    compared = comparison.compare(*pair(old, new), SAME)

    assert comparison.movers(compared)["query_id"].tolist() == ["b", "a", "c", "d"]
    assert comparison.movers(compared, most=1)["query_id"].tolist() == ["b", "c"]


def test_both_rankings_show_what_entered_and_what_left(execution):
    """a, b against b, c, d: a left, c and d entered; b stayed, a shorter ranking has a gap."""
    sides = [
        comparison.Side(
            execution(label, {"semantic": {"q": 0.5}}, rankings={"q": hits}), "semantic"
        )
        for label, hits in (
            ("old", [("a", 2), ("b", 0)]),
            ("new", [("b", 0), ("c", 1), ("d", None)]),
        )
    ]
    table = comparison.side_by_side(*sides, "q")

    assert table["rank"].tolist() == [1, 2, 3]
    assert table["baseline doc_id"].tolist()[:2] == ["a", "b"]
    assert table["candidate doc_id"].tolist() == ["b", "c", "d"]
    assert table["entered or left"].tolist() == ["left", "entered", "entered"]
    assert table["baseline doc_id"].isna().tolist() == [False, False, True]


def test_movers_in_full_name_the_question_and_the_change(pair):
    """Caption with id, text and difference, and the two rankings of that question."""
    rankings = {"q000": [("a", 2)], "q001": [("b", 0)]}
    sides = pair([0.5, 0.5], [0.5, 0.2], rankings=rankings)
    compared = comparison.compare(*sides, SAME)
    shown = list(comparison.movers_in_full(compared, *sides, 3))

    assert [caption for caption, _ in shown] == ["q001: Where is q001? (-0.300)"]
    assert shown[0][1]["candidate doc_id"].tolist() == ["b"]


def test_the_tables_split_whole_and_categories(pair):
    """One row a metric over all questions; one row a category under the verdict's metric."""
    old = {f"{kind}{n}": {"nDCG": 0.5, "Recall": 0.5} for kind in "ab" for n in range(3)}
    categories = {name: name[0] for name in old}
    compared = comparison.compare(*pair(old, old, categories=categories), SAME)

    assert comparison.overall(compared)["metric"].tolist() == ["nDCG", "Recall"]
    assert comparison.by_category(compared, SAME)["slice"].tolist() == ["a", "b"]
    assert comparison.by_category(compared, SAME)["n"].tolist() == [3, 3]


def test_the_record_is_json_and_holds_the_rule(pair):
    """Infinite detectable effects are words, undefined numbers null: strict JSON both ways."""
    compared = comparison.compare(*pair([0.5] * 3, [0.5, 0.6, 0.7]), SAME)
    record = comparison.record(compared, SAME)
    text = json.dumps(record, allow_nan=False)

    assert json.loads(text)["table"][0]["detectable"] == "inf"
    assert record["rule"]["smallest"] == 0.02
    assert record["movers"][0]["query_id"] == "q002"
    assert record["verdict"] == comparison.UNDERPOWERED


def test_inputs_that_differ_say_which_were_declared(execution, changed):
    """exact was declared (retrieval), the chunking was not."""
    values = {"semantic": {f"q{n}": 0.5 for n in range(8)}}
    inputs = changed({"retrieval.semantic.exact": True, "chunking": "x"})
    sides = [
        comparison.Side(execution("old", values), "semantic"),
        comparison.Side(execution("new", values, inputs=inputs), "semantic"),
    ]
    compared = comparison.compare(*sides, Rule(varying="retrieval"))
    table = comparison.inputs_that_differ(compared).set_index("input")

    assert table["declared"].to_dict() == {"chunking": "no", "retrieval.exact": "yes"}
    assert table.loc["retrieval.exact", ["baseline", "candidate"]].tolist() == ["False", "True"]
