"""A fingerprint of everything that an exercise's result in dev-check depends on, and of nothing else.

Python source counts by its meaning: comments, docstrings and layout change no result, so they change no fingerprint. Code that only formulates
a message or prints a page is left out too. Python's own version is not part of it: fingerprints must agree between contributors on
different Pythons, and CI tries every exercise without trusting any of them.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import hypothesis
import pytest
import torch
from grader.course.known_mistakes import misconceptions
from grader.course.source import find_definition
from grader.course.suites import tests_in
from grader.course.syllabus import ROOT, TESTS, Exercise, load_syllabus, suites_of
from grader.execution.target import reference_of

GRADER = ROOT / "grader"
DECIDING = ("course", "execution", "plugin", "quality/devcheck", "system", "verdict")  # rooms of grader/ that a result depends on
PRINTING = (  # files in those rooms that affect no result
    "course/hints.py", "course/progress.py", "course/readme_table.py", "course/solution_diff.py", "course/status.py",
    "plugin/layout.py", "plugin/terminal.py",
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
    number = load_syllabus().chapter(exercise.chapter).number
    for chapter in load_syllabus().chapters:
        if chapter.number <= number and (reference := reference_of(chapter.name)):
            yield chapter.name, meaning(reference.text)
            if chapter.name == exercise.module:
                own = find_definition(reference.text, exercise.name)
                yield own.text if own else None  # with its comments: the edits of mistakes may touch them
    suites = suites_with(exercise)
    for path in suites:
        yield path.name, meaning(path.read_text(encoding="utf-8"), exercise.name)
    for path in _helpers(suites):
        yield path.name, _meaning_of(path)
    yield [(m.id, m.replace, m.with_) for m in misconceptions(exercise.module) if m.exercise == exercise.name]
    variants = TESTS / "variants" / exercise.module / f"{exercise.name}.py"
    yield variants.read_text(encoding="utf-8") if variants.is_file() else None


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
        text = _meaning_of(path) if path.suffix == ".py" else path.read_text(encoding="utf-8")
        digest.update(repr((path.relative_to(GRADER).as_posix(), text)).encode())
    return digest.hexdigest()


def _helpers(suites: list[Path]) -> list[Path]:
    """The modules of tests/ that these files import, directly or through one another."""
    found: set[Path] = set()
    waiting = list(suites)
    while waiting:
        for node in ast.walk(ast.parse(waiting.pop().read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            new = {path for name in names if (path := TESTS / f"{name.replace('.', '/')}.py").is_file()} - found
            found |= new
            waiting += new
    return sorted(found)


@cache
def _meaning_of(path: Path) -> str:
    return meaning(path.read_text(encoding="utf-8"))


@cache
def meaning(source: str, exercise: str = "") -> str:
    """What a Python module does, as a digest: its syntax tree without docstrings; for an `exercise`, also without the tests of others."""
    tree = ast.parse(source)
    if exercise:
        tree.body = [node for node in tree.body if _belongs_to(node, exercise)]
    return hashlib.sha256(_dump(tree).encode("utf-8", "surrogatepass")).hexdigest()


def _belongs_to(statement: ast.stmt, exercise: str) -> bool:
    """Is this the exercise's own test, or no test at all?"""
    marks = [mark for mark in getattr(statement, "decorator_list", ()) if isinstance(mark, ast.Call) and getattr(mark.func, "id", "") == "exercise"]
    return not marks or any(getattr(mark.args[0], "value", "") == exercise for mark in marks)


def _dump(node: object) -> str:
    """Like `ast.dump`, but without docstrings and without fields that are empty, which differ between versions of Python."""
    if isinstance(node, list):
        return f"[{','.join(map(_dump, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = dict(ast.iter_fields(node))
    fields.pop("ctx", None)
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(node, clean=False) is not None:
        fields["body"] = node.body[1:]
    return f"{type(node).__name__}({','.join(f'{name}={_dump(value)}' for name, value in fields.items() if value not in (None, []))})"
