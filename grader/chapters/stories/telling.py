"""A story in the making: who is in it, and its sentences."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import TypeVar

from grader.chapters.stories.cast import COLOURS, HOMES, PEOPLE, PETS, TIMES, with_article

Choice = TypeVar("Choice")

_BEGINNING = re.compile(r"(?:^|(?<=[.!] ))\w")


class Telling:
    """Draws choices, remembers names for them, and writes sentences.

    In a sentence, `{X}` is the main person with `{he}`, `{him}` and `{his}`, `{Y}` the other with `{yhe}`, `{yhim}` and
    `{yhis}`; a scene adds names.
    """

    def __init__(self, seed: str) -> None:
        self._draw = random.Random(seed).random  # only this method gives the same numbers in every version of Python
        self._names: dict[str, str] = {}
        self.sentences: list[str] = []
        first = self.pick(PEOPLE)
        # so "he" and "she" say who is meant
        second = self.pick([person for person in PEOPLE if person.kind != first.kind])
        kind, pet = self.pick(PETS)
        self.let(X=first.name, he=first.he, him=first.him, his=first.his, child=first.kind)
        self.let(
            Y=second.name, yhe=second.he, yhim=second.him, yhis=second.his, time=self.pick(TIMES), pet=kind, Pet=pet
        )

    def pick(self, choices: Sequence[Choice]) -> Choice:
        return choices[int(self._draw() * len(choices))]

    def pick_two(self, choices: Sequence[Choice]) -> tuple[Choice, Choice]:
        first = self.pick(choices)
        return first, self.pick([choice for choice in choices if choice is not first])

    def chance(self, share: float = 0.5) -> bool:
        return self._draw() < share

    def let(self, **names: str) -> None:
        self._names.update(names)

    def let_thing(self, choices: Sequence[str]) -> None:
        """Choose `{thing}`, with `{a_thing}`: "a red ball"."""
        thing, colour = self.pick(choices), self.pick(COLOURS)
        self.let(thing=thing, a_thing=with_article(f"{colour} {thing}"))

    def say(self, *choices: str) -> None:
        """Add one of these sentences."""
        text = self.pick(choices).format_map(self._names)
        self.sentences.append(_BEGINNING.sub(lambda found: found[0].upper(), text))

    def introduce(self) -> None:
        """Sometimes begin with who the main person is or where they live."""
        if self.chance(0.4):
            self.let(home=self.pick(HOMES), size=self.pick(("little", "small", "clever", "kind")))
            self.say("{X} was a {size} {child}.", "{X} lived {home}.", "there was a {size} {child} named {X}.")

    def maybe(self, *choices: str) -> None:
        """Add one of these sentences, or none."""
        if self.chance():
            self.say(*choices)

    def text(self) -> str:
        return " ".join(self.sentences)
