"""Marks: what an exercise and a submission get by the rules, rounded once, and how lateness reduces them."""

from dataclasses import replace
from datetime import timedelta, timezone
from decimal import Decimal

import pytest
from example_class import EXERCISES, RULES, a_class, one_test, submission
from gradebook_runs import graded, start_gradebook
from grader.classroom.gradebook import Gradebook
from grader.classroom.judging.marks import Mark, compute_mark, compute_total, format_points, split_points
from grader.classroom.judging.rules import Rules
from grader.verdict.results import ExerciseResult


def exercise_with(*outcomes: str, weights=None, **more) -> ExerciseResult:
    weights = weights or [1] * len(outcomes)
    tests = [one_test(EXERCISES[0], number, outcome, 0.0, weight) for number, (outcome, weight) in enumerate(zip(outcomes, weights))]
    return ExerciseResult(EXERCISES[0], tests, **more)


@pytest.mark.parametrize(
    ("outcomes", "weights", "points", "earned"),
    [
        (["passed", "passed"], None, "33.33", "33.33"),
        (["passed", "failed", "failed"], None, 8, "2.67"),
        (["passed", "failed"], None, "0.01", "0"),  # rounded half up, but never to the whole amount
        (["passed", *["failed"] * 199], None, 1, "0.01"),  # half a cent
        (["failed", *["passed"] * 999], None, 1, "0.99"),
        (["passed", "error"], [0.1, 0.2], "0.3", "0.1"),
        (["failed"], None, 10, "0"),
        ([], None, 10, "0"),
    ],
)
def test_a_mark_is_the_share_of_passed_tests_rounded_once(outcomes, weights, points, earned):
    mark = compute_mark(exercise_with(*outcomes, weights=weights), points)
    assert mark == Mark(Decimal(earned), Decimal(str(points)))
    assert compute_mark(exercise_with("passed"), 100 / 3) == Mark(Decimal("33.33"), Decimal("33.33"))


def test_shortcuts_and_tests_that_were_not_run_earn_nothing():
    assert compute_mark(exercise_with("passed", "failed", forbidden=["it calls `x`"]), 8).earned == 0
    assert compute_mark(exercise_with("passed", "passed", partial=True, missing_weight=2.0), 8).earned == 4
    assert compute_mark(None, 8) == Mark(Decimal(0), Decimal(8))


def test_lateness_reduces_the_total():
    marks = [Mark(Decimal("2.67"), Decimal(8)), Mark(Decimal("5.38"), Decimal(10))]
    assert compute_total(marks) == Mark(Decimal("8.05"), Decimal(18))
    assert compute_total(marks, 0.9) == Mark(Decimal("7.25"), Decimal(18))  # 7.245, half up
    assert compute_total(marks, 0) == Mark(Decimal(0), Decimal(18))


def test_times_are_shown_in_the_time_zone_of_the_due_date(tmp_path):
    people = [submission("Alpha"), submission("Beta", submitted=None)]
    graded(tmp_path, people)
    zone = timezone(timedelta(hours=2))
    with Gradebook.read(tmp_path) as book:
        shown = [person.submitted for person in book.graded_class(replace(RULES, due=RULES.due.astimezone(zone))).people]
    assert shown == ["2026-05-01T20:30:00+02:00", ""]


def test_new_rules_change_marks_without_grading_again(tmp_path):
    people = a_class(2)
    graded(tmp_path, people)
    book, todo, _ = start_gradebook(tmp_path, people)
    with book:
        ours, theirs = book.graded_class(RULES).people, book.graded_class(Rules()).people
    assert todo == [] and {person.total.points for person in ours} == {Decimal(32)}
    assert {person.total.points for person in theirs} == {sum(Decimal(str(exercise.points)) for exercise in EXERCISES)}
    late = ours[-1]
    before = sum(mark.earned for mark in late.marks.values())
    assert late.late == "1 day late (submitted 2026-05-02 10:00, due 2026-05-01 23:59): 10 % of the points earned are deducted"
    assert late.total.earned == compute_total([Mark(before, Decimal(1))], "0.9").earned < before and theirs[-1].late == ""
    assert late.submitted == "2026-05-02T10:00:00+00:00"


@pytest.mark.parametrize("amount", ["8", "0.05", "33.33", "0", "33.333"])
def test_parts_add_up_to_the_amount(amount):
    for weights in ([1, 1, 1], [0.1, 0.2, 0.7], [5], [1] * 30, []):
        parts = split_points(Decimal(amount), weights)
        assert not parts or sum(parts) == Decimal(amount)
        assert all(part >= 0 for part in parts) and len(parts) == len(weights)
    assert [format_points(Decimal(points)) for points in ("8", "7.50", "2.67", "100", "0", "0.00", "1E+1")] == ["8", "7.5", "2.67", "100", "0", "0", "10"]
