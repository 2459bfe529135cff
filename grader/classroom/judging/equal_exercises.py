"""Fingerprints of what the verdict on an exercise depends on. Exercises with equal fingerprints have equal verdicts, so one of them need not be judged.

`chapter_fingerprint` is of a chapter's whole text. Everything that tests of the chapter find depends on it and on nothing else that a person submits:
while a chapter is tested, the earlier ones are the reference's. So every verdict may be shared, with all that a learner reads: the lines are the same.

`exercise_fingerprint` is of the part of a chapter that decides about one exercise:
- the statements that run when the chapter is imported, in their order, without the bodies of functions;
- the definitions of the exercise, of the names that its tests use, and of everything that these use, directly or through others;
- the same for each other exercise among them, because while one exercise is judged, another one that fails its own tests is replaced.
Comments, and the places of the definitions, are no part of it. So only a verdict without lines, files or texts of a learner is shared for it: that all
tests pass, or that the exercise is not implemented. Exercises have one in a plain chapter only (plain_chapter.py), where nothing else can influence them.

A stub's fingerprint is that of its definition alone: the first call of it ends every test.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from grader.classroom.judging.names_in_tests import names_in_tests
from grader.classroom.judging.plain_chapter import is_plain
from grader.classroom.judging.plain_names import BASES
from grader.classroom.judging.plain_syntax import BUILTINS, CONSTANTS, assigned, bound_at_top, dotted_name, is_literal, is_main_guard
from grader.course.source import Definition, is_written, parse
from grader.course.syllabus import Exercise, load_syllabus
from grader.execution.names_used import closure, names_used

HARMLESS = BASES | {"int", "float", "bool", "str", "object", "staticmethod", "classmethod", "property", "Tensor"}  # in heads, where they are bound


def chapter_fingerprint(module: str, text: str) -> str:
    return _digest(["chapter", module, text])


def missing_chapter(module: str) -> str:
    """The fingerprint of a chapter that was not submitted."""
    return _digest(["missing", module])


@lru_cache(maxsize=256)
def exercise_fingerprint(text: str, exercise: Exercise) -> str | None:
    """The fingerprint of this exercise in a chapter's text; None if only the whole text decides about it."""
    if not is_plain(text):
        return None
    names = names_used(text)
    if exercise.name not in names.statements:
        return None
    if is_stub(text, exercise.name):
        return _digest(["stub", exercise.name, *_import_time(text).parts, ast.dump(names.statements[exercise.name])])
    used = _used_definitions(text, exercise)
    course = load_syllabus().exercises
    others = [other for other in course if other.name in used and other.chapter == exercise.chapter and other != exercise]
    # whether a later exercise is replaced depends on the exercises that were judged before, not on its own text alone
    if any(course.index(other) > course.index(exercise) for other in others if other.name in _used_by(text, exercise)):
        return None
    for other in others:
        if any(course.index(third) > course.index(other) for third in others if third.name in _used_by(text, other)):
            return None
    wanted = {names.statements[name] for name in used}
    definitions = [ast.dump(node) for node in names.used if node in wanted]
    return _digest(["exercise", exercise.name, *_import_time(text).parts, "definitions", *definitions])


def is_stub(text: str, name: str) -> bool:
    """Whether a function has the stub's body, a docstring and `raise NotImplementedError`, or a class has a method `__init__` with such a body."""
    if is_written(text, name):
        return False
    found = names_used(text).statements[name]
    if isinstance(found, ast.ClassDef):
        found = next((node for node in found.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"), found)
    return isinstance(found, ast.FunctionDef) and _raises_at_once(found)


def _raises_at_once(function: ast.FunctionDef) -> bool:
    first, *rest = [node for node in function.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))] or [ast.Pass()]
    if isinstance(first, ast.Expr) and ast.unparse(first) == "super().__init__()" and rest:
        first = rest[0]
    return isinstance(first, ast.Raise) and isinstance(first.exc, ast.Name) and first.exc.id == "NotImplementedError"


def _used_definitions(text: str, exercise: Exercise) -> set[str]:
    """The names of the chapter that decide about this exercise, and about the exercises that it uses."""
    exercises = {other.name: other for other in load_syllabus().chapter(exercise.chapter).exercises}
    found: set[str] = set()
    waiting = {exercise.name}
    while new := waiting - found:
        found |= new
        for name in new:
            waiting |= _used_by(text, exercises[name]) if name in exercises else closure(names_used(text), [name])
    return found


@lru_cache(maxsize=256)
def _used_by(text: str, exercise: Exercise) -> set[str]:
    return closure(names_used(text), {exercise.name, *names_in_tests(exercise), *_import_time(text).bases})


@dataclass(frozen=True)
class _ImportTime:
    """What runs when a plain chapter is imported and could fail: its statements, of functions and classes only the heads."""

    parts: list[str]
    bases: set[str]  # from which classes inherit: their definitions matter too, of the other names in these parts only the kind


@lru_cache(maxsize=64)
def _import_time(text: str) -> _ImportTime:
    parts: list[str] = []
    names: set[str] = set()
    bases: set[str] = set()
    lazy = any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in parse(text).body)  # then no annotation is evaluated
    bound = set(BUILTINS)  # names that can be used so far
    heads: list[ast.AST]
    for node in parse(text).body:
        found = assigned(node)
        if isinstance(node, Definition):
            heads = [part for part in _heads(node, lazy) if not _is_harmless(part, bound)]
        elif is_main_guard(node) or isinstance(node, ast.Expr):
            heads = []
        else:
            cannot_fail = found is not None and (lazy or isinstance(node, ast.Assign)) and _cannot_fail(found[1], bound)
            heads = [] if cannot_fail else [node]
        parts += [ast.dump(part) for part in heads]
        names |= {part.id for head in heads for part in ast.walk(head) if isinstance(part, ast.Name)}
        bases |= {base.id for base in getattr(node, "bases", ()) if isinstance(base, ast.Name)}
        bound |= set(bound_at_top(node))
    kinds = [f"{name} is {_kind(node)}" for node in parse(text).body for name in bound_at_top(node) if name in names]
    return _ImportTime([*parts, *kinds], bases)


def _kind(node: ast.stmt) -> str:
    return type(node).__name__ if isinstance(node, Definition) else ast.dump(node)


def _is_harmless(node: ast.expr, bound: set[str]) -> bool:
    """Whether a part of a head cannot end the import, if these names are bound."""
    name = dotted_name(node)
    return name.partition(".")[0] in bound if name in HARMLESS | CONSTANTS else is_literal(node)


def _cannot_fail(node: ast.expr, bound: set[str]) -> bool:
    """The same for a value that is assigned."""
    if isinstance(node, ast.Name):
        return node.id in bound
    if isinstance(node, ast.Lambda):
        return not node.args.defaults and not node.args.kw_defaults
    parts = [*node.keys, *node.values] if isinstance(node, ast.Dict) else getattr(node, "elts", None)
    return _is_harmless(node, bound) or (parts is not None and all(part is not None and _cannot_fail(part, bound) for part in parts))


def _heads(node: ast.stmt, lazy: bool) -> Iterable[ast.expr]:
    """The expressions of a definition that run when it is made: what it inherits from, its decorators, defaults and annotations, a class's constants."""
    if isinstance(node, ast.ClassDef):
        yield from [*node.bases, *node.decorator_list]
        for statement in node.body:
            yield from _heads(statement, lazy)
    elif isinstance(node, ast.FunctionDef):
        arguments = [argument for argument in ast.walk(node.args) if isinstance(argument, ast.arg)]
        yield from [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]
        yield from [] if lazy else filter(None, [node.returns, *(argument.annotation for argument in arguments)])
    elif found := assigned(node):
        yield found[1]
    if isinstance(node, ast.AnnAssign) and not lazy:
        yield node.annotation


def _digest(parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.hexdigest()
