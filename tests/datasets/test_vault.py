"""The vault set keeps Kioku's shape and holds every probe it promises.

Counts are by definition (requirements C01 and C18); every property is read off the notes.
"""

import re
from collections import Counter

import pytest

from evalkit.datasets import load

BEES = "Proyectos/Colmenas/"
LONG = "Referencias/Historia de los pigmentos"
PROBES = {
    "alias-only": 1,
    "cross-language": 4,
    "keyword": 2,
    "keyword-distractor": 4,
    "long-note-tail": 1,
    "no-answer": 2,
    "paraphrase": 2,
    "semantic-twin": 2,
    "several-notes": 1,
    "tag": 1,
    "title": 1,
    "topic-cluster": 1,
    "typo": 2,
}
SPANISH = {"de", "la", "el", "que", "los", "las", "y", "en", "a", "se", "un", "qué", "del"}
ENGLISH = {"the", "of", "to", "and", "in", "a", "is", "my", "what", "for", "how", "when", "we"}
DISTRACTORS = {  # question: (the note about something else, the words it shares)
    "hanging-height": (BEES + "Cuadros y cera", {"altura", "se", "cuelgan", "cuadros"}),
    "replace-old-queen": (
        "Referencias/Final de reina contra torre",
        {"conviene", "cambiar", "reina"},
    ),
    "loan-agreement": ("Casa/Mortgage loan", {"loan", "agreement", "before", "we", "sign"}),
    "pollen-eyes": (BEES + "Recogida de polen", {"polen", "primavera", "ojos"}),
}
TYPOS = {
    "drip-typos": {"progamador", "gotoe", "teraza"},
    "curd-typos": {"crud", "lemmon", "recipie"},
}
ABSENT = {  # what each probe asks about; the vault has no such word, in either language
    "crypto-tax": r"cripto|crypto|bitcoin|\brenta\b|impuesto|\btax|hacienda",
    "guitar-chords": r"guitar|chord|acorde|strum|rasgue|música|music",
}


@pytest.fixture(scope="module")
def vault():
    """The set, read as anyone reads it."""
    return load("vault")


@pytest.fixture(scope="module")
def notes(vault):
    """Its notes by id."""
    return {note.document_id: note for note in vault.documents}


@pytest.fixture(scope="module")
def queries(vault):
    """Its questions by id."""
    return {query.query_id: query for query in vault.queries}


def test_the_vault_has_the_shape_of_kiokus(vault):
    """C01: 27 notes, 22 graded questions, 2 probes, 43 relevant pairs of 23, 12 and 8."""
    grades = Counter(grade for query in vault.queries for grade in query.grades.values())

    assert len(vault.documents) == 27
    assert Counter(query.answerable for query in vault.queries) == {True: 22, False: 2}
    assert grades == {3: 23, 2: 12, 1: 8}
    assert sum(grades.values()) == 43
    assert (vault.lowest_grade, vault.highest_grade, vault.relevant_from) == (0, 3, 1)
    assert vault.complete


def test_every_probe_is_there(vault):
    """C18: a question's category names the probe it is."""
    assert Counter(query.category for query in vault.queries) == PROBES


def test_judgments_name_whole_notes(vault, notes):
    """C14: labels stay at note level, whatever the notes are cut into."""
    judged = {key for query in vault.queries for key in query.grades}

    assert judged <= set(notes)
    assert all("#" not in key for key in notes)


def test_every_answerable_question_has_its_best_note_or_equal_ones(queries):
    """Only the tag question has no note of grade 3: its notes carry the tag alike."""
    without = {name for name, query in queries.items() if query.answerable
               and 3 not in query.grades.values()}  # fmt: skip

    assert without == {"preventive-conservation"}


def test_notes_are_in_folders_two_languages_and_have_front_matter(notes):
    """One person's vault: 17 Spanish and 10 English notes in nine folders, one of them nested."""
    languages = Counter(language(note.text) for note in notes.values())

    assert languages == {"es": 17, "en": 10}
    assert {key.split("/")[0] for key in notes} == {
        "Casa", "Diario", "Ideas", "Proyectos", "Recetas", "Referencias", "Salud", "Viajes", "Work",
    }  # fmt: skip
    assert sum(key.startswith(BEES) for key in notes) == 5
    for note in notes.values():
        assert set(note.fields) - {"aliases"} == {"tags", "type", "status", "domain", "date"}


def test_the_alias_stands_in_the_front_matter_and_in_no_text(notes, queries):
    """Alias-only: no word of the question is in any title, tag or text of the vault."""
    query = queries["salmorejo"]
    (key,) = query.grades

    assert notes[key].fields["aliases"] == query.text
    for note in notes.values():
        assert not words(query.text) & words(f"{note.title} {note.fields['tags']} {note.text}")


def test_one_long_note_holds_a_fact_near_its_end(notes, queries):
    """The tail is past 12,000 characters and 97 % of the note, and stands in no other note."""
    text = notes[LONG].text
    elsewhere = [key for key, note in notes.items() if "47-B" in note.text and key != LONG]

    assert text.count("47-B") == 1
    assert text.index("47-B") > max(12_000, 0.97 * len(text))
    assert not elsewhere
    assert queries["sample-47b"].grades == {LONG: 3}
    assert max(len(note.text) for key, note in notes.items() if key != LONG) < 4000


def test_the_long_note_has_sections_too_long_for_a_chunk_and_short_ones(notes):
    """C13: one section is over 4000 characters, and others are under a quarter of that."""
    lengths = [len(part) for part in re.split(r"^#+ ", notes[LONG].text, flags=re.MULTILINE)[1:]]

    assert len(lengths) >= 10
    assert max(lengths) > 4000
    assert sum(length < 1000 for length in lengths) >= 2


@pytest.mark.parametrize("name", DISTRACTORS)
def test_a_distractor_shares_the_words_and_not_the_meaning(name, notes, queries):
    """Keyword distractors: the question's words stand in a note that is grade 0."""
    other, shared = DISTRACTORS[name]

    assert shared <= words(queries[name].text)
    assert shared <= words(notes[other].text)
    assert other not in queries[name].grades


@pytest.mark.parametrize("name", ["staring-at-the-ceiling", "panels-warping"])
def test_twins_say_the_same_in_other_words(name, notes, queries):
    """Semantic twins: two notes of grade 3 with under a sixth of their long words in common."""
    first, second = (words(notes[key].text) for key in queries[name].grades)
    first, second = ({word for word in side if len(word) > 5} for side in (first, second))

    assert list(queries[name].grades.values()) == [3, 3]
    assert len(first & second) < min(len(first), len(second)) / 6


def test_twins_share_almost_no_word_with_their_question(notes, queries):
    """The sleep twins answer a question none of whose longer words they contain."""
    query = queries["staring-at-the-ceiling"]
    asked = {word for word in words(query.text) if len(word) > 5}

    assert asked == {"noches", "mirando"}
    assert not any(asked & words(notes[key].text) for key in query.grades)


def test_cross_language_questions_go_both_ways(notes, queries):
    """Two English questions for Spanish notes, two Spanish questions for English notes."""
    pairs = Counter(
        (language(query.text), language(notes[best(query)].text))
        for query in queries.values()
        if query.category == "cross-language"
    )

    assert pairs == {("en", "es"): 2, ("es", "en"): 2}


def test_misspelt_words_stand_in_no_note(notes, queries):
    """Typos: the words a keyword index would need are all misspelt."""
    known = set().union(*(words(note.title + " " + note.text) for note in notes.values()))

    for name, misspelt in TYPOS.items():
        assert misspelt <= words(queries[name].text)
        assert not misspelt & known


def test_a_tag_question_finds_its_notes_by_the_tag_alone(notes, queries):
    """The tag is Spanish, the notes are English, and exactly the tagged ones are relevant."""
    query = queries["preventive-conservation"]
    tagged = {key for key, note in notes.items() if query.text in note.fields["tags"]}

    assert set(query.grades) == tagged
    assert not any(query.text in notes[key].text for key in tagged)


def test_the_cluster_question_has_all_its_cluster_and_nothing_else(notes, queries):
    """Topic cluster: the five notes on bees, of which one is exactly about spring."""
    assert set(queries["spring-hive-work"].grades) == {key for key in notes if key.startswith(BEES)}


def test_the_vault_has_nothing_on_the_probes_topics(notes, queries):
    """No-answer: no title, alias, tag or text names what the two probes ask about."""
    probes = {query.query_id for query in queries.values() if not query.answerable}

    assert probes == set(ABSENT)
    for note in notes.values():
        whole = f"{note.title} {note.text} {' '.join(note.fields.values())}".lower()
        for pattern in ABSENT.values():
            assert not re.search(pattern, whole)


def words(text):
    """The words of a text in lower case."""
    return set(re.findall(r"\w+", text.lower()))


def language(text):
    """The language whose function words the text has more of."""
    found = re.findall(r"\w+", text.lower())
    spanish = sum(word in SPANISH for word in found)
    return "es" if spanish > sum(word in ENGLISH for word in found) else "en"


def best(query):
    """The note with the highest grade."""
    return max(query.grades, key=lambda key: query.grades[key])
