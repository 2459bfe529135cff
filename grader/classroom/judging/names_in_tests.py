"""Finds the names of a chapter that an exercise's tests may use, read from the suites without running them: rather too many than too few."""

from __future__ import annotations

import ast
import re
from functools import cache

from grader.course.suites import tests_in
from grader.course.syllabus import TESTS, Exercise, suites_of
from grader.execution.names_used import Name, names_in_file, reachable_in

_WORD = re.compile(r"[^\W\d]\w*")


@cache
def names_in_tests(exercise: Exercise) -> frozenset[str]:
    """Every word in the exercise's tests, and in all that they use of the modules in the folder of the tests, that may be the name of something in a chapter."""
    words: set[str] = set()
    for module, name in definitions_of_tests(exercise):
        if names := names_in_file(TESTS, module):
            words |= {name} | _words_in(names.statements[name])
    return frozenset(words)


def definitions_of_tests(exercise: Exercise) -> set[Name]:
    """The exercise's tests, and all definitions that they use of the modules in the folder of the tests."""
    return reachable_in(TESTS, {(suite.stem, test) for suite in suites_of(exercise.chapter) for test, (name, _) in tests_in(suite).items() if name == exercise.name})


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
