"""Finds the names of a chapter that an exercise's tests may use, read from the suites without running them: rather too many than too few."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from grader.course.source import parse, read_source
from grader.course.syllabus import TESTS, Exercise, suites_of

_WORD = re.compile(r"[^\W\d]\w*")


@cache
def names_in_tests(exercise: Exercise) -> frozenset[str]:
    """Every word in the exercise's tests, and in all that they use of the modules in the folder of the tests, that may be the name of something in a chapter."""
    words: set[str] = set()
    for suite in suites_of(exercise.chapter):
        words |= _words_reached(suite, frozenset(_suite(suite).tests.get(exercise.name, ())))
    return frozenset(words)


@dataclass
class _Suite:
    """What a module of the tests defines."""

    words: dict[str, set[str]] = field(default_factory=dict)  # by the name of a definition: the words in it
    tests: dict[str, set[str]] = field(default_factory=dict)  # by exercise
    imported: dict[str, tuple[Path, str]] = field(default_factory=dict)  # name here → module of the tests, and the name there; "" for all of it


@cache
def _suite(path: Path) -> _Suite:
    suite = _Suite()
    for statement in parse(read_source(path)).body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            _note_imports(statement, suite)
            continue
        words = _words_in(statement)
        for name in _bound_names(statement):
            suite.words.setdefault(name, set()).update(words)
        for mark in getattr(statement, "decorator_list", ()):
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "exercise" and mark.args and isinstance(mark.args[0], ast.Constant):
                suite.tests.setdefault(str(mark.args[0].value), set()).update(_bound_names(statement))
    return suite


def _note_imports(statement: ast.Import | ast.ImportFrom, suite: _Suite) -> None:
    for alias in statement.names:
        module = (statement.module or "") if isinstance(statement, ast.ImportFrom) else alias.name
        path = TESTS / f"{module}.py"
        if path.is_file():
            suite.imported[alias.asname or alias.name] = path, alias.name if isinstance(statement, ast.ImportFrom) else ""


@cache
def _words_reached(path: Path, roots: frozenset[str]) -> frozenset[str]:
    """The words in these definitions, and in those whose names are among the words, also of other modules of the tests."""
    suite = _suite(path)
    words: set[str] = set()
    new = set(roots)
    while new:
        words |= new
        found = set()
        for name in new:
            found |= suite.words.get(name, set())
            if name in suite.imported:
                module, there = suite.imported[name]
                found |= _words_reached(module, frozenset([there] if there else _suite(module).words))
        new = found - words
    return frozenset(words)


def _bound_names(statement: ast.stmt) -> set[str]:
    """The names that a statement of the top level may bind."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}


def _words_in(statement: ast.stmt) -> set[str]:
    """The names, and the words of texts, in a statement; not those of docstrings."""
    words: set[str] = set()
    promises: set[int] = set()
    for node in ast.walk(statement):
        match node:
            case ast.Expr():
                promises.add(id(node.value))
            case ast.Name():
                words.add(node.id)
            case ast.Attribute():
                words.add(node.attr)
            case ast.arg() | ast.keyword() if node.arg:
                words.add(node.arg)
            case ast.Constant(value=str() as text) if id(node) not in promises:
                words |= set(_WORD.findall(text))
    return words
