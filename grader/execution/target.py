"""Whose code is tested: a folder with some of the chapters, the reference, or texts in memory."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path

from grader.course.chapter_source import ChapterSource, bound_names
from grader.course.code_shape import code_by_name
from grader.course.reference import reference_of
from grader.course.source import SourceProblem, read_source
from grader.course.syllabus import EXERCISES, SOLUTIONS, Chapter, Exercise, is_handout, load_syllabus
from grader.execution.chapter_package import compile_without_text, replacement_module, tree_of, without_docstrings
from grader.execution.errors import ChapterBroken, Where
from grader.execution.names_used import Name, NamesUsed, closure, names_used, reachable


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


# ---- the reference's definitions that replace some of the target's


@lru_cache(maxsize=64)
def reference_names(reference: ChapterSource) -> NamesUsed:
    """The names that the definitions of a chapter of the reference use."""
    return names_used(ast.unparse(tree_of(reference)))


def replaceable(reference: ChapterSource, names: Iterable[str], without: Collection[str]) -> tuple[str, ...]:
    """Those of these names that can be replaced: the reference defines them, and they do not use its definitions of the
    names in `without`."""
    known = reference_names(reference)
    return tuple(
        sorted(name for name in set(names) if name in known.statements and closure(known, [name]).isdisjoint(without))
    )


def replaceable_beside(exercise: Exercise, names: Iterable[str]) -> tuple[str, ...]:
    """Those of these names of its chapter that can be replaced while this exercise is judged: its own reference must
    not be there, and a handout has no reference of hidden ones."""
    reference = reference_of(exercise.module)
    hidden = load_syllabus().chapter(exercise.chapter).hidden if is_handout() else ()
    return replaceable(reference, names, {exercise.name, *hidden}) if reference else ()


@lru_cache(maxsize=256)
def reference_definitions(reference: ChapterSource, names: tuple[str, ...]) -> ChapterSource:
    """The module with these definitions of the reference and everything that they use in their chapter; the others are
    not in it."""
    wanted = closure(reference_names(reference), names)
    # an annotation may name a definition that is not in this module, so none is evaluated
    body: list[ast.stmt] = [ast.ImportFrom("__future__", [ast.alias("annotations")], 0)]
    body += [
        node
        for node in tree_of(reference).body
        if isinstance(node, ast.Import | ast.ImportFrom) or bound_names(node) & wanted
    ]
    return compile_without_text(replacement_module(reference.name), ast.fix_missing_locations(ast.Module(body, [])))


def is_reference_definition(text: str, reference: ChapterSource, name: str, exercises: frozenset[str]) -> bool:
    """Whether `text` defines `name` as the reference does, comments and docstrings aside, with the same helpers and
    without alternatives. Other exercises are not compared."""
    try:
        own, theirs = _code_of_text(text), _code_of_reference(reference)
        used = names_used(text)
    except (SourceProblem, SyntaxError, RecursionError, ValueError, MemoryError, SystemError, OverflowError):
        return False
    return name in own and all(own.get(word) == theirs.get(word) for word in closure(used, [name], without=exercises))


@lru_cache(maxsize=32)
def _code_of_text(text: str) -> dict[str, str]:
    return code_by_name(without_docstrings(ast.parse(text)))


@lru_cache(maxsize=32)
def _code_of_reference(reference: ChapterSource) -> dict[str, str]:
    return code_by_name(tree_of(reference))
