"""The result of one exercise as text, as its learner would see it on a terminal; and the files that have such texts."""

from __future__ import annotations

from pathlib import Path

from grader.classroom import sanitize
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.judging.graded_class import Person
from grader.classroom.judging.scoring import format_points
from grader.files import problem, write_whole
from grader.runner.layout import WIDTH, Page, print_result
from grader.verdict.results import ExerciseResult, Failure

UNTESTED = "No test of this exercise was run."
NOT_RUN = "Some tests of this exercise were not run, because earlier ones took too long or could not continue."


def write_file(path: Path, content: str) -> Path:
    """Write the file, and return its path. GradingProblem if that is not possible."""
    try:
        write_whole(path, content)
    except OSError as error:
        raise GradingProblem(problem(error, f"write {sanitize.line(str(path))}")) from error
    return path


def write_per_person(folder: Path, suffix: str, contents: dict[str, str], mark: str) -> list[Path]:
    """Write a file for each name, and remove those of other names. All of them start with `mark`; other files stay."""
    paths = [write_file(folder / f"{name}{suffix}", content) for name, content in contents.items()]
    for path in set(folder.glob(f"*{suffix}")) - set(paths):
        if path.is_file() and path.read_bytes().startswith(mark.encode("utf-8")):
            path.unlink()
    return paths


def problem_sentence(person: Person) -> str:
    """The sentence that says why nothing could be graded, or ""."""
    if person.missing or not person.problem:
        return make_sentence(person.problem)
    return make_sentence(f"this submission could not be graded: {person.problem}")


def make_sentence(words: str) -> str:
    shown = sanitize.line(words)
    first = shown.partition(" ")[0].rstrip(",.:;!?")
    is_word = first.replace("'", "").replace("-", "").isalpha()  # and not the name of a file or a function
    start = shown[:1].upper() if is_word else shown[:1]
    return start + shown[1:] + ("" if shown.endswith((".", "!", "?")) or not shown else ".")


def correction_sentences(person: Person) -> dict[str, str]:
    """What the instructor changed: a sentence for each exercise."""
    sentences = {}
    for exercise, one in person.given.items():
        points = f"{format_points(one.points)} point{'s' * (one.points != 1)}"
        given = f"The instructor gave {points} for {exercise} instead of {format_points(one.of_verdict)}"
        sentences[exercise] = f"{given} on {one.date}: {make_sentence(one.because)}"
    return sentences


def format_result(result: ExerciseResult) -> str:
    """The output of `headway check`: the first failure in full, the others by name, and the command for a hint."""
    lines, page = _page()
    print_result(page, sanitize.result(result))
    return "\n".join(lines[2:])  # without the blank line and the title


def format_failure(failure: Failure) -> str:
    lines, page = _page()
    page.failure(sanitize.failure(failure))
    return "\n".join(lines)


def _page() -> tuple[list[str], Page]:
    lines: list[str] = []
    return lines, Page(lambda text, **markup: lines.append(text.rstrip()), WIDTH)
