"""Finds which exercises cannot be tested without a hidden one, and which definitions of a chapter remain without it.

Hiding an exercise removes its reference. Then an exercise cannot be tested if its reference uses the hidden one (in the same chapter or an
earlier one) or if its tests request the hidden one from the reference. Such exercises are hidden too: leaving out single tests would change
the marks of the exercise they belong to.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path

from grader.course.source import bound_names, definition, find_definition, parse, read_source
from grader.course.suites import tests_in
from grader.course.syllabus import SOLUTIONS, TESTS, Exercise, load_syllabus, suites_of

Name = tuple[str, str]  # a module, and a name defined at its top level


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
    uses, asks = find_reachable({(exercise.module, exercise.name)}, SOLUTIONS), find_tested_names(exercise)
    for name in hidden:
        if (course.exercise(name).module, name) in uses:
            return f"its reference is built on {name}"
        if name in asks:
            return f"its tests use {name}"
    return ""


def find_reachable(starts: Iterable[Name], folder: Path, without: Collection[str] = ()) -> set[Name]:
    """These names and, repeatedly, all names used in their definitions, in every module of the folder that they import from."""
    found, waiting = set(starts), list(starts)
    while waiting:
        module, name = waiting.pop()
        new = {there for word in _used_names(folder, module, name) if word not in without and (there := _find_origin(folder, module, word))} - found
        found |= new
        waiting += new
    return found


def find_tested_names(exercise: Exercise) -> set[str]:
    """The names that an exercise's tests and their helpers may request from an implementation: every attribute and string, except torch's."""
    tests = {(suite.stem, test) for suite in suites_of(exercise.chapter) for test, (belongs, _) in tests_in(suite).items() if belongs == exercise.name}
    return {word for module, name in find_reachable(tests, TESTS) for word in _names_and_strings(module, name)}


@cache
def _names_and_strings(module: str, name: str) -> frozenset[str]:
    tree = parse(definition(_read_module(TESTS, module), name).text)
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


@cache
def _used_names(folder: Path, module: str, name: str) -> frozenset[str]:
    segment = find_definition(_read_module(folder, module), name)
    nodes = list(ast.walk(parse(segment.text))) if segment else []
    dotted = {f"{node.value.id}.{node.attr}" for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)}
    return frozenset(node.id for node in nodes if isinstance(node, ast.Name)) | dotted


def _find_origin(folder: Path, module: str, word: str) -> Name | None:
    """The module of the folder that defines a name used in this module, with the name."""
    if word in _defined_names(folder, module):
        return module, word
    return _imported_names(folder, module).get(word)


@cache
def _defined_names(folder: Path, module: str) -> frozenset[str]:
    return frozenset(name for node in parse(_read_module(folder, module)).body for name in bound_names(node))


@cache
def _imported_names(folder: Path, module: str) -> dict[str, Name]:
    found: dict[str, Name] = {}
    for node in parse(_read_module(folder, module)).body:
        if isinstance(node, ast.ImportFrom) and node.module and (folder / f"{node.module}.py").is_file():
            found |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
        if isinstance(node, ast.Import):
            here = [alias.name for alias in node.names if (folder / f"{alias.name}.py").is_file()]
            found |= {f"{name}.{defined}": (name, defined) for name in here for defined in _defined_names(folder, name)}
    return found


@cache
def _read_module(folder: Path, module: str) -> str:
    return read_source(folder / f"{module}.py")
