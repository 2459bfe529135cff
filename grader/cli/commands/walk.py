"""Guided tours of what the learner has built."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated

from grader.cli.arguments import argument, option
from grader.console.output import command_line, make_console, print_error, print_wrapped
from grader.course.names import match_name
from grader.course.syllabus import is_handout
from grader.teaching.walks import list_walks

DONE, UNUSABLE = 0, 2


def complete_walk(incomplete: str) -> list[str]:
    return [name for name in list_walks() if name.startswith(incomplete)]


def walk(
    typed: Annotated[str | None, argument("NAME", "A tour.", complete_walk)] = None,
    seed: Annotated[
        int,
        option("Use other random numbers; the run stays repeatable (default: 0).", min=0, max=2**31 - 1, metavar="N"),
    ] = 0,
) -> int:
    """Take a guided tour of what you have built, or list the tours.

    Without NAME it lists them.

    Exit status: 0 if the tour was taken, 2 if the command is wrong."""
    if typed is None:
        return _list()
    name = match_name(typed, list_walks())
    if name is None:
        near = get_close_matches(typed, list_walks(), n=1)
        advice = f"did you mean {near[0]}?" if near else "`headway walk` lists them all"
        print_error(f"there is no walk {typed!r}; {advice}")
        return UNUSABLE
    from grader.teaching.walks.guide import run_walk  # here: it imports torch, which the list does not need

    run_walk(name, seed)
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
