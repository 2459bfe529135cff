"""Selects what a handout contains of the course: syllabus and suites as text, the reference sealed.

Hiding an exercise removes its reference. Then an exercise cannot be tested if its reference uses the hidden one (in the
same chapter or an earlier one) or if its tests request the hidden one from the reference. Such exercises are hidden,
too: leaving out single tests would change the marks of the exercise they belong to.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path

from grader.course.known_mistakes import catalogue, misconceptions
from grader.course.reference import seal
from grader.course.source import Segment, bound_names, definition, parse, read_source, split_lines
from grader.course.stubs import reference_stub
from grader.course.syllabus import SOLUTIONS, TESTS, Chapter, Exercise, load_syllabus, suites_of, tests_in
from grader.execution.chapter_package import without_docstrings
from grader.execution.names_used import Name, reachable_in
from grader.files import write_whole
from grader.verdict.needed_examples import format_needed_examples, needed_examples

HIDDEN_MESSAGE = (
    "only your instructor grades {name}, so this handout has no reference for it; "
    "with --whole the tests use your own {name}"
)


def find_all_hidden(requested: Iterable[str], exercises: Iterable[Exercise]) -> dict[str, str]:
    """All exercises that must be hidden, with the reason for each; the requested ones come first, without a reason."""
    hidden = dict.fromkeys(requested, "")
    rest = [exercise for exercise in exercises if exercise.name not in hidden]
    while more := {exercise.name: reason for exercise in rest if (reason := _explain_hidden(exercise, hidden))}:
        hidden |= more
        rest = [exercise for exercise in rest if exercise.name not in hidden]
    return hidden


def _explain_hidden(exercise: Exercise, hidden: Iterable[str]) -> str:
    used, tested = reachable_in(SOLUTIONS, {(exercise.module, exercise.name)}), _names_in_tests(exercise)
    for name in hidden:
        if (load_syllabus().exercise(name).module, name) in used:
            return f"its reference is built on {name}"
        if name in tested:
            return f"its tests use {name}"
    return ""


def _names_in_tests(exercise: Exercise) -> set[str]:
    """What its tests and their helpers may request from an implementation: every attribute and string but torch's."""
    tests = {(suite.stem, test) for suite in suites_of(exercise.chapter)
             for test, (name, _) in tests_in(suite).items() if name == exercise.name}  # fmt: skip
    return {word for module, name in reachable_in(TESTS, tests) for word in _names_and_strings(module, name)}


@cache
def _names_and_strings(module: str, name: str) -> frozenset[str]:
    tree = without_docstrings(parse(definition(read_source(TESTS / f"{module}.py"), name).text))
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and not _is_of_torch(node)}
    constants = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return frozenset(attributes | {value for value in constants if isinstance(value, str)})


def _is_of_torch(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in ("torch", "nn", "F", "math")


def reduce_syllabus(text: str, chapters: Collection[str], last: int, hidden: Collection[str]) -> str:
    """The syllabus with these chapters' exercises, and the headings of earlier chapters, since code depends on them.

    The heading of a chapter lists its hidden exercises, so that the handout can say why they have no tests.
    """
    head, *entries = re.split(r"^(?=\[\[chapter)", text, flags=re.MULTILINE)
    parts, chapter = [head], ""
    for entry in entries:
        if entry.startswith("[[chapter.exercise]]"):
            if chapter in chapters and _read_value(entry, "name") not in hidden:
                parts.append(entry)
            continue
        chapter = _read_value(entry, "id")
        own = [exercise.name for exercise in load_syllabus().chapter(chapter).exercises if exercise.name in hidden]
        if own and chapter in chapters:
            entry = f"{entry.rstrip()}\nhidden = {json.dumps(own)}\n\n"
        if int(chapter.removeprefix("ch")) <= last:
            parts.append(entry)
    return "".join(parts).rstrip() + "\n"


def _read_value(entry: str, key: str) -> str:
    found = re.search(rf'^{key} = "(.*)"$', entry, flags=re.MULTILINE)
    assert found, f"an entry of the syllabus has no {key} on a line of its own"
    return found[1]


def reduce_suites(chapters: Collection[Chapter], hidden: Collection[str]) -> dict[str, str]:
    """The chapters' suites by file name, without tests of hidden exercises and helpers that only those tests use."""
    suites = [suite for chapter in chapters for suite in suites_of(chapter.id)]
    remaining = {(suite.stem, test) for suite in suites
                 for test, (exercise, _) in tests_in(suite).items() if exercise not in hidden}  # fmt: skip
    needed = reachable_in(TESTS, remaining)
    used = {module for module, _ in needed}
    return {suite.name: _reduce_suite(suite.stem, needed) for suite in suites if suite.stem in used}


def _reduce_suite(module: str, needed: Collection[Name]) -> str:
    text = read_source(TESTS / f"{module}.py")
    lines = split_lines(text)
    for node in reversed(parse(text).body):
        names = bound_names(node)
        if names and not any((module, name) in needed for name in names):
            segment = definition(text, min(names))
            lines[segment.start - 1 : segment.end] = []
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("test_"):
            left = [alias.name for alias in node.names if (node.module, alias.name) in needed]
            imports = [f"from {node.module} import {', '.join(left)}\n"] if left else []
            lines[node.lineno - 1 : node.end_lineno] = imports
    return re.sub(r"\n{4,}", "\n\n\n", "".join(lines))


def reduce_needed_examples(chapters: Collection[Chapter], hidden: Collection[str]) -> str:
    """The file that says which examples the tests of these chapters need, without hidden exercises."""
    shown = {exercise.name for chapter in chapters for exercise in chapter.exercises if exercise.name not in hidden}
    return format_needed_examples({name: tests for name, tests in needed_examples().items() if name in shown})


def seal_reference(module: str, hidden: Collection[str], folder: Path) -> None:
    """Write one chapter of the reference, sealed."""
    write_whole(folder / f"{module}.sealed", seal(_reduce_reference(module, hidden)))


def seal_mistakes(module: str, exercises: Collection[str], hidden: Collection[str], folder: Path) -> int:
    """Write the known mistakes of these exercises, sealed, and return their number. StaleEdit if one does not fit."""
    text = _reduce_reference(module, hidden)
    chosen = [mistake for mistake in misconceptions(module) if mistake.exercise in exercises]
    for mistake in chosen:
        mistake.applied_to_chapter(text)
    if chosen:
        write_whole(folder / f"{module}.mistakes", seal(json.dumps(catalogue(module, exercises))))
    return len(chosen)


def _reduce_reference(module: str, hidden: Collection[str]) -> str:
    """The reference's chapter without hidden exercises and without the helpers that only they use.

    Names that are in the stub stay, since learners see them anyway. A hidden exercise is replaced by a placeholder that
    raises an error when it is used, since other chapters import its name.
    """
    text = read_source(SOLUTIONS / f"{module}.py")
    in_stub = {name for node in parse(reference_stub(module)).body for name in bound_names(node)}
    if not in_stub & set(hidden):
        return text
    needed = reachable_in(SOLUTIONS, {(module, name) for name in in_stub if name not in hidden}, hidden)
    lines = split_lines(text)
    for node in reversed(parse(text).body):
        names = bound_names(node)
        if names and not any((module, name) in needed for name in names):
            segment = definition(text, min(names))
            lines[segment.start - 1 : segment.end] = [_placeholder(segment)] if names & set(hidden) else []
    return "".join(lines)


def _placeholder(segment: Segment) -> str:
    statement = f"raise RuntimeError({HIDDEN_MESSAGE.format(name=segment.name)!r})\n"
    if any(line.startswith("class ") for line in segment.text.splitlines()):
        return f"class {segment.name}:\n    def __init__(self, *args, **options):\n        {statement}"
    return f"def {segment.name}(*args, **options):\n    {statement}"
