"""Draws what an exercise computes: the learner's result next to the reference's."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import Annotated

from grader.cli.arguments import InWorker, argument, complete_exercise, named, option
from grader.console.output import make_console, print_error, print_wrapped
from grader.course.status import exercise_of, read_course
from grader.course.syllabus import Chapter, Exercise
from grader.processes.client import AnyServer, NoServer, ServerLost
from grader.processes.job import PictureJob
from grader.teaching.show import exercises_with_pictures, has_picture
from grader.teaching.show.panels import Picture
from grader.teaching.show.terminal import find_colour_system, render_picture
from rich.console import Console

DRAWN, NOTHING = 0, 1


def complete_drawable(incomplete: str) -> list[str]:
    return [name for name in complete_exercise(incomplete) if has_picture(name)]


def show(
    name: Annotated[list[str] | None, argument("NAME", "An exercise.", complete_drawable)] = None,
    yours: Annotated[bool, option("Draw your result alone; the reference's is not computed.", "--yours")] = False,
    worker: InWorker = False,
) -> int:
    """Draw your result of an exercise next to the reference's."""
    found = named(name) if name else exercise_of(None)
    if not isinstance(found, Exercise) or not has_picture(found.name):
        return _list_pictures(found, is_chosen=bool(name))
    try:
        picture = drawn(PictureJob(found.name, os.getcwd(), worker, cold=worker, yours_alone=yours))
    except ServerLost as problem:
        print_error(str(problem))
        return NOTHING
    console, colour = _terminal()
    for line in render_picture(picture, console.width, colour):
        console.print(line, soft_wrap=True, no_wrap=True)
    return DRAWN


def drawn(job: PictureJob) -> Picture:
    """Draw in a server that is started for this. ServerLost, with a sentence, if that gives no picture."""
    with contextlib.closing(AnyServer()) as server:
        try:
            for message in server.answers(job):
                match message:
                    case {"picture": data}:
                        return Picture.from_data(data)
                    case {"trouble": sentence}:
                        raise ServerLost(f"no picture: {sentence}")
        except NoServer as problem:
            raise ServerLost(f"no picture: {problem or 'the process that draws it has ended'}") from None
    raise ServerLost("no picture: the process that draws it has ended; `headway doctor` may find the reason")


def _list_pictures(found: Exercise | Chapter | None, is_chosen: bool) -> int:
    """List the exercises that have a picture, of the given chapter or of all."""
    console, course, status = make_console(), read_course(), DRAWN
    chapters: Sequence[Chapter] = course.chapters
    if isinstance(found, Exercise):
        status = NOTHING if is_chosen else DRAWN
        which = found.name if is_chosen else f"The next exercise, {found.name},"
        print_wrapped(console, f"{which} has no picture. These exercises have one:")
        found = course.chapter(found.chapter) if is_chosen else None
    if found and exercises_with_pictures(found):
        chapters = [found]
    for chapter in chapters:
        names = ", ".join(exercise.name for exercise in exercises_with_pictures(chapter))
        if names:
            print_wrapped(console, f"{chapter.number:>2} {chapter.title}: {names}")
    console.print("To see one: headway show NAME")
    return status


def _terminal() -> tuple[Console, str | None]:
    """Where to draw, at its width and with the colours that it supports."""
    plain = make_console()
    system = find_colour_system() if plain.is_terminal else None
    width = Console().width if plain.is_terminal else plain.width
    return Console(color_system=system, width=width, highlight=False, markup=False, emoji=False), system
