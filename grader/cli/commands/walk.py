"""Guided tours of what the learner has built."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

from grader.cli.arguments import argument, option
from grader.console.output import command_line, make_console, print_error, print_wrapped
from grader.course.names import match_name
from grader.course.syllabus import is_handout
from grader.teaching.walks import list_walks

DONE, FAILED, UNUSABLE = 0, 1, 2


def complete_walk(incomplete: str) -> list[str]:
    return [name for name in list_walks() if name.startswith(incomplete)]


def walk(
    typed: Annotated[str | None, argument("NAME", "A tour.", complete_walk)] = None,
    seed: Annotated[
        int,
        option("Use other random numbers; the run stays repeatable (default: 0).", min=0, max=2**31 - 1, metavar="N"),
    ] = 0,
    pace: Annotated[bool, option("Wait for a key before each step.", "--pace")] = False,
    out: Annotated[Path | None, option("Write the picture to this file (.svg).", metavar="FILE")] = None,
) -> int:
    """Take a guided tour of what you have built, or list the tours.

    Without NAME it lists them.

    Exit status: 0 if the tour was taken, 1 if its picture was not saved, 2 if the command is wrong."""
    if typed is None:
        return _list()
    name = match_name(typed, list_walks())
    if name is None:
        near = get_close_matches(typed, list_walks(), n=1)
        advice = f"did you mean {near[0]}?" if near else "`headway walk` lists them all"
        print_error(f"there is no walk {typed!r}; {advice}")
        return UNUSABLE
    if out is not None and (out.suffix.lower() != ".svg" or out.is_dir()):
        example = out.with_suffix(".svg").name if out.name else f"{name}.svg"
        print_error(f"--out: the picture is an SVG, so give a file that ends in .svg, as {example}")
        return UNUSABLE
    # here: they import torch, which the list does not need
    from grader.teaching.walks.guide import PictureNotSaved, run_walk
    from grader.teaching.walks.walk_page import WalkQuit

    try:
        run_walk(name, seed, pace and sys.stdin.isatty() and sys.stdout.isatty(), out)
    except WalkQuit:
        return DONE
    except PictureNotSaved as problem:
        print_error(str(problem))
        return FAILED
    return DONE


def _list() -> int:
    console, walks = make_console(), _possible() if is_handout() else list_walks()
    if not walks:
        print_wrapped(console, "This handout has no walks, because they need exercises that are not in it.")
        return DONE
    for name, title in walks.items():
        print_wrapped(console, name, style="bold")
        print_wrapped(console, title)
        console.print()
    console.print("To take one:")
    console.print(command_line("headway walk NAME"))
    return DONE


def _possible() -> dict[str, str]:
    """The walks whose exercises are all in this handout."""
    from grader.teaching.walks.guide import load_available_walk
    from grader.teaching.walks.parts import NotInHandout

    def is_here(name: str) -> bool:
        try:
            load_available_walk(name)
        except NotInHandout:
            return False
        return True

    return {name: title for name, title in list_walks().items() if is_here(name)}
