"""Runs a measurement, which computes the numbers of a lesson's table."""

from __future__ import annotations

import subprocess
import sys
from difflib import get_close_matches
from typing import Annotated

from grader.cli.arguments import argument
from grader.console.output import command_line, make_console, print_error, print_wrapped
from grader.course.syllabus import is_handout
from grader.teaching.measurements import list_measurements


def complete_measurement(incomplete: str) -> list[str]:
    return [name for name in list_measurements() if name.startswith(incomplete)]


def measure(
    name: Annotated[str | None, argument("NAME", "A measurement.", complete_measurement)] = None,
    options: Annotated[
        list[str] | None,
        argument("OPTIONS", "Options of the measurement, for example --seed 1 or --target exercises."),
    ] = None,
) -> int:
    """Repeat the measurement behind a table of a lesson.

    Without NAME it lists the measurements. `headway measure NAME --help` shows what NAME measures, and its options."""
    known = list_measurements()
    if name is None:
        return _list()
    if name not in known:
        near = get_close_matches(name, known, n=1)
        here = " in this handout" if is_handout() else ""
        advice = f"did you mean {near[0]}?" if near else "`headway measure` lists them all"
        print_error(f"there is no measurement {name!r}{here}; {advice}")
        return 2
    return subprocess.run([sys.executable, "-m", "grader.teaching.measurements", name, *(options or [])]).returncode


def _list() -> int:
    console, known = make_console(), list_measurements()
    if not known:
        print_wrapped(console, "This handout has no measurements: they belong to chapters that are not in it.")
        return 0
    for name, measurement in known.items():
        print_wrapped(console, name, style="bold")
        print_wrapped(console, measurement.title)
        console.print()
    console.print("To run one:")
    console.print(command_line("headway measure NAME"))
    return 0
