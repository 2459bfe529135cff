"""Whom an instructor means: by name or by any id, as it is written, in capital letters, without accents, or with the surname first."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from example_class import RULES, submission
from gradebook_runs import graded, start_gradebook
from grader.classroom.anonymous import Pseudonyms, add_people
from grader.classroom.gradebook_file import GradebookProblem
from grader.classroom.intake.submissions import GradingProblem
from grader.classroom.term.roster import NamedPerson, Roster, RosterPerson, find_people

ZOE = RosterPerson("Zoë Müller", "zoe@example.edu", "zmueller", "0700007", "20007", "30007", "Mon", "Team 01")
TWINS = (RosterPerson("Wei Li (wli1)", "", "wli1", section="Mon"), RosterPerson("Wei Li (wli2)", "", "wli2", section="Tue"))
CHIARA = RosterPerson("Chiara Bianchi", "cbianchi@example.edu")
ROSTER = Roster((ZOE, *TWINS, CHIARA))
KNOWN = ROSTER.named_people


def names(text):
    return [one.name for one in find_people(text, KNOWN)]


@pytest.mark.parametrize(
    "text", ["Zoë Müller", "zoe muller", "ZOË  MULLER", "Müller, Zoë", "muller, zoe", "zoe@example.edu", "ZMUELLER", "0700007", "20007", "30007", "Zoe\u0308 Muller"]
)
def test_a_person_is_found_by_each_name_and_id(text):
    assert names(text) == ["Zoë Müller"]


def test_a_spelling_that_is_exactly_right_comes_first():
    people = [NamedPerson("Zoe"), NamedPerson("Zoë")]
    assert [one.name for one in find_people("Zoe", people)] == ["Zoe"] and len(find_people("zoe", people)) == 2


def test_people_with_one_name_are_offered_with_what_tells_them_apart(tmp_path):
    people = [submission("Zoë Müller"), submission("Alpha", slug="Alpha"), submission("Alpha", "b", slug="Alpha-2", ids={"canvas_id": "77"})]
    graded(tmp_path, people)
    book, _, _ = start_gradebook(tmp_path, people)
    with book:
        assert book.find_person("zoe muller", ROSTER).slug == book.find_person("zmueller", ROSTER).slug
        assert book.find_person("77", ROSTER).slug == "Alpha-2"
        with pytest.raises(GradebookProblem) as refused:
            book.find_person("wei li", ROSTER)
        assert str(refused.value) == '2 people are called wei li; write "Wei Li (wli1)" or "Wei Li (wli2)"'
        with pytest.raises(GradebookProblem, match=r'2 people are called alpha; write "Alpha \(Alpha\)" or "Alpha \(Alpha-2\)"'):
            book.find_person("alpha", ROSTER)
        assert book.find_person("Wei Li (wli2)", ROSTER).name == "Wei Li (wli2)"
        book.override(book.find_owner("Alpha-2"), "softmax", Decimal(8), "x", datetime(2026, 5, 3, tzinfo=UTC))
        assert [person.slug for person in book.graded_class(RULES).people if person.given] == ["Alpha-2"]
        with pytest.raises(GradebookProblem, match="is called cbianci@example.edu; grades.csv lists all names"):
            book.find_person("cbianci@example.edu", ROSTER)
        with pytest.raises(GradebookProblem, match="is called Chiara Bianci; did you mean Chiara Bianchi?"):
            book.find_person("Chiara Bianci", ROSTER)


def test_the_key_finds_people_in_the_same_way_and_offers_pseudonyms(tmp_path):
    people = [("Zoë Müller", {"number": "0700007"}), ("Wei Li", {"login": "wli1"}), ("Wei Li", {"login": "wli2"})]
    _, (zoe, first, second) = add_people(tmp_path / "key.csv", people)
    key = Pseudonyms.read(tmp_path / "key.csv")
    for text in ("zoe muller", "Müller, Zoë", "0700007", zoe.pseudonym.lower()):
        assert key.find(text) == zoe.pseudonym
    assert key.find("wli2") == second.pseudonym and key.find("Nora") == "Nora"
    with pytest.raises(GradingProblem) as refused:
        key.find("wei li")
    assert str(refused.value) == f'2 people are called wei li; write "{first.pseudonym}" or "{second.pseudonym}"; key.csv says who they are'
