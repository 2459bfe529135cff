"""Finds which exercises cannot be tested without a hidden one.

Hiding an exercise removes its reference. Then an exercise cannot be tested if its reference uses the hidden one (in the same chapter or an
earlier one) or if its tests request the hidden one from the reference. Such exercises are hidden too: leaving out single tests would change
the marks of the exercise they belong to.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache

from grader.course.source import definition, parse, read_source
from grader.course.syllabus import SOLUTIONS, TESTS, Exercise, load_syllabus, suites_of, tests_in
from grader.execution.names_used import Name, reachable_in


def find_all_hidden(requested: Iterable[str], exercises: Iterable[Exercise]) -> dict[str, str]:
    """All exercises that must be hidden, with the reason for each. The requested ones come first, with an empty reason."""
    hidden = {name: "" for name in requested}
    changed = True
    while changed:
        changed = False
        for exercise in exercises:
            if exercise.name in hidden:
                continue
            reason = _explain_hidden(exercise, hidden)
            if reason:
                hidden[exercise.name] = reason
                changed = True
    return hidden


def _explain_hidden(exercise: Exercise, hidden: Iterable[str]) -> str:
    course = load_syllabus()
    uses, asks = reachable_in(SOLUTIONS, {(exercise.module, exercise.name)}), find_tested_names(exercise)
    for name in hidden:
        if (course.exercise(name).module, name) in uses:
            return f"its reference is built on {name}"
        if name in asks:
            return f"its tests use {name}"
    return ""


def find_tested_names(exercise: Exercise) -> set[str]:
    """The names that an exercise's tests and their helpers may request from an implementation: every attribute and string, except torch's."""
    return {word for module, name in _definitions_of_tests(exercise) for word in _names_and_strings(module, name)}


def _definitions_of_tests(exercise: Exercise) -> set[Name]:
    """The exercise's tests, and all definitions that they use of the modules in the folder of the tests."""
    return reachable_in(TESTS, {(suite.stem, test) for suite in suites_of(exercise.chapter) for test, (name, _) in tests_in(suite).items() if name == exercise.name})


@cache
def _names_and_strings(module: str, name: str) -> frozenset[str]:
    tree = parse(definition(read_source(TESTS / f"{module}.py"), name).text)
    openings = [node.body[0] for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node)]
    docstrings = {id(opening.value) for opening in openings if isinstance(opening, ast.Expr)}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not _belongs_to_torch(node):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            found.add(node.value)
    return frozenset(found)


def _belongs_to_torch(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in ("torch", "nn", "F", "math")
