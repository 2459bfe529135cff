"""The NAME arguments of the commands, with Tab completion.

Several words are one name where they form a title: `headway check kv cache`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer
from grader.course.names import join_or, normalise
from grader.course.status import read_course
from grader.course.syllabus import ROOT, Chapter, Exercise, UnknownName, load_syllabus

MAX_TITLE_WORDS = 5
DESIGNS = (
    "learned", "sinusoidal", "rope", "alibi", "pre", "post", "dense", "moe", "heads=1", "heads=4", "words", "bpe",
    "mini", "tiny", "small", "translate",
)  # fmt: skip


def option(text: str, *names: str, **more: Any) -> Any:
    """An option with this help, which says the default itself."""
    return typer.Option(*names, help=text, show_default=False, **more)


def argument(metavar: str, text: str, complete: Callable[[str], list[str]] | None = None) -> Any:
    return typer.Argument(metavar=metavar, help=text, autocompletion=complete, show_default=False)


# ---- Tab completion: the names that begin with the typed text


def complete_name(incomplete: str) -> list[str]:
    return complete_exercise(incomplete) + complete_chapter(incomplete)


def complete_exercise(incomplete: str) -> list[str]:
    try:
        names = [exercise.name for exercise in load_syllabus().exercises]
    except Exception:  # a broken syllabus gets its sentence when the command runs
        return []
    return [name for name in names if name.lower().startswith(incomplete.lower())]


def complete_chapter(incomplete: str) -> list[str]:
    try:
        chapters = [chapter for chapter in load_syllabus().chapters if chapter.exercises]
    except Exception:
        return []
    return [chapter.id for chapter in chapters if chapter.name.lower().startswith(incomplete.lower())]


def complete_checkpoint(incomplete: str) -> list[str]:
    names = [path.parent.name for path in (ROOT / "checkpoints").glob("*/checkpoint.json")]
    return [name for name in names if name.startswith(incomplete)]


def complete_model(incomplete: str) -> list[str]:
    """Checkpoints, and the words for designs."""
    return complete_checkpoint(incomplete) + [word for word in DESIGNS if word.startswith(incomplete)]


NAME = argument("NAME", "An exercise, or a chapter: its number or its title.", complete_name)
EXERCISE = argument("NAME", "An exercise.", complete_exercise)
AnyName = Annotated[list[str] | None, NAME]
RequiredName = Annotated[list[str], NAME]
AnyExercise = Annotated[list[str] | None, EXERCISE]
RequiredExercise = Annotated[list[str], EXERCISE]


# ---- names of several words


def join_words(words: list[str]) -> str:
    """The one name that these words form.

    UnknownName where each of them is a name of its own, because the command takes one.
    """
    name = " ".join(words)
    if len(words) > 1 and _find(name) is None and all(map(_find, words)):
        raise UnknownName(f"{name!r} is {len(words)} names, and this command takes one: {join_or(words)}")
    return name


def join_optional(words: list[str] | None) -> str | None:
    return join_words(words) if words else None


def split_names(words: list[str] | None) -> list[str]:
    """The names that these words form, for a command that takes several.

    UnknownName where the words of a title may also be names of their own.
    """
    left, names = list(words or ()), []
    while left:
        sizes = range(min(MAX_TITLE_WORDS, len(left)), 1, -1)
        size = next((size for size in sizes if _find(" ".join(left[:size]))), 1)
        name = " ".join(left[:size])
        meant, apart = _find(name), [_find(word) for word in left[:size]]
        is_title = isinstance(meant, Chapter) and normalise(meant.title) == normalise(name)
        if size > 1 and not is_title and all(apart) and apart != [meant] * size:
            ways = f"{_describe(meant)}, or {' and '.join(map(_describe, apart))}"
            raise UnknownName(f"{name!r} may mean {ways}; use the ids of the chapters")
        names.append(name)
        del left[:size]
    return names


def _find(name: str) -> Exercise | Chapter | None:
    course = read_course()
    try:
        return course.find(name)
    except UnknownName:
        return None


def _describe(found: Exercise | Chapter | None) -> str:
    return f"{found.id} ({found.title})" if isinstance(found, Chapter) else found.name if found else ""
