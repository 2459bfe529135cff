"""A term from the first command to the last: a roster from an export, two assignments, corrections, marks, and the tables of the platforms."""

import csv

import pytest
from grade_command import exports, hand_in, headway, mistake
from platform_tables import CANVAS, GRADESCOPE, MOODLE, write
from pytest_runs import solution

pytestmark = pytest.mark.thorough
RULES = """\
roster = "roster.csv"
[late]
grace = "15m"
per_day = 20
[points]
softmax = 8
causal_mask = 2
[assignments.week1]
exercises = ["causal_mask"]
due = 2026-12-01T20:00:00+00:00
weight = 25
[assignments.week2]
exercises = ["causal_mask"]
due = 2026-12-08T20:00:00+00:00
weight = 25
[assignments.week3]
title = "Attention"
exercises = ["softmax", "causal_mask"]
weight = 75
[extensions.week2]
btwo = 2026-12-11T20:00:00+00:00
[[drops]]
assignments = ["week1", "week2"]
best = 1
"""


def rows(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_a_term_is_graded_corrected_added_up_and_exported(tmp_path):
    ran = headway("course", "init", write(tmp_path / "canvas.csv", CANVAS), "--into", tmp_path)
    assert ran.status == 0 and "roster.csv has 3 people" in " ".join(ran.out.split()), ran.out
    write(tmp_path / "course.toml", RULES)
    hand_in(tmp_path / "files", "right", solution("ch03"))
    hand_in(tmp_path / "files", "wrong", mistake("causal_mask"))
    hand_in(tmp_path / "files", "half", solution("ch03").replace("def softmax", "def not_softmax"))
    days = {"Alpha One": ("right", "2026-12-03T10:00:00+00:00", "right"), "btwo": ("right", "2026-12-10T10:00:00+00:00", "half")}
    for week, when in (("week1", 1), ("week2", 1), ("week3", None)):
        handed_in = [f"{who},files/{facts[0 if when else 2]},{facts[1] if when else ''}\n" for who, facts in days.items()]
        write(tmp_path / f"{week}.csv", "name,path,submitted\n" + "".join(handed_in))
        ran = headway("grade", tmp_path / f"{week}.csv", "--course", tmp_path, "--assignment", week, "-j", 1)
        assert ran.status == 0, ran.out
    where = ("--course", tmp_path, "--assignment", "week3")
    assert headway("override", "Gamma Three", "softmax", 4, "--because", "an oral exam", *where).status == 0
    assert headway("marks", "--course", tmp_path).status == 0
    found = {row["name"]: [row[key] for key in ("week1", "week2", "week3", "percent")] for row in rows(tmp_path / "grades" / "marks.csv")}
    assert found == {  # week1: two and nine days late; week2: in time, and by an extension
        "Alpha One": ["1.2", "2", "10", "100"], "Beta Two": ["0", "2", "2", "40"], "Gamma Three": ["0", "0", "4", "30"],
    }  # fmt: skip
    before = exports(tmp_path / "grades")
    assert headway("grade", tmp_path / "week3.csv", *where, "-j", 1).status == 0 and headway("marks", "--course", tmp_path).status == 0
    assert exports(tmp_path / "grades") == before
    points = ["10", "2", "4"]
    for platform, text, column in (("canvas", CANVAS, "Attention (8002)"), ("moodle", MOODLE, "Grade"), ("gradescope", GRADESCOPE, "Total Score")):
        file = write(tmp_path / f"{platform}.csv", text)
        assert headway("export", platform, file, *where).status == 0
        graded = tmp_path / f"{platform}-graded.csv"
        assert [row[column] for row in rows(graded) if "Alpha" in str(row) or "Beta" in str(row) or "Gamma" in str(row)] == points
        ran = headway("export", platform, graded, "--to", tmp_path / "again.csv", "--force", *where)
        assert "0 grades written into" in ran.out and "3 the same as before" in ran.out and (tmp_path / "again.csv").read_bytes() == graded.read_bytes()
        ran = headway("course", "init", graded, "--into", tmp_path / platform)
        assert ran.status == 0 and "roster.csv has 3 people" in " ".join(ran.out.split()), ran.out
