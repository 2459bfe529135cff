"""A class of six, graded for real: what an instructor reads about those without points, about one person, and before grading."""

import csv
import json
import shutil

import pytest
from grade_command import exports, hand_in, headway, marks
from grader.course.syllabus import EXERCISES
from pytest_runs import solution

ROSTER = "name,login\nAda Lovelace,ada\nBob Stone,bob-late\nCyd Ray,cyd\nDan Fox,dan\nEve Moss,eve\nFay Noon,fay\n"
COURSE = """\
roster = "roster.csv"
[assignments.week3]
exercises = ["softmax", "causal_mask"]
due = 2026-12-01T23:59:00+01:00
per_day = 10
[assignments.week5]
chapters = ["ch05"]
"""
OTHER = "ch05_layers.py was sent, not ch03_attention.py"


def a_notebook(cell: str) -> str:
    return json.dumps(
        {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{"cell_type": "code", "source": cell}]}
    )


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """One is right, one is late, one has the stub, one another chapter, one a notebook with one of two exercises, one nothing."""
    folder = tmp_path_factory.mktemp("six")
    (folder / "course.toml").write_text(COURSE, encoding="utf-8")
    (folder / "roster.csv").write_text(ROSTER, encoding="utf-8")
    hand_in(folder / "files", "ada", solution("ch03"))
    hand_in(folder / "files", "bob-late", solution("ch03"))
    hand_in(folder / "files", "cyd", (EXERCISES / "ch03_attention.py").read_text(encoding="utf-8"))
    for name, file, text in (
        ("dan", "ch05_layers.py", solution("ch05")),
        ("eve", "homework.ipynb", a_notebook("def softmax(x, dim=-1):\n    return x\n")),
    ):
        (folder / "files" / name).mkdir()
        (folder / "files" / name / file).write_text(text, encoding="utf-8")
    rows = [
        f"{name},files/{name},2026-12-0{2 if name == 'bob-late' else 1}T20:00:00+01:00\n"
        for name in ("ada", "bob-late", "cyd", "dan", "eve")
    ]
    (folder / "class.csv").write_text("".join(["name,path,submitted\n", *rows]), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def graded(course):
    ran = headway("grade", course / "class.csv", "--course", course, "--assignment", "week3", "-j", 1)
    assert ran.status == 0, ran.out
    return course, ran.out


def test_a_dry_run_says_who_would_be_graded_and_writes_nothing(course, tmp_path):
    copy = shutil.copytree(course, tmp_path / "course", ignore=shutil.ignore_patterns("grades"))
    (copy / "files" / "stranger").mkdir()
    (copy / "files" / "stranger" / "ch03_attention.py").write_text("x = 1", encoding="utf-8")
    (copy / "files" / "eve" / "homework.ipynb").write_text(a_notebook("print(1)\n"), encoding="utf-8")
    before = exports(copy)
    ran = headway("grade", copy / "files", "--course", copy, "--assignment", "week3", "--dry-run")
    assert ran.status == 1 and exports(copy) == before and not (copy / "grades").exists(), ran.out
    lines = ran.out.splitlines()
    assert lines[0] == "Would be graded: 5 people: Ada Lovelace, Bob Stone, Cyd Ray, Dan Fox, stranger."
    assert f"Dan Fox: {OTHER}." in lines and any(
        one.startswith("Could not be graded: Eve Moss: it contains no") for one in lines
    )
    assert (
        "Note: not in the roster: stranger" in lines
        and "Note: no submission from 1 of the 6 people in the roster: Fay Noon" in lines
    )
    assert lines[-1] == "Nothing was graded, and nothing was written."
    ran = headway("grade", copy / "files", "--course", copy, "--assignment", "week3", "--dry-run", "--anonymous")
    assert ran.status == 2 and "does not go with --anonymous" in ran.out
    ran = headway("grade", copy / "none", "--dry-run", "--out", tmp_path / "grades")
    assert ran.status == 2 and "does not exist" in ran.out


def test_beside_each_zero_it_says_what_was_sent(graded):
    course, said = graded
    out = course / "grades" / "week3"
    assert "0 points: Cyd Ray: only the stub.\n" in said and f"0 points: Dan Fox: {OTHER}.\n" in said
    assert "0 points: Eve Moss: softmax: no test passes; causal_mask: the notebook does not define it.\n" in said
    assert "0 points: Ada" not in said and "0 points: Fay" not in said
    notes = {name: row["notes"] for name, row in marks(out).items()}
    assert (
        notes["Ada Lovelace"] == notes["Bob Stone"] == ""
        and notes["Cyd Ray"] == "only the stub"
        and notes["Dan Fox"] == OTHER
    )
    files = exports(out)
    assert (
        OTHER.replace("_", "\\_") in files["feedback/Dan_Fox.md"].decode()
        and "causal_mask: the notebook" in files["report.html"].decode()
    )
    results = {test["name"]: test["output"] for test in json.loads(files["gradescope/Dan_Fox.json"])["tests"]}
    assert results == {"softmax": f"{OTHER}.", "causal_mask": f"{OTHER}."}


def test_every_mark_that_is_not_a_plain_number_has_a_reason(graded):
    course, _ = graded
    assert headway("marks", "--course", course).status == 0
    with (course / "grades" / "marks.csv").open(encoding="utf-8-sig", newline="") as file:
        remarks = {row["name"]: (row["week3"], row["week3 remark"]) for row in csv.DictReader(file)}
    assert (
        remarks["Ada Lovelace"] == ("17", "")
        and remarks["Fay Noon"] == ("0", "missing")
        and remarks["Dan Fox"] == ("0", OTHER)
    )
    assert remarks["Bob Stone"][0] == "15.3" and remarks["Bob Stone"][1].startswith("1 day late")


def test_a_person_is_shown_with_every_assignment(graded, tmp_path):
    course = shutil.copytree(graded[0], tmp_path / "course")
    where = ("--course", course, "--assignment", "week3")
    assert headway("override", "Cyd Ray", "softmax", "4", "--because", "oral exam", *where).status == 0
    ran = headway("person", "cyd", "--course", course)
    assert ran.status == 0 and ran.out.startswith(
        "Cyd Ray (cyd)\nweek3: 4 of 17 points: points given by the instructor for softmax.\n"
    ), ran.out
    assert (
        "  softmax 4 of 10: The instructor gave 4 points for softmax instead of 0 on " in ran.out
        and "oral exam" in ran.out
    )
    assert "  causal_mask 0 of 7: only the stub\n" in ran.out and "feedback/Cyd_Ray.md\n" in ran.out
    assert "week5: not graded yet.\n" in ran.out and ran.out.endswith("Total so far: 23.53 %.\n")
    assert "week3: 15.3 of 17 points: 1 day late (" in headway("person", "Bob Stone", "--course", course).out
    assert "week3: 0 of 17 points: missing.\n" in headway("person", "fay", "--course", course).out
    alone = headway("person", "Ada Lovelac", "--out", course / "grades" / "week3")
    assert alone.status == 2 and "did you mean Ada Lovelace" in alone.out
    assert "softmax 10 of 10: passed" in headway("person", "Ada Lovelace", "--out", course / "grades" / "week3").out
    for name, arguments, sentence in (
        ("zed", ("--course", course), "no person of this course is called zed"),
        (
            "Ada Lovelace",
            ("--course", course, "--assignment", "week5"),
            "is not a folder that `headway grade` has written to",
        ),
        ("Ada Lovelace", ("--course", tmp_path), "does not exist"),
    ):
        ran = headway("person", name, *arguments)
        assert ran.status == 2 and sentence in ran.out, ran.out
