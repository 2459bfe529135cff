"""tests/checked.toml: the fingerprint of each exercise when it last kept every promise.

dev-check writes it; `headway dev-check --changed` relies on it, so a fresh clone tries nothing again; CI does not rely
on it. Two branches that both change a line are merged by running dev-check.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import hypothesis
import pytest
import torch
from grader.course.code_shape import code_shape
from grader.course.source import parse, read_source
from grader.course.syllabus import ROOT, SOLUTIONS, TESTS, Chapter, Exercise, load_syllabus, suites_of
from grader.files import write_whole

RECORD = TESTS / "checked.toml"
HEAD = (
    "# Written by `headway dev-check`, which `make test` runs. Commit it with the change that it belongs to; "
    "never edit it by hand.\n"
    "# exercise = the fingerprint of all that its result depends on, when it last kept every promise at one seed.\n"
)
DECIDING = (  # parts of grader/ that a result depends on
    "course", "execution", "quality/devcheck/subjects.py", "quality/devcheck/trying.py", "runner", "system", "verdict",
)  # fmt: skip


def read_record(path: Path = RECORD) -> dict[str, str]:
    """Exercise → fingerprint; empty if the record is missing or unreadable."""
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {name: value for name, value in entries.items() if isinstance(value, str)}


def unchanged(exercises: Collection[Exercise]) -> set[str]:
    """The names of the exercises that are unchanged since they last kept every promise."""
    record = read_record()
    return {exercise.name for exercise in exercises if record.get(exercise.name) == fingerprint(exercise)}


def write_record(intact: Collection[Exercise], broken: Collection[str]) -> None:
    """Record the exercises that keep every promise, and remove the broken ones. OSError if it cannot be written."""
    before = read_record()
    entries = before | {exercise.name: fingerprint(exercise) for exercise in intact}
    for name in broken:
        entries.pop(name, None)
    if entries != before:
        names = [exercise.name for exercise in load_syllabus().exercises if exercise.name in entries]
        write_whole(RECORD, HEAD + "".join(f'{name} = "{entries[name]}"\n' for name in names))


def fingerprint(exercise: Exercise) -> str:
    """A fingerprint of the kit, of the exercise's chapter with its tests, and of the chapters before it.

    Comments and docstrings count only in the chapter's own files. Python's version does not count, because contributors
    use different ones.
    """
    return _digest(exercise.name, _of_chapter(load_syllabus().chapter(exercise.chapter)))


@cache
def _of_chapter(chapter: Chapter) -> str:
    """A fingerprint of all that the results of a chapter's exercises depend on."""
    earlier = [SOLUTIONS / f"{each.name}.py" for each in load_syllabus().chapters if each.number < chapter.number]
    helpers = [path for path in TESTS.glob("*.py") if not path.name.startswith("test_")]
    own = [SOLUTIONS / f"{chapter.name}.py", *suites_of(chapter.id)]
    own += sorted((TESTS / "variants" / chapter.name).glob("*.py"))
    own += [TESTS / folder / f"{chapter.name}.toml" for folder in ("misconceptions", "bases")]
    entries = [(each.name, each.points, each.forbids, each.own_forbids, each.gradient) for each in chapter.exercises]
    versions = [module.__version__.partition("+")[0] for module in (torch, hypothesis, pytest)]
    shapes = [_shape(path) for path in (*sorted(deciding_files()), *earlier, *sorted(helpers)) if path.is_file()]
    return _digest(versions, entries, shapes, [(path.name, path.read_bytes()) for path in own if path.is_file()])


def deciding_files() -> Iterator[Path]:
    """The files of grader/ that a result depends on."""
    for part in DECIDING:
        path = ROOT / "grader" / part
        found = [path] if path.is_file() else path.rglob("*")
        yield from (each for each in found if each.suffix in (".py", ".toml"))


@cache
def _shape(path: Path) -> str:
    """A fingerprint of a file; of Python source without its comments and docstrings."""
    text = read_source(path)
    return _digest(path.relative_to(ROOT).as_posix(), code_shape(parse(text)) if path.suffix == ".py" else text)


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
