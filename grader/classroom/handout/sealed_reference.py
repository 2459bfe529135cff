"""Writes the sealed reference and the sealed known mistakes of a handout, without hidden exercises."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from grader.course.known_mistakes import catalogue, misconceptions
from grader.course.reference import seal
from grader.course.source import Segment, bound_names, definition, parse, read_source, split_lines
from grader.course.stubs import reference_stub
from grader.course.syllabus import SOLUTIONS
from grader.execution.names_used import reachable_in
from grader.files import write_whole

_HIDDEN_MESSAGE = "only your instructor grades {name}, so this handout has no reference for it; with --whole the tests use your own {name}"


def seal_reference(module: str, hidden: Collection[str], folder: Path) -> None:
    """Write one chapter of the reference, sealed."""
    write_whole(folder / f"{module}.sealed", seal(remove_hidden(module, hidden)))


def seal_mistakes(module: str, exercises: Collection[str], hidden: Collection[str], folder: Path) -> int:
    """Write the known mistakes of these exercises, sealed, and return their number. StaleEdit if one does not fit its solution."""
    text, chosen = remove_hidden(module, hidden), [mistake for mistake in misconceptions(module) if mistake.exercise in exercises]
    for mistake in chosen:
        mistake.applied_to_chapter(text)
    if chosen:
        write_whole(folder / f"{module}.mistakes", seal(json.dumps(catalogue(module, exercises))))
    return len(chosen)


def remove_hidden(module: str, hidden: Collection[str]) -> str:
    """The reference's chapter without hidden exercises and without the helpers that only they use.

    Names that are in the stub stay, since learners see them anyway. A hidden exercise is replaced by a placeholder that raises an error when it
    is used, since other chapters import its name.
    """
    text = read_source(SOLUTIONS / f"{module}.py")
    seen = {name for node in parse(reference_stub(module)).body for name in bound_names(node)}
    if not seen & set(hidden):
        return text
    needed = reachable_in(SOLUTIONS, {(module, name) for name in seen if name not in hidden}, hidden)
    lines = split_lines(text)
    for node in reversed(parse(text).body):
        names = bound_names(node)
        if not names or any((module, name) in needed for name in names):
            continue
        segment = definition(text, min(names))
        lines[segment.start - 1 : segment.end] = [_placeholder(segment)] if names & set(hidden) else []
    return "".join(lines)


def _placeholder(segment: Segment) -> str:
    says = f"raise RuntimeError({_HIDDEN_MESSAGE.format(name=segment.name)!r})\n"
    if any(line.startswith("class ") for line in segment.text.splitlines()):
        return f"class {segment.name}:\n    def __init__(self, *args, **options):\n        {says}"
    return f"def {segment.name}(*args, **options):\n    {says}"
