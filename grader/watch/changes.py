"""What a save changed, and which exercise the watch tests next. Nothing here needs a terminal or a run."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from grader.course.code_shape import code_by_name
from grader.course.source import SourceProblem, find_statement, parse, read_source
from grader.course.stubs import is_stub, reference_stub
from grader.course.syllabus import Exercise, load_syllabus
from grader.execution.names_used import names_reached, names_used
from grader.verdict.results import join_names

MAX_NAMES = 3  # in a sentence


@dataclass(frozen=True)
class Changes:
    """The exercises that a save changed, in the course's order. Comments, docstrings and blank lines are no change."""

    changed: tuple[Exercise, ...] = ()  # their own definitions
    using: tuple[tuple[Exercise, str], ...] = ()  # exercises that use a changed helper, each with the helper's name
    removed: tuple[Exercise, ...] = ()  # no longer defined
    stubs: frozenset[str] = frozenset()  # the changed ones that are stubs now


@dataclass(frozen=True)
class NextTest:
    """The exercise to test after a save, and the sentence that says why."""

    exercise: Exercise
    sentence: str = ""
    waiting: Exercise | None = None  # the one that would be tested if the watch were not pinned


class SavedChapters:
    """The last valid text of each chapter, to compare the next save with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.texts: dict[str, str] = {}
        for chapter in load_syllabus().chapters:
            text = self._read(chapter.name)
            if text is not None:
                self.texts[chapter.name] = text

    def update(self, modules: Iterable[str]) -> Changes:
        """What has changed in these chapters since they were last valid; a new chapter is compared with its stub."""
        found: list[Changes] = []
        for module in sorted(modules):
            text = self._read(module)
            if text is not None:
                found.append(compare(self.texts[module] if module in self.texts else _stub(module), text, module))
                self.texts[module] = text
        return Changes(
            tuple(exercise for one in found for exercise in one.changed),
            tuple(pair for one in found for pair in one.using),
            tuple(exercise for one in found for exercise in one.removed),
            frozenset(name for one in found for name in one.stubs),
        )

    def _read(self, module: str) -> str | None:
        """The chapter's text; None if it is missing, empty or not valid Python."""
        try:
            text = read_source(self.folder / f"{module}.py")
            parse(text)
        except SourceProblem:
            return None
        return text if text.strip() else None


def compare(before: str, after: str, module: str) -> Changes:
    """What differs between two valid texts of a chapter."""
    exercises = [exercise for exercise in load_syllabus().exercises if exercise.module == module]
    own = {exercise.name for exercise in exercises}
    old, new = code_by_name(parse(before)), code_by_name(parse(after))
    names = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
    touched = [exercise for exercise in exercises if exercise.name in names]
    changed = tuple(exercise for exercise in touched if find_statement(after, exercise.name))
    used = {exercise: names_reached(names_used(after), exercise.name) for exercise in exercises}
    helpers = sorted(names - own)
    return Changes(
        changed,
        tuple((exercise, helper) for exercise in exercises for helper in helpers if helper in used[exercise]),
        tuple(exercise for exercise in touched if exercise not in changed),
        frozenset(exercise.name for exercise in changed if is_stub(exercise, after)),
    )


def decide(current: Exercise, changes: Changes, passed: Collection[str], pinned: bool = False) -> NextTest:
    """The exercise to test after these changes.

    Among several changed exercises: one that is written before a stub, one that is not passed before a passed one, the
    current one before another, and then the first in the course. If only helpers changed: the current exercise if it
    uses one, else the first that does.
    """
    if not changes.changed and not changes.using:
        return NextTest(current, _removed_sentence(current, changes))
    wanted, helper = _wanted(current, changes, passed)
    others = [exercise.name for exercise in changes.changed if exercise != wanted]
    if pinned and wanted != current:
        others = [name for name in (exercise.name for exercise in changes.changed) if name != current.name] or [helper]
        advice = f"The watch is pinned to {current.name}; press p to test `{wanted.name}`."
        return NextTest(current, f"You changed {_list_names(others)}. {advice}", wanted)
    if wanted == current and (helper or not others):
        return NextTest(wanted)
    if helper:
        return NextTest(wanted, f"You changed {helper}, which {wanted.name} uses, so {wanted.name} is tested now.")
    if wanted == current:
        return NextTest(wanted, f"You also changed {_list_names(others)}; {wanted.name} is tested now.")
    if others:
        return NextTest(wanted, f"You changed {_list_names([wanted.name, *others])}; {wanted.name} is tested now.")
    return NextTest(wanted, f"You changed {wanted.name}, so it is tested now.")


def _wanted(current: Exercise, changes: Changes, passed: Collection[str]) -> tuple[Exercise, str]:
    """The exercise to test, and the helper whose change decides it, or ""."""

    def rank(exercise: Exercise) -> tuple[bool, bool, bool]:
        return exercise.name in changes.stubs, exercise.name in passed, exercise != current

    if changes.changed:
        return min(changes.changed, key=rank), ""
    return min(changes.using, key=lambda pair: pair[0] != current)


def _removed_sentence(current: Exercise, changes: Changes) -> str:
    for exercise in changes.removed:
        if exercise != current:
            advice = f"`headway reset {exercise.name}` adds its stub"
            return f"{exercise.module}.py no longer defines {exercise.name}; {advice}."
    return ""


def _list_names(names: list[str]) -> str:
    if len(names) > MAX_NAMES:
        return f"{names[0]} and {len(names) - 1} other exercises"
    return join_names(names)


def _stub(module: str) -> str:
    try:
        return reference_stub(module)
    except (SourceProblem, OSError):
        return ""
