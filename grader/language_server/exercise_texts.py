"""What the editor shows about an exercise in words: its points, and the text of the hover."""

from __future__ import annotations

import ast

from grader.course.progress import Score, load_hint_levels, load_scores
from grader.course.source import SourceProblem, parse
from grader.course.status import is_stub_now
from grader.course.stubs import is_stub, reference_stub
from grader.course.syllabus import Exercise, load_syllabus
from grader.execution.names_used import names_used


def hover_text(module: str, word: str, text: str) -> str | None:
    """What the exercise of this name promises, in Markdown; None for a name that is no exercise in this chapter's text.

    An exercise of another chapter counts if the text imports it.
    """
    exercise = next((each for each in load_syllabus().exercises if each.name == word), None)
    if exercise is None or (exercise.module != module and word not in _imported(text)):
        return None
    is_untouched = is_stub(exercise, text) if exercise.module == module else is_stub_now(exercise)
    seen = load_hint_levels().get(word, 0)
    parts = [
        f"**{word}**: {points_text(exercise, is_untouched)}",
        exercise.promise,
        f"```text\n{_docstring(exercise)}\n```",
        *(f"Hint {number}: {hint}" for number, hint in enumerate(exercise.hints[:seen], start=1)),
    ]
    return "\n\n".join(parts)


def points_text(exercise: Exercise, is_untouched: bool) -> str:
    """Such as "10 points" of a stub, and "3.5/10 points" of an exercise that is written."""
    if is_untouched:
        return f"{exercise.points:g} points"
    score = load_scores().get(exercise.name) or Score(0, exercise.points)
    return f"{score} points{', passed' if score.passed else ''}"


def _imported(text: str) -> set[str]:
    """The names that a chapter imports from others."""
    try:
        return set(names_used(text).imported)
    except SourceProblem:
        return set()


def _docstring(exercise: Exercise) -> str:
    """The beginning of the exercise's docstring, up to the paragraph with the shapes."""
    try:
        body = parse(reference_stub(exercise.module)).body
    except (SourceProblem, OSError):
        return ""
    node = next((node for node in body if getattr(node, "name", "") == exercise.name), None)
    docstring = ast.get_docstring(node) if isinstance(node, ast.FunctionDef | ast.ClassDef) else None
    return "\n\n".join((docstring or "").split("\n\n")[:2])
