"""An instructor's points and late rules are read exactly, and refused in one clear sentence if they are invalid."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from grader.classroom.intake.submissions import GradingProblem, Submission
from grader.classroom.judging.rules import Rules
from grader.classroom.term.course import read_course_file
from grader.course.syllabus import load_syllabus

DUE = datetime.fromisoformat("2026-12-01T23:59:00+01:00")
ASSIGNMENT = '[assignments.week3]\nchapters = ["ch03", "ch05"]\n'
LATE = f"""
[late]
grace = "15m"
per_day = 10
most = 50
last = 7

{ASSIGNMENT}
due = 2026-12-01T23:59:00+01:00

[extensions.week3]
"Alpha One" = 2026-12-03T23:59:00+01:00
"""


def rules(tmp_path, text):
    (tmp_path / "course.toml").write_text(text, encoding="utf-8")
    return read_course_file(tmp_path / "course.toml").assignments[0].rules


def handed_in(after: timedelta, name: str = "Beta") -> Submission:
    return Submission(name, {"ch03_attention": ""}, submitted=DUE + after)


def test_without_rules_the_courses_points_count_and_nothing_is_late(tmp_path):
    for found in (Rules(), rules(tmp_path, f"[points]\n[late]\n{ASSIGNMENT}[extensions.week3]\n")):
        assert all(found.points_of(exercise) == exercise.points for exercise in load_syllabus().exercises)
        assert found.compute_lateness(handed_in(timedelta(days=99))).factor == 1


def test_points_for_a_chapter_are_divided_around_a_named_exercise(tmp_path):
    syllabus = load_syllabus()
    chapter = syllabus.chapter("ch03")
    found = rules(tmp_path, f"[points]\nsoftmax = 20\nch03 = 50.5\nch05 = 30\nch06_blocks = 0\n{ASSIGNMENT}")
    worth = {exercise.name: found.points_of(exercise) for exercise in syllabus.exercises}
    assert worth["softmax"] == 20
    assert sum(Decimal(str(worth[exercise.name])) for exercise in chapter.exercises) == Decimal("50.5")
    rest = [exercise for exercise in chapter.exercises if exercise.name != "softmax"]
    ratios = [worth[exercise.name] / exercise.points for exercise in rest]
    assert max(ratios) - min(ratios) < 0.01 and len(rest) > 3
    assert sum(worth[exercise.name] for exercise in syllabus.chapter("ch05").exercises) == pytest.approx(30)
    assert all(worth[exercise.name] == 0 for exercise in syllabus.chapter("ch06").exercises)
    assert all(worth[exercise.name] == exercise.points for exercise in syllabus.chapter("ch01").exercises)
    assert all(isinstance(points, float) for points in worth.values())


@pytest.mark.parametrize(
    "after, days, factor, sentence",
    [
        (timedelta(minutes=15), 0, "1", ""),
        (timedelta(minutes=15, seconds=1), 1, "0.9", "1 day late (submitted 2026-12-02 00:14, due 2026-12-01 23:59): 10 % of the points earned are deducted"),
        (timedelta(days=1, seconds=1), 2, "0.8", "2 days late (submitted 2026-12-02 23:59, due 2026-12-01 23:59): 20 % of the points earned are deducted"),
        (timedelta(days=6), 6, "0.5", "6 days late (submitted 2026-12-07 23:59, due 2026-12-01 23:59): 50 % of the points earned are deducted"),
        (timedelta(days=7, seconds=1), 8, "0", "8 days late (submitted 2026-12-08 23:59, due 2026-12-01 23:59): submissions more than 7 days late get 0 points"),
    ],
)
def test_what_lateness_costs(tmp_path, after, days, factor, sentence):
    late = rules(tmp_path, LATE).compute_lateness(handed_in(after))
    assert isinstance(late.factor, Decimal)
    assert (late.days, late.factor) == (days, Decimal(factor))
    assert late.sentence == sentence


def test_an_extension_moves_the_due_date_of_one_person(tmp_path):
    found = rules(tmp_path, LATE)
    assert found.compute_lateness(handed_in(timedelta(days=2), "Alpha One")).days == 0
    assert found.compute_lateness(handed_in(timedelta(days=2, hours=1), "Alpha One")).days == 1
    assert found.compute_lateness(handed_in(timedelta(days=2), "alpha one")).days == 2
    similar, there, other = (Submission(name, {}) for name in ("Alpha On", "Alpha One", "Beta"))
    assert found.find_warnings([similar, other]) == ["[extensions] 'Alpha One': no submission has this name; did you mean Alpha On?"]
    assert found.find_warnings([there, other]) == []


def test_a_submission_with_an_unknown_time_is_on_time(tmp_path):
    late = rules(tmp_path, LATE).compute_lateness(Submission("Beta", {"ch03_attention": ""}))
    assert (late.factor, late.sentence, late.is_unknown) == (1, "", True)
    late = rules(tmp_path, f"{ASSIGNMENT}due = 2026-12-01T23:59:00+01:00\n").compute_lateness(Submission("Beta", {}, submitted=datetime(2026, 12, 1, 23, 30, tzinfo=UTC)))
    assert late.factor == 1 and late.sentence == "1 day late (submitted 2026-12-02 00:30, due 2026-12-01 23:59): no points are deducted", "the zones differ"
    assert not rules(tmp_path, LATE).compute_lateness(Submission("Beta", {}, problem="it is empty")).is_unknown


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("[points]\nsoftmaxx = 1", "[points] softmaxx: there is no exercise or chapter called 'softmaxx'; did you mean softmax?"),
        ("[points]\nsoftmax = -1", "[points] softmax: -1 is not a number of points from 0 to 1000000"),
        ("[points]\nsoftmax = 0.125", "[points] softmax: 0.125 has more than two decimal places"),
        ("[points]\nsoftmax = true", "[points] softmax: true is not a number of points"),
        ("[points]\nch03 = 1\nch03_attention = 2", "[points] ch03_attention: ch03 appears twice, also as ch03"),
        ("[points]\nch03 = 1\nsoftmax = 2", "[points] ch03: 1 points do not fit the 2 points of its exercises in this table"),
        ("points = 3", "points: 3 is not a table; write its name in [ ] and put its keys below"),
        ("[late]\nper_day = 110", "[late] per_day: 110 is not a percentage from 0 to 100"),
        ("[late]\nlast = 1.5", "[late] last: 1.5 is not a whole number of days"),
        ("[late]\ngrace = 15", '[late] grace: 15 is not a duration; write it like "15m", "2h" or "1d"'),
        (f"{ASSIGNMENT}due = 2026-12-01T23:59:00", "[assignments.week3] due: 2026-12-01T23:59:00 has no time zone; write it like 2026-12-01T23:59:00+01:00"),
        (f"{ASSIGNMENT}due = 2026-12-01", "[assignments.week3] due: 2026-12-01 is not a time; write it without quotes, like 2026-12-01T23:59:00+01:00"),
    ],
)
def test_invalid_rules_are_refused_with_their_key(tmp_path, text, sentence):
    with pytest.raises(GradingProblem) as refused:
        rules(tmp_path, text if ASSIGNMENT in text else f"{text}\n{ASSIGNMENT}")
    assert str(refused.value) == f"course.toml: {sentence}"


def test_files_without_valid_rules_are_refused(tmp_path):
    def refusal(path):
        with pytest.raises(GradingProblem) as refused:
            read_course_file(path)
        return str(refused.value).replace(str(tmp_path), "HERE")

    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "words").write_text("due tomorrow\n")
    (tmp_path / "deep").write_text("x = " + "[" * 20_000)
    (tmp_path / "long").write_text("#" * 1_000_001)
    assert refusal(tmp_path / "none") == "HERE/none cannot be read: no such file or directory"
    assert refusal(tmp_path / "binary") == "binary is not valid UTF-8; save it as UTF-8"
    assert refusal(tmp_path / "words") == "words, line 1: this is not valid TOML: expected '=' after a key in a key/value pair"
    assert refusal(tmp_path / "deep") == "deep is nested too deeply to be read"
    assert refusal(tmp_path / "long") == "long is larger than 1 MB, which is too large for a course"
