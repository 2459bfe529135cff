"""`headway repro`: makes a failed call again."""

from __future__ import annotations

from typing import Annotated

from grader.cli.arguments import AnyExercise, named_exercise, option


def repro(
    name: AnyExercise = None,
    debug: Annotated[
        bool, option("Stop in the debugger before the call, or where your code raises an error.", "--pdb")
    ] = False,
) -> int:
    """Make a failed call again, outside of the tests.

    Without NAME it is the call of the last failure. The call is a script in exercises/.headway/repro, which you can
    also open in your editor.

    Exit status: 0 if the result is right, 1 if it is still wrong, 2 if there is nothing to run."""
    from grader.cli.failed_call import repeat  # here: it imports torch, which the list of commands does not need

    return repeat(named_exercise(name) if name else None, debug)
