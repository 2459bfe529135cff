"""Known mistakes: reads tests/misconceptions/chNN_name.toml, and puts one mistake into the reference.

A table's header carries the exercise and the mistake's id, and the table describes the smallest edit of the solution:

    [softmax.softmax_nothing_subtracted]
    replace = "torch.exp(x - largest)"
    with = "torch.exp(x)"
    says = "..."
    hint = "..."
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from typing import Any

from grader.course.sealed import reader as sealed
from grader.course.source import definition, replace_definition
from grader.course.syllabus import TESTS

KEYS = ("replace", "with", "says", "hint")


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
    edit: sealed.Mistake | None = None  # in a handout, instead of the two texts

    def applied_to(self, text: str) -> str:
        """The text of the exercise's definition with this mistake in it. StaleEdit where the edit does not fit."""
        count = text.count(self.replace)
        if count != 1:
            raise StaleEdit(f"{self.id}: its `replace` occurs {count} times in {self.exercise}, where it should occur once")
        return text.replace(self.replace, self.with_)

    def applied_to_chapter(self, text: str) -> str:
        """A chapter's text with this mistake in it. StaleEdit where the edit does not fit."""
        return replace_definition(text, self.exercise, self.applied_to(definition(text, self.exercise).text))


@cache
def misconceptions(module: str, exercise: str | None = None) -> tuple[Misconception, ...]:
    """The known mistakes of a chapter, or of one of its exercises; an empty result if the chapter has no file of them."""
    if exercise is not None:
        return tuple(mistake for mistake in misconceptions(module) if mistake.exercise == exercise)
    tables = _tables(module)
    if tables is None:
        return tuple(Misconception(m.id, m.exercise, "", "", m.says, m.hint, m) for m in sealed.read_mistakes(module))
    return tuple(_misconception(module, exercise, name, table) for exercise, mistakes in tables.items() for name, table in mistakes.items())


@cache
def _tables(module: str) -> dict[str, Any] | None:
    """The file's tables, by exercise; None if there is no file."""
    path = TESTS / "misconceptions" / f"{module}.toml"
    if not path.is_file():
        return None
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:  # two mistakes with the same header too: a TOML file declares a table once
        raise CatalogueProblem(f"tests/misconceptions/{path.name}: {problem}") from None
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise CatalogueProblem(f"tests/misconceptions/{path.name}: `{name}` is outside every table; write headers like [EXERCISE.name_of_the_mistake]")
    return tables


def _misconception(module: str, exercise: str, name: str, table: Any) -> Misconception:
    if not isinstance(table, dict) or set(table) != set(KEYS) or not all(isinstance(text, str) for text in table.values()):
        raise CatalogueProblem(f"tests/misconceptions/{module}.toml: [{exercise}.{name}] should hold the texts {', '.join(KEYS)}, and nothing else")
    return Misconception(name, exercise, table["replace"], table["with"], table["says"], table["hint"])
