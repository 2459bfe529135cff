"""Hunts: a chapter that works but for one known mistake, which the learner finds and repairs.

`exercises/hunts/` has the chapter of the hunt that goes on. `exercises/.headway/hunts/` has the same file as it was
written, and hunts.json with all hunts. The learner's own chapters are not touched.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import json
import random
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from grader.course.chapter_source import Definition, without_blocks
from grader.course.code_shape import code_shape
from grader.course.known_mistakes import Misconception, StaleEdit, misconceptions
from grader.course.reference import reference_of
from grader.course.source import (
    SourceProblem,
    definition,
    find_statement,
    read_source,
    replace_definition,
    split_lines,
    write_source,
)  # fmt: skip
from grader.course.stubs import BEGIN, END, reference_stub
from grader.course.syllabus import EXERCISES, Exercise, load_syllabus
from grader.files import problem, write_whole

FOLDER = EXERCISES / "hunts"
KEPT = EXERCISES / ".headway" / "hunts"
CALL, PROMISE, BLIND, TRAINING = "call", "promise", "blind", "training"  # what the learner sees
MOST_LINES = 3  # of an edit: a longer one is seen at a glance


@dataclass
class Hunt:
    exercise: str
    mistake: str
    told: str
    mine: bool  # in the learner's own code, and not in the reference's
    begun: float  # in seconds
    tests: int = 0
    ended: str = ""  # the date, such as 2026-11-30
    repaired: bool = False  # or given up
    seconds: int = 0  # from its beginning to its end
    lines: int = 0  # that were changed
    rewritten: bool = False  # was the exercise rewritten?

    @property
    def file(self) -> Path:
        return FOLDER / f"{self._module}.py"

    @property
    def written(self) -> str:
        """The chapter as the learner got it. SourceProblem if it is gone."""
        return read_source(KEPT / f"{self._module}.py")

    @property
    def known(self) -> Misconception | None:
        """The mistake; None if it is no longer in the lists."""
        known = misconceptions(self._module, self.exercise)
        return next((mistake for mistake in known if mistake.id == self.mistake), None)

    @property
    def _module(self) -> str:
        return load_syllabus().exercise(self.exercise).module


class Hunts:
    """All hunts of this learner, the newest last."""

    def __init__(self) -> None:
        self.all = _load()

    @property
    def current(self) -> Hunt | None:
        """The hunt that goes on."""
        return self.all[-1] if self.all and not self.all[-1].ended else None

    def begin(self, hunt: Hunt, text: str) -> None:
        """Write the chapter and save the hunt. SourceProblem if that is not possible."""
        for path in (KEPT / hunt.file.name, hunt.file):
            write_source(path, text)
        self.all.append(hunt)
        self.save()

    def end(self, hunt: Hunt, repaired: bool) -> None:
        """Save that it is over, with the number of lines that were changed, and remove its file."""
        text = read_source(hunt.file) if repaired else hunt.written
        lines = lines_changed(split_lines(hunt.written), split_lines(text))
        hunt.ended, hunt.repaired = date.today().isoformat(), repaired
        hunt.seconds, hunt.lines = round(time.time() - hunt.begun), lines
        hunt.rewritten = repaired and is_rewritten(hunt, hunt.written, text)
        self.save()
        for path in (KEPT / hunt.file.name, hunt.file):
            path.unlink(missing_ok=True)

    def save(self) -> None:
        try:
            write_whole(KEPT / "hunts.json", json.dumps([asdict(hunt) for hunt in self.all], indent=0) + "\n")
        except OSError as error:
            raise SourceProblem("your hunts were not saved: " + problem(error, "write hunts.json")) from error


def choose(
    exercises: Collection[Exercise], mine: bool, passed: Collection[str], known: Callable[[Misconception], bool]
) -> Iterator[tuple[Misconception, str]]:
    """Mistakes that the learner does not know, in a random order, each with the chapter that has it."""
    for exercise in random.sample(list(exercises), len(exercises)):
        mistakes = [mistake for mistake in huntable(exercise) if not known(mistake)]
        for mistake in random.sample(mistakes, len(mistakes)):
            with contextlib.suppress(StaleEdit):  # it does not fit the learner's code
                yield mistake, (_own_chapter if mine else chapter_with)(exercise, mistake, passed)


def huntable(exercise: Exercise) -> list[Misconception]:
    """The known mistakes of an exercise that a reader can find by thought: they change a few lines, and neither an
    error that the docstring asks for, nor only a name or a text."""
    reference = reference_of(exercise.module)
    if reference is None:
        return []
    own = definition(reference.text, exercise.name).text
    right = ast.parse(textwrap.dedent(own))
    found = []
    for mistake in misconceptions(exercise.module, exercise.name):
        text = mistake.applied_to(own)
        wrong = ast.parse(textwrap.dedent(text))
        same = _without_names(wrong) == _without_names(right) or _errors(wrong) != _errors(right)
        if not same and lines_changed(own.splitlines(), text.splitlines()) <= MOST_LINES:
            found.append(mistake)
    return found


def chapter_with(exercise: Exercise, mistake: Misconception, passed: Collection[str]) -> str:
    """The reference's chapter with this mistake, and with the stubs of what the learner has not passed."""
    reference, stub = reference_of(exercise.module), reference_stub(exercise.module)
    assert reference is not None
    text = mistake.applied_to_chapter(reference.text)
    for other in load_syllabus().chapter(exercise.chapter).exercises:
        if other.name not in passed and other.name != exercise.name:
            text = replace_definition(text, other.name, definition(stub, other.name).text)
    lines = split_lines(text)
    return "".join(line for line in lines if line.strip() not in (BEGIN, END) and not line.strip().startswith("# TODO"))


def _own_chapter(exercise: Exercise, mistake: Misconception, passed: Collection[str]) -> str:
    return mistake.applied_to_chapter(read_source(EXERCISES / f"{exercise.module}.py"))


def lines_changed(before: list[str], after: list[str]) -> int:
    """How many lines were changed, taken out or put in; a changed line is one."""
    blocks = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return sum(max(end - start, stop - begin) for kind, start, end, begin, stop in blocks if kind != "equal")


def is_rewritten(hunt: Hunt, before: str, after: str) -> bool:
    """Whether more than half of the exercise's statements are gone, and more is changed than the mistake needs."""
    own, new, reference = _statements(hunt, before), _statements(hunt, after), reference_of(hunt.file.stem)
    needed = 1
    if reference and hunt.known:
        wrong = hunt.known.applied_to_chapter(reference.text)
        needed = _changes(_statements(hunt, reference.text), _statements(hunt, wrong))
    return 2 * (own - new).total() > own.total() and _changes(own, new) > needed


def _statements(hunt: Hunt, text: str) -> Counter[str]:
    """The statements of the exercise in this chapter. Comments, docstrings and layout make no difference."""
    found = find_statement(text, hunt.exercise)
    nodes = ast.walk(found) if found else ()
    own = [node for node in nodes if isinstance(node, ast.stmt) and not isinstance(node, Definition)]
    return Counter(code_shape(without_blocks(node)) for node in own if not _is_text(node))


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _changes(before: Counter[str], after: Counter[str]) -> int:
    return max((before - after).total(), (after - before).total())


def _without_names(tree: ast.Module) -> str:
    """The code without texts and without the names of attributes of `self`, which no thought can find wrong."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
        elif isinstance(node, ast.JoinedStr):
            node.values = []
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            node.attr = ""
    return ast.dump(tree)


def _errors(tree: ast.Module) -> list[str]:
    """The statements that raise an error, with the `if` in front of them."""
    kinds = (ast.Raise, ast.Assert, ast.Try)
    guards = [node for node in ast.walk(tree) if isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise)]
    return [ast.dump(node) for node in (*guards, *(node for node in ast.walk(tree) if isinstance(node, kinds)))]


def _load() -> list[Hunt]:
    """What was saved, without what is damaged or about exercises that are gone."""
    try:
        data = json.loads((KEPT / "hunts.json").read_text(encoding="utf-8"))
        hunts = [Hunt(**entry) for entry in data]
    except (OSError, ValueError, RecursionError, TypeError):
        return []
    kinds = asdict(Hunt("", "", "", False, 0.0))
    names = {exercise.name for exercise in load_syllabus().exercises}
    is_whole = [
        hunt.exercise in names and all(type(v) is type(kinds[k]) for k, v in vars(hunt).items()) for hunt in hunts
    ]
    return [hunt for hunt, whole in zip(hunts, is_whole, strict=True) if whole]
