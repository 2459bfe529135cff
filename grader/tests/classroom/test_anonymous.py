"""`headway grade --anonymous`: no written byte has a name, an e-mail address, a login or a number; the key brings them back; pseudonyms stay."""

import csv
import json
import shutil
import stat
import sys

import pytest
from grade_command import Ran, hand_in, headway, marks, mistake
from grader.classroom.anonymous import add_people, read_key
from pytest_runs import solution

pytestmark = pytest.mark.thorough
ROSTER = """\
name,email,login,number,canvas_id,moodle_id,section
Alphaname Onefamily,afirst@example.edu,aone77,s770001,5550001,6660001,S1
Betaname Twofamily,bsecond@example.edu,btwo77,s770002,5550002,6660002,S1
Gammaname Threefamily,cthird@example.edu,cthree77,s770003,5550003,6660003,S2
Deltaname Fourfamily,dfourth@example.edu,dfour77,s770004,5550004,6660004,S2
"""
SECRETS = ["alphaname", "onefamily", "betaname", "twofamily", "gammaname", "threefamily", "deltaname", "fourfamily", "strangename", "fivefamily",
           "afirst", "bsecond", "cthird", "dfourth", "aone77", "btwo77", "cthree77", "dfour77", "77000", "555000", "666000"]  # fmt: skip
COURSE = """\
title = "A term"
roster = "roster.csv"
[late]
per_day = 10
[assignments.week1]
exercises = ["softmax"]
due = 2026-10-01T20:00:00+00:00
[assignments.week2]
exercises = ["causal_mask"]
[extensions.week1]
"bsecond@example.edu" = 2026-10-09T20:00:00+00:00
"""
CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Section,week1 (8001)
    Points Possible,,,,,10
"Onefamily, Alphaname",5550001,s770001,aone77,S1,
"Twofamily, Betaname",5550002,s770002,btwo77,S1,
"""


def make_course(folder):
    """Week 1 as files from Canvas, among them one that is late and one that is no archive; week 2 as folders with names."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "roster.csv").write_text(ROSTER, encoding="utf-8")
    (folder / "course.toml").write_text(COURSE, encoding="utf-8")
    text = solution("ch03")
    (folder / "week1").mkdir()
    for name, content in {
        "onefamilyalphaname_5550001_901_homework_alphaname.py": text,
        "twofamilybetaname_LATE_5550002_902_ch03_attention.py": mistake("softmax"),
        "threefamilygammaname_5550003_903_gammaname threefamily.zip": "PK\x03\x04 no more",
        "strangenamefivefamily_5550009_909_ch03_attention.py": text,
    }.items():
        (folder / "week1" / name).write_text(content, encoding="utf-8")
    for name in ("aone77", "Twofamily, Betaname"):
        hand_in(folder / "week2", name, text)


def run(folder, *arguments, assignment) -> Ran:
    return headway(*arguments, "--course", folder / "course.toml", "--assignment", assignment)


def grade(folder, week) -> Ran:
    return run(folder, "grade", folder / week, "--anonymous", "-j", 1, assignment=week)


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A course with two assignments that are graded anonymously, and what the terminal showed."""
    folder = tmp_path_factory.mktemp("anonymous") / "course"
    make_course(folder)
    return folder, {week: grade(folder, week) for week in ("week1", "week2")}


def found_in(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text.casefold()]


def check_hidden(folder):
    """No file of the grades, and no name of one, has a secret. The gradebook is read like the others."""
    files = [path for path in (folder / "grades").rglob("*") if path.is_file()]
    assert len(files) >= 10
    for path in files:
        assert not found_in(path.relative_to(folder).as_posix())
        content = path.read_bytes()
        assert not found_in(content.decode("utf-8", "replace") + content.decode("utf-16-le", "replace")), path


def pseudonym(folder, name):
    [found] = [entry.pseudonym for entry in read_key(folder / "anonymous_key.csv") if entry.name == name]
    return found


def grades(folder, week="week1"):
    return marks(folder / "grades" / week)


def test_no_written_byte_and_no_line_on_the_terminal_has_a_name(graded):
    folder, ran = graded
    assert ran["week1"].status == 1 and ran["week2"].status == 0  # a broken archive cannot be graded
    check_hidden(folder)
    for one in ran.values():
        assert not found_in(one.out), one.out
    assert "Not graded: Learner" in ran["week1"].out and "anonymous_key.csv is the key" in " ".join(ran["week1"].out.split())
    page = (folder / "grades" / "week1" / "report.html").read_text(encoding="utf-8")
    assert pseudonym(folder, "Deltaname Fourfamily") in page.split('id="totals"')[0]  # missing, in the list of the roster
    if sys.platform != "win32":
        assert stat.S_IMODE((folder / "anonymous_key.csv").stat().st_mode) == 0o600


def test_a_person_has_one_pseudonym_in_all_assignments(graded):
    folder, _ = graded
    alpha, beta = (pseudonym(folder, name) for name in ("Alphaname Onefamily", "Betaname Twofamily"))
    week1, week2 = grades(folder), grades(folder, "week2")
    assert {alpha, beta} <= week1.keys() and [name for name, row in week2.items() if row["problem"] != "missing"] == sorted([alpha, beta])
    assert len(week1) == 5 and len(week2) == 4  # a stranger, and the people of the roster who submitted nothing
    assert (folder / "grades" / "week1" / "feedback" / f"{alpha.replace(' ', '_')}.md").is_file()


def test_export_needs_the_key_and_writes_the_marks_of_the_right_people(graded, tmp_path):
    folder, _ = graded
    file = tmp_path / "canvas.csv"
    file.write_text(CANVAS, encoding="utf-8")
    ran = run(folder, "export", "canvas", file, assignment="week1")
    with (tmp_path / "canvas-graded.csv").open(encoding="utf-8", newline="") as table:
        written = {row[0].strip(): row[-1] for row in csv.reader(table)}
    alpha, beta = (grades(folder)[pseudonym(folder, name)]["total"] for name in ("Alphaname Onefamily", "Betaname Twofamily"))
    assert ran.status == 1 and "Graded, but not found in the file (2)" in ran.out
    assert (written["Onefamily, Alphaname"], written["Twofamily, Betaname"]) == (alpha, beta) and alpha != beta
    check_hidden(folder)


def test_without_the_right_key_nothing_is_graded_with_other_pseudonyms(graded, tmp_path):
    folder, _ = graded
    missing, other = ("--key", tmp_path / "none.csv"), ("--key", tmp_path / "other.csv")
    add_people(other[1], [("Somebody Else", {})])
    before = (folder / "grades" / "week1" / "grades.csv").read_bytes()
    for arguments, sentence in (
        (("grade", folder / "week1", "--anonymous", *missing), "none.csv, is missing; put it back, or name it with --key FILE"),
        (("grade", folder / "week1", "--anonymous", *other), "so it is another key"),
        (("regrade", "Learner 1234", *missing), "the key of the pseudonyms"),
        (("override", "Learner 1234", "softmax", "3", "--because", "x", *missing), "the key of the pseudonyms"),
        (("similarity", *missing), "the key of the pseudonyms"),
    ):
        ran = run(folder, *arguments, assignment="week1")
        assert ran.status == 2 and sentence in " ".join(ran.out.split()), ran.out
    assert headway("marks", "--course", folder / "course.toml", *missing).status == 2
    assert (folder / "grades" / "week1" / "grades.csv").read_bytes() == before


def test_names_and_pseudonyms_are_never_mixed_in_a_folder(graded, tmp_path):
    folder, _ = graded
    ran = run(folder, "grade", folder / "week1", assignment="week1")
    assert ran.status == 2 and "add --anonymous" in ran.out
    plain = ("--exercises", "softmax", "--out", tmp_path / "plain")
    assert headway("grade", folder / "week2", *plain, "-j", 1).status == 0
    ran = headway("grade", folder / "week2", *plain, "--anonymous")
    assert ran.status == 2 and "have names" in ran.out
    ran = headway("grade", folder / "week2", "--exercises", "softmax", "--out", tmp_path / "new", "--anonymous", "--key", tmp_path / "new" / "key.csv")
    assert ran.status == 2 and "would be in the folder of the grades" in " ".join(ran.out.split())


def test_corrections_late_work_similar_code_and_marks_have_pseudonyms(graded, tmp_path):
    course = tmp_path / "course"
    shutil.copytree(graded[0], course)
    for path in course.glob("grades/*/asked.json"):  # as if it had been graded here
        path.write_text(path.read_text(encoding="utf-8").replace(json.dumps(str(graded[0]))[1:-1], json.dumps(str(course))[1:-1]), encoding="utf-8")
    alpha, beta, delta = (pseudonym(course, name) for name in ("Alphaname Onefamily", "Betaname Twofamily", "Deltaname Fourfamily"))
    for name in ("bsecond@example.edu", "Deltaname Fourfamily"):
        hand_in(course / "week1late", name, solution("ch03"))
    for arguments, status, sentence in (
        (("override", "Alphaname Onefamily", "softmax", "3", "--because", "Alphaname Onefamily asked me"), 0, f"{alpha} now has 3 points"),
        (("regrade", "s770001"), 0, ""),
        (("grade", course / "week1late", "--anonymous"), 2, "add --add"),
        (("grade", course / "week1late", "--add"), 1, f"this is so for {beta}"),  # the broken archive is still there
        (("similarity",), 0, "similarity.html"),
    ):
        ran = run(course, *arguments, assignment="week1")
        assert ran.status == status and sentence in " ".join(ran.out.split()) and not found_in(ran.out), ran.out
    row = grades(course)[alpha]
    assert row["softmax"] == "3" and f"{alpha} asked me" in row["notes"]
    assert grades(course)[beta]["total"] == grades(course)[delta]["total"] == "10"
    ran = headway("marks", "--course", course / "course.toml")
    assert ran.status == 0 and not found_in(ran.out)
    with (course / "grades" / "marks.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    assert rows[delta]["week2 remark"] == "missing" and rows[delta]["email"] == rows[delta]["section"] == ""  # a section of two people would say too much
    assert list(rows)[:4] == sorted(list(rows)[:4])  # the roster's order would say who is who
    check_hidden(course)
    shutil.rmtree(course / "grades" / "week2")
    assert run(course, "grade", course / "week2", "-j", 1, assignment="week2").status == 0  # with names
    ran = headway("marks", "--course", course / "course.toml")
    assert ran.status == 2 and "week2 is graded with names, and week1 with pseudonyms; grade all" in ran.out
