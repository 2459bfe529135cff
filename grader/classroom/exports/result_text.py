"""The result of one exercise as text, as its learner would see it on a terminal."""

from __future__ import annotations

from grader.classroom import sanitize
from grader.classroom.judging.graded_class import Person
from grader.classroom.judging.scoring import format_points
from grader.runner.layout import WIDTH, Page, print_result
from grader.verdict.results import ExerciseResult, Failure, TestResult

UNTESTED = "No test of this exercise was run."
NOT_RUN = "Some tests of this exercise were not run, because earlier ones took too long or could not continue."


def problem_sentence(person: Person) -> str:
    """The sentence that says why nothing could be graded, or ""."""
    if person.missing:
        return make_sentence(person.problem)
    return make_sentence(f"this submission could not be graded: {person.problem}") if person.problem else ""


def make_sentence(words: str) -> str:
    shown = sanitize.line(words)
    first = shown.partition(" ")[0].rstrip(",.:;!?")
    is_word = first.replace("'", "").replace("-", "").isalpha()  # and not the name of a file or a function
    return (shown[:1].upper() if is_word else shown[:1]) + shown[1:] + ("" if shown.endswith((".", "!", "?")) or not shown else ".")


def correction_sentences(person: Person) -> list[str]:
    """What the instructor changed: a sentence for each exercise."""
    return [
        f"The instructor gave {format_points(one.points)} point{'s' * (one.points != 1)} for {exercise} instead of {format_points(one.of_verdict)} "
        f"on {one.date}: {make_sentence(one.because)}"
        for exercise, one in person.given.items()
    ]  # fmt: skip


def format_result(result: ExerciseResult) -> str:
    """The output of `headway check`: the first failure in full, the others by name, and the command for a hint."""
    lines, page = _page()
    print_result(page, sanitize.result(result))
    return "\n".join(lines[2:])  # without the blank line and the title


def format_failure(words: Failure) -> str:
    lines, page = _page()
    page.failure(sanitize.failure(words))
    return "\n".join(lines)


def format_test(test: TestResult) -> str:
    """What a failed test promises, and what is wrong."""
    if test.details is not None:
        return format_failure(test.details)
    return sanitize.text("\n".join(filter(None, [test.message, test.explanation])) or test.promise)


def _page() -> tuple[list[str], Page]:
    lines: list[str] = []
    return lines, Page(lambda text, **markup: lines.append(text.rstrip()), WIDTH)
