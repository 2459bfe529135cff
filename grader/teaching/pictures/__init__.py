"""The pictures of the lessons: exercises/pictures/chNN_name.svg.

Each chapter has a module here, named like it, whose `draw(chapter)` draws a picture from the results of the reference.
`diagrams/` has the boxes-and-arrows diagrams, which need no results.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import torch
from grader.course.chapter_source import ChapterSource
from grader.course.source import read_source
from grader.course.syllabus import EXERCISES, SOLUTIONS
from grader.execution.chapter_package import ChapterPackage
from grader.files import write_whole
from grader.teaching.pictures.diagrams import draw_diagrams

PICTURES = EXERCISES / "pictures"


def lesson_pictures() -> dict[str, str]:
    """Return the lessons' pictures and diagrams by file name; a chapter without a solution has no picture."""
    written = sorted(path for path in SOLUTIONS.glob("ch*.py") if (Path(__file__).parent / f"{path.stem}.py").exists())
    package = ChapterPackage([ChapterSource(path.stem, read_source(path), str(path)) for path in sorted(SOLUTIONS.glob("ch*.py"))], "pictures")
    try:
        with torch.no_grad():
            drawn = {f"{path.stem}.svg": import_module(f".{path.stem}", __name__).draw(package.module(path.stem)) for path in written}
            return drawn | draw_diagrams()
    finally:
        package.close()


def write_lesson_pictures(folder: Path = PICTURES) -> list[str]:
    """Write the pictures that are missing or differ; return their names."""
    stale = {name: svg for name, svg in lesson_pictures().items() if _kept(folder / name) != svg}
    for name, svg in stale.items():
        write_whole(folder / name, svg)
    return list(stale)


def stale_lesson_pictures(folder: Path = PICTURES) -> list[str]:
    """Return the names of pictures that are missing in `folder` or differ from what the reference draws now."""
    return [name for name, svg in lesson_pictures().items() if _kept(folder / name) != svg]


def _kept(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError):
        return None
