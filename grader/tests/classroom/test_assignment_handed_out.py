"""What an assignment of course.toml gives: its handout, and its autograder for Gradescope with the dates that Gradescope knows."""

import json
import zipfile
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from grade_command import headway
from grader.classroom.handout.gradescope import add_gradescope_dates, format_course
from grader.classroom.judging.rules import Rules
from grader.classroom.term.course import read_course_file
from grader.course.syllabus import load_syllabus

ROSTER = "name,email\nAlpha One,Alpha@example.edu\nBeta Two,\n"
COURSE = """\
roster = "roster.csv"
[late]
per_day = 10
[points]
softmax = 20
[assignments.week1]
exercises = ["softmax", "split_qkv", "gelu"]
hidden = ["split_qkv"]
due = 2026-12-01T23:59:00+01:00
[assignments.week2]
title = "The rest"
exercises = ["fuse_qkv", "RMSNorm"]
hidden = ["fuse_qkv"]
[assignments.week3]
chapters = ["ch06"]
[extensions.week1]
"Alpha One" = 2026-12-03T23:59:00+01:00
"""
DUE = datetime.fromisoformat("2026-12-01T23:59:00+01:00")
LATE = Rules(due=DUE, per_day=Decimal(10))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "course.toml").write_text(COURSE, encoding="utf-8")
    (tmp_path / "roster.csv").write_text(ROSTER, encoding="utf-8")
    return tmp_path


def run(folder, *arguments):
    ran = headway(*arguments, "--course", folder)
    assert ran.status == 0, ran.out
    return " ".join(ran.out.split())


# ---- the handout


def test_a_handout_has_the_assignments_chapters_and_hides_what_the_course_hides(folder):
    said = run(folder, "handout", folder / "out", "--assignment", "week1")
    assert "hidden: split_qkv" in said and "hidden: fuse_qkv" in said, said
    made = load_syllabus(folder / "out" / "exercises" / "syllabus.toml")
    names = [exercise.name for exercise in made.exercises]
    assert "softmax" in names and "gelu" in names and "causal_mask" in names and not {"split_qkv", "fuse_qkv"} & set(names)
    assert [chapter.id for chapter in made.chapters if chapter.exercises] == ["ch03", "ch05"]
    tests = "".join(path.read_text(encoding="utf-8") for path in (folder / "out" / "tests").glob("test_*.py"))
    assert "split_qkv" not in tests and "def split_qkv" in (folder / "out" / "exercises" / "ch03_attention.py").read_text(encoding="utf-8")


def test_only_hidden_exercises_of_the_same_chapters_are_hidden(folder):
    course = read_course_file(folder / "course.toml")
    hidden = {one.name: course.hidden_in(one) for one in course.assignments}
    assert hidden == {"week1": ["fuse_qkv", "split_qkv"], "week2": ["fuse_qkv", "split_qkv"], "week3": []}


# ---- the autograder for Gradescope


def read_archive(path):
    """The settings, and the only assignment."""
    with zipfile.ZipFile(path) as archive:
        archive.extract("course.toml", path.parent / "unpacked")
        return json.loads(archive.read("headway.json")), read_course_file(path.parent / "unpacked" / "course.toml").assignments[0]


def test_an_autograder_has_the_assignments_exercises_and_rules(folder):
    said = run(folder, "gradescope", folder / "a", "--assignment", "week1")
    assert "The autograder for week1 is in" in said and "Students see the results of split_qkv" in said and "due date" not in said, said
    settings, assignment = read_archive(folder / "a.zip")
    assert [exercise.name for exercise in assignment.exercises] == ["softmax", "split_qkv", "gelu"] and settings["hidden"] == ["split_qkv"]
    rules = assignment.rules
    assert rules.points == {"softmax": Decimal(20)} and rules.due == DUE and rules.per_day == 10
    assert rules.extensions == dict.fromkeys(("Alpha One", "Alpha@example.edu"), DUE + timedelta(days=2))


def test_rules_without_a_due_date_use_that_of_gradescope(folder):
    said = run(folder, "gradescope", folder / "b.zip", "--assignment", "week2")
    assert "Your rules have no due date, so the due date of the assignment in Gradescope counts" in said, said


@pytest.mark.parametrize(
    "rules",
    [
        Rules(),
        Rules(dict.fromkeys(("softmax", "gelu"), Decimal("7.25")), DUE, timedelta(minutes=90), Decimal("12.5"), Decimal(50), 0),
        Rules(due=DUE, grace=timedelta(days=99_999), extensions={'Al"pha \\ One': DUE + timedelta(days=1), "a\x7fé@x": DUE + timedelta(hours=1)}),
    ],
)
def test_formatted_rules_are_read_back(tmp_path, rules):
    exercises = tuple(load_syllabus().exercise(name) for name in ("softmax", "gelu"))
    (tmp_path / "course.toml").write_text(format_course(exercises, rules), encoding="utf-8")
    [found] = read_course_file(tmp_path / "course.toml").assignments
    assert (found.rules, found.exercises) == (rules, exercises)


def metadata(due=None, **users):
    """As Gradescope documents it: the dates of the assignment, and those of each person."""
    shown = {"due_date": due.isoformat(timespec="microseconds") if due else None, "late_due_date": None, "title": "Week 1"}
    people = [{"id": 7, "name": name, "email": f"{name.lower()}@example.edu", "assignment": shown | {"due_date": until.isoformat()}} for name, until in users.items()]
    return {"created_at": "2026-12-02T10:00:00.000000+01:00", "assignment": shown, "users": people}


LATER = DUE + timedelta(days=2)


@pytest.mark.parametrize("facts, rules, found", [
    (metadata(DUE, Alpha=DUE), replace(LATE, due=None), LATE),  # the rules have no due date
    (metadata(LATER, Alpha=LATER), LATE, LATE),  # the date of the rules counts
    (metadata(DUE, Alpha=LATER, Beta=DUE), LATE, replace(LATE, extensions={"Alpha": LATER})),
    (metadata(DUE, Alpha=LATER, Beta=DUE), replace(LATE, due=None), replace(LATE, extensions={"Alpha": LATER})),
    (metadata(DUE, Alpha=LATER, Beta=LATER),  # the latest extension counts, also under the e-mail address
     replace(LATE, extensions={"ALPHA@example.edu": DUE + timedelta(days=3), "Beta": DUE + timedelta(days=1), "Chi": DUE + timedelta(days=9)}),
     replace(LATE, extensions={"Alpha": DUE + timedelta(days=3), "Beta": LATER})),
    (metadata(DUE, Alpha=LATER), Rules(), Rules()),  # nothing is deducted
    (None, LATE, LATE),
    ({"assignment": {"due_date": "soon"}, "users": []}, replace(LATE, due=None), replace(LATE, due=None)),
])  # fmt: skip
def test_the_dates_of_gradescope_and_of_the_rules_are_put_together(facts, rules, found):
    assert add_gradescope_dates(rules, facts) == found
