"""gradescope/SLUG.json: a results.json per person, as Gradescope's autograders write it.

The format is described in https://gradescope-autograders.readthedocs.io/en/latest/specs/. Three details matter:
- There is always a top-level score. It overrides the sum of the tests, so it includes deductions for lateness and is exact to the cent.
- There is no top-level visibility, and every test is visible: a single hidden test would hide the total from the student.
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
from grader.classroom.exports.files import write_per_person
from grader.classroom.exports.result_text import NOT_RUN, UNTESTED, correction_sentences, format_failure, format_test, make_sentence, problem_sentence
from grader.classroom.judging.graded_class import GradedClass, Mark, Person
from grader.classroom.judging.scoring import NOTHING, format_points, split_points
from grader.course.syllabus import Exercise
from grader.verdict.results import ExerciseResult, TestResult

FOLDER = "gradescope"
SCHEMA = 1  # version of extra_data
FILE_START = '{"extra_data": {"headway"'


def write(graded: GradedClass, folder: Path) -> list[Path]:
    return write_per_person(folder / FOLDER, ".json", {person.slug: _serialize(results(person, graded)) for person in graded.people}, FILE_START)


def _serialize(data: dict[str, Any]) -> str:
    """The JSON text, with one test per line."""
    head = json.dumps({name: value for name, value in data.items() if name != "tests"}, sort_keys=True)
    tests = ",\n".join(json.dumps(test, sort_keys=True) for test in data["tests"])
    return f'{head[:-1]}, "tests": [\n{tests}\n]}}\n'


def results(person: Person, graded: GradedClass) -> dict[str, Any]:
    """One person's results.json as data."""
    tests = _ungraded_entries(person, graded) if person.problem else list(_tests(person, graded))
    return {
        "score": float(person.total.earned),
        "output": _output(person),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "stdout_visibility": "hidden",
        "tests": tests,
        "extra_data": {"headway": _extra_data(person, graded)},
    }


def _output(person: Person) -> str:
    points = f"{format_points(person.total.earned)} of {format_points(person.total.points)} points."
    remarks = [f"Your instructor writes: {remark}" for remark in person.remarks]
    lines = [points, person.late, problem_sentence(person), *person.notes, *remarks, *correction_sentences(person)]
    broken = [f"{module}.py does not import.\n{format_failure(words)}" for module, words in person.broken.items()]
    return "\n\n".join([*(make_sentence(line) for line in lines if line), *broken])


def _tests(person: Person, graded: GradedClass) -> Iterator[dict[str, Any]]:
    """Numbered by chapter, exercise and test."""
    results = {result.exercise.name: result for result in person.results}
    places: Counter[str] = Counter()
    for exercise in graded.exercises:
        places[exercise.chapter] += 1
        number = f"{int(exercise.chapter.removeprefix('ch'))}.{places[exercise.chapter]}"
        mark = person.marks[exercise.name]
        if exercise.name in person.given:  # one entry has all points; those of the tests have none
            yield _given_entry(exercise, f"{number}.0", person)
            mark = Mark(NOTHING, NOTHING)
        yield from _entries(exercise, number, results.get(exercise.name), mark, exercise.module in person.broken)


def _entries(exercise: Exercise, number: str, result: ExerciseResult | None, mark: Mark, broken: bool) -> Iterator[dict[str, Any]]:
    """An entry per test. Their scores add up exactly to the exercise's mark, and their maximum scores to its points."""
    if result is None or not result.tests:
        why = f"{UNTESTED} {exercise.module}.py does not import." if broken else UNTESTED
        yield _entry(exercise, f"{number}.1", "not tested", Mark(NOTHING, mark.points), False, why, {"outcome": "error" if broken else "todo"})
        return
    worth, missing = _split_among_tests(result, mark)
    for place, (test, points) in enumerate(zip(result.tests, worth), start=1):
        won = test.outcome == "passed" and not result.forbidden
        output = f"No points for this exercise: {'; '.join(result.forbidden)}." if result.forbidden else format_test(test)
        earned = Mark(points if won else NOTHING, points)
        extra = {"outcome": test.outcome, "test": test.name} | ({"seed": test.seed} if test.seed else {})
        yield _entry(exercise, f"{number}.{place}", _title(test), earned, won, output, extra)
    if result.missing_weight:
        last = f"{number}.{len(result.tests) + 1}"
        yield _entry(exercise, last, "tests that were not run", Mark(NOTHING, missing), False, NOT_RUN, {"outcome": "error"})


def _split_among_tests(result: ExerciseResult, mark: Mark) -> tuple[list[Decimal], Decimal]:
    """The points of each test and of the tests that were not run: passed tests share the points earned, the others share the rest."""
    wins = [test.outcome == "passed" and not result.forbidden for test in result.tests]
    of_won = iter(split_points(mark.earned, [test.weight for test, won in zip(result.tests, wins) if won]))
    missing = [result.missing_weight] if result.missing_weight else []
    of_lost = iter(split_points(mark.points - mark.earned, [*(test.weight for test, won in zip(result.tests, wins) if not won), *missing]))
    return [next(of_won if won else of_lost) for won in wins], next(of_lost, NOTHING)


def _entry(exercise: Exercise, number: str, title: str, mark: Mark, passed: bool, output: str, extra: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": sanitize.line(f"{exercise.name}: {title}"),
        "name_format": "text",
        "number": number,
        "score": float(mark.earned),
        "max_score": float(mark.points),
        "status": "passed" if passed else "failed",
        "output": sanitize.text(output),
        "output_format": "text",
        "tags": [exercise.chapter, exercise.name],
        "visibility": "visible",
        "extra_data": extra,
    }


def _given_entry(exercise: Exercise, number: str, person: Person) -> dict[str, Any]:
    mark, given = person.marks[exercise.name], person.given[exercise.name]
    output = f"{format_points(given.points)} points instead of {format_points(given.of_verdict)}, on {given.date}: {make_sentence(given.because)}"
    return _entry(exercise, number, "points given by the instructor", mark, given.points >= mark.points, output, {"outcome": "given"})


def _ungraded_entries(person: Person, graded: GradedClass) -> list[dict[str, Any]]:
    """The entry that says why nothing was graded, and those of points that the instructor gave nevertheless."""
    given = [_given_entry(exercise, str(place), person) for place, exercise in enumerate((e for e in graded.exercises if e.name in person.given), start=2)]
    rest = person.total.points - sum((person.marks[exercise].points for exercise in person.given), NOTHING)
    return [_ungraded_entry(person, rest), *given]


def _ungraded_entry(person: Person, points: Decimal) -> dict[str, Any]:
    return {
        "name": "the submission can be graded", "name_format": "text", "number": "1", "score": 0.0, "max_score": float(points),
        "status": "failed", "output": problem_sentence(person), "output_format": "text", "tags": [], "visibility": "visible",
        "extra_data": {"outcome": "error"},
    }  # fmt: skip


def _extra_data(person: Person, graded: GradedClass) -> dict[str, Any]:
    """Data for programs, with exercises by name; students do not see it."""
    return {
        "schema": SCHEMA,
        "name": sanitize.line(person.name),
        "digest": person.digest,
        "seed": graded.seed,
        "versions": graded.versions,
        "points": float(person.total.points),
        "late": sanitize.line(person.late),
        "problem": sanitize.line(person.problem),
        "notes": [sanitize.line(note) for note in person.notes],
        "exercises": {result.exercise.name: _exercise(result, person) for result in person.results},
    }


def _exercise(result: ExerciseResult, person: Person) -> dict[str, Any]:
    known, mark, given = result.diagnosis, person.marks[result.exercise.name], person.given.get(result.exercise.name)
    more = {"given": {"of_verdict": float(given.of_verdict), "because": given.because, "date": given.date}} if given else {}
    return more | {
        "outcome": result.outcome,
        "earned": float(mark.earned),
        "points": float(mark.points),
        "diagnosis": known.as_json() if known else None,
        "forbidden": [sanitize.line(sentence) for sentence in result.forbidden],
    }


def _title(test: TestResult) -> str:
    return test.name.removeprefix("test_").replace("_", " ")
