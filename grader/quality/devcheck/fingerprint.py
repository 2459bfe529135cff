"""A fingerprint of everything that an exercise's result in dev-check depends on, and of nothing else.

Python source counts by its meaning: comments, docstrings and layout change no result, so they change no fingerprint. Code that only formulates
a message or prints a page is left out too. Python's own version is not part of it: fingerprints must agree between contributors on
different Pythons, and CI tries every exercise without trusting any of them. verdict/conditions.py counts every byte and version instead: what
depends on it, such as marks and recordings, must be made again rather too often than too rarely.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import hypothesis
import pytest
import torch
from grader.course.code_shape import code_shape
from grader.course.known_mistakes import bases, misconceptions
from grader.course.source import Definition, find_definition, parse
from grader.course.syllabus import ROOT, TESTS, Exercise, load_syllabus, suites_of, tests_in
from grader.execution.names_used import names_used, reachable
from grader.execution.target import reference_of

GRADER = ROOT / "grader"
DECIDING = ("course", "execution", "plugin", "quality/devcheck", "runner", "system", "verdict")  # rooms of grader/ that a result depends on
PRINTING = (  # files in those rooms that affect no result
    "course/progress.py", "course/readme_table.py", "course/solution_diff.py", "course/status.py",
    "runner/layout.py", "runner/run_page.py",
    "quality/devcheck/fingerprint.py", "quality/devcheck/hint_code.py", "quality/devcheck/invariants.py", "quality/devcheck/record.py", "quality/devcheck/table.py",
    "reproduction", "verdict/explanation.py", "verdict/relations",
)  # fmt: skip


def fingerprint(exercise: Exercise) -> str:
    """The fingerprint of one exercise: 32 hexadecimal digits."""
    digest = hashlib.sha256()
    for part in _parts(exercise):
        digest.update(repr(part).encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()[:32]


def _parts(exercise: Exercise) -> Iterator[object]:
    yield _machinery()
    yield [version.partition("+")[0] for version in (torch.__version__, hypothesis.__version__, pytest.__version__)]  # torch appends its build after a +
    yield exercise.name, exercise.chapter, exercise.module, exercise.points, exercise.forbids, exercise.own_forbids, exercise.gradient
    own = find_definition(_reference(exercise.module), exercise.name)
    yield own.text if own else None  # with its comments: the edits of mistakes may touch them
    suites = suites_with(exercise)
    tests = [(path.name, meaning(path.read_text(encoding="utf-8"), exercise.name)) for path in suites]
    tests += [(path.name, meaning(path.read_text(encoding="utf-8"))) for path in _helpers(suites)]
    mistakes = [(m.id, m.replace, m.with_) for m in misconceptions(exercise.module) if m.exercise == exercise.name]
    other_bases = [(base.name, base.text, base.lacks, base.edits) for base in bases(exercise.module, exercise.name)[1:]]
    path = TESTS / "variants" / exercise.module / f"{exercise.name}.py"
    variants = path.read_text(encoding="utf-8") if path.is_file() else ""
    yield from tests
    yield mistakes
    yield other_bases
    yield variants
    yield from _reference_parts(exercise, set(re.findall(r"\w+", f"{tests} {mistakes} {variants}")))


def _reference_parts(exercise: Exercise, words: set[str]) -> Iterator[object]:
    """Of the reference's chapters: all but the functions and classes that neither the exercise nor its tests, mistakes and variants can reach."""
    last = load_syllabus().chapter(exercise.chapter).number
    names = {chapter.name: names_used(_reference(chapter.name)) for chapter in load_syllabus().chapters if chapter.number <= last and reference_of(chapter.name)}
    roots = {(module, name) for module, found in names.items() for name in found.statements if name in words | found.run_at_import | {exercise.name}}
    reached = reachable(roots, names.get)
    for module in names:
        yield module, [code for name, code in _reference_statements(module) if not name or (module, name) in reached]


@cache
def _reference_statements(module: str) -> list[tuple[str, str]]:
    """Each statement of the reference's chapter, with the name of the function or class that it defines, or "" for another one."""
    return [(node.name if isinstance(node, Definition) else "", code_shape(node)) for node in parse(_reference(module)).body]


def _reference(module: str) -> str:
    found = reference_of(module)
    return found.text if found else ""


def suites_with(exercise: Exercise) -> list[Path]:
    """The files that contain the exercise's tests."""
    return [path for path in suites_of(exercise.chapter) if any(name == exercise.name for name, _ in tests_in(path).values())]


def deciding_files() -> list[Path]:
    """The files of grader/ that a result depends on."""
    printing = [GRADER / name for name in PRINTING]
    files = [path for room in DECIDING for path in sorted((GRADER / room).rglob("*")) if path.suffix in (".py", ".toml")]
    return [path for path in files if not any(path == left_out or left_out in path.parents for left_out in printing)]


@cache
def _machinery() -> str:
    digest = hashlib.sha256()
    for path in deciding_files():
        text = path.read_text(encoding="utf-8")
        digest.update(repr((path.relative_to(GRADER).as_posix(), meaning(text) if path.suffix == ".py" else text)).encode())
    return digest.hexdigest()


def _helpers(suites: list[Path]) -> list[Path]:
    """The modules of tests/ that these files import, directly or through one another."""
    found: set[Path] = set()
    waiting = list(suites)
    while waiting:
        new = _imported(waiting.pop()) - found
        found |= new
        waiting += new
    return sorted(found)


@cache
def _imported(suite: Path) -> set[Path]:
    """The modules of tests/ that this file imports."""
    names = names_used(suite.read_text(encoding="utf-8"))
    modules = {*names.modules.values(), *(module for module, _ in names.imported.values()), *names.stars}
    return {path for module in modules if (path := TESTS / f"{module}.py").is_file()}


@cache
def meaning(source: str, exercise: str = "") -> str:
    """What a Python module does: its syntax tree without docstrings; for an `exercise`, also without the tests of others."""
    tree = ast.parse(source)
    if exercise:
        tree.body = [node for node in tree.body if _belongs_to(node, exercise)]
    return code_shape(tree)


def _belongs_to(statement: ast.stmt, exercise: str) -> bool:
    """Is this the exercise's own test, or no test at all?"""
    marks = [mark for mark in getattr(statement, "decorator_list", ()) if isinstance(mark, ast.Call) and getattr(mark.func, "id", "") == "exercise"]
    return not marks or any(getattr(mark.args[0], "value", "") == exercise for mark in marks)
