"""course.toml: everything in it is read exactly, and what does not fit is reported with its line and a suggestion."""

from datetime import datetime, timedelta
from decimal import Decimal
from textwrap import dedent

import pytest
from grade_command import headway
from grader.classroom.intake.submissions import GradingProblem, Submission
from grader.classroom.term import course as module
from grader.classroom.term.course import read_course_file

ROSTER = "name,email,login,group\nAlpha One,alpha@example.edu,aone,G1\nBeta Two,beta@example.edu,btwo,\n"
COURSE = """\
title = "A term"
roster = "roster.csv"

[late]
grace = "15m"
per_day = 10

[points]
softmax = 20

[assignments.week1]
exercises = ["causal_mask", "softmax"]
weight = 40
due = 2026-12-01T23:59:00+01:00
last = 3

[assignments.week2]
chapters = ["ch05"]
hidden = ["LayerNorm"]
weight = 40
groups = true
per_day = 0

[extensions.week1]
"alpha@example.edu" = 2026-12-03T23:59:00+01:00
"""


def course(tmp_path, text=COURSE, roster=ROSTER):
    (tmp_path / "roster.csv").write_text(roster, encoding="utf-8")
    (tmp_path / "course.toml").write_text(text, encoding="utf-8")
    return tmp_path / "course.toml"


def test_a_course_is_read(tmp_path):
    found = read_course_file(course(tmp_path))
    one, two = found.assignments
    assert found.title == "A term" and [person.name for person in found.roster.people] == ["Alpha One", "Beta Two"]
    assert [exercise.name for exercise in one.exercises] == ["softmax", "causal_mask"] and one.title == "week1" and not one.groups
    assert (one.weight, one.rules.per_day, one.rules.grace, one.rules.last) == (Decimal(40), Decimal(10), timedelta(minutes=15), 3)
    assert one.rules.points_of(one.exercises[0]) == 20
    assert {exercise.chapter for exercise in two.exercises} == {"ch05"} and two.hidden == ("LayerNorm",) and two.groups
    assert (two.rules.per_day, two.rules.last, two.rules.due, two.rules.extensions) == (Decimal(0), None, None, {})
    assert found.folder("week1") == tmp_path / "grades" / "week1"


def test_an_extension_by_any_id_counts_for_the_name_in_the_roster(tmp_path):
    rules = read_course_file(course(tmp_path)).assignments[0].rules
    late = datetime.fromisoformat("2026-12-03T20:00:00+01:00")
    assert [rules.compute_lateness(Submission(name, {}, submitted=late)).days for name in ("Alpha One", "Beta Two")] == [0, 2]


def test_the_example_in_the_modules_docstring_is_valid(tmp_path):
    example = dedent(module.__doc__.partition("\n")[2])
    found = read_course_file(course(tmp_path, example, "name,group\nAlpha One,G1\n"))
    assert found.assignments[0].rules.extensions.keys() == {"Alpha One"} and found.assignments[0].groups


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("[points]", "[point]", "point: this key is unknown; did you mean points?"),
        ("softmax = 20", "sofmax = 20", "[points] sofmax: there is no exercise or chapter called 'sofmax'; did you mean softmax?"),
        ("[assignments.week1]", "[assignments.'week 1']", "[assignments.week 1] this is also the name of a folder"),
        ('["ch05"]', '["ch55"]', "[assignments.week2] chapters: there is no chapter 55; the chapters are ch00 to ch26"),
        ('"LayerNorm"', '"LayerNrom"', "[assignments.week2] hidden: 'LayerNrom' is not an exercise of this assignment; did you mean LayerNorm?"),
        ("groups = true", "groups = 1", "[assignments.week2] groups: 1 is not true or false"),
        ("[extensions.week1]", "[extensions.wek1]", "[extensions.wek1]: there is no assignment of this name; did you mean week1?"),
        ("alpha@example.edu", "Alpha Oen", "'Alpha Oen': the roster has no person of this name, e-mail, login or number; did you mean Alpha One?"),
        ("alpha@example.edu", "G1", "[extensions.week1] 'G1': this is a group; an extension is for a person, so write a line for each member"),
        ('"alpha@example.edu" = ', '"ALPHA ONE" = 2026-12-04T23:59:00+01:00\n"aone" = ',
         "[extensions.week1] 'aone': Alpha One has another extension there; keep one of the two lines"),
        ('chapters = ["ch05"]', "chapters = []", "[assignments.week2] names no exercises"),
        ('exercises = ["causal_mask", "softmax"]', 'exercises = ["softmax"]\npoints = 3', "points: this key is unknown; the keys are title, chapters"),
        ("softmax = 20", "ch05 = 0", "[assignments.week2] its exercises are worth 0 points, so everybody would earn 0 %"),
        ("[assignments.week2]", "[assignments.week1]", "the table [assignments.week1] is there twice; put its keys into one table"),
        ("2026-12-03", "2026-11-03", "[extensions.week1] 'alpha@example.edu': 2026-11-03 23:59+01:00 is before the general due date"),
        ("[extensions.week1]", "[extensions.week2]", "[assignments.week2] has no due date to extend; add due"),
        ("weight = 40", "weight = 0", "the weight of every assignment is 0, so there is no total; give one of them another weight"),
        ('"roster.csv"', '"rooster.csv"', "rooster.csv cannot be read: no such file or directory"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_sentence_that_says_where(tmp_path, old, new, sentence):
    assert old in COURSE
    with pytest.raises(GradingProblem) as refused:
        read_course_file(course(tmp_path, COURSE.replace(old, new)))
    assert str(refused.value).startswith("course.toml") and sentence in str(refused.value)


def test_an_extension_for_a_name_of_two_people_says_what_to_write(tmp_path):
    roster = "name,login,group\nWei Li,wli1,G1\nWei Li,wli2,\n"
    with pytest.raises(GradingProblem) as refused:
        read_course_file(course(tmp_path, COURSE.replace("alpha@example.edu", "Wei Li"), roster))
    assert str(refused.value) == "course.toml: [extensions.week1] 'Wei Li': 2 people are called Wei Li; write \"Wei Li (wli1)\" or \"Wei Li (wli2)\""


def test_init_writes_a_course_that_check_accepts(tmp_path):
    (tmp_path / "canvas.csv").write_text('Student,ID,SIS Login ID,Section\n"One, Alpha",11,aone,S1\n', encoding="utf-8")
    ran = headway("course", "init", tmp_path / "canvas.csv", "--into", tmp_path, "--title", 'A "term"')
    assert ran.status == 0 and "roster.csv has 1 person" in " ".join(ran.out.split()), ran.out
    before = (tmp_path / "course.toml").read_bytes()
    ran = headway("course", "check", tmp_path / "course.toml")
    assert ran.status == 0 and 'A "term": 1 person in the roster.' in ran.out and "week1: " in ran.out, ran.out
    ran = headway("course", "init", "--into", tmp_path)
    assert ran.status == 2 and "exists already, and was not changed" in " ".join(ran.out.split()) and (tmp_path / "course.toml").read_bytes() == before
    (tmp_path / "course.toml").write_text("[late]\nper_day = 300\n", encoding="utf-8")
    ran = headway("course", "check", tmp_path)
    assert ran.status == 1 and "course.toml: [late] per_day: 300 is not a percentage from 0 to 100" in ran.out, ran.out
    (tmp_path / "course.toml").write_text("[late]\n[late]\n", encoding="utf-8")
    ran = headway("course", "check", tmp_path)
    assert ran.status == 1 and "line 2: the table [late] is there twice" in ran.out, ran.out
    ran = headway("course", "check", tmp_path / "nowhere.toml")
    assert ran.status == 2 and "name one with `headway course check FILE`, or write one with `headway course init`" in ran.out
