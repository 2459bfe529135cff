"""The endless corpus: every story by its number, and which stories are held out for validation."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from grader.chapters.stories import more_scenes, scenes
from grader.chapters.stories.telling import Telling

MOST_SENTENCES = 8
SCENES = (*scenes.SCENES, *more_scenes.SCENES)


def story(seed: int, number: int) -> str:
    """The story of this number: the same with every version of Python."""
    for attempt in count():
        telling = Telling(f"{seed} {number} {attempt}")
        scene = telling.pick(SCENES)
        telling.introduce()
        scene(telling)
        if len(telling.sentences) <= MOST_SENTENCES:
            return telling.text()
    raise AssertionError("unreachable")


def validation_stories(seed: int, is_validation: Callable[[str], bool], how_many: int) -> list[str]:
    """The first held-out stories. A held-out story is held out by its text, so it is not in the training stories either
    under another number."""
    found: list[str] = []
    for number in count():
        text = story(seed, number)
        if is_validation(text):
            found.append(text)
            if len(found) == how_many:
                return found
        if number > 1000 * (how_many + 10):
            return found  # a function that holds out almost nothing
    return found
