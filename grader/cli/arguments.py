"""The NAME arguments of the commands. Several words are one name where they form a title: `headway check kv cache`."""

from __future__ import annotations

from typing import Annotated

import typer
from grader.cli.commands import completing
from grader.course.names import join_or
from grader.course.syllabus import Chapter, Exercise, UnknownName

MOST_WORDS = 5  # of one title

AnyName = Annotated[
    list[str] | None, typer.Argument(metavar="NAME", help="An exercise, or a chapter: its number or its title.", autocompletion=completing.names, show_default=False)
]
RequiredName = Annotated[list[str], typer.Argument(metavar="NAME", help="An exercise, or a chapter: its number or its title.", autocompletion=completing.names)]
ExerciseName = Annotated[list[str], typer.Argument(metavar="NAME", help="An exercise.", autocompletion=completing.exercises)]
AnyExercise = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="An exercise.", autocompletion=completing.exercises, show_default=False)]
AnyDrawable = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="An exercise.", autocompletion=completing.drawable, show_default=False)]
AnyWalk = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="A tour.", autocompletion=completing.walks, show_default=False)]
Names = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Exercises and chapters (default: all).", autocompletion=completing.names, show_default=False)]


def join_words(words: list[str]) -> str:
    """The one name that these words form. UnknownName where each of them is a name of its own, because the command takes one."""
    name = " ".join(words)
    if len(words) > 1 and _find(name) is None and all(map(_find, words)):
        raise UnknownName(f"{name!r} is {len(words)} names, and this command takes one: {join_or(words)}")
    return name


def join_optional(words: list[str] | None) -> str | None:
    return join_words(words) if words else None


def split_names(words: list[str] | None) -> list[str]:
    """The names that these words form, for a command that takes several. UnknownName where the words of a title are also names of something else."""
    left, names = list(words or ()), []
    while left:
        sizes = range(min(MOST_WORDS, len(left)), 1, -1)
        size = next((size for size in sizes if _find(" ".join(left[:size]))), 1)
        name = " ".join(left[:size])
        meant, apart = _find(name), [_find(word) for word in left[:size]]
        if size > 1 and all(apart) and apart != [meant] * size:
            raise UnknownName(f"{name!r} may mean {_describe(meant)}, or {' and '.join(map(_describe, apart))}; use the ids of the chapters")
        names.append(name)
        del left[:size]
    return names


def _find(name: str) -> Exercise | Chapter | None:
    from grader.course.status import read_course

    course = read_course()
    try:
        return course.find(name)
    except UnknownName:
        return None


def _describe(found: Exercise | Chapter | None) -> str:
    return f"{found.id} ({found.title})" if isinstance(found, Chapter) else found.name if found else ""
