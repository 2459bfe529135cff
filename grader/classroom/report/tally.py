"""Counts a class's results: who struggles with which exercise, and which misconceptions occur."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from statistics import median

from grader.classroom.judging.graded_class import GradedClass, Person
from grader.course.syllabus import Exercise
from grader.verdict.results import Diagnosis, ExerciseResult, TestResult

KINDS = ("passed", "partly", "failed", "error", "consequence", "todo")
STRUGGLING = ("partly", "failed", "error")
NumberedPerson = tuple[int, Person]  # a person's number in the class, used for links, and the person


@dataclass(frozen=True)
class PointDistribution:
    bins: dict[str, int]  # how many people have each tenth of the points, or full points
    lowest: Decimal
    median: Decimal
    highest: Decimal
    mean: Decimal


@dataclass
class ExerciseTally:
    """The number of people with each kind of result for one exercise."""

    exercise: Exercise
    kinds: Counter[str] = field(default_factory=Counter)

    @property
    def struggling(self) -> int:
        """The number of people who started it and did not get full points, for a reason in this exercise."""
        return sum(self.kinds[kind] for kind in STRUGGLING)

    @property
    def started(self) -> int:
        return self.struggling + self.kinds["passed"] + self.kinds["consequence"]


@dataclass
class MistakeTally:
    """What is wrong with one exercise, and everybody of whom that is so."""

    exercise: Exercise
    who: list[NumberedPerson] = field(default_factory=list)

    @property
    def submissions(self) -> int:
        """How many different submissions these people have: the members of a group have one."""
        return len({person.digest for _, person in self.who})

    @property
    def is_single(self) -> bool:
        return self.submissions == 1


@dataclass
class MisconceptionTally(MistakeTally):
    """One known mistake."""

    diagnosis: Diagnosis = field(default_factory=lambda: Diagnosis("", "", ""))
    example: TestResult | None = None


@dataclass
class UnexplainedTally(MistakeTally):
    """Failures in which no known mistake was recognised."""

    tests: Counter[tuple[str, str]] = field(default_factory=Counter)  # (name, promise) -> number of people


def classify(result: ExerciseResult | None, is_broken: bool = False) -> str:
    """Return the kind of a result, one of KINDS.

    passed; partly (some of the points); failed (none); error (it did not run to its end); todo (not started);
    consequence (the chapter does not import).
    """
    if is_broken:
        return "consequence"
    if result is None or not result.tests:
        return "todo"
    if result.outcome == "passed":
        return "passed"
    if result.earned > 0:
        return "partly"
    return {"todo": "todo", "failed": "failed"}.get(result.outcome, "error")


def classify_all(person: Person, exercises: Iterable[Exercise]) -> dict[str, str]:
    """The kind of the result of each exercise."""
    results = {result.exercise.name: result for result in person.results}
    return {one.name: classify(results.get(one.name), one.module in person.broken) for one in exercises}


def measure_distribution(people: Sequence[Person]) -> PointDistribution | None:
    """The distribution of the totals of graded people; None if there are none."""
    if not people:
        return None
    totals = sorted(person.total.earned for person in people)
    tenths = [int(10 * person.total.earned / person.total.points) if person.total.points else 0 for person in people]
    counts = Counter(min(10, max(0, tenth)) for tenth in tenths)
    labels = [f"{10 * tenth}–{10 * tenth + 9}" for tenth in range(10)] + ["100"]
    bins = {label: counts[tenth] for tenth, label in enumerate(labels)}
    return PointDistribution(bins, totals[0], median(totals), totals[-1], sum(totals, Decimal(0)) / len(totals))


def tally_exercises(graded: GradedClass, people: Sequence[Person]) -> list[ExerciseTally]:
    """All exercises, sorted by the number of people who struggle, largest first."""
    tallies = {exercise.name: ExerciseTally(exercise) for exercise in graded.exercises}
    for person in people:
        for name, kind in classify_all(person, graded.exercises).items():
            tallies[name].kinds[kind] += 1
    return sorted(tallies.values(), key=lambda tally: (-tally.struggling, -tally.kinds["todo"]))


def tally_misconceptions(people: Iterable[NumberedPerson]) -> list[MisconceptionTally]:
    """Every known mistake of this class, the most frequent first."""
    found: dict[tuple[str, str], MisconceptionTally] = {}
    for place, person in people:
        for result in person.results:
            for mistake in result.diagnosis.mistakes if result.diagnosis else ():
                new = MisconceptionTally(result.exercise, diagnosis=mistake)
                one = found.setdefault((result.exercise.name, mistake.id), new)
                one.who.append((place, person))
                one.example = one.example or next((test for test in result.failures if test.details), None)
    order = sorted(found.values(), key=lambda one: (one.exercise.module, one.exercise.name, one.diagnosis.id))
    return sorted(order, key=lambda one: (-one.submissions, -len(one.who)))


def tally_unexplained(people: Iterable[NumberedPerson]) -> list[UnexplainedTally]:
    """Exercises with failures that no diagnosis, shortcut or broken chapter explains.

    Those of most people come first.
    """
    found: dict[str, UnexplainedTally] = {}
    for place, person in people:
        for result in person.results:
            is_explained = result.diagnosis or result.forbidden
            if result.failures and not is_explained and result.exercise.module not in person.broken:
                one = found.setdefault(result.exercise.name, UnexplainedTally(result.exercise))
                one.who.append((place, person))
                names = dict.fromkeys((plain_name(test.name), test.promise) for test in result.failures)
                one.tests.update(list(names))
    return sorted(found.values(), key=lambda one: (-len(one.who), one.exercise.module, one.exercise.name))


def compute_share(person: Person) -> Fraction:
    """The share of the points that this person earned, from 0 to 1, before the deduction for lateness."""
    points = sum(Fraction(mark.points) for mark in person.marks.values())
    return sum(Fraction(mark.earned) for mark in person.marks.values()) / points if points else Fraction(0)


def find_at_risk(
    people: Iterable[NumberedPerson], exercises: Sequence[Exercise]
) -> list[tuple[int, Person, Fraction, int]]:
    """Who has less than half of the points, or started fewer than half of the exercises: with both numbers.

    Those with the fewest points come first.
    """
    found = []
    for place, person in people:
        kinds = [*classify_all(person, exercises).values()]
        share, started = compute_share(person), len(kinds) - kinds.count("todo")
        if 2 * share < 1 or 2 * started < len(kinds):
            found.append((place, person, share, started))
    return sorted(found, key=lambda one: one[2:])


def plain_name(test: str) -> str:
    return test.partition("[")[0]
