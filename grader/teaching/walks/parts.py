"""The code that runs in a walk or in a trained model: the learner's where its tests pass now, else the reference's.

For each chapter in turn, both the learner's module and the reference's are executed, in a package whose earlier
chapters are mixed already. Then each exercise's name is bound to the same object in both modules: to the learner's if
it passes, else to the reference's.
"""

from __future__ import annotations

import io
import sys
import traceback
import warnings
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, redirect_stdout
from types import ModuleType
from typing import Any

from grader.course.chapter_source import ChapterSource
from grader.course.source import bound_names, parse
from grader.course.syllabus import EXERCISES, Chapter, load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import Target, reference_of, uses
from grader.files import UserProblem

LEARNER = Target("exercises", EXERCISES)


def hidden_prints() -> AbstractContextManager:
    """A print that was left in an exercise must not appear on the page or in the text."""
    return redirect_stdout(io.StringIO())


class NotInHandout(UserProblem, ValueError):
    """A walk or a model needs exercises that this handout leaves out; the message is a sentence."""


class MixedChapters:
    """The mixed chapters. Each of their names is an attribute: `parts.GPT`, `parts.GPTConfig`."""

    def __init__(self, required: Sequence[str], passed: Collection[str], learner: Target = LEARNER) -> None:
        course = load_syllabus()
        last = max(course.exercise(name).module for name in required)
        chapters = [chapter for chapter in course.chapters if chapter.name <= last]
        self.required = tuple(required)
        self._learner = learner
        self.from_learner = {name for name in required if name in passed}
        self.broken: dict[str, str] = {}  # learner's chapters that do not import here, and why
        self._mixed: dict[str, ModuleType] = {}
        learner_chapters = {course.exercise(name).module for name in self.from_learner}
        references = filter(None, (reference_of(chapter.name) for chapter in chapters))
        sources = [_rename_source(source, "reference") for source in references]
        sources += [_rename_source(learner.source(module), "learner") for module in learner_chapters]
        self._package = ChapterPackage(sources, "walk")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for chapter in chapters:
                self._mix_chapter(chapter, chapter.name in learner_chapters)

    def __getattr__(self, name: str) -> Any:
        for module in vars(self).get("_mixed", {}).values():
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(f"no chapter that this walk needs defines {name}")

    def chapter(self, name: str) -> ModuleType:
        """Return the mixed chapter named "ch07", "7" or "ch07_models"."""
        return self._mixed[load_syllabus().chapter(name).name]

    @property
    def from_reference(self) -> tuple[str, ...]:
        return tuple(name for name in self.required if name not in self.from_learner)

    @property
    def learner_texts(self) -> dict[str, str]:
        """The learner's chapters that run here, by the file names that tracebacks show."""
        return {source.filename: source.text for source in self._learner_sources()}

    def _learner_sources(self) -> list[ChapterSource]:
        return [source for source in self._package.sources.values() if source.name.endswith("_learner")]

    def find_raising_exercise(self, problem: BaseException) -> str | None:
        """Return the learner's exercise whose code raised this exception, or None."""
        for frame in reversed(traceback.extract_tb(problem.__traceback__)):
            for source in self._learner_sources():
                if frame.filename == source.filename:
                    for name, first, last in _definition_lines(source.text):
                        if name in self.from_learner and first <= (frame.lineno or 0) <= last:
                            return name
        return None

    def close(self) -> None:
        self._package.close()
        for name in self._mixed:
            sys.modules.pop(f"{self._package.name}.{name}", None)

    # ---- mixing

    def _mix_chapter(self, chapter: Chapter, has_learner: bool) -> None:
        if reference_of(chapter.name) is None:
            return
        reference = self._package.module(f"{chapter.name}_reference")
        learner = self._import_learner(chapter) if has_learner else None
        mixed = ModuleType(f"{self._package.name}.{chapter.name}", f"{chapter.title}, learner's and reference's")
        vars(mixed).update({name: value for name, value in vars(reference).items() if not name.startswith("__")})
        for exercise in chapter.exercises:
            author = learner if learner and exercise.name in self.from_learner else reference
            if not hasattr(author, exercise.name):
                continue
            if author is learner:
                helpers = self._helper_names(chapter, exercise.name) & vars(learner).keys()
                vars(mixed).update({name: vars(learner)[name] for name in helpers})
            for module in filter(None, (reference, learner, mixed)):
                setattr(module, exercise.name, getattr(author, exercise.name))
        self._mixed[chapter.name] = sys.modules[mixed.__name__] = mixed

    def _import_learner(self, chapter: Chapter) -> ModuleType | None:
        """Import the learner's chapter; if it does not import, use the reference's code for all of it."""
        try:
            with hidden_prints():
                return self._package.module(f"{chapter.name}_learner")
        except KeyboardInterrupt:
            raise
        except BaseException as problem:
            self.broken[chapter.name] = f"{chapter.name}.py does not import: {type(problem).__name__}: {problem}"
            self.from_learner -= {exercise.name for exercise in chapter.exercises}
            return None

    def _helper_names(self, chapter: Chapter, exercise: str) -> set[str]:
        """Return the names of the chapter that the learner's exercise uses, without exercises: such as a config."""
        used = {name for module, name in uses(self._learner, chapter.name, exercise) if module == chapter.name}
        return used - {other.name for other in chapter.exercises}


def _rename_source(source: ChapterSource, author: str) -> ChapterSource:
    return ChapterSource(f"{source.name}_{author}", source.text, source.filename, source.sealed)


def _definition_lines(text: str) -> list[tuple[str, int, int]]:
    """Return every top-level definition of a chapter with its first and last line."""
    nodes = parse(text).body
    return [(name, node.lineno, node.end_lineno or node.lineno) for node in nodes for name in bound_names(node)]


def list_names(names: Sequence[str], most: int) -> str:
    """At most so many names as part of a sentence."""
    if len(names) > most:
        return ", ".join(names[: most - 1]) + f" and {len(names) - most + 1} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
