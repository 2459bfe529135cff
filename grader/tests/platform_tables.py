"""Tables as Canvas, Moodle and Gradescope export them, and a graded course whose people are in them."""

from __future__ import annotations

from pathlib import Path

from example_class import EXERCISES, VERSIONS, digest_of, one_test, submission
from grader.classroom.gradebook import Gradebook
from grader.classroom.grading_options import GradingOptions, store_options
from grader.verdict.results import ExerciseResult, Verdict

COURSE = """\
roster = "roster.csv"
[points]
softmax = 8
causal_mask = 2
[assignments.week3]
title = "Attention"
exercises = ["softmax", "causal_mask"]
"""
ROSTER = """\
name,email,login,number,canvas_id,moodle_id,section,group
Alpha One,alpha@example.edu,aone,007,11,501,S1,
Beta Two,beta@example.edu,btwo,008,12,502,S1,
Gamma Three,gamma@example.edu,gthree,009,13,503,S2,
"""
CANVAS = (
    'Student,ID,SIS User ID,SIS Login ID,Section,"Intro, part 1 (8001)",Attention (8002),Assignments Current Score,Final Score\r\n'
    ",,,,,,Manual Posting,,\r\n"
    "    Points Possible,,,,,5.00,10.00,(read only),(read only)\r\n"
    '"One, Alpha",11,007,aone,"S1 and ""S2""",4.00,,80.00,80.00\r\n'
    '"Two, Beta",12,008,btwo,S1,,3.00,,\r\n'
    '"Three, Gamma",13,009,gthree,S2,5.00,,100.00,\r\n'
    '"Student, Test",99,,0a1b,S1,,,,\r\n'
)
MOODLE = (
    'Identifier,"Full name","Email address",Status,Grade,"Maximum Grade","Grade can be changed","Last modified (submission)","Last modified (grade)",'
    '"Feedback comments"\n'
    '"Participant 501","Alpha One",alpha@example.edu,"Submitted for grading - ",,10.00,Yes,"Friday, 20 November 2026, 9:21 AM",-,\n'
    '"Participant 502","Beta Two",beta@example.edu,"Submitted for grading - Graded - ",3.00,10.00,Yes,-,"Sunday, 22 November 2026, 8:00 PM",\n'
    '"Participant 503","Gamma Three",gamma@example.edu,"No submission - ",,10.00,Yes,-,-,\n'
)
GRADESCOPE = (
    '"First Name","Last Name",SID,Email,Sections,"Total Score","Max Points",Status,"Submission ID","Submission Time","Lateness (H:M:S)"\n'
    'Alpha,One,007,alpha@example.edu,S1,,10.0,Ungraded,1001,"2026-11-20 09:21:27 +0000",00:00:00\n'
    'Beta,Two,008,beta@example.edu,S1,3.0,10.0,Graded,1002,"2026-11-20 09:30:27 +0000",00:00:00\n'
    "Gamma,Three,009,gamma@example.edu,S2,,10.0,Missing,,,\n"
)
EARNED = {"Alpha One": ("passed", "passed"), "Beta Two": ("passed", "todo"), "Stranger": ("todo", "passed")}  # of 8 and 2 points


def make_course(folder: Path, people: list | None = None, roster: str = ROSTER, course: str = COURSE) -> Path:
    """The course with a graded assignment: Alpha has 10 points, Beta 8, and Stranger, who is not in the roster, has 2."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "course.toml").write_text(course, encoding="utf-8")
    (folder / "roster.csv").write_text(roster, encoding="utf-8")
    grade(folder / "grades" / "week3", [submission(name, slug=name.replace(" ", "_")) for name in EARNED] if people is None else people, folder / "course.toml")
    return folder


def grade(out: Path, people: list, course: Path | None) -> None:
    """Fill a gradebook with these people, as `headway grade` does; anybody who is not in EARNED passes everything."""
    with Gradebook(out) as book:
        book.start_run(0, EXERCISES[:2], VERSIONS)
        for one in book.submissions_to_do(people):
            outcomes = next((outcomes for name, outcomes in EARNED.items() if digest_of(name) == one.digest), ("passed", "passed"))
            found = [ExerciseResult(exercise, [one_test(exercise, 1, outcome)]) for exercise, outcome in zip(EXERCISES, outcomes, strict=False)]
            book.store_verdict(one.digest, Verdict(found))
    own = {"course": str(course), "assignment": "week3"} if course else {"exercises": ("softmax", "causal_mask")}
    store_options(GradingOptions((str(out),), command=f"headway grade {out} --assignment week3", **own), out)


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path
