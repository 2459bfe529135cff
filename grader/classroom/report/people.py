"""A person's section of the report: points, notes, and each exercise without full points as the learner saw it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader.classroom.judging.graded_class import Person
from grader.classroom.report.numbers import format_count, format_number
from grader.classroom.report.tally import KINDS, classify_all, plain_name
from grader.course.syllabus import Exercise
from grader.runner.layout import ALSO
from grader.verdict.results import Diagnosis, ExerciseResult, Failure, TestResult, replaced_sentences


@dataclass(frozen=True)
class IncompleteExercise:
    """One exercise that a person started and did not get full points for."""

    name: str
    chapter: str
    points: str
    forbidden: list[str]
    replaced: list[str]  # sentences
    diagnosis: Diagnosis | None
    first: TestResult | None
    also: list[str]
    more: int
    follows: str  # a failing exercise that this one uses, so that this failure may only be a consequence
    in_full: bool  # whether the page shows the failure in full


@dataclass(frozen=True)
class BrokenChapter:
    """A chapter that does not import, and its exercises."""

    module: str
    failure: Failure
    exercises: list[str]


@dataclass(frozen=True)
class PersonSection:
    place: int
    person: Person
    total: str
    kinds: list[str]  # 3 passed, 1 error, 2 not started
    works: list[IncompleteExercise]
    broken: list[BrokenChapter]
    passed: list[str]
    todo: list[str]


def make_person_section(place: int, person: Person, exercises: Sequence[Exercise], most: int = 1_000_000) -> PersonSection:
    """The section; failures are shown in full for at most `most` exercises, because a page about a whole course of many people must load."""
    kinds = classify_all(person, exercises)
    named = {kind: [name for name, its_kind in kinds.items() if its_kind == kind] for kind in KINDS}
    broken = [
        BrokenChapter(module, failure, [exercise.name for exercise in exercises if exercise.module == module])
        for module, failure in sorted(person.broken.items())
    ]
    runs = [result for result in person.results if result.exercise.module not in person.broken]
    incomplete = [result for result in runs if kinds.get(result.exercise.name, "todo") not in ("passed", "todo")]
    return PersonSection(
        place, person,
        f"{format_number(person.total.earned)} of {format_number(person.total.points)}",
        [_count_kind(len(names), kind) for kind, names in named.items() if names],
        [_describe_exercise(person, result, number < most) for number, result in enumerate(incomplete)],
        broken, named["passed"], named["todo"],
    )  # fmt: skip


def _count_kind(many: int, kind: str) -> str:
    words = {"todo": f"{many} not started", "error": format_count(many, "error"), "consequence": format_count(many, "consequence")}
    return words.get(kind, f"{many} {kind}")


def _describe_exercise(person: Person, result: ExerciseResult, in_full: bool) -> IncompleteExercise:
    mark = person.marks.get(result.exercise.name)
    points = f"{format_number(mark.earned)} of {format_number(mark.points)}" if mark else ""
    failures = result.failures
    first = failures[0] if failures else None
    also = [f"{test.outcome}: {test.name}" for test in failures[1:]]
    named = len(also) if len(also) == ALSO + 1 else min(len(also), ALSO)
    return IncompleteExercise(
        result.exercise.name, result.exercise.chapter, points, result.forbidden, replaced_sentences(result.replaced), result.diagnosis,
        first, also[:named], len(also) - named, result.follows, in_full,
    )  # fmt: skip


def test_title(test: TestResult) -> str:
    return f"{test.outcome.upper()} {plain_name(test.name)}"
