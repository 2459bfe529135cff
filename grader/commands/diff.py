"""Yours beside the reference, once you have your own."""

from __future__ import annotations

import difflib

from grader.commands.page import page, say
from grader.course import passed, place_of, read_course
from grader.progress import load
from grader.source import SourceProblem, definition, read_source
from grader.stubs import BEGIN, END
from grader.syllabus import EXERCISES, SOLUTIONS, Exercise, is_handout
from rich.text import Text


def diff(name: str, peek: bool) -> int:
    """Print what differs between the learner's definition and the reference's."""
    exercise = read_course().exercise(name)
    console = page()
    if not peek and not passed(exercise, load()):
        say(console, f"{name} has not passed yet, and finding your own way is what it is for. `headway hint {name}` helps.")
        say(console, f"To look all the same: headway diff {name} --peek")
        return 1
    lines = difference(exercise)
    if not lines:
        console.print(f"Your {name} and the reference are the same, line for line.")
    for line in lines:
        console.print(line, soft_wrap=True)
    return 0


def difference(exercise: Exercise) -> list[Text]:
    """From the learner's definition to the reference's, a line each; none where they are the same. SourceProblem where there is nothing to compare."""
    if is_handout():
        raise SourceProblem("the reference is not shown in this handout; ask your instructor for it, or `headway hint` for a hint")
    place = place_of(exercise)
    if place.problem:
        raise SourceProblem(place.problem)
    lines = difflib.unified_diff(_mine(exercise), _reference(exercise), f"yours      {place}", "reference", n=3, lineterm="")
    return [Text(line, style=_style(line)) for line in lines if not line.startswith("@@")]


def _mine(exercise: Exercise) -> list[str]:
    file = f"{exercise.module}.py"
    return definition(read_source(EXERCISES / file), exercise.name, file).text.splitlines()


def _reference(exercise: Exercise) -> list[str]:
    file = f"{exercise.module}.py"
    text = definition(read_source(SOLUTIONS / file), exercise.name, f"the reference's {file}").text
    return [line for line in text.splitlines() if line.strip() not in (BEGIN, END)]


def _style(line: str) -> str:
    if line.startswith(("---", "+++")):
        return "bold"
    return {"-": "red", "+": "green"}.get(line[:1], "")
