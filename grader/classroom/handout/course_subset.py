"""Selects the part of the course that a handout contains: the syllabus and the suites as text."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection

from grader.course.source import bound_names, definition, parse, read_source, split_lines
from grader.course.syllabus import TESTS, Chapter, load_syllabus, suites_of, tests_in
from grader.execution.names_used import Name, reachable_in


def reduce_syllabus(text: str, chapters: Collection[str], last: int, hidden: Collection[str]) -> str:
    """The syllabus with these chapters' exercises. Earlier chapters keep their heading, since code depends on them; later ones are removed.

    The heading of a chapter lists its hidden exercises, so that the handout can say why they have no tests.
    """
    head, *entries = re.split(r"^(?=\[\[chapter)", text, flags=re.MULTILINE)
    out, chapter = [head], ""
    for entry in entries:
        if not entry.startswith("[[chapter.exercise]]"):
            chapter = _read_value(entry, "id")
            if int(chapter.removeprefix("ch")) <= last:
                out.append(_add_hidden(entry, [e.name for e in load_syllabus().chapter(chapter).exercises if e.name in hidden and chapter in chapters]))
        elif chapter in chapters and _read_value(entry, "name") not in hidden:
            out.append(entry)
    return "".join(out).rstrip() + "\n"


def _read_value(entry: str, key: str) -> str:
    found = re.search(rf'^{key} = "(.*)"$', entry, flags=re.MULTILINE)
    assert found, f"an entry of the syllabus has no {key} on a line of its own"
    return found[1]


def _add_hidden(entry: str, names: list[str]) -> str:
    if not names:
        return entry
    return entry.rstrip() + f"\nhidden = {json.dumps(names)}\n\n"


def reduce_suites(chapters: Collection[Chapter], hidden: Collection[str]) -> dict[str, str]:
    """The suites of these chapters by file name, without the tests of hidden exercises and the helpers that only those tests use."""
    suites = [suite for chapter in chapters for suite in suites_of(chapter.id)]
    remaining = {(suite.stem, test) for suite in suites for test, (exercise, _) in tests_in(suite).items() if exercise not in hidden}
    needed = reachable_in(TESTS, remaining)
    used = {module for module, _ in needed}
    return {suite.name: _remove_unneeded(suite.stem, needed) for suite in suites if suite.stem in used}


def _remove_unneeded(module: str, needed: Collection[Name]) -> str:
    text = read_source(TESTS / f"{module}.py")
    lines = split_lines(text)
    for node in reversed(parse(text).body):
        names = bound_names(node)
        if names and not any((module, name) in needed for name in names):
            segment = definition(text, min(names))
            lines[segment.start - 1 : segment.end] = []
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("test_"):
            left = [alias.name for alias in node.names if (node.module, alias.name) in needed]
            lines[node.lineno - 1 : node.end_lineno] = [f"from {node.module} import {', '.join(left)}\n"] if left else []
    return re.sub(r"\n{4,}", "\n\n\n", "".join(lines))
