"""Known mistakes: reads tests/misconceptions/chNN_name.toml and tests/bases/chNN_name.toml, and puts mistakes into an
exercise's definition. Reads the variants of an exercise, too: correct code that is written differently.

In the first, a table's header carries the exercise and the mistake's id, and the table describes the smallest edit of
the solution:

    [softmax.softmax_nothing_subtracted]
    replace = "torch.exp(x - largest)"
    with = "torch.exp(x)"
    says = "..."
    hint = "..."

`replace` occurs exactly once in the exercise's source. `says` describes behaviour that a learner can see, never code.
Two mistakes with the same behaviour are one mistake.

The second has other natural ways to write an exercise. Each mistake whose `replace` occurs once in such a base is tried
on it too:

    [softmax.without_guards]
    lacks = ["softmax_empty_slice_is_nan"]   # the known mistakes that this code has itself; [] if it is right
    edits = {softmax_base_two = ["torch.exp(scores)", "2 ** scores"]}   # where a mistake's `replace` is written
    differently here; may be left out code = '''...'''

A variant, in tests/variants/chNN_name/EXERCISE.py, begins with a line `# variant: description`, and is appended to the
chapter.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from itertools import permutations
from typing import Any

from grader.course.reference import is_sealed, read_sealed_mistakes, reference_of
from grader.course.source import definition, replace_definition
from grader.course.syllabus import TESTS

KEYS = ("replace", "with", "says", "hint")
BASE_KEYS = {"lacks", "code"}
SOLUTION = "solution"  # the name of the first base


class CatalogueProblem(ValueError):
    """A chapter's file of known mistakes cannot be read; the message says why."""


class StaleEdit(ValueError):
    """A known mistake's edit no longer fits the solution; the message says which."""


@dataclass(frozen=True)
class Misconception:
    id: str
    exercise: str
    replace: str
    with_: str
    says: str
    hint: str

    def applied_to(self, text: str) -> str:
        """The text of the exercise's definition with this mistake in it. StaleEdit where the edit does not fit."""
        return _edited(text, self.replace, self.with_, self)

    def applied_to_chapter(self, text: str) -> str:
        """A chapter's text with this mistake in it. StaleEdit where the edit does not fit."""
        return replace_definition(text, self.exercise, self.applied_to(definition(text, self.exercise).text))


@dataclass(frozen=True)
class Base:
    """A natural way to write an exercise, into which known mistakes are put."""

    name: str
    exercise: str
    text: str  # the definition
    mistakes: tuple[str, ...] = ()  # the ids of the known mistakes that it has itself: `lacks` in the file
    # of the mistakes that are written differently here
    edits: dict[str, tuple[str, str]] = field(default_factory=dict, hash=False)

    def with_mistakes(self, mistakes: Iterable[Misconception]) -> str | None:
        """The definition with these mistakes in it; None if they do not fit, or change the same place."""
        for order in permutations(mistakes):
            text = self.text
            try:
                for mistake in order:
                    text = _edited(text, *self.edits.get(mistake.id, (mistake.replace, mistake.with_)), mistake)
                return text
            except StaleEdit:
                continue
        return None


def _edited(text: str, old: str, new: str, mistake: Misconception) -> str:
    count = text.count(old)
    if count != 1:
        place = f"{count} times in {mistake.exercise}, where it should occur once"
        raise StaleEdit(f"{mistake.id}: its `replace` occurs {place}")
    return text.replace(old, new)


@cache
def misconceptions(module: str, exercise: str | None = None) -> tuple[Misconception, ...]:
    """The known mistakes of a chapter, or of one of its exercises; an empty result if the chapter has no file of
    them."""
    if exercise is not None:
        return tuple(mistake for mistake in misconceptions(module) if mistake.exercise == exercise)
    tables = _tables("misconceptions", module)
    return tuple(
        _misconception(module, exercise, name, table)
        for exercise, mistakes in tables.items()
        for name, table in mistakes.items()
    )


@cache
def bases(module: str, exercise: str) -> tuple[Base, ...]:
    """The natural ways to write an exercise, the solution first; an empty result if there is no solution."""
    reference = reference_of(module)
    if reference is None:
        return ()
    own, tables = definition(reference.text, exercise).text, _tables("bases", module).get(exercise, {})
    return Base(SOLUTION, exercise, own), *(_base(module, exercise, name, table) for name, table in tables.items())


@cache
def _tables(kind: str, module: str) -> dict[str, Any]:
    """The tables of a chapter's file, by exercise; empty if there is no file."""
    if is_sealed(module):
        return read_sealed_mistakes(module).get(kind, {})
    path = TESTS / kind / f"{module}.toml"
    if not path.is_file():
        return {}
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:  # two mistakes with the same header too: a TOML file declares a table once
        raise CatalogueProblem(f"tests/{kind}/{path.name}: {problem}") from None
    for name, table in tables.items():
        if not isinstance(table, dict):
            advice = "write headers like [EXERCISE.name_of_the_mistake]"
            raise CatalogueProblem(f"tests/{kind}/{path.name}: `{name}` is outside every table; {advice}")
    return tables


@cache
def variants(module: str, exercise: str) -> list[tuple[str, str]]:
    """Each variant of an exercise: its description and its code."""
    if is_sealed(module):
        return [(name, text) for name, text in read_sealed_mistakes(module).get("variants", {}).get(exercise, ())]
    path = TESTS / "variants" / module / f"{exercise}.py"
    if not path.is_file():
        return []
    pieces = re.split(r"^# variant:[ \t]*(.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [(name.strip(), text) for name, text in zip(pieces[1::2], pieces[2::2])]


def catalogue(module: str, exercises: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The tables of these exercises in both files of a chapter, and their variants, for a handout."""
    chosen = set(exercises)
    tables: dict[str, dict[str, Any]] = {
        kind: {name: table for name, table in _tables(kind, module).items() if name in chosen}
        for kind in ("misconceptions", "bases")
    }
    return tables | {"variants": {name: variants(module, name) for name in sorted(chosen)}}


def _misconception(module: str, exercise: str, name: str, table: Any) -> Misconception:
    texts = isinstance(table, dict) and all(isinstance(text, str) for text in table.values())
    if not texts or set(table) != set(KEYS):
        where = f"tests/misconceptions/{module}.toml: [{exercise}.{name}]"
        raise CatalogueProblem(f"{where} should hold the texts {', '.join(KEYS)}, and nothing else")
    return Misconception(name, exercise, table["replace"], table["with"], table["says"], table["hint"])


def _base(module: str, exercise: str, name: str, table: Any) -> Base:
    wrong = f"tests/bases/{module}.toml: [{exercise}.{name}]"
    if not isinstance(table, dict) or set(table) - {"edits"} != BASE_KEYS:
        raise CatalogueProblem(f"{wrong} should have `lacks`, `code` and perhaps `edits`, and nothing else")
    edits, known = table.get("edits", {}), {mistake.id for mistake in misconceptions(module, exercise)}
    if unknown := {*table["lacks"], *edits} - known:
        raise CatalogueProblem(f"{wrong} names {', '.join(sorted(unknown))}, which is no known mistake of {exercise}")
    if not all(isinstance(edit, list) and len(edit) == 2 for edit in edits.values()):
        raise CatalogueProblem(f"{wrong}: each of its `edits` should be two texts, what to replace and with what")
    pairs = {mistake: (old, new) for mistake, (old, new) in edits.items()}
    return Base(name, exercise, table["code"], tuple(table["lacks"]), pairs)
