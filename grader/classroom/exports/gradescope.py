"""gradescope/SLUG.json: a results.json per person, as Gradescope's autograders write it.

The format is described in https://gradescope-autograders.readthedocs.io/en/latest/specs/. There is an entry for each
exercise. Three details matter:
- There is always a top-level score. It overrides the sum of the entries, so it includes deductions for lateness.
- There is no top-level visibility, and every entry is visible: a single hidden one would hide the student's total.
- Every format is "text": by default, the top-level output is rendered as HTML.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grader.classroom import sanitize
from grader.classroom.exports import text
from grader.classroom.judging.graded_class import GradedClass, Person
from grader.classroom.judging.scoring import format_points
from grader.course.syllabus import Exercise
from grader.verdict.results import ExerciseResult, replaced_sentences

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
        "tests": list(_entries(person, graded)),
        "extra_data": {"headway": {"diagnoses": diagnoses, "name": sanitize.line(person.name)}},
    }


def _output(person: Person) -> str:
    points = f"{format_points(person.total.earned)} of {format_points(person.total.points)} points."
    corrections = text.correction_sentences(person).values()
    lines = [points, person.late, text.problem_sentence(person), *person.notes, *corrections]
    broken = [f"{module}.py does not import.\n{text.format_failure(words)}" for module, words in person.broken.items()]
    return "\n\n".join([*(text.make_sentence(line) for line in lines if line), *broken])


def _entries(person: Person, graded: GradedClass) -> Iterator[Entry]:
    """Numbered by chapter and exercise."""
    results = {result.exercise.name: result for result in person.results}
    places: Counter[str] = Counter()
    for exercise in graded.exercises:
        places[exercise.chapter] += 1
        mark = person.marks[exercise.name]
        yield {
            "name": exercise.name,
            "number": f"{int(exercise.chapter.removeprefix('ch'))}.{places[exercise.chapter]}",
            "score": float(mark.earned),
            "max_score": float(mark.points),
            "status": "passed" if mark.earned >= mark.points else "failed",
            "output": sanitize.text(_explain(person, exercise, results.get(exercise.name))),
            "tags": [exercise.chapter, exercise.name],
            "visibility": "visible",
        }


def _explain(person: Person, exercise: Exercise, result: ExerciseResult | None) -> str:
    if exercise.name in person.given:
        return text.correction_sentences(person)[exercise.name]
    if person.problem:
        return text.problem_sentence(person)
    if exercise.module in person.broken:
        return f"{text.UNTESTED} {exercise.module}.py does not import."
    if result is None or not result.tests:
        return text.UNTESTED
    rest = [text.NOT_RUN] if result.missing_weight else []
    if result.failures or result.forbidden:
        return "\n\n".join([text.format_result(result), *rest])
    reasons = dict.fromkeys(test.message for test in result.tests if test.outcome == "todo" and test.message)
    done = ["All tests passed."] if result.outcome == "passed" else map(text.make_sentence, reasons)
    return " ".join([*done, *replaced_sentences(result.replaced), *rest])
