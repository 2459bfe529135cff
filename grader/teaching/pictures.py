"""The lessons' pictures that show numbers of the reference: exercises/pictures/chNN_name.svg.

Each is drawn by the function of its name in pictures.py of its chapter's folder in grader/chapters/, which gets the
reference's chapter and returns SVG. `headway stubs` draws them again, and dev-check reports one that the reference
would draw differently. The other pictures beside them, such as diagrams of boxes and arrows, are drawn by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import torch
from grader.chapters import find_files, module_name
from grader.course.chapter_source import ChapterSource
from grader.course.source import read_source
from grader.course.syllabus import EXERCISES, SOLUTIONS
from grader.execution.chapter_package import ChapterPackage
from grader.files import write_whole

PICTURES = EXERCISES / "pictures"


def lesson_pictures() -> dict[str, str]:
    """Return the pictures by file name, drawn from the results of the reference."""
    solutions = sorted(SOLUTIONS.glob("ch*.py"))
    sources = [ChapterSource(path.stem, read_source(path), str(path)) for path in solutions]
    package = ChapterPackage(sources, "pictures")
    try:
        with torch.no_grad():
            return {f"{name}.svg": draw(package.module(chapter)) for chapter, name, draw in _drawings()}
    finally:
        package.close()


def _drawings() -> Iterator[tuple[str, str, Callable[[ModuleType], str]]]:
    """Give each picture's chapter, its name, and the function that draws it."""
    for path in find_files("pictures.py"):
        chapter = path.parent.name
        for name, draw in vars(import_module(module_name(path))).items():
            if name.startswith(chapter[:5]):
                yield chapter, name, draw


def write_lesson_pictures(folder: Path = PICTURES) -> list[str]:
    """Write the pictures that are missing or differ; return their names."""
    drawn = lesson_pictures()
    stale = [name for name, svg in drawn.items() if _stored(folder / name) != svg]
    for name in stale:
        write_whole(folder / name, drawn[name])
    return stale


def stale_lesson_pictures(folder: Path = PICTURES) -> list[str]:
    """Return the names of pictures that are missing in `folder` or differ from what the reference draws now."""
    return [name for name, svg in lesson_pictures().items() if _stored(folder / name) != svg]


def _stored(path: Path) -> str | None:
    return read_source(path).replace("\r\n", "\n") if path.is_file() else None
