"""Points and notes of the instructor: beside the verdict, never changed by grading, shown in every export, listed, revocable."""

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from example_class import EXERCISES, HOSTILE, RULES, a_class, submission
from grade_command import EXERCISES_ASKED, exports, hand_in, headway, marks
from gradebook_runs import exported, graded, start_gradebook
from grader.classroom.exports import write_all
from grader.classroom.gradebook.corrections import Owner
from grader.classroom.gradebook.gradebook import GradebookProblem
from grader.classroom.report.page import render
from grader.classroom.term.marks import compute_term_marks
from grader.classroom.term.roster import Roster, RosterPerson
from pytest_runs import solution
from term_examples import a_course, an_assignment

NOW = datetime(2026, 5, 3, 12, tzinfo=UTC)
LATER = datetime(2026, 5, 4, 12, tzinfo=UTC)
SOFTMAX = EXERCISES[0].name


def people_of(book):
    return {person.name: person for person in book.graded_class(RULES).people}


def test_given_points_replace_the_verdicts_and_grading_again_keeps_them(tmp_path):
    people = [submission("Alpha"), submission("Beta")]
    graded(tmp_path, people)
    book, _, _ = start_gradebook(tmp_path, people)
    with book:
        before = people_of(book)
        book.corrections.override(book.find_owner("Alpha"), SOFTMAX, Decimal("7.25"), "it is right on paper", NOW)
        after = people_of(book)
        assert after["Beta"] == before["Beta"]
        alpha, was = after["Alpha"], before["Alpha"]
        assert alpha.results == was.results  # the verdict is still there
        assert alpha.marks[SOFTMAX].earned == Decimal("7.25") and alpha.given[SOFTMAX].of_verdict == was.marks[SOFTMAX].earned
        assert alpha.total.earned == was.total.earned - was.marks[SOFTMAX].earned + Decimal("7.25")
        book.delete_verdicts(book.find_person("Alpha").slug)
    assert graded(tmp_path, people) == 1
    assert graded(tmp_path, [submission("Alpha", "another content"), people[1]]) == 1
    book, _, _ = start_gradebook(tmp_path, people)
    with book:
        assert people_of(book) == after


def test_a_deduction_for_lateness_applies_to_given_points(tmp_path):
    late = submission("Alpha", submitted=datetime(2026, 5, 2, 10, tzinfo=UTC))
    graded(tmp_path, [late])
    book, _, _ = start_gradebook(tmp_path, [late])
    with book:
        for exercise in EXERCISES:
            book.corrections.override(Owner("Alpha"), exercise.name, Decimal(8), "all of it", NOW)
        assert people_of(book)["Alpha"].total.earned == Decimal("28.8")


def test_the_last_override_counts_and_a_revoked_one_stays_in_the_list(tmp_path):
    people = [submission("Alpha")]
    graded(tmp_path, people)
    book, _, _ = start_gradebook(tmp_path, people)
    with book:
        verdict = people_of(book)["Alpha"]
        owner = book.find_owner("Alpha")
        book.corrections.override(owner, SOFTMAX, Decimal(1), "first", NOW)
        book.corrections.override(owner, SOFTMAX, Decimal(2), "second", LATER)
        assert people_of(book)["Alpha"].given[SOFTMAX].because == "second"
        assert [(one.because, one.revoked) for one in book.corrections.overrides(revoked=True)] == [("first", LATER.isoformat()), ("second", "")]
        assert book.corrections.revoke_override(owner, SOFTMAX, LATER) and not book.corrections.revoke_override(owner, SOFTMAX, LATER)
        assert people_of(book)["Alpha"] == verdict
        assert book.corrections.overrides() == [] and len(book.corrections.overrides(revoked=True)) == 2


def test_every_export_shows_what_was_given_and_adds_up(tmp_path):
    people = [*a_class(4), submission("Unreadable", problem="it is empty", slug="unreadable")]
    graded(tmp_path, people)
    book, _, _ = start_gradebook(tmp_path, people)
    with book:
        for name in ("Learner 001", "Unreadable"):
            book.corrections.override(book.find_owner(name), SOFTMAX, Decimal("6.5"), f"because {HOSTILE}", NOW)
            book.corrections.remark(book.find_owner(name), f"Come and see me {HOSTILE}", NOW)
        made = exported(book, tmp_path)
        graded_class = book.graded_class(RULES)
        page = render(graded_class)
    assert "you gave 6.5 points instead of" in page and "<script>alert" not in page
    for person in graded_class.people:
        data = json.loads(made[f"gradescope/{person.slug}.json"])
        assert Decimal(str(data["score"])) == person.total.earned
        if not person.late:
            assert sum(Decimal(str(test["score"])) for test in data["tests"]) == person.total.earned
        assert sum(Decimal(str(test["max_score"])) for test in data["tests"]) == person.total.points
        feedback = made[f"feedback/{person.slug}.md"].decode()
        corrected = person.name in ("Learner 001", "Unreadable")
        assert ("The instructor gave 6.5 points for softmax instead of" in feedback.replace("\\", "")) == corrected
        assert ("Your instructor writes: Come and see me" in feedback) == corrected
        assert ("Come and see me" in data["output"] and "on 2026-05-03" in data["output"]) == corrected
        assert "\x1b" not in feedback + data["output"] and "<script>" not in feedback
    table = made["grades.csv"].decode()
    assert table.count("The instructor gave 6.5 points for softmax") == 2 and "Come and see me" in table


def test_missing_people_have_a_row_and_may_get_points(tmp_path):
    roster = Roster(tuple(map(RosterPerson, ("Alpha", "Delta", "Gamma", "Zeta"))))
    rules = replace(RULES, find_missing=roster.find_missing)
    people = [submission("Alpha", slug="Alpha"), submission("beta", slug="beta")]
    graded(tmp_path, people)
    book, _, _ = start_gradebook(tmp_path, people)
    with book:
        first = book.graded_class(rules)
        assert [person.name for person in first.people] == ["Alpha", "beta"] and [person.name for person in first.missing] == ["Delta", "Gamma", "Zeta"]
        before = {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in write_all(first, tmp_path)}
        book.corrections.override(book.find_owner("Gamma", roster), SOFTMAX, Decimal(5), "an oral exam", NOW)
        book.corrections.remark(book.find_owner("Zeta", roster), "Where were you?", NOW)
        with pytest.raises(GradebookProblem, match='did you mean Gamma?'):
            book.find_owner("Gama", roster)
        second = book.graded_class(rules)
        made = {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in write_all(second, tmp_path)}
    rows = list(csv.DictReader(io.StringIO(made["grades.csv"].decode("utf-8-sig"))))
    assert [(row["name"], row["total"], row["problem"]) for row in rows[2:]] == [("Delta", "0", "missing"), ("Gamma", "5", "missing"), ("Zeta", "0", "missing")]
    assert [row["of"] for row in rows] == ["32"] * 5 and rows[2][SOFTMAX] == "0" and "An oral exam" in rows[3]["notes"]
    files = {name for name in before if "/" in name}
    assert {name for name in made if "/" in name} - files == {"feedback/Gamma.md", "feedback/Zeta.md", "gradescope/Gamma.json", "gradescope/Zeta.json"}
    assert "Nothing was submitted." in made["feedback/Gamma.md"].decode() and json.loads(made["gradescope/Gamma.json"])["score"] == 5
    assert all(made[name] == before[name] for name in files)

    course = a_course(replace(an_assignment("week1", tuple(one.name for one in EXERCISES)), rules=rules), people=roster.people)
    marks_of = {person.who.name: person.marks["week1"] for person in compute_term_marks(course, {"week1": second}).people}
    assert {name: (one.earned, one.remark) for name, one in marks_of.items() if name[0] in "DGZ"} == {
        "Delta": (0, "missing"), "Gamma": (5, "missing, points given by the instructor"), "Zeta": (0, "missing"),
    }  # fmt: skip


def test_a_person_who_submits_later_keeps_the_points(tmp_path):
    roster = Roster((RosterPerson("Alpha"), RosterPerson("Gamma")))
    rules = replace(RULES, find_missing=roster.find_missing)
    graded(tmp_path, [submission("Alpha")])
    book, _, _ = start_gradebook(tmp_path, [submission("Alpha")])
    with book:
        book.corrections.override(book.find_owner("Gamma", roster), SOFTMAX, Decimal(5), "an oral exam", NOW)
    graded(tmp_path, [submission("Alpha"), submission("Gamma")])
    book, _, _ = start_gradebook(tmp_path, [submission("Alpha"), submission("Gamma")])
    with book:
        gamma = book.graded_class(rules).people[1]
    assert gamma.results and not gamma.missing and gamma.marks[SOFTMAX].earned == 5


# ---- the commands


@pytest.mark.thorough
def test_override_and_note_from_the_command_line(tmp_path):
    hand_in(tmp_path / "class", "Alpha", solution("ch03"))
    hand_in(tmp_path / "class", "Beta", (tmp_path / "class" / "Alpha" / "ch03_attention.py").read_text(encoding="utf-8") + "\n\ndef softmax(x, dim):\n    return x\n")
    out = ("--out", tmp_path / "grades")
    assert headway("grade", tmp_path / "class", *out, *EXERCISES_ASKED, "-j", 1).status == 0
    before, plain = marks(out[1]), exports(out[1])
    ran = headway("override", "Beta", "softmax", "4.5", "--because", "the idea was right", *out)
    assert ran.status == 0 and "Beta now has 4.5 points for softmax." in ran.out, ran.out
    ran = headway("note", "Beta", "Please come to the lab", *out)
    assert ran.status == 0, ran.out
    after = marks(out[1])
    assert after["Alpha"] == before["Alpha"] and after["Beta"]["softmax"] == "4.5"
    assert Decimal(after["Beta"]["total"]) == Decimal(before["Beta"]["total"]) - Decimal(before["Beta"]["softmax"]) + Decimal("4.5")
    assert "the idea was right" in headway("override", "--list", *out).out.casefold()
    assert headway("note", "--list", *out).out.startswith("1  Beta, ")
    ran = headway("regrade", "Beta", *out, "-j", 1)
    assert ran.status == 0 and marks(out[1]) == after
    wrong = {
        ("override", "Betta", "softmax", 1, "--because", "x"): 'did you mean Beta?',
        ("override", "Beta", "sofmax", 1, "--because", "x"): "did you mean softmax?",
        ("override", "Beta", "gelu", 1, "--because", "x"): "gelu is not graded here; the exercises are softmax, causal_mask",
        ("override", "Beta", "softmax", 11, "--because", "x"): "11 is not a number of points from 0 to 10, which softmax is worth",
        ("override", "Beta", "softmax", "0.125", "--because", "x"): "with at most two decimal places",
        ("override", "Beta", "softmax", 1): "say why, with --because",
        ("override", "Beta", "causal_mask", "--revoke"): "Beta: there is no override of causal_mask",
        ("override", "Beta"): "NAME EXERCISE POINTS --because TEXT",
        ("note", "--revoke", 7): "there is no note 7",
        ("note", "Beta", " "): "the note is empty",
    }
    for arguments, sentence in wrong.items():
        ran = headway(*arguments, *out)
        assert ran.status == 2 and sentence in ran.out, (arguments, ran)
    assert marks(out[1]) == after
    assert headway("override", "Beta", "softmax", "--revoke", *out).status == headway("note", "--revoke", 1, *out).status == 0
    assert exports(out[1]) == plain
    assert "revoked" in headway("override", "--list", *out).out
    ran = headway("override", "Beta", "softmax", "--revoke", *out)
    assert ran.status == 2 and "Beta: there is no override of softmax; " in ran.out
    ran = headway("note", "--revoke", 1, *out)
    assert ran.status == 2 and "there is no note 1; " in ran.out
    ran = headway("override", "--list", "--out", tmp_path / "nowhere")
    assert ran.status == 2 and "has no gradebook" in ran.out
    ran = headway("note", "Beta", "x", "--out", tmp_path)
    assert ran.status == 2 and "is not a folder that `headway grade` has written to" in ran.out
