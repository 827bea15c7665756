"""The runbooks set under a ranking like the one published: the published macro table."""

import pytest

from evalkit import datasets, evaluation, metrics, retrieval
from evalkit.records import Hit

# K -> means of precision, recall, reciprocal rank, nDCG (requirements A24, A34): nine relevant
# pairs over seven questions, all ranked before anything else, two questions with two pairs.
MACRO = {
    "1": (7 / 7, (5 + 0.5 + 0.5) / 7, 1.0, 1.0),
    "3": (9 / 21, 1.0, 1.0, 1.0),
    "5": (9 / 35, 1.0, 1.0, 1.0),
}


class RelevantFirst:
    """Ranks a question's relevant chunks first, then the other eligible ones by id."""

    mode, axis = "ideal", "made up"

    def __init__(self, labelled, eligible):
        self.rankings = {
            query.text: [*query.grades, *sorted(set(eligible) - set(query.grades))]
            for query in labelled.queries
        }

    def search(self, questions, k):
        return [
            [Hit(key, -float(rank), rank) for rank, key in enumerate(self.rankings[q][:k], start=1)]
            for q in questions
        ]

    def describe(self):
        return {"mode": self.mode, "axis": self.axis}


@pytest.fixture(scope="module")
def evaluated():
    labelled = datasets.load("runbooks")
    chunks = retrieval.cut(labelled.documents, labelled.chunking)
    eligible = [chunk.doc_id for chunk in chunks if labelled.is_eligible(chunk.fields)]
    plan = evaluation.Plan(policy=metrics.preset("dotnet"))
    found = evaluation.evaluate(labelled, chunks, RelevantFirst(labelled, eligible), plan)
    return labelled, plan, found


def test_the_macro_table_is_the_published_one(evaluated):
    """Seven questions, nine pairs: every mean equals the table's (by hand)."""
    labelled, plan, found = evaluated
    table = evaluation.means(found.results, found.outcomes, evaluation.ideal(labelled, plan))
    shown = table.set_index(["cutoff", "metric"])

    for cutoff, means in MACRO.items():
        values = [shown.loc[(cutoff, name), "mean"] for name in evaluation.RANKING_METRICS]
        assert values == pytest.approx(list(means))
        assert shown.loc[(cutoff, "Precision"), "ceiling"] == pytest.approx(means[0])
        assert set(shown.loc[cutoff, "count"]) == {7}


def test_chunk_recall_misleads_where_facts_do_not(evaluated):
    """At depth 1 both shutdown questions have recall 1/2; one is answered, the other is not."""
    _, _, found = evaluated
    values = found.results.set_index(["query_id", "metric", "cutoff"])["value"]
    read = {
        name: (values[name, "Recall", "1"], values[name, "CompleteAnswer", "1"])
        for name in ("drain-deadline", "shutdown-sequence")
    }

    assert read == {"drain-deadline": (0.5, 1.0), "shutdown-sequence": (0.5, 0.0)}


def test_the_rank_of_completion_is_of_the_last_fact(evaluated):
    """Either chunk settles the deadline at rank 1; the sequence needs both, so rank 2 (by hand)."""
    _, _, found = evaluated
    ranks = found.outcomes.set_index("query_id")["completed_at"]

    assert (ranks["drain-deadline"], ranks["shutdown-sequence"]) == (1.0, 2.0)


def test_both_unsupported_questions_get_passages(evaluated):
    """Accepting anything non-empty accepts 2 of 2, and neither enters a mean."""
    _, _, found = evaluated
    unsupported = found.outcomes[~found.outcomes["answerable"]]

    assert unsupported["hits"].tolist() == [5, 5]
    assert not set(unsupported["query_id"]) & set(found.results["query_id"])
