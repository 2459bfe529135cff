"""Completes a course that lacks exercises with the reference's.

So a new exercise needs no new code in grader/tests/honest.
"""

from __future__ import annotations

import ast
from collections.abc import Collection

from grader.course.source import bound_names, definition, find_definition, imported_names, module_names, read_source
from grader.course.syllabus import SOLUTIONS, load_syllabus
from grader.execution.names_used import closure, names_used


def with_missing_exercises(module: str, text: str) -> str:
    """The chapter's text, followed by the reference's definition of each exercise that it lacks, and by everything that these definitions use."""
    missing = [exercise.name for exercise in load_syllabus().chapter(module).exercises if find_definition(text, exercise.name) is None]
    if not missing:
        return text
    solution = read_source(SOLUTIONS / f"{module}.py")
    names, own = names_used(solution), module_names(text)
    needed = {names.statements[name] for name in closure(names, missing, without=own, written=True)}
    words = {word for statement in needed for word in names.written[statement]} - own
    imports = {line for statement in names.used if isinstance(statement, ast.Import | ast.ImportFrom) for line in _imports_of(statement, words)}
    definitions = [definition(solution, min(bound_names(statement))).text.rstrip("\n") for statement in names.used if statement in needed]
    return "\n\n\n".join([text.rstrip("\n"), *(["\n".join(sorted(imports))] if imports else []), *definitions]) + "\n"


def _imports_of(statement: ast.Import | ast.ImportFrom, names: Collection[str]) -> list[str]:
    """The statement for each of these names alone, so that it imports nothing that the course defines itself."""
    found = [alias for alias, name in zip(statement.names, imported_names(statement)) if name in names]
    return [ast.unparse(ast.Import([alias]) if isinstance(statement, ast.Import) else ast.ImportFrom(statement.module, [alias], statement.level)) for alias in found]
