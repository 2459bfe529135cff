"""Graded classes to report on, as plain data: a small one whose numbers are known, one whose learners try to break the page, and a large one."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path

from example_class import digest_of
from grader.classroom.judging.marks import GradedClass, Mark, Person
from grader.course.syllabus import load_syllabus
from grader.verdict.results import Diagnosis, ExerciseResult, Failure, TestResult

EXERCISES = tuple(load_syllabus().exercise(name) for name in ("softmax", "causal_mask", "gelu"))
OVERFLOW = Diagnosis("scores_not_shifted", "The scores go into exp as they are.", "What can be subtracted from every score?")
DIAGONAL = Diagnosis("diagonal_hidden", "A query may not see its own position.", "Whom does the first query see?")
VERSIONS = {"kit": "0.1.0", "torch": "2.13.0", "python": "3.11.7"}
FAILURE = Failure(
    "The weights are exponentials over their sum.", "B=2 T=3", ["softmax(tensor([[0., 90.]]), dim=-1)"], "The weights are wrong.",
    "tensor([[nan, nan]])", "tensor([[0., 1.]])", "first differs at [0, 0]", "All of it is NaN.", "ch03_attention.py, line 18:  return e / e.sum()", "checking\n",
)  # fmt: skip


def result(name: str, *outcomes: str, diagnosis: Diagnosis | None = None, forbidden: tuple[str, ...] = (), details: Failure = FAILURE) -> ExerciseResult:
    """An exercise whose tests, of equal weight, have these outcomes."""
    details_of_failure = details.message, details.explanation, details
    tests = [
        TestResult(f"test_law_{number}", outcome, 0.01, 1.0, details.promise, *(("", "", None) if outcome in ("passed", "todo") else details_of_failure))
        for number, outcome in enumerate(outcomes, start=1)
    ]
    return ExerciseResult(load_syllabus().exercise(name), tests, diagnosis, list(forbidden))


def person(name: str, *results: ExerciseResult, **more) -> Person:
    marks = {exercise.name: Mark(Decimal(0), Decimal(str(exercise.points))) for exercise in EXERCISES}
    marks |= {one.exercise.name: Mark(Decimal(str(one.earned)), Decimal(str(one.exercise.points))) for one in results}
    total = Mark(sum(mark.earned for mark in marks.values()), sum(mark.points for mark in marks.values()))
    return Person(name, f"slug-{name}", **{"digest": digest_of(name), "results": results, "marks": marks, "total": total} | more)


def graded(*people: Person) -> GradedClass:
    return GradedClass(people, EXERCISES, 7, VERSIONS)


def small() -> GradedClass:
    """Seven people: two with one mistake, one with another, one unexplained, a shortcut, a broken chapter, one who could not be graded."""
    broken = Failure("", message="SyntaxError: invalid syntax.", where="ch03_attention.py, line 3:  def def")
    return graded(
        person("one", result("softmax", "passed", "passed"), result("causal_mask", "passed"), result("gelu", "passed")),
        person("two", result("softmax", "passed", "failed", diagnosis=OVERFLOW), result("causal_mask", "failed", diagnosis=DIAGONAL), result("gelu", "todo")),
        person("three", result("softmax", "failed", "failed", diagnosis=OVERFLOW), result("causal_mask", "passed"), late="Two days late: 20 % is taken off."),
        person("four", result("softmax", "failed", "timeout"), result("causal_mask", "passed"), result("gelu", "passed"), notes=("Two files contain chapter 3.",)),
        person("five", result("softmax", "passed", "failed", forbidden=("line 9 uses torch.softmax",)), submitted="2026-11-20T18:04:00+01:00"),
        person("six", result("softmax", "error", "error"), result("causal_mask", "error"), broken={"ch03_attention": broken}),
        Person("seven", "slug-seven", "0" * 64, problem="the archive is protected by a password"),
    )  # fmt: skip


SCRIPT = "<script>document.title = 'broken into'</script>"
TURNED = "\u202eenorw si siht\u202c"


NASTY = (
    "<img src=x onerror=\"document.title='broken into'\"> {{ 7 * 7 }} \x1b[31mred\x1b[0m\x1b]0;title\x07 \x00\x08\x9b \ud800 "
    "</pre></dl></details></script></style></textarea><style>*{display:none}</style><!--"
)


def hostile() -> GradedClass:
    """Learners whose names, outputs and notes are code, escapes, and right-to-left text."""
    words = Failure(NASTY, NASTY, [NASTY, NASTY], NASTY, NASTY, NASTY, NASTY, NASTY, NASTY, "\n".join([NASTY] * 9))
    bad = Diagnosis("bad_one", NASTY, NASTY)
    work = result("softmax", "failed", "failed", details=words), result("causal_mask", "failed", diagnosis=bad, details=words)
    names = (SCRIPT, TURNED, "المتعلم الأول", "", "x" * 255, 'quoted" onclick="document.title=1', "</title><b>", "two\nlines", "  ", "\x1b[2Jcleared")
    people = [person(name, *work, notes=(NASTY,), late=NASTY, submitted="2026-11-20T18:04:00+01:00", broken={"ch05_layers": words}) for name in names]
    return graded(*people, Person("\u202ex", "s", "0" * 64, problem=NASTY))


def large(people: int) -> GradedClass:
    """A whole course; each person fails another third of it."""
    exercises = load_syllabus().exercises
    everyone = []
    for who in range(people):
        results = []
        for number, exercise in enumerate(exercises):
            wrong = (who + number) % 3 == 0
            words = replace(FAILURE, got=f"tensor([{who}.])\n" * 8, expected="tensor([1.])\n" * 8)
            results.append(result(exercise.name, "failed" if wrong else "passed", "passed", details=words, diagnosis=OVERFLOW if wrong and who % 2 else None))
        everyone.append(person(f"Learner {who:04}", *results))
    return GradedClass(tuple(everyone), exercises, 0, VERSIONS)


class _Elements(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: set[tuple[str, str]] = set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.seen |= {(tag, ""), *((tag, name) for name, _ in attributes)}


def elements_of(page: Path) -> set[tuple[str, str]]:
    """The elements of a page, alone and with each of their attributes, as a browser sees them."""
    return _Elements(page.read_text(encoding="utf-8")).seen
