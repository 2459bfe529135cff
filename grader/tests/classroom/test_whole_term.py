"""A term from the first command to the last, with 400 people in three assignments: killed, continued, corrected, added up, exported and read in again."""

import json
import shutil
import signal
import subprocess
import sys
import zipfile
from decimal import Decimal

import pytest
from grade_command import command, count_graded, exports, headway, marks, until
from large_course import (
    ASKED,
    LEARNERS,
    PEOPLE,
    WORTH,
    make_term,
    percent,
    read_rows,
    write_canvas,
    write_gradescope,
    write_moodle,
)
from linux_processes import descendants, still_running
from pytest_runs import environment

pytestmark = [pytest.mark.thorough, pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are looked up in /proc")]


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """The folder of the course, and who handed in what."""
    folder = tmp_path_factory.mktemp("term")
    term = make_term(folder)
    ran = headway("course", "init", folder / "people.csv", "--into", folder)
    assert ran.status == 0 and f"roster.csv has {PEOPLE} people" in " ".join(ran.out.split()), ran.out
    shutil.copy(folder / "rules.toml", folder / "course.toml")
    ran = headway("course", "check", folder / "course.toml")
    assert ran.status == 0 and "The best 1 of week1, week2 count." in ran.out, ran.out
    return folder, term


def _where(folder, week):
    return ("--course", folder / "course.toml", "--assignment", week)


def _submissions(folder, week):
    return folder / ("week3" if week == "week3" else f"{week}.csv")


def _grade(folder, week):
    return headway("grade", _submissions(folder, week), *_where(folder, week), "-j", 2)


def _kill_during(folder, week):
    """Kill the grader after it has stored something, while it waits for the slow content."""
    out = folder / "grades" / week
    grader = subprocess.Popen(
        command("grade", _submissions(folder, week), *_where(folder, week), "-j", 1),
        env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until(lambda: count_graded(out) >= 2, "two graded submissions")
    members = descendants(grader.pid)
    grader.send_signal(signal.SIGKILL)
    assert grader.wait(120) == -signal.SIGKILL
    until(lambda: not still_running(members), "the grader's processes to go")
    return count_graded(out)


def test_a_term_of_400_people_is_graded_killed_continued_corrected_and_exported(course):
    folder, term = course
    for week in ("week1", "week3"):
        ran = _grade(folder, week)
        assert ran.status == 0, ran.out
    stored = _kill_during(folder, "week2")
    assert 2 <= stored < 5
    ran = _grade(folder, "week2")
    assert ran.status == 0 and f"{len(term.handed_in['week2'])} people, {5 - stored} submission" in ran.out, ran.out
    calm = folder.parent / "calm"
    shutil.copytree(folder, calm, ignore=shutil.ignore_patterns("week2"))
    assert _grade(calm, "week2").status == 0
    assert exports(folder / "grades" / "week2") == exports(calm / "grades" / "week2")

    _correct(folder, term)
    ran = headway("marks", "--course", folder)
    assert ran.status == 0, ran.out
    points = _compare_marks(folder, term)
    _compare_exports(folder, term, points)

    before = exports(folder / "grades")
    for week in ASKED:
        ran = _grade(folder, week)
        assert ran.status == 0 and ", 0 submissions graded now" in ran.out, ran.out
    assert headway("marks", "--course", folder).status == 0
    assert exports(folder / "grades") == before


def _correct(folder, term):
    """Overrides: a member of a group, a late person, and one who has handed in nothing; one is revoked, and one is regraded."""
    absent = next(one.number for one in LEARNERS if one.number not in term.handed_in["week3"])
    gave = [("week1", 8, "causal_mask", "3.5"), ("week2", 7, "causal_mask", "6"), ("week2", 35, "softmax", "0"), ("week3", absent, "softmax", "8")]
    for week, number, exercise, points in [*gave, ("week2", 1, "softmax", "9")]:
        ran = headway("override", LEARNERS[number].name, exercise, points, "--because", "an oral exam", *_where(folder, week))
        assert ran.status == 0, ran.out
    term.given = {(week, number, exercise): Decimal(points) for week, number, exercise, points in gave}
    assert headway("override", LEARNERS[1].name, "softmax", "--revoke", *_where(folder, "week2")).status == 0
    assert headway("note", LEARNERS[7].name, "Well explained", *_where(folder, "week2")).status == 0
    assert headway("regrade", LEARNERS[7].name, *_where(folder, "week2"), "-j", 2).status == 0


def _compare_marks(folder, term):
    """Each person's points by week: in the table of the assignment, in that of the term, in the files for Gradescope, and as computed here."""
    rows = {row["name"]: row for row in read_rows(folder / "grades" / "marks.csv")}
    assert list(rows) == [one.name for one in LEARNERS]
    tables = {week: marks(folder / "grades" / week) for week in ASKED}
    wrong = {row["causal_mask"] for number, (content, _) in term.handed_in["week2"].items() if content == "wrong" and ("week2", number, "causal_mask") not in term.given
             for row in [tables["week2"][LEARNERS[number].name]]}  # fmt: skip
    assert len(wrong) == 1 and 0 <= Decimal(min(wrong)) < WORTH["causal_mask"]
    points = {}
    for week, table in tables.items():
        points[week] = {one.number: term.expected(week, one.number, Decimal(min(wrong))) for one in LEARNERS}
        assert {name: Decimal(row["total"] or 0) for name, row in table.items()} == {one.name: points[week][one.number] for one in LEARNERS}
        scores = {}
        for path in (folder / "grades" / week / "gradescope").glob("*.json"):
            data = json.loads(path.read_text(encoding="utf-8"))
            scores[data["extra_data"]["headway"]["name"]] = Decimal(str(data["score"]))
        assert scores == {LEARNERS[number].name: points[week][number] for number in _people_with_marks(term, week)}
    for one in LEARNERS:
        row = rows[one.name]
        assert {week: Decimal(row[week]) for week in ASKED} == {week: points[week][one.number] for week in ASKED}
        assert abs(Decimal(row["percent"]) - percent({week: points[week][one.number] for week in ASKED})) < Decimal("0.0051"), one.name
        assert (row["number"], row["email"], row["group"]) == (one.ids["number"], one.email, f"G{one.group}")
        for week in ASKED:
            assert ("missing" in row[f"{week} remark"]) == (one.number not in term.handed_in[week])
            assert tables[week][one.name]["problem"] == ("" if one.number in term.handed_in[week] else "missing")
    return points


def _people_with_marks(term, week):
    return sorted({*term.handed_in[week], *(number for where, number, _ in term.given if where == week)})


def _compare_exports(folder, term, points):
    """The marks go into the tables of every system, and come back from them: as grades that are there already, and as a roster."""
    place = folder / "platforms"
    place.mkdir()
    canvas = write_canvas(place / "canvas.csv")
    for week in ASKED:
        to, known = ("--to", place / f"canvas-{week}.csv"), _people_with_marks(term, week)
        _export("canvas", canvas, *to, *_where(folder, week))
        canvas = place / f"canvas-{week}.csv"
        moodle, gradescope = write_moodle(place / f"moodle-{week}.csv", week), write_gradescope(place / f"gradescope-{week}.csv", week)
        for system, file in {"moodle": moodle, "gradescope": gradescope}.items():
            _export(system, file, *_where(folder, week))
        for system, file in {"canvas": canvas, "moodle": place / f"moodle-{week}-graded.csv", "gradescope": place / f"gradescope-{week}-graded.csv"}.items():
            said = _export(system, file, "--to", place / "again.csv", "--force", *_where(folder, week))
            assert "0 grades written into" in said and f"{len(known)} the same as before" in said, said
            assert (place / "again.csv").read_bytes() == file.read_bytes()
        _export("plain", *_where(folder, week))
        title = {"week1": "Masks (8001)", "week2": "Scores (8002)", "week3": "Heads (8003)"}[week]
        found = {
            "canvas": {row["ID"]: row[title] for row in read_rows(canvas)[1:]},
            "moodle": {row["Identifier"].split()[1]: row["Grade"] for row in read_rows(place / f"moodle-{week}-graded.csv")},
            "gradescope": {row["SID"]: row["Total Score"] for row in read_rows(place / f"gradescope-{week}-graded.csv")},
            "plain": {row["number"]: row["points"] for row in read_rows(folder / "grades" / week / "plain.csv")},
        }
        keys = {"canvas": "canvas_id", "moodle": "moodle_id", "gradescope": "number", "plain": "number"}
        for system, grades in found.items():
            wanted = {one.ids[keys[system]]: points[week][one.number] if one.number in known else None for one in LEARNERS}
            assert {key: Decimal(grade) if grade else None for key, grade in grades.items()} == wanted, (week, system)
        with zipfile.ZipFile(place / f"moodle-{week}-graded-feedback.zip") as archive:
            pages = {name.split("_")[1]: archive.read(name).decode() for name in archive.namelist()}
        assert pages.keys() == {LEARNERS[number].ids["moodle_id"] for number in known}
        for number in known:
            total = points[week][number].normalize()
            assert f"**{total:f} of " in pages[LEARNERS[number].ids["moodle_id"]]
    for export in (canvas, place / "moodle-week1-graded.csv", place / "gradescope-week1-graded.csv", folder / "grades" / "week1" / "plain.csv"):
        ran = headway("course", "init", export, "--into", place / f"from-{export.stem}")
        assert ran.status == 0 and f"roster.csv has {PEOPLE} people" in " ".join(ran.out.split()), ran.out
        roster = {row["name"]: row for row in read_rows(place / f"from-{export.stem}" / "roster.csv")}
        assert all(roster[one.name][field] in ("", value) for one in LEARNERS for field, value in one.ids.items())


def _export(*arguments):
    ran = headway("export", *arguments)
    assert ran.status == 0, ran.out
    return ran.out
