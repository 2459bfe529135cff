"""Completes a course that lacks exercises: an exercise that it lacks is the reference's.

So a new exercise needs no new code in grader/tests/honest.
"""

from __future__ import annotations

import ast

from grader.course.source import bound_names, definition, find_definition, parse, read_source
from grader.course.syllabus import SOLUTIONS, load_syllabus


def with_missing_exercises(module: str, text: str) -> str:
    """The chapter's text, followed by the reference's definition of each exercise that it lacks, and by what these definitions use."""
    missing = [exercise.name for exercise in load_syllabus().chapter(module).exercises if find_definition(text, exercise.name) is None]
    if not missing:
        return text
    solution = read_source(SOLUTIONS / f"{module}.py")
    statements = parse(solution).body
    own = {name for statement in parse(text).body for name in bound_names(statement)}
    needed, waiting = set(), list(missing)
    while waiting:
        name = waiting.pop()
        for statement in statements:
            if name in bound_names(statement) and statement not in needed:
                needed.add(statement)
                waiting += [node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and node.id not in own]
    parts = [_text_of(solution, statement) for statement in statements if statement in needed]
    return "\n\n\n".join([text.rstrip("\n"), *parts]) + "\n"


def _text_of(solution: str, statement: ast.stmt) -> str:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return ast.unparse(statement)
    return definition(solution, min(bound_names(statement))).text.rstrip("\n")
