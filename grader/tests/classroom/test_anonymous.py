"""`headway grade --anonymous`: no written byte has a name, an e-mail address, a login or a number; the key brings them back; pseudonyms stay."""

import csv
import json
import shutil
import stat
import sys

import pytest
from grade_command import Ran, hand_in, headway, marks, mistake
from grader.classroom.anonymous.key_file import read_key
from grader.classroom.anonymous.pseudonyms import add_people
from pytest_runs import solution

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


@pytest.fixture
def course(graded, tmp_path):
    """A copy of the graded course, as if it had been graded here."""
    folder = tmp_path / "course"
    shutil.copytree(graded[0], folder)
    for path in folder.glob("grades/*/asked.json"):
        path.write_text(path.read_text(encoding="utf-8").replace(json.dumps(str(graded[0]))[1:-1], json.dumps(str(folder))[1:-1]), encoding="utf-8")
    return folder


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


@pytest.mark.thorough
def test_no_written_byte_and_no_line_on_the_terminal_has_a_name(graded):
    folder, ran = graded
    assert ran["week1"].status == 1 and ran["week2"].status == 0  # a broken archive cannot be graded
    check_hidden(folder)
    for one in ran.values():
        assert not found_in(one.out), one.out
    assert "Not graded: Learner" in ran["week1"].out and "anonymous_key.csv is the key" in " ".join(ran["week1"].out.split())
    page = (folder / "grades" / "week1" / "report.html").read_text(encoding="utf-8")
    assert pseudonym(folder, "Deltaname Fourfamily") in page.split('id="totals"')[0]  # missing, in the list of the roster


@pytest.mark.thorough
def test_pseudonyms_stay_over_assignments_and_when_it_is_graded_again(course):
    week1, week2 = (marks(course / "grades" / week) for week in ("week1", "week2"))
    alpha, beta = (pseudonym(course, name) for name in ("Alphaname Onefamily", "Betaname Twofamily"))
    assert {alpha, beta} <= week1.keys() and [name for name, row in week2.items() if row["problem"] != "missing"] == sorted([alpha, beta])
    assert len(week1) == 5 and len(week2) == 4  # a stranger, and the people of the roster who submitted nothing
    assert (course / "grades" / "week1" / "feedback" / f"{alpha.replace(' ', '_')}.md").is_file()
    key = (course / "anonymous_key.csv").read_bytes()
    table = (course / "grades" / "week1" / "grades.csv").read_bytes()
    assert grade(course, "week1").status == 1
    assert (course / "anonymous_key.csv").read_bytes() == key and (course / "grades" / "week1" / "grades.csv").read_bytes() == table
    if sys.platform != "win32":
        assert stat.S_IMODE((course / "anonymous_key.csv").stat().st_mode) == 0o600


@pytest.mark.thorough
def test_corrections_accept_the_pseudonym_and_the_name(course):
    alpha = pseudonym(course, "Alphaname Onefamily")
    ran = run(course, "override", "Alphaname Onefamily", "softmax", "3", "--because", "Alphaname Onefamily asked me", assignment="week1")
    assert ran.status == 0 and f"{alpha} now has 3 points" in ran.out and not found_in(ran.out)
    assert run(course, "note", alpha, "See me.", assignment="week1").status == 0
    assert run(course, "regrade", "s770001", assignment="week1").status == 0
    row = marks(course / "grades" / "week1")[alpha]
    assert row["softmax"] == "3" and "See me." in row["notes"] and f"{alpha} asked me" in row["notes"]
    check_hidden(course)


@pytest.mark.thorough
def test_export_needs_the_key_and_writes_the_marks_of_the_right_people(course, tmp_path):
    file = tmp_path / "canvas.csv"
    file.write_text(CANVAS, encoding="utf-8")
    ran = run(course, "export", "canvas", file, assignment="week1")
    with (tmp_path / "canvas-graded.csv").open(encoding="utf-8", newline="") as table:
        written = {row[0].strip(): row[-1] for row in csv.reader(table)}
    alpha, beta = (marks(course / "grades" / "week1")[pseudonym(course, name)]["total"] for name in ("Alphaname Onefamily", "Betaname Twofamily"))
    assert ran.status == 1 and "Graded, but not found in the file (2)" in ran.out
    assert (written["Onefamily, Alphaname"], written["Twofamily, Betaname"]) == (alpha, beta) and alpha != beta
    check_hidden(course)
    (course / "anonymous_key.csv").rename(tmp_path / "kept.csv")
    ran = run(course, "export", "canvas", file, "--force", assignment="week1")
    assert ran.status == 2 and "anonymous_key.csv, is missing; put it back, or name it with --key FILE" in " ".join(ran.out.split())
    again = ("--to", tmp_path / "again.csv", "--key", tmp_path / "kept.csv")
    assert run(course, "export", "canvas", file, *again, assignment="week1").status == 1
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "canvas-graded.csv").read_bytes()


@pytest.mark.thorough
def test_without_the_key_nothing_is_graded_with_other_pseudonyms(course, tmp_path):
    (course / "anonymous_key.csv").rename(tmp_path / "kept.csv")
    before = (course / "grades" / "week1" / "grades.csv").read_bytes()
    for arguments in (("grade", course / "week1", "--anonymous"), ("regrade", "Learner 1234"), ("note", "Learner 1234", "x")):
        ran = run(course, *arguments, assignment="week1")
        assert ran.status == 2 and "the key of the pseudonyms" in " ".join(ran.out.split()), ran.out
    assert headway("marks", "--course", course / "course.toml").status == 2
    add_people(course / "anonymous_key.csv", [("Somebody Else", {})])
    ran = run(course, "grade", course / "week1", "--anonymous", assignment="week1")
    assert ran.status == 2 and "so it is another key" in " ".join(ran.out.split())
    assert (course / "grades" / "week1" / "grades.csv").read_bytes() == before


@pytest.mark.thorough
def test_names_and_pseudonyms_are_never_mixed_in_a_folder(course, tmp_path):
    ran = run(course, "grade", course / "week1", assignment="week1")
    assert ran.status == 2 and "add --anonymous" in ran.out
    assert headway("grade", course / "week2", "--exercises", "softmax", "--out", tmp_path / "named", "-j", 1).status == 0
    ran = headway("grade", course / "week2", "--exercises", "softmax", "--out", tmp_path / "named", "--anonymous")
    assert ran.status == 2 and "have names" in ran.out
    new = ("--exercises", "softmax", "--out", tmp_path / "new", "--anonymous")
    assert headway("grade", course / "week2", *new, "-j", 1).status == 0
    key = tmp_path / "anonymous_key.csv"
    name = read_key(key)[0].pseudonym
    key.unlink()
    assert headway("note", name, "Good.", "--out", tmp_path / "new").status == 0  # without a course, the pseudonym is enough
    ran = headway("grade", course / "week2", *new, "--key", tmp_path / "new" / "key.csv")
    assert ran.status == 2 and "would be in the folder of the grades" in " ".join(ran.out.split())
    assert headway("grade", course / "week2", "--key", tmp_path / "key.csv").status == 2


@pytest.mark.thorough
def test_the_marks_of_a_term_have_pseudonyms(course):
    ran = headway("marks", "--course", course / "course.toml")
    assert ran.status == 0 and not found_in(ran.out)
    check_hidden(course)
    with (course / "grades" / "marks.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    delta = rows[pseudonym(course, "Deltaname Fourfamily")]
    assert delta["week1 remark"] == delta["week2 remark"] == "missing" and delta["email"] == delta["section"] == ""  # a section of two people would say too much
    assert list(rows)[:4] == sorted(list(rows)[:4])  # the roster's order would say who is who
    shutil.rmtree(course / "grades" / "week2")
    assert run(course, "grade", course / "week2", "-j", 1, assignment="week2").status == 0  # with names
    ran = headway("marks", "--course", course / "course.toml")
    assert ran.status == 0 and not found_in(ran.out)
    text = (course / "grades" / "marks.csv").read_text(encoding="utf-8")
    assert not found_in(text) and pseudonym(course, "Alphaname Onefamily") in text


@pytest.mark.thorough
def test_later_submissions_are_added_and_nothing_has_a_name(course):
    beta = pseudonym(course, "Betaname Twofamily")
    for name in ("bsecond@example.edu", "Deltaname Fourfamily"):
        hand_in(course / "week1late", name, solution("ch03"))
    ran = run(course, "grade", course / "week1late", "--anonymous", assignment="week1")
    assert ran.status == 2 and "add --add" in ran.out and not found_in(ran.out), ran.out
    ran = run(course, "grade", course / "week1late", "--add", assignment="week1")
    assert ran.status == 1 and not found_in(ran.out), ran.out  # the broken archive is still there
    assert f"this is so for {beta}" in " ".join(ran.out.split())
    assert marks(course / "grades" / "week1")[beta]["total"] == marks(course / "grades" / "week1")[pseudonym(course, "Deltaname Fourfamily")]["total"] == "10"
    check_hidden(course)
    ran = run(course, "grade", course / "week1late", "--add", "--seed", 3, assignment="week1")
    assert ran.status == 1 and "--seed differs from the last run" in " ".join(ran.out.split()) and not found_in(ran.out), ran.out
    check_hidden(course)


@pytest.mark.thorough
def test_pairs_of_similar_code_have_pseudonyms(course, tmp_path):
    ran = run(course, "similarity", assignment="week1")
    assert ran.status == 0 and not found_in(ran.out), ran.out
    assert (course / "grades" / "week1" / "similarity.html").is_file()
    check_hidden(course)
    ran = run(course, "similarity", course / "week1", assignment="week1")
    assert ran.status == 0 and not found_in(ran.out), ran.out
    check_hidden(course)
    (course / "anonymous_key.csv").rename(tmp_path / "kept.csv")
    ran = run(course, "similarity", assignment="week1")
    assert ran.status == 2 and "name it with --key FILE" in " ".join(ran.out.split())
    assert run(course, "similarity", "--key", tmp_path / "kept.csv", assignment="week1").status == 0
    assert not (course / "anonymous_key.csv").exists()
