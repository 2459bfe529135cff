"""Pseudonyms and their key: people are found again, and no sentence, file name or list says who somebody is."""

import csv
import io
from collections import Counter
from dataclasses import replace
from datetime import datetime

import pytest
from example_class import submission
from grader.classroom.anonymous import KeyEntry, Pseudonyms, Scrubber, add_people, hide_names, read_key
from grader.classroom.intake.submissions import GradingProblem
from grader.classroom.judging.rules import Rules
from grader.classroom.term.course import Course
from grader.classroom.term.roster import Roster, RosterPerson


def test_a_hidden_course_has_the_order_of_the_pseudonyms_and_says_nothing_that_identifies(tmp_path):
    people = [RosterPerson(f"Person {number:02}", login=f"p{number}", section="S1", group=f"Team {number // 2}") for number in range(12)]
    course = Course(tmp_path / "course.toml", "A term", Roster(tuple(people)), ())
    hidden = Pseudonyms.read(add_people(tmp_path / "key.csv", [])[0].path).hide_course(course)
    names = [person.name for person in hidden.roster.people]
    assert names == sorted(names)
    assert {person.section for person in hidden.roster.people} == {""}
    groups = Counter(person.group for person in hidden.roster.people)
    assert set(groups.values()) == {2} and all(group.startswith("group of Learner ") for group in groups)


def test_people_are_found_again_by_id_and_then_by_name(tmp_path):
    path = tmp_path / "key.csv"
    _, (first, second) = add_people(path, [("Alpha", {"canvas_id": "1"}), ("Alpha", {"canvas_id": "2"})])
    assert first.pseudonym != second.pseudonym
    _, again = add_people(path, [("Alpha", {"canvas_id": "2"}), ("Another spelling", {"canvas_id": "1"}), ("Beta", {})])
    assert [one.pseudonym for one in again[:2]] == [second.pseudonym, first.pseudonym]
    _, (beta, more) = add_people(path, [("Beta", {"email": "b@example.edu"}), ("Beta", {})])
    assert beta.pseudonym == again[2].pseudonym != more.pseudonym and beta.ids == {"email": "b@example.edu"}
    assert len(read_key(path)) == 4
    _, (stranger,) = add_people(path, [("Alpha", {"canvas_id": "3"})])  # the name of two people, and another id
    assert stranger.pseudonym not in (first.pseudonym, second.pseudonym)


def test_pseudonyms_differ_and_contain_no_number_of_a_person(tmp_path):
    numbers = [f"{number}" for number in range(1000, 9000, 20)]
    _, entries = add_people(tmp_path / "key.csv", [(f"Person {number}", {"number": number}) for number in numbers])
    assert len({entry.pseudonym for entry in entries}) == len(numbers)
    assert not {entry.pseudonym.split()[1] for entry in entries} & set(numbers)


@pytest.mark.parametrize("content", ["", "pseudonym,name\nLearner 1,Alpha\n", "\0\xff", '"' + "x" * 200_000])
def test_a_key_that_is_damaged_is_named_and_never_replaced(tmp_path, content):
    path = tmp_path / "key.csv"
    path.write_bytes(content.encode("latin-1"))
    if not content:
        assert read_key(path) == []  # a command was killed while it created the key
        return
    with pytest.raises(GradingProblem, match=r"key\.csv"):
        add_people(path, [("Alpha", {})])
    assert path.read_bytes() == content.encode("latin-1")


def test_a_name_that_a_spreadsheet_would_run_is_text_in_the_key(tmp_path):
    path = tmp_path / "key.csv"
    _, (one,) = add_people(path, [("=HYPERLINK(1)", {})])
    [row] = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"))))[1:]
    assert row[1].startswith("'=")
    assert add_people(path, [("=HYPERLINK(1)", {})])[1] == [one]


@pytest.mark.parametrize(
    "text, seen",
    [
        ("Alpha One submitted twice", "L1 submitted twice"),
        ("One, Alpha and BETA TWO are one group", "L1 and L2 are one group"),
        ("read from onealpha_123_45_homework.py", "read from L1_123_45_homework.py"),
        ("write to a.one@example.edu", "write to L1"),
        ("s1234 has no row", "L1 has no row"),
        ("will.py is read as ch03_attention.py", "L3.py is read as ch03_attention.py"),
        ("Will has no submission", "L3 has no submission"),
        ("alphabet.py, line 12", "alphabet.py, line 12"),
    ],
)
def test_names_are_found_in_sentences_and_file_names(text, seen):
    people = [KeyEntry("L1", "Alpha One", {"email": "a.one@example.edu", "number": "s1234"}), KeyEntry("L2", "Beta Two"), KeyEntry("L3", "will")]
    assert Scrubber(people).scrub(text) == seen


def test_submissions_rules_and_notes_lose_their_names(tmp_path):
    until = datetime.fromisoformat("2026-10-09T20:00:00+00:00")
    roster = Roster((RosterPerson("Alpha One", email="alpha@example.edu"), RosterPerson("Beta Two")))
    people = [
        replace(submission("Alpha One", slug="Alpha_One"), notes=("alpha_one.py is chapter 3",), ids={"canvas_id": "77"}),
        replace(submission("Gamma", "b", slug="Gamma"), problem="gamma.zip is empty", broken={"ch05": "Gamma's file is damaged"}),
    ]  # fmt: skip
    rules = Rules(extensions={"Alpha One": until, "Beta Two": until})
    key, hidden, rules, notes = hide_names(tmp_path / "key.csv", people, roster, rules, ["no submission from Beta Two", "not in the roster: Gamma"])
    by_name = {key.entry(one.name).name: one for one in hidden}
    alpha, gamma = by_name["Alpha One"], by_name["Gamma"]
    beta = key.find("Beta Two")
    assert alpha.notes == (f"{alpha.name}.py is chapter 3",) and alpha.slug == alpha.name.replace(" ", "_") and alpha.ids == {}
    assert gamma.problem == f"{gamma.name}.zip is empty" and gamma.broken == {"ch05": f"{gamma.name}'s file is damaged"}
    assert rules.extensions == {alpha.name: until}
    assert notes[:2] == [f"no submission from {beta}", f"not in the roster: {gamma.name}"] and beta in notes[2]
    assert key.find("alpha@example.edu") == key.find("77") == key.find(alpha.name.lower()) == alpha.name and key.find("Nobody") == "Nobody"
    assert Pseudonyms.read(tmp_path / "key.csv").entries == key.entries
