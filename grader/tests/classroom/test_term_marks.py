"""The marks of a term: weights, late points, and people who are missing, exact to the hundredth of a percent."""

import csv
import io
from dataclasses import replace
from decimal import Decimal

from example_class import EXERCISES, HOSTILE, VERSIONS, submission
from grade_command import headway
from grader.classroom.exports import write_marks
from grader.classroom.gradebook import Gradebook
from grader.classroom.term.course import compute_term_marks
from grader.classroom.term.roster import RosterPerson
from platform_tables import COURSE, make_course
from term_examples import a_class_of, a_course, a_graded_person, an_assignment

ALPHA, BETA = RosterPerson("Alpha One", email="alpha@example.edu", number="s1", canvas_id="11", moodle_id="501"), RosterPerson("Beta Two")
ONE, TWO, THREE = an_assignment("one", ("softmax",), 20), an_assignment("two", ("softmax", "causal_mask"), 20), an_assignment("three", ("gelu",), 60)


def percents(course, **classes):
    return {person.who.name: person.percent for person in compute_term_marks(course, classes).people}


def class_of(assignment, **shares):
    return a_class_of(assignment, *(a_graded_person(name, assignment, (share,) * len(assignment.exercises)) for name, share in shares.items()))


def test_a_total_is_the_weighted_mean_of_the_shares():
    course = a_course(ONE, TWO, THREE)
    assert percents(course, one=class_of(ONE, A=1, B=0), two=class_of(TWO, A=0.5, B=1), three=class_of(THREE, A=0.25, B=1)) == {
        "A": Decimal("45.00"), "B": Decimal("80.00"),
    }  # fmt: skip
    assert percents(course, one=class_of(ONE, A=0.5)) == {"A": Decimal("50.00")}, "what is not graded yet does not count"
    late = a_graded_person("A", ONE, (1,), factor="0.3333", late="2 days late (submitted then): 67 % of the points earned are deducted")
    [person] = compute_term_marks(a_course(ONE), {"one": a_class_of(ONE, late)}).people
    assert person.percent == Decimal("33.33") and person.marks["one"].remark.startswith("2 days late (")


def test_a_person_who_is_missing_gets_no_points_for_that_assignment():
    marks = compute_term_marks(a_course(ONE, THREE, people=(ALPHA, BETA)), {"one": class_of(ONE, **{"Alpha One": 1}), "three": class_of(THREE, **{"Alpha One": 1})})
    alpha, beta = marks.people
    assert (alpha.percent, alpha.missing) == (Decimal(100), []) and (beta.percent, beta.missing) == (Decimal(0), ["one", "three"])
    assert beta.marks["one"].points == 10 and beta.marks["one"].remark == "missing"


def test_people_who_are_not_in_the_roster_come_last_and_two_submissions_of_one_person_count_once():
    graded = class_of(ONE, **{"Zeta": 1, "s1": 0.5, "Beta Two": 1, "BETA two": 0.1})
    marks = compute_term_marks(a_course(ONE, people=(ALPHA, BETA)), {"one": graded})
    assert [(person.who.name, person.percent) for person in marks.people] == [
        ("Alpha One", Decimal(50)), ("Beta Two", Decimal(100)), ("Zeta", Decimal(100)),
    ]  # fmt: skip
    assert marks.notes == ("one: Beta Two and BETA two are one person in the roster; only the first one counts",)


def test_a_weight_of_zero_is_shown_and_does_not_count_and_other_exercises_give_a_note():
    graded = {"one": class_of(an_assignment("one", ("gelu",)), A=1)}
    assert compute_term_marks(a_course(ONE), graded).notes == ("one was graded with other exercises than course.toml has now; grade it again",)
    course = a_course(an_assignment("one", ("softmax",), 0), TWO)
    [person] = compute_term_marks(course, {"one": class_of(ONE, A=1), "two": class_of(TWO, A=0.5)}).people
    assert person.percent == Decimal(50) and person.marks["one"].earned == 10
    assert percents(a_course(an_assignment("one", ("softmax",), 0)), one=class_of(ONE, A=1)) == {"A": None}


def test_a_submission_whose_run_is_not_finished_does_not_count_yet(tmp_path):
    assignments = [an_assignment(name, ("softmax",), 10) for name in ("one", "two", "three")]
    course = a_course(*assignments)
    waiting = replace(a_graded_person("A", assignments[1], (0,), problem="it has not been graded yet"), waiting=True)
    given = replace(a_graded_person("B", assignments[1], (1,), problem="it has not been graded yet", given="softmax"), waiting=True)
    classes = {"one": class_of(assignments[0], A=0.5, B=0.5), "two": a_class_of(assignments[1], waiting, given), "three": class_of(assignments[2], A=0.25, B=0.25)}
    marks = compute_term_marks(course, classes)
    for person in marks.people:
        assert person.percent == Decimal("37.50")
        assert person.marks["two"].remark == "not graded yet"
    first, _ = csv.DictReader(io.StringIO(write_marks(marks, tmp_path).read_bytes().decode("utf-8-sig")))
    assert (first["two"], first["two of"], first["two remark"]) == ("", "10", "not graded yet")


def test_an_unfinished_assignment_is_named_with_the_command_that_continues_it(tmp_path):
    folder = make_course(tmp_path, course=COURSE.replace("[assignments.week3]", '[assignments.week2]\nexercises = ["gelu"]\n[assignments.week3]'))
    with Gradebook(folder / "grades" / "week3") as book:
        book.start_run(0, EXERCISES[:2], VERSIONS)
        book.submissions_to_do([submission("Alpha One", slug="Alpha_One"), submission("Beta Two", "new", slug="Beta_Two")])
    with Gradebook(folder / "grades" / "week2") as book:
        book.start_run(0, EXERCISES[:1], VERSIONS)  # killed before it had read the submissions
    ran = headway("marks", "--course", folder)
    command = f"headway grade {folder / 'grades' / 'week3'} --assignment week3"
    assert ran.status == 0 and f"Note: week3: 1 submission is not graded yet and does not count; continue with: {command}\n" in ran.out, ran.out
    assert "week2" not in ran.out
    with (folder / "grades" / "marks.csv").open(encoding="utf-8-sig", newline="") as file:
        found = {row["name"]: (row["percent"], row["week3"]) for row in csv.DictReader(file)}
    assert found == {"Alpha One": ("100", "10"), "Beta Two": ("", ""), "Gamma Three": ("0", "0")}


def test_the_table_has_every_id_and_no_formula(tmp_path):
    people = (ALPHA, RosterPerson("=1+1", login="@x"))
    broken = a_graded_person("=1+1", ONE, (0,), problem=f"=cmd {HOSTILE}")
    marks = compute_term_marks(a_course(ONE, TWO, people=people), {"one": a_class_of(ONE, a_graded_person("Alpha One", ONE, (0.25,)), broken)})
    text = write_marks(marks, tmp_path).read_bytes().decode("utf-8-sig")
    alpha, other = csv.DictReader(io.StringIO(text))
    assert alpha == {
        "name": "Alpha One", "email": "alpha@example.edu", "login": "", "number": "s1", "canvas_id": "11", "moodle_id": "501", "section": "", "group": "",
        "percent": "25", "one": "2.5", "one of": "10", "one remark": "",
    }  # fmt: skip
    assert other["name"] == "'=1+1" and other["login"] == "'@x" and other["one remark"].startswith("not graded: ") and "\x1b" not in text
    assert write_marks(marks, tmp_path).read_bytes().decode("utf-8-sig") == text


def test_marks_before_anything_is_graded_and_without_a_course_are_refused(tmp_path):
    ran = headway("marks", "--course", tmp_path / "course.toml")
    assert ran.status == 2 and "headway course init" in ran.out
    (tmp_path / "course.toml").write_text('[assignments.week1]\nchapters = ["ch01"]\n', encoding="utf-8")
    ran = headway("marks", "--course", tmp_path)
    assert ran.status == 2 and "no assignment has been graded yet; run `headway grade SUBMISSIONS --assignment week1`" in ran.out
    assert not (tmp_path / "grades").exists()
