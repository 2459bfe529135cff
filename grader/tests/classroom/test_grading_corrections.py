"""Points of the instructor: beside the verdict, never changed by grading, shown in every export, listed, revocable."""

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from example_class import EXERCISES, HOSTILE, RULES, a_class, submission
from grade_command import EXERCISES_ASKED, exports, hand_in, headway, marks, store_verdicts
from gradebook_runs import exported, graded, start_gradebook
from grader.classroom.class_report import render_report
from grader.classroom.exports import write_all
from grader.classroom.gradebook import Gradebook
from grader.classroom.gradebook_file import GradebookProblem
from grader.classroom.term.course import compute_term_marks
from grader.classroom.term.roster import Roster, RosterPerson
from term_examples import a_course, an_assignment

NOW = datetime(2026, 5, 3, 12, tzinfo=UTC)
SOFTMAX = EXERCISES[0].name


def test_every_export_shows_what_was_given_and_adds_up(tmp_path):
    people = [*a_class(4), submission("Unreadable", problem="it is empty", slug="unreadable")]
    late = next(one for one in people if one.name == "zéro late")
    graded(tmp_path, people)
    book, _, _ = start_gradebook(tmp_path, people)
    with book:
        for name in ("Learner 001", "Unreadable"):
            book.override(book.find_owner(name), SOFTMAX, Decimal("6.5"), f"because {HOSTILE}", NOW)
        for exercise in EXERCISES:
            book.override(book.find_owner(late.name), exercise.name, Decimal(8), "all of it", NOW)
        made = exported(book, tmp_path)
        graded_class = book.graded_class(RULES)
        page = render_report(graded_class)
    assert "you gave 6.5 points instead of" in page and "<script>alert" not in page
    for person in graded_class.people:
        data = json.loads(made[f"gradescope/{person.slug}.json"])
        assert Decimal(str(data["score"])) == person.total.earned
        assert person.late or sum(Decimal(str(test["score"])) for test in data["tests"]) == person.total.earned
        assert sum(Decimal(str(test["max_score"])) for test in data["tests"]) == person.total.points
        feedback = made[f"feedback/{person.slug}.md"].decode()
        if person.name == late.name:  # a deduction for lateness applies to given points
            assert person.total.earned == Decimal("28.8") and len(person.given) == 4
            continue
        corrected = person.name in ("Learner 001", "Unreadable")
        assert ("The instructor gave 6.5 points for softmax instead of" in feedback.replace("\\", "")) == corrected
        assert ("on 2026-05-03" in data["output"]) == corrected
        assert "\x1b" not in feedback + data["output"] and "<script>" not in feedback
    table = made["grades.csv"].decode()
    assert table.count("The instructor gave 6.5 points for softmax") == 2


def test_missing_people_have_a_row_and_may_get_points(tmp_path):
    roster = Roster(tuple(map(RosterPerson, ("Alpha", "Delta", "Gamma", "Zeta"))))
    rules = replace(RULES, find_missing=roster.find_missing)
    people = [submission("Alpha", slug="Alpha"), submission("beta", slug="beta")]
    graded(tmp_path, people)
    book, _, _ = start_gradebook(tmp_path, people)
    with book:
        first = book.graded_class(rules)
        assert [person.name for person in first.people] == ["Alpha", "beta"] and [person.name for person in first.missing] == ["Delta", "Gamma", "Zeta"]
        before = {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in write_all(first, tmp_path)}
        book.override(book.find_owner("Gamma", roster), SOFTMAX, Decimal(5), "an oral exam", NOW)
        with pytest.raises(GradebookProblem, match='did you mean Gamma?'):
            book.find_owner("Gama", roster)
        second = book.graded_class(rules)
        made = {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in write_all(second, tmp_path)}
    rows = list(csv.DictReader(io.StringIO(made["grades.csv"].decode("utf-8-sig"))))
    assert [(row["name"], row["total"], row["problem"]) for row in rows[2:]] == [("Delta", "0", "missing"), ("Gamma", "5", "missing"), ("Zeta", "0", "missing")]
    assert [row["of"] for row in rows] == ["32"] * 5 and rows[2][SOFTMAX] == "0" and "because: \"an oral exam\"" in rows[3]["notes"]
    files = {name for name in before if "/" in name}
    assert {name for name in made if "/" in name} - files == {"feedback/Gamma.md", "gradescope/Gamma.json"}
    assert "Nothing was submitted." in made["feedback/Gamma.md"].decode() and json.loads(made["gradescope/Gamma.json"])["score"] == 5
    assert all(made[name] == before[name] for name in files)
    people.append(submission("Gamma", slug="Gamma"))  # who submits later keeps the points
    graded(tmp_path, people)
    with Gradebook.read(tmp_path) as book:
        gamma = next(person for person in book.graded_class(rules).people if person.name == "Gamma")
    assert gamma.results and not gamma.missing and gamma.marks[SOFTMAX].earned == 5

    course = a_course(replace(an_assignment("week1", tuple(one.name for one in EXERCISES)), rules=rules), people=roster.people)
    marks_of = {person.who.name: person.marks["week1"] for person in compute_term_marks(course, {"week1": second}).people}
    assert {name: (one.earned, one.remark) for name, one in marks_of.items() if name[0] in "DGZ"} == {
        "Delta": (0, "missing"), "Gamma": (5, "missing; points given by the instructor for softmax"), "Zeta": (0, "missing"),
    }  # fmt: skip


# ---- the commands


def test_override_from_the_command_line(tmp_path):
    for name in ("Alpha", "Beta"):
        hand_in(tmp_path / "class", name, f"x = {name!r}")
    out = ("--out", tmp_path / "grades")
    store_verdicts(out[1], tmp_path / "class", "softmax", "causal_mask", wrong="Beta")
    assert headway("grade", tmp_path / "class", *out, *EXERCISES_ASKED).status == 0
    before, plain = marks(out[1]), exports(out[1])
    ran = headway("override", "Beta", "softmax", "4.5", "--because", "the idea was right", *out)
    assert ran.status == 0 and "Beta now has 4.5 points for softmax." in ran.out, ran.out
    assert headway("grade", tmp_path / "class", *out, *EXERCISES_ASKED).status == 0  # which changes nothing
    after = marks(out[1])
    assert after["Alpha"] == before["Alpha"] and after["Beta"]["softmax"] == "4.5"
    assert Decimal(after["Beta"]["total"]) == Decimal(before["Beta"]["total"]) - Decimal(before["Beta"]["softmax"]) + Decimal("4.5")
    assert "the idea was right" in headway("override", "--list", *out).out.casefold()
    assert headway("override", "beta", "--list", *out).out.startswith("Beta, softmax: 4.5 points")
    assert headway("override", "Alpha", "--list", *out).out == "There are no overrides.\n"
    wrong = {
        ("override", "Betta", "softmax", 1, "--because", "x"): 'did you mean Beta?',
        ("override", "Beta", "gelu", 1, "--because", "x"): "gelu is not graded here; the exercises are softmax, causal_mask",
        ("override", "Beta", "softmax", 11, "--because", "x"): "11 is not a number of points from 0 to 10, which softmax is worth",
        ("override", "Beta", "softmax", 1): "say why, with --because",
        ("override", "Beta", "causal_mask", "--revoke"): "Beta: there is no override of causal_mask",
        ("override", "Beta"): "NAME EXERCISE POINTS --because TEXT",
    }
    for arguments, sentence in wrong.items():
        ran = headway(*arguments, *out)
        assert ran.status == 2 and sentence in ran.out, (arguments, ran)
    assert marks(out[1]) == after
    assert headway("override", "Beta", "softmax", "--revoke", *out).status == 0
    assert exports(out[1]) == plain
    assert "revoked" in headway("override", "--list", *out).out
    ran = headway("override", "Beta", "softmax", 1, "--because", "x", "--out", tmp_path)
    assert ran.status == 2 and "is not a folder that `headway grade` has written to" in ran.out


def test_a_reason_is_printed_as_given_and_points_for_an_unreadable_submission_have_a_remark(tmp_path):
    """In a course: the zip of Beta cannot be read, and the instructor gives points after an oral exam."""
    hand_in(tmp_path / "class", "Alpha", "x = 1")
    (tmp_path / "class" / "Beta.zip").write_bytes(b"PK\x03\x04 and no more")
    (tmp_path / "roster.csv").write_text("name\nAlpha\nBeta\n", encoding="utf-8")
    (tmp_path / "course.toml").write_text('roster = "roster.csv"\n[assignments.week3]\nexercises = ["softmax"]\n', encoding="utf-8")
    course, out = ("--course", tmp_path / "course.toml"), tmp_path / "grades" / "week3"
    store_verdicts(out, tmp_path / "class", "softmax")
    assert headway("grade", tmp_path / "class", *course).status == 1
    assert headway("override", "Beta", "softmax", 4, "--because", "oral", *course).status == 0
    made = exports(out)
    for name in ("grades.csv", "feedback/Beta.md", "gradescope/Beta.json", "report.html"):
        text = made[name].decode().replace('""', '"').replace('\\"', '"').replace("\\", "").replace("&#34;", '"')
        assert 'because: "oral"' in text and "Oral" not in text, (name, text)
    assert 'not graded</b>' not in made["report.html"].decode(), "Beta has a mark"
    assert headway("marks", *course).status == 0
    with (tmp_path / "grades" / "marks.csv").open(encoding="utf-8-sig", newline="") as file:
        remarks = {row["name"]: row["week3 remark"] for row in csv.DictReader(file)}
    assert remarks == {"Alpha": "", "Beta": "not graded: the archive is damaged or incomplete; submit it again; points given by the instructor for softmax"}
