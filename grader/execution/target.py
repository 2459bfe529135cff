"""Whose code is tested: a folder with some of the chapters, the reference, or texts in memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from grader.course.chapter_source import ChapterSource
from grader.course.reference import reference_of
from grader.course.source import SourceProblem, read_source
from grader.course.syllabus import EXERCISES, SOLUTIONS, Chapter, load_syllabus
from grader.execution.errors import ChapterBroken, Where
from grader.execution.names_used import Name, NamesUsed, names_used, reachable
from grader.execution.reference_parts import reference_definitions


class NoTarget(ValueError):
    """The target cannot be graded; the message says what to do."""


@dataclass(frozen=True)
class Target:
    label: str  # its name in the header and in the results
    folder: Path | None = None
    texts: dict[str, str] = field(default_factory=dict)  # module name → source, for chapters not on disk
    unread: dict[str, str] = field(default_factory=dict)  # module name → why that chapter cannot be read

    def has(self, module: str) -> bool:
        if self.folder == SOLUTIONS and reference_of(module) is not None:
            return True
        return (
            module in self.texts
            or module in self.unread
            or (self.folder is not None and (self.folder / f"{module}.py").is_file())
        )

    def source(self, module: str) -> ChapterSource:
        """The chapter's text; ChapterBroken if it cannot be read."""
        if module in self.unread:
            raise ChapterBroken(self.unread[module])
        if module in self.texts:
            return ChapterSource(module, self.texts[module], f"{self.label}/{module}.py")
        if self.folder == SOLUTIONS and (reference := reference_of(module)):
            return reference
        if self.folder is None:
            raise ChapterBroken(f"there is no {module}.py")
        path = self.folder / f"{module}.py"
        try:
            return ChapterSource(module, read_source(path), str(path))
        except SourceProblem as problem:
            raise ChapterBroken(
                str(problem), Where(path.name, problem.line or 0, "") if problem.line else None
            ) from None

    @property
    def is_own_folder(self) -> bool:
        """Is this the learner's unchanged `exercises/` folder, for which progress is recorded?"""
        return self.folder is not None and self.folder.resolve() == EXERCISES.resolve()


def resolve(word: str | None) -> Target:
    """The target that `--target` names: None (the exercises), the word `solutions`, or a folder with at least one
    chapter."""
    try:
        for chapter in load_syllabus().chapters:
            reference_of(chapter.name)
    except SourceProblem as problem:
        raise NoTarget(str(problem)) from None
    if word is None:
        return Target("exercises", EXERCISES)
    if word == "solutions":
        return Target("solutions", SOLUTIONS)
    folder = Path(word).expanduser()
    if folder.is_file():
        raise NoTarget(f"--target takes a folder, and {word} is a file; give the folder it is in")
    if not folder.is_dir():
        raise NoTarget(f"--target: there is no folder {word}")
    target = Target(str(folder), folder)
    if not any(target.has(chapter.name) for chapter in load_syllabus().chapters):
        raise NoTarget(f"--target: {word} contains none of the chapters; their files have names like ch01_tokenizer.py")
    return target


def package_sources(
    target: Target, chapter: Chapter, whole: bool, replaced: tuple[str, ...] = ()
) -> list[ChapterSource]:
    """The target's chapter and all earlier chapters: those of the reference, or with `whole` the target's own.

    The definitions `replaced` of the chapter are the reference's too; they are in a module of their own, without text.
    """
    sources = [target.source(chapter.name)]
    if replaced and (reference := reference_of(chapter.name)) is not None:
        sources = [replace(sources[0], replaced=replaced), reference_definitions(reference, replaced)]
    for earlier in load_syllabus().chapters:
        if earlier.number >= chapter.number:
            continue
        if whole:
            if target.has(earlier.name):
                sources.append(target.source(earlier.name))
        elif (reference := reference_of(earlier.name)) is not None:
            sources.append(reference)
    return sources


def uses(target: Target, module: str, name: str) -> set[Name]:
    """This definition of the target and all that it uses, directly or through others, also in earlier chapters."""
    return reachable([(module, name)], partial(names_in, target))


def names_in(target: Target, module: str) -> NamesUsed | None:
    """The names that the chapter's definitions use; None if the chapter is missing or cannot be read."""
    try:
        return names_used(target.source(module).text) if target.has(module) else None
    except (SourceProblem, ChapterBroken):
        return None
