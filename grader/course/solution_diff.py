"""The line-by-line difference between a learner's definition of an exercise and the reference's."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from grader.course.source import SourceProblem, definition, read_source
from grader.course.status import locate
from grader.course.stubs import BEGIN, END
from grader.course.syllabus import EXERCISES, SOLUTIONS, Exercise, is_handout
from rich.text import Text


def diff_with_reference(exercise: Exercise) -> list[Text]:
    """The diff as lines of text; empty if the code is equal. SourceProblem if there is nothing to compare."""
    if is_handout():
        advice = "for help use `headway hint`, or ask your instructor"
        raise SourceProblem(f"a handout does not show the reference; {advice}")
    location = locate(exercise)
    if location.problem:
        raise SourceProblem(location.problem)
    own, theirs = _learner_lines(exercise), _reference_lines(exercise)
    lines = difflib.unified_diff(own, theirs, f"your code  {location}", "reference", n=3, lineterm="")
    return [Text(line, style=_style(line)) for line in lines if not line.startswith("@@")]


def _learner_lines(exercise: Exercise) -> list[str]:
    file = f"{exercise.module}.py"
    lines = definition(read_source(EXERCISES / file), exercise.name, file).text.splitlines()
    return _without_todos(lines)


def _reference_lines(exercise: Exercise) -> list[str]:
    file = f"{exercise.module}.py"
    text = definition(read_source(SOLUTIONS / file), exercise.name, f"the reference's {file}").text
    return _without_todos(line for line in text.splitlines() if line.strip() not in (BEGIN, END))


def _without_todos(lines: Iterable[str]) -> list[str]:
    """Without the stub's TODO comments, which many learners delete."""
    return [line for line in lines if not line.strip().startswith("# TODO")]


def _style(line: str) -> str:
    if line.startswith(("---", "+++")):
        return "bold"
    return {"-": "red", "+": "green"}.get(line[:1], "")
