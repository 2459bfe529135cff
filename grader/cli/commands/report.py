"""`headway report`: one text about an exercise whose verdict seems wrong, to paste into an issue."""

from __future__ import annotations

import contextlib
import io
import platform
import re
from pathlib import Path

from grader.cli.arguments import RequiredExercise, named_exercise
from grader.cli.commands.check import NOT_YET, PASSED, UNUSABLE, run_tests
from grader.console.output import make_console, print_wrapped
from grader.course.source import SourceProblem, find_definition, read_source
from grader.course.status import locate, short_path
from grader.course.syllabus import EXERCISES, Exercise
from grader.execution.names_used import closure, names_used
from grader.files import problem, write_whole
from grader.verdict.last_verdicts import versions

FOLDER = EXERCISES / ".headway" / "report"
QUESTION = "Which sentence of the docstring does your code keep that the test says it breaks?"


def report(name: RequiredExercise) -> int:
    """Write what an issue needs, if a test seems wrong.

    It has your code, what the tests say about it, the versions and the system, ready to paste into an issue. Nothing is
    sent.

    Exit status: 0 if the text was written, 1 if the exercise passes, 2 if the exercise cannot be tested."""
    exercise, printed = named_exercise(name), io.StringIO()
    location = locate(exercise)
    if location.problem:
        raise SourceProblem(location.problem)
    with contextlib.redirect_stdout(printed):
        verdict = run_tests([exercise.name])
    if verdict is None:
        return UNUSABLE
    result = verdict.result(exercise.name)
    if result is not None and result.outcome in ("passed", "todo"):
        state = "passes" if result.outcome == "passed" else "is not implemented yet"
        print_wrapped(make_console(), f"{exercise.name} {state}; a report is about code that a test refuses.")
        return NOT_YET
    file = FOLDER / f"{exercise.name}.md"
    try:
        write_whole(file, describe(exercise, read_source(location.file), printed.getvalue()))
    except OSError as error:
        raise SourceProblem("the report was not written: " + problem(error, f"write {short_path(file)}")) from error
    print_wrapped(make_console(), f"The tests refuse {exercise.name}. The report is in {short_path(file)}.")
    advice = "Answer the question in it. Paste it into an issue of the course's repository, or give it to your teacher"
    print_wrapped(make_console(), f"{advice}. Others can read your code in an issue. Nothing was sent.")
    return PASSED


def describe(exercise: Exercise, text: str, printed: str) -> str:
    """The report in Markdown, without the name of the home folder."""
    system = {"system": platform.platform(), "processor": platform.machine() or "unknown"}
    parts = [
        f"# The tests refuse `{exercise.name}`, and I think that my code is right",
        QUESTION,
        f"## The code\n\n{_fenced(own_code(text, exercise.name), 'python')}",
        f"## What `headway check {exercise.name}` prints\n\n{_fenced(printed.strip(), 'text')}",
        "## Versions\n\n" + "\n".join(f"- {key}: {value}" for key, value in (versions() | system).items()),
    ]
    return "\n\n".join(parts).replace(str(Path.home()), "~") + "\n"


def own_code(text: str, name: str) -> str:
    """The exercise, and what it uses of the same file, in the order of the file."""
    found = (find_definition(text, each) for each in closure(names_used(text), [name]))
    segments = {segment for segment in found if segment}
    return "\n\n\n".join(part.text.rstrip() for part in sorted(segments, key=lambda part: part.start))


def _fenced(text: str, language: str) -> str:
    """A block that nothing in the text can close."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
