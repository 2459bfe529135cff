"""What the class report says about the course: dates, the roster, who may need help, and the change since the assignment before."""

from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

import pytest
import report_examples as classes
from grade_command import hand_in, headway
from grader.classroom.report.context import (
    NO_CONTEXT,
    PreviousAssignment,
    ReportContext,
    compute_progress,
    read_context,
)
from grader.classroom.report.page import first_sentence, format_change, render
from grader.classroom.report.tally import group_by_exercise, tally_misconceptions
from grader.classroom.term.roster import Roster, RosterPerson
from pytest_runs import solution
from report_examples import graded, person, result

DUE = datetime.fromisoformat("2026-12-01T23:59:00+01:00")
CONTEXT = ReportContext(
    "Transformers", "Week 3", DUE, Roster(tuple(RosterPerson(name, section="S1") for name in ("one", "two", "three", "absent"))),
    PreviousAssignment("Week 2", {"one": Fraction(1, 2), "two": Fraction(1), "seven": Fraction(1)}),
)  # fmt: skip


def test_the_page_names_course_assignment_and_dates():
    page = render(classes.small(), CONTEXT)
    for words in ("<title>Week 3, Transformers: class report, 7 people, 3 exercises</title>", '<p class="course">Transformers</p>', "<h1>Week 3: class report</h1>",
                  "Due 2026-12-01 at 23:59, UTC+01:00.", "The newest submission is from 2026-11-20 at 18:04, UTC+01:00."):  # fmt: skip
        assert words in page
    assert render(classes.small(), CONTEXT) == page
    alone = render(classes.small())
    assert "<h1>Class report</h1>" in alone and "Due" not in alone and "Roster" not in alone and "Change" not in alone


def test_the_newest_time_has_the_time_zone_of_the_due_date():
    page = render(graded(person("one", submitted="2026-11-25T10:00:00+00:00"), person("two", submitted="2026-11-25T10:30:00+02:00")), CONTEXT)
    assert "The newest submission is from 2026-11-25 at 11:00, UTC+01:00." in page
    assert "The newest submission is from 2026-11-25 at 10:00, UTC." in render(graded(person("one", submitted="2026-11-25T10:00:00+00:00")))


def test_unknown_times_are_said_once():
    people = [person("one", is_untimed=True), person("two", is_untimed=True), person("three")]
    page = render(graded(*people), CONTEXT)
    assert page.count("unknown time") == 1 and "2 people submitted at an unknown time, which counts as on time." in page
    assert "unknown time" not in render(classes.small(), CONTEXT)


def test_people_of_the_roster_without_a_submission_and_strangers_are_listed():
    page = render(classes.small(), CONTEXT)
    assert "1 person without a submission:" in page and "<bdi>absent</bdi>" in page
    assert "4 people with a submission, but not in the roster:" in page
    assert "without a submission" not in render(classes.small(), replace(CONTEXT, roster=Roster()))
    absent = classes.Person("absent", "absent", "", problem="nothing was submitted", missing=True, remarks=("Where are you?",))
    page = render(graded(*classes.small().people, absent), CONTEXT)
    assert "1 person without a submission:" in page, "also with a note of the instructor"


def test_people_with_few_points_or_few_exercises_started_are_at_risk():
    half = [result("softmax", "passed"), result("causal_mask", "passed")]
    people = [
        person("good", *half, result("gelu", "passed")),
        person("slow", result("gelu", "passed")),  # 16 of 29 points, but one of three exercises
        person("weak", result("softmax", "failed"), result("causal_mask", "failed"), result("gelu", "failed")),
        replace(person("refused"), problem="the archive is empty"),
        person("late", *half, result("gelu", "passed"), total=classes.Mark(Decimal(0), Decimal(29)), late="too late"),
    ]
    progress = compute_progress(graded(*people), NO_CONTEXT)
    assert [one.person.name for one in progress if one.is_at_risk] == ["slow", "weak"]
    assert [one.started for one in progress] == [3, 1, 3, 0, 3]


def test_a_person_is_compared_with_their_own_share_of_the_assignment_before():
    progress = compute_progress(classes.small(), CONTEXT)
    assert [format_change(one.change) for one in progress] == ["+50", "−83", "", "", "", "", ""]  # person seven was not graded, the others have no share before
    page = render(classes.small(), CONTEXT)
    assert "The 2 people who have this assignment and Week 2 earned <b>59 %</b> of the points on average, and 75 % in Week 2." in page
    assert "on average" not in render(classes.small(), NO_CONTEXT)
    assert format_change(0) == "0"


def test_mistakes_are_grouped_by_exercise_and_a_person_counts_once():
    again = replace(classes.OVERFLOW, id="another")
    both = replace(classes.OVERFLOW, also=again)
    people = [(1, person("one", result("softmax", "failed", diagnosis=both), result("causal_mask", "failed", diagnosis=classes.DIAGONAL))),
              (2, person("two", result("softmax", "failed", diagnosis=classes.OVERFLOW)))]  # fmt: skip
    softmax, mask = group_by_exercise(tally_misconceptions(people))
    assert (softmax.exercise.name, softmax.people) == ("softmax", 2)
    assert ([one.diagnosis.id for one in softmax.shared], [one.diagnosis.id for one in softmax.single]) == (["scores_not_shifted"], ["another"])
    assert (mask.people, mask.shared, len(mask.single)) == (1, [], 1)


def test_a_mistake_of_one_group_is_no_frequent_one():
    team = [person(name, result("softmax", "failed", diagnosis=classes.OVERFLOW), digest="d") for name in ("one", "two", "three")]
    others = [person(name, result("softmax", "failed", diagnosis=classes.DIAGONAL)) for name in ("four", "five")]
    mistakes = tally_misconceptions(enumerate([*team, *others], start=1))
    assert [(len(one.who), one.is_single) for one in mistakes] == [(2, False), (3, True)]
    [softmax] = group_by_exercise(mistakes)
    assert [one.diagnosis.id for one in softmax.single] == [classes.OVERFLOW.id]
    page = render(graded(*team), NO_CONTEXT)
    assert "Most frequent misconception" not in page and "Mistakes of one submission only, in 1 exercise" in page and "<b>3 people</b>, with one submission," in page
    assert "Mistakes of one person only" in render(graded(*team[:1]), NO_CONTEXT)


def test_a_title_is_the_first_sentence_of_the_diagnosis():
    assert first_sentence("One thing is wrong. The other is not.") == ("One thing is wrong.", "The other is not.")
    assert first_sentence("It adds 0.5 to x. y is right") == ("It adds 0.5 to x. y is right", "")
    assert first_sentence("") == ("", "")


@pytest.mark.thorough
def test_the_report_of_a_course_compares_with_the_assignment_graded_before(tmp_path):
    """Real runs: week 1 with a mistake, then week 2 without it."""
    text = solution("ch03")
    (tmp_path / "roster.csv").write_text("name\nAlpha\nBeta\nGamma\n", encoding="utf-8")
    (tmp_path / "course.toml").write_text(
        'title = "A term"\nroster = "roster.csv"\n[assignments.week1]\nexercises = ["causal_mask"]\n'
        '[assignments.week2]\ntitle = "Second week"\nexercises = ["softmax"]\n[assignments.week3]\nexercises = ["softmax"]\n',
        encoding="utf-8",
    )
    hand_in(tmp_path / "in", "Alpha", text.replace("def causal_mask", "def not_causal_mask"))
    hand_in(tmp_path / "in", "Beta", text)
    course = ("--course", tmp_path / "course.toml")
    for week in ("week1", "week2"):
        assert headway("grade", tmp_path / "in", *course, "--assignment", week, "-j", 1).status == 0
    pages = {week: (tmp_path / "grades" / week / "report.html").read_text(encoding="utf-8") for week in ("week1", "week2")}
    assert "<h1>Second week: class report</h1>" in pages["week2"] and "<bdi>Gamma</bdi>" in pages["week2"]
    assert "earned <b>100 %</b> of the points on average, and 50 % in week1." in pages["week2"] and "+100 since week1" in pages["week2"]
    assert "on average" not in pages["week1"]
    assert headway("note", "Alpha", "Good.", *course, "--assignment", "week2").status == 0
    assert "+100 since week1" in (tmp_path / "grades" / "week2" / "report.html").read_text(encoding="utf-8")
    (tmp_path / "grades" / "week1" / "gradebook.sqlite").write_bytes(b"SQLite format 3\0 and no more")
    ran = headway("grade", tmp_path / "in", *course, "--assignment", "week2", "-j", 1)
    assert ran.status == 0 and "the report does not compare with week1" in ran.out


def test_without_a_course_there_is_no_context():
    assert read_context(None, "") == (NO_CONTEXT, [])
