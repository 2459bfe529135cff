"""A graded class as plain data, and how its marks are computed from the results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from grader.classroom.sanitize import list_names
from grader.course.syllabus import Exercise
from grader.verdict.results import NOT_IMPLEMENTED, ExerciseResult, Failure, TestResult


@dataclass(frozen=True)
class Mark:
    """The points of one exercise under the instructor's rules, and the points earned; exact to the cent."""

    earned: Decimal
    points: Decimal


@dataclass(frozen=True)
class GivenPoints:
    """The points of one exercise that the instructor gave, and those of the verdict."""

    points: Decimal
    of_verdict: Decimal
    because: str
    date: str  # 2026-12-01


@dataclass(frozen=True)
class Person:
    """One graded submission. If it could not be graded, `problem` is a sentence and there are no results.

    `missing` is for a person of the roster who submitted nothing.
    """

    name: str
    slug: str  # a file name on any system, unique in this class
    digest: str  # of the submitted content
    problem: str = ""
    notes: tuple[str, ...] = ()
    submitted: str = ""  # ISO, if known, in the time zone of the due date
    is_untimed: bool = False  # its time is unknown, so it counts as on time
    results: tuple[ExerciseResult, ...] = ()  # in the course's order; `details` is what a learner sees of a failed test
    broken: dict[str, Failure] = field(default_factory=dict)  # chapters that do not import
    marks: dict[str, Mark] = field(default_factory=dict)  # by exercise, without any deduction for lateness
    given: dict[str, GivenPoints] = field(default_factory=dict)  # by exercise, where the instructor gave the points
    late: str = ""  # a sentence, if it is late
    total: Mark = Mark(Decimal(0), Decimal(0))  # with the deduction for lateness
    missing: bool = False
    waiting: bool = False  # the grader has no verdict yet, so nothing about this submission counts; `problem` says why

    @property
    def zeros(self) -> list[str]:
        """What was sent for the exercises without points, in a few words: "softmax, causal_mask: only the stub"."""
        found: dict[str, list[str]] = {}
        for result in self.results:
            name, mark = result.exercise.name, self.marks.get(result.exercise.name)
            if mark and mark.points and not mark.earned and name not in self.given:
                found.setdefault(describe_zero(result, self.broken), []).append(name)
        is_all = [len(self.marks)] == [*map(len, found.values())]
        return [words if is_all else f"{list_names(names, 5)}: {words}" for words, names in found.items()]

    @property
    def remark(self) -> str:
        """Why the total is not simply the points of the tests, or is 0; "" if there is nothing to say."""
        if self.waiting:
            return "not graded yet"
        given = f"points given by the instructor for {list_names([*self.given], 5)}" if self.given else ""
        state = "missing" if self.missing else f"not graded: {self.problem}" if self.problem else self.late
        return "; ".join(filter(None, [state, given, *(() if self.total.earned else self.zeros)]))


def describe_zero(result: ExerciseResult, broken: Collection[str] = ()) -> str:
    """What was sent for an exercise that earned nothing, in a few words."""
    if result.exercise.module in broken:
        return f"{result.exercise.module}.py does not import"
    if result.forbidden:
        return "it uses forbidden code"
    if result.outcome != "todo":
        return "no test passes"
    reasons = [test.message for test in result.tests if test.message not in ("", NOT_IMPLEMENTED)]
    return reasons[0] if reasons else "only the stub" if result.tests else "no test was run"


@dataclass(frozen=True)
class GradedClass:
    people: tuple[Person, ...]  # by name; a missing one only with points of the instructor
    exercises: tuple[Exercise, ...]  # the graded ones, in the course's order
    seed: int
    versions: dict[str, str]  # of what the marks depend on: kit, torch, Python, ...
    missing: tuple[Person, ...] = ()  # the other missing people of the roster
    hidden: frozenset[str] = frozenset()  # exercises whose tests learners do not have
    own_tests: bool = False  # the learners' own tests of the exercises were graded

    @property
    def points(self) -> Decimal:
        return max((person.total.points for person in self.people), default=Decimal(0))


# ---- computing marks; exact decimals give the same marks on every machine


CENT = Decimal("0.01")
NOTHING = Decimal(0)

Points = Decimal | float | int | str


def to_decimal(points: Points) -> Decimal:
    """The number as a person wrote it: 0.1 is exactly a tenth."""
    return points if isinstance(points, Decimal) else Decimal(str(points))


def compute_mark(result: ExerciseResult | None, points: Points) -> Mark:
    """The passed tests' share of the points, rounded once, half up.

    Full points only if all tests passed; none if a shortcut was used.
    """
    whole = round_to_cent(Fraction(to_decimal(points)))
    if result is None or result.forbidden or not result.tests:
        return Mark(NOTHING, whole)
    won, of = passed_weight(result), total_weight(result)
    if won >= of > 0:
        return Mark(whole, whole)
    share = round_to_cent(Fraction(whole) * won / of) if of else NOTHING
    return Mark(max(NOTHING, min(share, whole - CENT)), whole)


def compute_marks(
    results: Iterable[ExerciseResult], exercises: Sequence[Exercise], points_of: Callable[[Exercise], Points]
) -> dict[str, Mark]:
    """A mark for each exercise, in the given order; an exercise without a result earns nothing."""
    by_name = {result.exercise.name: result for result in results}
    return {exercise.name: compute_mark(by_name.get(exercise.name), points_of(exercise)) for exercise in exercises}


def compute_total(marks: Iterable[Mark], factor: Points = 1) -> Mark:
    """The sum of the marks times the factor for lateness, rounded once, half up."""
    marks = list(marks)
    earned = sum((one.earned for one in marks), NOTHING)
    if to_decimal(factor) != 1:
        earned = round_to_cent(Fraction(earned) * Fraction(to_decimal(factor)))
    return Mark(earned, sum((one.points for one in marks), NOTHING))


def total_weight(result: ExerciseResult) -> Fraction:
    """The weight of all tests of an exercise, including those that were not run."""
    return sum(map(_weight, result.tests), Fraction(to_decimal(result.missing_weight)))


def passed_weight(result: ExerciseResult) -> Fraction:
    return sum((_weight(test) for test in result.tests if test.outcome == "passed"), Fraction(0))


def _weight(test: TestResult) -> Fraction:
    return Fraction(to_decimal(test.weight))


def split_points(amount: Decimal, weights: Sequence[Points]) -> list[Decimal]:
    """Divide an amount in proportion to the weights.

    Each part is rounded to the cent, and their sum is exactly the amount.
    """
    exactly = [Fraction(to_decimal(weight)) for weight in weights]
    whole = sum(exactly)
    parts, assigned, reached = [], NOTHING, Fraction(0)
    for number, weight in enumerate(exactly, start=1):
        reached += weight
        upto = amount if number == len(exactly) or not whole else round_to_cent(Fraction(amount) * reached / whole)
        parts.append(upto - assigned)
        assigned = upto
    return parts


def format_points(points: Decimal) -> str:
    """Points without trailing zeros: 8, 7.5, 2.67."""
    text = format(points, "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


def round_to_cent(amount: Fraction) -> Decimal:
    """The amount with two decimal places, rounded half up."""
    cents = (200 * amount.numerator + amount.denominator) // (2 * amount.denominator)
    return Decimal(cents).scaleb(-2)
