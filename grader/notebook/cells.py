"""What the cells import that `repro` writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from grader.course.syllabus import load_syllabus
from grader.execution.host import Host
from grader.execution.target import package_sources
from grader.notebook.cell_source import read
from grader.notebook.running import target_of
from grader.reproduction.files import CELLS, FOLDER


class ChapterNames:
    """The names of a chapter as the tests find them: the notebook's, those of the chapter's file, and those of earlier chapters."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def __getattr__(self, name: str) -> Any:
        return self._host.do_get(name)


@contextmanager
def chapter_of(name: str, checked: Any, replaced: Sequence[str] = ()) -> Iterator[ChapterNames]:
    """The chapter of the exercise `name`, as in `check(name, checked)`. While it is open, the reference's definitions replace the exercises `replaced`."""
    exercise = load_syllabus().exercise(name)
    override = read(exercise, checked)
    target = target_of(override, [])
    chapter = load_syllabus().chapter(exercise.chapter)
    host = Host(package_sources(target, chapter, False, tuple(replaced)), chapter.name, "chapters", override)
    try:
        host.do_load()
        with host.replaced_in_override():
            yield ChapterNames(host)
    finally:
        host.close()


def saved_tensors(name: str) -> dict[str, Any]:
    """The larger tensors of the cell of this exercise."""
    return torch.load(FOLDER / CELLS / f"{name}.pt", weights_only=True)
