"""gradescope/SLUG.json: a results.json per person, as Gradescope's autograders write it.

The format is described in https://gradescope-autograders.readthedocs.io/en/latest/specs/. Three details matter:
- There is always a top-level score. It overrides the sum of the tests, so it includes deductions for lateness and is
  exact to the cent.
- There is no top-level visibility, and every test is visible: a single hidden test would hide the student's total.
- Every format is "text": by default, the top-level output is rendered as HTML.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from grader.classroom import sanitize
from grader.classroom.exports import text
from grader.classroom.judging.graded_class import GradedClass, Mark, Person
from grader.classroom.judging.scoring import NOTHING, format_points, split_points
from grader.course.syllabus import Exercise
from grader.verdict.results import ExerciseResult

FOLDER = "gradescope"
FILE_START = '{"extra_data": {"headway"'
Entry = dict[str, Any]


def write(graded: GradedClass, folder: Path) -> list[Path]:
    texts = {person.slug: json.dumps(results(person, graded), sort_keys=True) + "\n" for person in graded.people}
    return text.write_per_person(folder / FOLDER, ".json", texts, FILE_START)


def results(person: Person, graded: GradedClass) -> Entry:
    """One person's results.json as data. Students do not see extra_data, which programs can use."""
    known = {result.exercise.name: result.diagnosis for result in person.results}
    diagnoses = {name: diagnosis.as_json() for name, diagnosis in known.items() if diagnosis}
    return {
        "score": float(person.total.earned),
        "output": _output(person),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "stdout_visibility": "hidden",
        "tests": list(_ungraded(person, graded) if person.problem else _tests(person, graded)),
        "extra_data": {"headway": {"diagnoses": diagnoses, "name": sanitize.line(person.name)}},
    }


def _output(person: Person) -> str:
    points = f"{format_points(person.total.earned)} of {format_points(person.total.points)} points."
    remarks = [f"Your instructor writes: {remark}" for remark in person.remarks]
    corrections = text.correction_sentences(person)
    lines = [points, person.late, text.problem_sentence(person), *person.notes, *remarks, *corrections]
    broken = [f"{module}.py does not import.\n{text.format_failure(words)}" for module, words in person.broken.items()]
    return "\n\n".join([*(text.make_sentence(line) for line in lines if line), *broken])


def _tests(person: Person, graded: GradedClass) -> Iterator[Entry]:
    """Numbered by chapter, exercise and test."""
    results = {result.exercise.name: result for result in person.results}
    places: Counter[str] = Counter()
    for exercise in graded.exercises:
        places[exercise.chapter] += 1
        number = f"{int(exercise.chapter.removeprefix('ch'))}.{places[exercise.chapter]}"
        mark = person.marks[exercise.name]
        if exercise.name in person.given:  # one entry has all points; those of the tests have none
            yield _given(exercise, f"{number}.0", person)
            mark = Mark(NOTHING, NOTHING)
        result = results.get(exercise.name)
        if result and result.tests:
            yield from _tested(result, number, mark)
        else:
            is_broken = exercise.module in person.broken
            why = f"{text.UNTESTED} {exercise.module}.py does not import." if is_broken else text.UNTESTED
            outcome = "error" if is_broken else "todo"
            yield _entry(exercise, f"{number}.1", "not tested", Mark(NOTHING, mark.points), False, why, outcome)


def _tested(result: ExerciseResult, number: str, mark: Mark) -> Iterator[Entry]:
    """An entry per test. Their scores add up exactly to the exercise's mark, and their maximum scores to its points."""
    worth, missing = _split_among_tests(result, mark)
    for place, (test, points) in enumerate(zip(result.tests, worth), start=1):
        won = test.outcome == "passed" and not result.forbidden
        shortcut = f"No points for this exercise: {'; '.join(result.forbidden)}."
        title = test.name.removeprefix("test_").replace("_", " ")
        output = shortcut if result.forbidden else text.format_test(test)
        earned = Mark(points if won else NOTHING, points)
        yield _entry(result.exercise, f"{number}.{place}", title, earned, won, output, test.outcome)
    if result.missing_weight:
        last, lost = f"{number}.{len(result.tests) + 1}", Mark(NOTHING, missing)
        yield _entry(result.exercise, last, "tests that were not run", lost, False, text.NOT_RUN, "error")


def _split_among_tests(result: ExerciseResult, mark: Mark) -> tuple[list[Decimal], Decimal]:
    """The points of each test and of the tests that were not run.

    Passed tests share the points earned, the others share the rest.
    """
    wins = [test.outcome == "passed" and not result.forbidden for test in result.tests]
    won = [test.weight for test, is_won in zip(result.tests, wins) if is_won]
    lost = [test.weight for test, is_won in zip(result.tests, wins) if not is_won]
    missing = [result.missing_weight] if result.missing_weight else []
    of_won = iter(split_points(mark.earned, won))
    of_lost = iter(split_points(mark.points - mark.earned, lost + missing))
    return [next(of_won if is_won else of_lost) for is_won in wins], next(of_lost, NOTHING)


def _entry(
    exercise: Exercise | None, number: str, title: str, mark: Mark, passed: bool, output: str, outcome: str
) -> Entry:  # fmt: skip
    return {
        "name": sanitize.line(f"{exercise.name}: {title}" if exercise else title),
        "name_format": "text",
        "number": number,
        "score": float(mark.earned),
        "max_score": float(mark.points),
        "status": "passed" if passed else "failed",
        "output": sanitize.text(output),
        "output_format": "text",
        "tags": [exercise.chapter, exercise.name] if exercise else [],
        "visibility": "visible",
        "extra_data": {"outcome": outcome},
    }


def _given(exercise: Exercise, number: str, person: Person) -> Entry:
    mark, given = person.marks[exercise.name], person.given[exercise.name]
    points = f"{format_points(given.points)} points instead of {format_points(given.of_verdict)}"
    output, is_full = f"{points}, on {given.date}: {text.make_sentence(given.because)}", given.points >= mark.points
    return _entry(exercise, number, "points given by the instructor", mark, is_full, output, "given")


def _ungraded(person: Person, graded: GradedClass) -> Iterator[Entry]:
    """The entry that says why nothing was graded, and those of points that the instructor gave nevertheless."""
    rest = person.total.points - sum((person.marks[name].points for name in person.given), NOTHING)
    title = "the submission can be graded"
    yield _entry(None, "1", title, Mark(NOTHING, rest), False, text.problem_sentence(person), "error")
    given = [exercise for exercise in graded.exercises if exercise.name in person.given]
    yield from (_given(exercise, str(place), person) for place, exercise in enumerate(given, start=2))
