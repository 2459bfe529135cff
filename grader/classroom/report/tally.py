"""Counts a class's results: who struggles with which exercise, and which misconceptions occur."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
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
class ChapterTally:
    chapter: str  # its id
    exercises: int
    passed: int = 0  # people with full points
    struggling: int = 0  # people who struggle with at least one exercise
    untouched: int = 0  # people who started none of it
    mean: Decimal = Decimal(0)  # share of its points, 0 to 1


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
    first_messages: Counter[str] = field(default_factory=Counter)  # the first message -> number of people

    @property
    def usual_message(self) -> tuple[str, int] | None:
        """The most frequent first message and its count; None if no two people got the same message."""
        return next(((words, many) for words, many in self.first_messages.most_common(1) if many > 1), None)


@dataclass
class ExerciseMistakes:
    """The known mistakes of one exercise: those of several submissions, and those of one each."""

    exercise: Exercise
    shared: list[MisconceptionTally] = field(default_factory=list)
    single: list[MisconceptionTally] = field(default_factory=list)

    @property
    def people(self) -> int:
        return len({place for one in [*self.shared, *self.single] for place, _ in one.who})


def classify(result: ExerciseResult | None, is_broken: bool = False) -> str:
    """Return the kind of a result, one of KINDS.

    passed; partly (some of the points); failed (none); error (it did not run to its end); todo (not started);
    consequence (something else is the cause: the chapter does not import, or the exercise uses one that fails).
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


def tally_chapters(graded: GradedClass, people: Sequence[Person]) -> list[ChapterTally]:
    """All chapters, in the course's order."""
    tallies = []
    for chapter in dict.fromkeys(exercise.chapter for exercise in graded.exercises):
        exercises = [exercise for exercise in graded.exercises if exercise.chapter == chapter]
        tally, shares = ChapterTally(chapter, len(exercises)), Decimal(0)
        for person in people:
            kinds = set(classify_all(person, exercises).values())
            tally.passed += kinds == {"passed"}
            tally.untouched += kinds == {"todo"}
            tally.struggling += bool(kinds & {*STRUGGLING, "consequence"})
            marks = [person.marks[exercise.name] for exercise in exercises if exercise.name in person.marks]
            points = sum((mark.points for mark in marks), Decimal(0))
            shares += sum((mark.earned for mark in marks), Decimal(0)) / points if points else 0
        tally.mean = shares / max(1, len(people))
        tallies.append(tally)
    return tallies


def tally_misconceptions(people: Iterable[NumberedPerson]) -> list[MisconceptionTally]:
    """Every known mistake of this class, the most frequent first: causes only, not their consequences."""
    found: dict[tuple[str, str], MisconceptionTally] = {}
    for place, person in people:
        for result in person.results:
            for mistake in result.diagnosis.mistakes if result.diagnosis and not result.follows else ():
                new = MisconceptionTally(result.exercise, diagnosis=mistake)
                one = found.setdefault((result.exercise.name, mistake.id), new)
                one.who.append((place, person))
                one.example = one.example or next((test for test in result.failures if test.details), None)
    order = sorted(found.values(), key=lambda one: (one.exercise.module, one.exercise.name, one.diagnosis.id))
    return sorted(order, key=lambda one: (-one.submissions, -len(one.who)))


def group_by_exercise(mistakes: Sequence[MisconceptionTally]) -> list[ExerciseMistakes]:
    """The mistakes of each exercise; first the exercise with most people."""
    groups: dict[str, ExerciseMistakes] = {}
    for one in mistakes:
        group = groups.setdefault(one.exercise.name, ExerciseMistakes(one.exercise))
        (group.single if one.is_single else group.shared).append(one)
    return sorted(groups.values(), key=lambda group: -group.people)


def tally_unexplained(people: Iterable[NumberedPerson]) -> list[UnexplainedTally]:
    """Exercises with failures that no diagnosis, shortcut, broken chapter or other failing exercise explains.

    Those of most people come first.
    """
    found: dict[str, UnexplainedTally] = {}
    for place, person in people:
        for result in person.results:
            is_explained = result.diagnosis or result.follows or result.forbidden
            if result.failures and not is_explained and result.exercise.module not in person.broken:
                one = found.setdefault(result.exercise.name, UnexplainedTally(result.exercise))
                one.who.append((place, person))
                names = dict.fromkeys((plain_name(test.name), test.promise) for test in result.failures)
                one.tests.update(list(names))
                first = result.failures[0]
                one.first_messages.update(filter(None, [first.explanation or first.message]))
    return sorted(found.values(), key=lambda one: (-len(one.who), one.exercise.module, one.exercise.name))


def plain_name(test: str) -> str:
    return test.partition("[")[0]
