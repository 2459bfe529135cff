"""A term from the first command to the last: three assignments with groups, extensions and points of the instructor; killed, continued, added up."""

import csv
import json
import shutil
import signal
import subprocess
import sys
from decimal import Decimal

import pytest
from grade_command import ENDLESS, MODULE, command, count_graded, exports, headway, marks, mistake, until
from grader.quality.benchmarks.processes import descendants, still_running
from pytest_runs import environment, solution

pytestmark = [pytest.mark.thorough, pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are looked up in /proc")]

PEOPLE = [f"Learner {number:02}" for number in range(36)]
COURSE = """\
title = "A term"
roster = "roster.csv"
[late]
per_day = 20
[assignments.week1]
exercises = ["causal_mask"]
weight = 25
due = 2026-10-01T20:00:00+00:00
groups = true
[assignments.week2]
exercises = ["softmax", "causal_mask"]
weight = 25
due = 2026-10-08T20:00:00+00:00
[assignments.week3]
exercises = ["softmax"]
weight = 50
[extensions.week1]
l04 = 2026-10-05T20:00:00+00:00
[extensions.week2]
"Learner 04" = 2026-10-20T20:00:00+00:00
[[drops]]
assignments = ["week1", "week2"]
best = 1
"""


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """The course and its submissions: four contents, three people in a group, and a few who hand in nothing."""
    folder = tmp_path_factory.mktemp("term")
    right = solution("ch03")
    contents = {
        "right": right,
        "slow": right + ENDLESS.format("causal_mask"),
        "stub": right.replace("def softmax", "def not_softmax"),
        "wrong": mistake("causal_mask"),
    }
    for name, text in contents.items():
        (folder / "files" / name).mkdir(parents=True)
        (folder / "files" / name / f"{MODULE}.py").write_text(text, encoding="utf-8")
    rows = [("Full name", "Username", "ID number", "Groups")]
    rows += [(name, f"l{number:02}", f"s{number}", f"G{number // 3}") for number, name in enumerate(PEOPLE)]
    _write(folder / "export.csv", rows)
    kinds = list(contents)
    _write_class(folder / "week1.csv", [(f"G{group}", kinds[group % 4], f"2026-10-0{1 + group % 3}T19:00:00+00:00") for group in range(11)])
    people = [(name, kinds[number % 4], f"2026-10-{8 + number % 3:02}T19:00:00+00:00") for number, name in enumerate(PEOPLE)]
    _write_class(folder / "week2.csv", people[:-1])
    _write_class(folder / "week3.csv", [(f"l{number:02}", *row[1:]) for number, row in enumerate(people) if number % 7])
    ran = headway("course", "init", folder / "export.csv", "--into", folder)
    assert ran.status == 0 and "roster.csv has 36 people" in " ".join(ran.out.split()), ran.out
    (folder / "course.toml").write_text(COURSE, encoding="utf-8")
    ran = headway("course", "check", folder / "course.toml")
    assert ran.status == 0 and "The best 1 of week1, week2 count." in ran.out, ran.out
    return folder


def _write(path, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


def _write_class(path, rows):
    _write(path, [("name", "path", "submitted"), *((name, f"files/{kind}", when) for name, kind, when in rows)])


def _grade(folder, week):
    return headway("grade", folder / f"{week}.csv", "--course", folder / "course.toml", "--assignment", week, "-j", 1)


def _kill_during(folder, week):
    """Kill the grader as soon as it has stored something, while it waits for the slow content."""
    out = folder / "grades" / week
    grader = subprocess.Popen(
        command("grade", folder / f"{week}.csv", "--course", folder / "course.toml", "--assignment", week, "-j", 1),
        env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until(lambda: count_graded(out) >= 1, "one graded submission")
    members = descendants(grader.pid)
    grader.send_signal(signal.SIGKILL)
    assert grader.wait(120) == -signal.SIGKILL
    until(lambda: not still_running(members), "the grader's processes to go")
    return count_graded(out)


def test_a_term_is_graded_killed_continued_and_adds_up(course):
    for week in ("week1", "week3"):
        assert _grade(course, week).status == 0
    stored = _kill_during(course, "week2")
    assert 1 <= stored < 4
    ran = headway("marks", "--course", course)  # also before the killed run is continued
    assert ran.status == 0, ran.out
    ran = _grade(course, "week2")
    assert ran.status == 0 and f"35 people, {4 - stored} submission" in ran.out, ran.out
    calm = course.parent / "calm"
    shutil.copytree(course, calm, ignore=shutil.ignore_patterns("grades"))
    assert _grade(calm, "week2").status == 0
    assert exports(course / "grades" / "week2") == exports(calm / "grades" / "week2")

    week1, week2 = (marks(course / "grades" / week) for week in ("week1", "week2"))
    assert len(week1) == 33 and len(week2) == 35
    by_group = [[week1[name]["causal_mask"] for name in PEOPLE[3 * group : 3 * group + 3]] for group in range(11)]
    assert all(len(set(points)) == 1 for points in by_group) and {points[0] for points in by_group} == {"0", "7"}
    # G1 handed in a day late, and G2 two days; one member of G1 has an extension
    assert [bool(week1[name]["late"]) for name in PEOPLE[:9]] == [False, False, False, True, False, True, True, True, True]
    assert bool(week2["Learner 01"]["late"]) and not week2["Learner 04"]["late"]  # both a day late; one of them has an extension

    where = ("--course", course, "--assignment", "week2")
    assert headway("override", "Learner 03", "causal_mask", 6, "--because", "nearly right", *where).status == 0
    assert headway("note", "Learner 03", "Well explained", *where).status == 0
    assert headway("regrade", "Learner 03", *where, "-j", 1).status == 0
    week2 = marks(course / "grades" / "week2")
    assert week2["Learner 03"]["causal_mask"] == "6" and "nearly right" in week2["Learner 03"]["notes"].casefold()

    assert headway("marks", "--course", course).status == 0
    _compare_totals(course)
    before = exports(course / "grades")
    for week in ("week1", "week2", "week3"):
        ran = _grade(course, week)
        assert ran.status == 0 and ", 0 submissions graded now" in ran.out, ran.out
    assert headway("marks", "--course", course).status == 0
    assert exports(course / "grades") == before


def _compare_totals(course):
    """The table of the term, each assignment's table and the files for Gradescope have the same points; computed here again from the tables."""
    tables = {week: marks(course / "grades" / week) for week in ("week1", "week2", "week3")}
    with (course / "grades" / "marks.csv").open(encoding="utf-8-sig", newline="") as file:
        term = {row["name"]: row for row in csv.DictReader(file)}
    assert list(term) == PEOPLE
    for week, table in tables.items():
        scores = {}
        for path in (course / "grades" / week / "gradescope").glob("*.json"):
            data = json.loads(path.read_text(encoding="utf-8"))
            scores[data["extra_data"]["headway"]["name"]] = Decimal(str(data["score"]))
        assert scores == {name: Decimal(row["total"]) for name, row in table.items()}
    for name, row in term.items():
        shares = {}
        for week, table in tables.items():
            points = Decimal(table[name]["total"]) if name in table else Decimal(0)
            assert Decimal(row[week]) == points and ("missing" in row[f"{week} remark"]) == (name not in table)
            shares[week] = points / Decimal(row[f"{week} of"])
        percent = (25 * max(shares["week1"], shares["week2"]) + 50 * shares["week3"]) / 75 * 100
        assert abs(Decimal(row["percent"]) - percent) < Decimal("0.0051"), name  # `percent` itself is rounded, to 28 digits
    assert {row["number"] for row in term.values()} == {f"s{number}" for number in range(36)}
