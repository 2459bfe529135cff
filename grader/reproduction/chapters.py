"""Opens a chapter for a script as the tests open it: in this process, from the learner's own file, with the reference's earlier chapters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import torch
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.errors import ChapterBroken
from grader.execution.target import NoTarget, package_sources, resolve
from torch import Tensor, nn


def open_chapter(name: str, folder: str | None = None, whole: bool = False, replaced: Sequence[str] = (), beside: ModuleType | None = None) -> ModuleType:
    """The chapter's module, for example `open_chapter("ch03_attention")`.

    `folder` is another folder than exercises/; `whole` takes its own earlier chapters too; `replaced` are exercises of the chapter for which the
    reference is used. `beside` is a later chapter that is open already: this chapter is then the one that it imports.
    """
    if beside is not None:
        return _packages[beside.__name__.partition(".")[0]].module(name)
    torch.set_num_threads(1)  # as in the tests
    if folder is not None and not Path(folder).is_dir():
        raise NoTarget(f"the folder {folder}, whose code failed, does not exist any more; run the tests again")
    target = resolve(folder)
    chapter = load_syllabus().chapter(name)
    if not target.has(chapter.name):
        raise NoTarget(f"there is no {chapter.name}.py in {target.folder}")
    try:
        package = ChapterPackage(package_sources(target, chapter, whole, tuple(replaced)), "chapters")
    except ChapterBroken as problem:
        raise NoTarget(f"{Path(str(target.folder)).name}/{chapter.name}.py cannot be opened: {problem.message}") from None
    _packages[package.name] = package
    return package.module(chapter.name)


def set_parameters(module: nn.Module, values: dict[str, Tensor]) -> None:
    """Copy values into the parameters with these names, as the tests do."""
    with torch.no_grad():
        for name, value in values.items():
            module.get_parameter(name).copy_(value)


def close_chapters() -> None:
    """Remove all chapters that were opened here."""
    for package in _packages.values():
        package.close()
    _packages.clear()


_packages: dict[str, ChapterPackage] = {}
