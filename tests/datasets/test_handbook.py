"""The built-in handbook has the shape it promises."""

from collections import Counter, defaultdict

import pytest

from evalkit import datasets, retrieval


@pytest.fixture(scope="module")
def handbook():
    return datasets.load("handbook")


@pytest.fixture(scope="module")
def eligible(handbook):
    chunks = retrieval.cut(handbook.documents, handbook.chunking)
    return {chunk.doc_id: chunk for chunk in chunks if handbook.is_eligible(chunk.fields)}


def test_it_is_large_enough_to_compete(handbook, eligible):
    """At least 40 documents, 150 eligible chunks, 80 answerable and 60 unsupported questions."""
    answerable = Counter(query.answerable for query in handbook.queries)

    assert len(handbook.documents) >= 40
    assert len(eligible) >= 150
    assert answerable[True] >= 80
    assert answerable[False] >= 60


def test_every_category_holds_both_kinds(handbook):
    """Six categories, each with answerable and with unsupported questions."""
    kinds = defaultdict(set)
    for query in handbook.queries:
        kinds[query.category].add(query.answerable)

    assert len(kinds) == 6
    assert all(both == {True, False} for both in kinds.values())


def test_a_topic_lies_in_one_split(handbook):
    """Two wordings of one need are never on both sides of the split."""
    splits = defaultdict(set)
    for query in handbook.queries:
        splits[query.topic].add(query.split)

    assert all(len(each) == 1 for each in splits.values())
    assert set.union(*splits.values()) == {"development", "held-out"}


def test_eligibility_matters(handbook, eligible):
    """Drafts and notes are among the documents, and none of them is ever relevant."""
    others = {d.fields["publication_state"] for d in handbook.documents} | {
        d.fields["document_type"] for d in handbook.documents
    }
    graded = {key for query in handbook.queries for key in query.grades}

    assert {"draft", "note"} <= others
    assert graded <= set(eligible)


def test_answers_are_facts_and_facts_are_grade_two(handbook):
    """Each answerable question lists its facts, and the chunks that state them have grade 2."""
    for query in handbook.queries:
        if query.answerable:
            stated = {key for fact in query.requirements for key in fact.any_of}
            assert stated == {key for key, grade in query.grades.items() if grade == 2}
        else:
            assert not query.grades
            assert not query.requirements


def test_some_questions_need_several_facts_and_some_facts_stand_twice(handbook):
    """At least 20 questions of several facts, 10 facts in several chunks."""
    facts = [query.requirements for query in handbook.queries if query.answerable]

    assert sum(len(each) > 1 for each in facts) >= 20
    assert sum(len(fact.any_of) > 1 for each in facts for fact in each) >= 10


def test_unsupported_questions_speak_the_corpus_language(handbook, eligible):
    """Near misses, not nonsense: each shares words of six letters and more with some chunk."""
    corpus = [set(chunk.text.lower().split()) for chunk in eligible.values()]
    for query in handbook.queries:
        if not query.answerable:
            words = {word.strip("?.,\"'") for word in query.text.lower().split() if len(word) >= 5}
            assert any(words & chunk for chunk in corpus), query.query_id


def test_the_lint_has_nothing_to_object(handbook):
    """No error and no warning."""
    chunks = retrieval.cut(handbook.documents, handbook.chunking)

    assert datasets.check(handbook, chunks) == []
