"""The field test: its texts are whole, and the proof prints what is not caught, not named or named falsely."""

import pytest
from grader.course.known_mistakes import misconceptions
from grader.course.syllabus import load_syllabus
from grader.tests.quality.devcheck.trying import Tried
from grader.tests.quality.proof.field import Attempt, Row, attempts, run


def test_the_faults_of_each_attempt_are_described():
    everything = list(attempts())
    assert len(everything) >= 1000 and sum(len(attempt.faults) == 2 for attempt in everything) >= 280
    assert {attempt.exercise for attempt in everything} <= {exercise.name for exercise in load_syllabus().exercises}
    for attempt in everything:
        exercise = load_syllabus().exercise(attempt.exercise)
        compile(attempt.code, attempt.name, "exec")
        assert exercise.name in attempt.code and len(attempt.faults) == len(attempt.known) in (1, 2), attempt.name
        known = {mistake.id for mistake in misconceptions(exercise.module, exercise.name)}
        assert attempt.true_names <= known, attempt.name


def test_a_name_counts_only_if_it_is_true_of_the_code():
    attempt = Attempt("softmax 1", "softmax", "", ["one", "two"], [["a", "b"], ["c"]])

    def row(outcome: str, *names: str) -> Row:
        found = Row()
        found.add(attempt, Tried("attempt", "softmax 1", 0.0, outcome, {}, {}, list(names), [], 0.0))
        return found

    rows = row("failed", "b", "c"), row("failed", "a"), row("failed", "a", "d")
    counts = [(found.caught, found.named, found.named_all, found.false) for found in rows]
    assert counts == [(1, 1, 1, 0), (1, 1, 0, 0), (1, 1, 0, 1)]
    assert row("passed").problems == ["softmax 1 passes all tests", "softmax 1 is not named; true would be a, b, c"]


def test_attempts_that_no_known_mistake_describes_have_a_row_of_their_own():
    """They need no name; a name would be false."""
    each_known = [["a"]], [["a"], ["b"]], [[]], [[], ["b"]]
    one, two, none, half = (Attempt("softmax 1", "softmax", "", [""] * len(known), known) for known in each_known)
    assert [attempt.row for attempt in (one, two, none, half)] == [1, 2, 0, 2]
    row = Row()
    row.add(none, Tried("attempt", "softmax 1", 0.0, "failed", {}, {}, [], [], 0.0))
    assert not row.problems
    row.add(none, Tried("attempt", "softmax 1", 0.0, "failed", {}, {}, ["a"], [], 0.0))
    assert row.problems == ["softmax 1 is named falsely: a"] and row.false == 1 and row.caught == 2


@pytest.mark.thorough
def test_attempts_are_caught_and_never_named_falsely(capsys):
    run(["--exercise", "softmax", "--exercise", "load_balancing_loss"])
    out = capsys.readouterr().out
    assert "passes all tests" not in out and "named falsely:" not in out, out
