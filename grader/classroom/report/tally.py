"""Counts a class's results: who struggles with which exercise, which misconceptions occur, which tests fail for an unknown reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from statistics import median

from grader.classroom.judging.graded_class import GradedClass, Person
from grader.course.syllabus import Exercise
from grader.verdict.results import Diagnosis, ExerciseResult, Failure, TestResult

KINDS = ("passed", "partly", "failed", "error", "consequence", "todo")
STRUGGLING = ("partly", "failed", "error")
NumberedPerson = tuple[int, Person]  # a person's number in the class, used for links, and the person


@dataclass(frozen=True)
class Bin:
    """The number of people with totals in one tenth of the points, or with full points."""

    label: str
    people: int


@dataclass(frozen=True)
class PointDistribution:
    bins: tuple[Bin, ...]
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
        """The number of people who started the exercise and did not get full points, for a reason in this exercise."""
        return sum(self.kinds[kind] for kind in STRUGGLING)

    @property
    def started(self) -> int:
        return self.struggling + self.kinds["passed"] + self.kinds["consequence"]


@dataclass(frozen=True)
class ChapterTally:
    chapter: str  # its id
    exercises: int
    passed: int  # people with full points
    struggling: int  # people who struggle with at least one exercise
    untouched: int  # people who started none of it
    mean: Decimal  # share of its points, 0 to 1


@dataclass
class MisconceptionTally:
    """One known mistake, and all who made it."""

    exercise: Exercise
    diagnosis: Diagnosis
    who: list[NumberedPerson] = field(default_factory=list)
    example: TestResult | None = None

    @property
    def is_single(self) -> bool:
        return count_submissions(self.who) == 1


@dataclass
class ExerciseMistakes:
    """The known mistakes of one exercise: those of several submissions, and those of one each, for example of a group."""

    exercise: Exercise
    shared: list[MisconceptionTally] = field(default_factory=list)
    single: list[MisconceptionTally] = field(default_factory=list)

    @property
    def people(self) -> int:
        return len({place for one in [*self.shared, *self.single] for place, _ in one.who})


@dataclass
class UnexplainedTally:
    """One exercise with failures in which no known mistake was recognised."""

    exercise: Exercise
    who: list[NumberedPerson] = field(default_factory=list)
    tests: Counter[tuple[str, str]] = field(default_factory=Counter)  # (name, promise) -> number of people
    first_messages: Counter[str] = field(default_factory=Counter)  # the first message -> number of people

    @property
    def is_single(self) -> bool:
        return count_submissions(self.who) == 1

    @property
    def usual_message(self) -> tuple[str, int] | None:
        """The most frequent first message and its count; None if no two people got the same message."""
        return next(((words, people) for words, people in self.first_messages.most_common(1) if people > 1), None)


def count_submissions(people: Iterable[NumberedPerson]) -> int:
    """How many different submissions these people have: the members of a group have one."""
    return len({person.digest for _, person in people})


def classify(result: ExerciseResult | None, is_broken: bool = False) -> str:
    """Return the kind of a result, one of KINDS.

    passed; partly (some of the points); failed (none); error (it did not run to its end); todo (not started); consequence (something else is the
    cause: the chapter does not import, or the exercise uses another one that fails).
    """
    if is_broken:
        return "consequence"
    if result is None or not result.tests:
        return "todo"
    if result.outcome == "passed":
        return "passed"
    if result.follows:
        return "consequence"
    if result.earned > 0:
        return "partly"
    return {"todo": "todo", "failed": "failed"}.get(result.outcome, "error")


def classify_all(person: Person, exercises: Iterable[Exercise]) -> dict[str, str]:
    """The kind of the result of each exercise."""
    results = {result.exercise.name: result for result in person.results}
    return {exercise.name: classify(results.get(exercise.name), exercise.module in person.broken) for exercise in exercises}


def measure_distribution(people: list[Person]) -> PointDistribution | None:
    """The distribution of the totals of graded people; None if there are none."""
    if not people:
        return None
    totals = sorted(person.total.earned for person in people)
    tenths = Counter(_tenth(person) for person in people)
    labels = [f"{10 * tenth}–{10 * tenth + 9}" for tenth in range(10)] + ["100"]
    bins = tuple(Bin(label, tenths[tenth]) for tenth, label in enumerate(labels))
    return PointDistribution(bins, totals[0], median(totals), totals[-1], sum(totals, Decimal(0)) / len(totals))


def _tenth(person: Person) -> int:
    points = person.total.points
    return min(10, max(0, int(10 * person.total.earned / points))) if points else 0


def tally_exercises(graded: GradedClass, people: list[Person]) -> list[ExerciseTally]:
    """All exercises, sorted by the number of people who struggle, largest first."""
    tallies = {exercise.name: ExerciseTally(exercise) for exercise in graded.exercises}
    for person in people:
        for name, kind in classify_all(person, graded.exercises).items():
            tallies[name].kinds[kind] += 1
    return sorted(tallies.values(), key=lambda tally: (-tally.struggling, -tally.kinds["todo"]))


def tally_chapters(graded: GradedClass, people: list[Person]) -> list[ChapterTally]:
    """All chapters, in the course's order."""
    tallies = []
    for chapter in dict.fromkeys(exercise.chapter for exercise in graded.exercises):
        exercises = [exercise for exercise in graded.exercises if exercise.chapter == chapter]
        names = [exercise.name for exercise in exercises]
        passed = struggling = untouched = 0
        shares = Decimal(0)
        for person in people:
            kinds = set(classify_all(person, exercises).values())
            passed += kinds == {"passed"}
            untouched += kinds == {"todo"}
            struggling += bool(kinds & {*STRUGGLING, "consequence"})
            shares += _share(person, names)
        tallies.append(ChapterTally(chapter, len(names), passed, struggling, untouched, shares / max(1, len(people))))
    return tallies


def _share(person: Person, names: list[str]) -> Decimal:
    marks = [person.marks[name] for name in names if name in person.marks]
    points = sum((mark.points for mark in marks), Decimal(0))
    return sum((mark.earned for mark in marks), Decimal(0)) / points if points else Decimal(0)


def tally_misconceptions(people: Iterable[NumberedPerson]) -> list[MisconceptionTally]:
    """Every known mistake of this class, the most frequent first: causes only, not exercises that fail because of another one."""
    found: dict[tuple[str, str], MisconceptionTally] = {}
    for place, person in people:
        for result in person.results:
            for mistake in result.diagnosis.mistakes if result.diagnosis and not result.follows else ():
                one = found.setdefault((result.exercise.name, mistake.id), MisconceptionTally(result.exercise, mistake))
                one.who.append((place, person))
                one.example = one.example or next((test for test in result.failures if test.details), None)
    return sorted(found.values(), key=lambda one: (-count_submissions(one.who), -len(one.who), one.exercise.module, one.exercise.name, one.diagnosis.id))


def group_by_exercise(mistakes: Sequence[MisconceptionTally]) -> list[ExerciseMistakes]:
    """The mistakes of each exercise; first the exercise with most people."""
    groups: dict[str, ExerciseMistakes] = {}
    for one in mistakes:
        group = groups.setdefault(one.exercise.name, ExerciseMistakes(one.exercise))
        (group.single if one.is_single else group.shared).append(one)
    return sorted(groups.values(), key=lambda group: -group.people)


def tally_unexplained(people: Iterable[NumberedPerson]) -> list[UnexplainedTally]:
    """Exercises with failures that no diagnosis, shortcut, broken chapter or other failing exercise explains, sorted by the number of people, largest first."""
    found: dict[str, UnexplainedTally] = {}
    for place, person in people:
        for result in person.results:
            if not result.failures or result.diagnosis or result.follows or result.forbidden or result.exercise.module in person.broken:
                continue
            one = found.setdefault(result.exercise.name, UnexplainedTally(result.exercise))
            one.who.append((place, person))
            one.tests.update(list(dict.fromkeys((plain_name(test.name), test.promise) for test in result.failures)))
            one.first_messages.update(words for test in result.failures[:1] if (words := test.explanation or test.message))
    return sorted(found.values(), key=lambda one: (-len(one.who), one.exercise.module, one.exercise.name))


def list_broken_chapters(people: Iterable[NumberedPerson]) -> list[tuple[NumberedPerson, str, Failure]]:
    """Chapters that do not import: the person, the chapter and the failure."""
    return [((place, person), module, failure) for place, person in people for module, failure in sorted(person.broken.items())]


def plain_name(test: str) -> str:
    return test.partition("[")[0]
