"""What a class's files contain is for the instructor only: they have mode 600, and their folders 700, also after files of other modes were there."""

import os
import sqlite3
import sys

import pytest
from grade_command import hand_in, headway, store_verdicts
from grader.classroom.anonymous import add_people
from grader.classroom.gradebook import Gradebook

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
CANVAS = "Student,ID,SIS User ID,SIS Login ID,Section,week3 (8001)\n    Points Possible,,,,,10\n\"One, Alpha\",1,,alpha,S1,\n"
MOODLE = "Identifier,Full name,Email address,Status,Grade,Maximum Grade,Grade can be changed,Last modified (grade),Feedback comments\nParticipant 1,Alpha One,,Submitted,,10.00,Yes,-,\n"


def modes(folder):
    return {path.relative_to(folder).as_posix(): oct(path.stat().st_mode & 0o777) for path in [folder, *folder.rglob("*")]}


@pytest.fixture(autouse=True)
def usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_every_file_about_people_is_private_and_becomes_private_again(tmp_path):
    """The commands of a term, as an instructor types them; then again over files and folders that everybody can read."""
    hand_in(tmp_path / "class", "Alpha One", "x = 1")
    course, sheets = tmp_path / "course", tmp_path / "sheets"
    sheets.mkdir()
    for name, text in {"roster": "name,login,moodle_id\nAlpha One,alpha,1\n", "canvas": CANVAS, "moodle": MOODLE}.items():
        (sheets / f"{name}.csv").write_text(text, encoding="utf-8")
    assert headway("course", "init", sheets / "roster.csv", "--into", course).status == 0
    assert modes(course) == {".": "0o700", "course.toml": "0o600", "roster.csv": "0o600"}
    (course / "course.toml").write_text('roster = "roster.csv"\n[assignments.week3]\nexercises = ["softmax"]\n', encoding="utf-8")
    named = ("--course", course / "course.toml")
    store_verdicts(course / "grades" / "week3", tmp_path / "class", "softmax")
    for _ in range(2):
        for arguments in (
            ("grade", tmp_path / "class", *named),
            ("override", "Alpha One", "softmax", 3, "--because", "oral", *named),
            ("similarity", *named),
            ("marks", *named),
            ("export", "canvas", sheets / "canvas.csv", "--force", *named),
            ("export", "moodle", sheets / "moodle.csv", "--scale", "--force", *named),
        ):
            ran = headway(*arguments)
            assert ran.status == 0, ran.out
        found = modes(course / "grades")
        assert {"marks.csv", "week3/gradebook.sqlite", "week3/report.html", "week3/similarity.html", "week3/feedback/Alpha_One.md"} <= found.keys()
        assert found == {name: "0o700" if (course / "grades" / name).is_dir() else "0o600" for name in found}
        written = [name for name in modes(sheets) if "-graded" in name]
        assert len(written) == 3 and {modes(sheets)[name] for name in written} == {"0o600"}
        for path in (course / "grades").rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        (course / "grades").chmod(0o755)


def test_what_sqlite_writes_beside_the_gradebook_is_private(tmp_path):
    folder = tmp_path / "grades"
    with Gradebook(folder) as book, book._file.transaction():
        book._execute("UPDATE secret SET value = 'x'")
        assert modes(folder) == {".": "0o700", "gradebook.sqlite": "0o600", "gradebook.sqlite-journal": "0o600"}
    for path in folder.iterdir():
        path.chmod(0o644)
    (folder / "gradebook.sqlite-journal").touch(0o644)  # of a grader that was killed
    with Gradebook(folder), sqlite3.connect(folder / "gradebook.sqlite"):
        assert set(modes(folder).values()) == {"0o700", "0o600"}


def test_a_folder_that_its_owner_may_not_change_stays_so(tmp_path):
    folder = tmp_path / "grades"
    Gradebook(folder).close()
    (folder / "gradebook.sqlite").chmod(0o444)
    folder.chmod(0o555)
    try:
        Gradebook(folder).close()
    except ValueError:  # not as root
        pass
    finally:
        found = modes(folder)
        folder.chmod(0o700)
    assert found == {".": "0o500", "gradebook.sqlite": "0o400"}


def test_a_key_and_an_autograder_are_private(tmp_path):
    add_people(tmp_path / "keys" / "key.csv", [("Alpha One", {})])
    assert modes(tmp_path / "keys") == {".": "0o700", "key.csv": "0o600"}
    (tmp_path / "keys" / "key.csv").chmod(0o644)
    add_people(tmp_path / "keys" / "key.csv", [("Beta Two", {})])
    assert modes(tmp_path / "keys")["key.csv"] == "0o600"
    assert headway("gradescope", tmp_path / "autograder.zip", "--exercises", "softmax", "--torch-index", "https://example.org").status == 0
    assert modes(tmp_path)["autograder.zip"] == "0o600"
