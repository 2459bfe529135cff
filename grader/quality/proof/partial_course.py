"""Completes a course that lacks exercises with the reference's.

So a new exercise needs no new code in grader/tests/honest.
"""

from __future__ import annotations

import ast

from grader.course.source import bound_names, definition, find_definition, parse, read_source
from grader.course.syllabus import SOLUTIONS, load_syllabus


def with_missing_exercises(module: str, text: str) -> str:
    """The chapter's text, followed by the reference's definition of each exercise that it lacks, and by everything that these definitions use."""
    missing = [exercise.name for exercise in load_syllabus().chapter(module).exercises if find_definition(text, exercise.name) is None]
    if not missing:
        return text
    solution = read_source(SOLUTIONS / f"{module}.py")
    statements = parse(solution).body
    own = {name for statement in parse(text).body for name in _names_of(statement)}
    imports: list[str] = []
    needed: set[ast.stmt] = set()
    waiting, seen = list(missing), set(own)
    while waiting:
        name = waiting.pop()
        seen.add(name)
        for statement in statements:
            if name not in _names_of(statement) or statement in needed:
                continue
            if isinstance(statement, ast.Import | ast.ImportFrom):
                imports.append(_import_of(statement, name))
            else:
                needed.add(statement)
                waiting += {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)} - seen
    definitions = [definition(solution, min(bound_names(statement))).text.rstrip("\n") for statement in statements if statement in needed]
    return "\n\n\n".join([text.rstrip("\n"), *(["\n".join(sorted(set(imports)))] if imports else []), *definitions]) + "\n"


def _names_of(statement: ast.stmt) -> set[str]:
    """The names that a statement defines, assigns or imports."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {_imported_name(alias) for alias in statement.names}
    return bound_names(statement)


def _imported_name(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _import_of(statement: ast.Import | ast.ImportFrom, name: str) -> str:
    """The statement with this name alone, so that it imports nothing that the course defines itself."""
    names = [alias for alias in statement.names if _imported_name(alias) == name]
    one = ast.Import(names) if isinstance(statement, ast.Import) else ast.ImportFrom(statement.module, names, statement.level)
    return ast.unparse(one)
