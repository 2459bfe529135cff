"""Runs a measurement, which computes the numbers of a lesson's table."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

from grader.cli.arguments import argument
from grader.console.output import command_line, make_console, print_error, print_wrapped
from grader.course.source import read_source
from grader.course.syllabus import is_handout

MEASUREMENTS = Path(__file__).parents[2] / "teaching" / "measurements"


def complete_measurement(incomplete: str) -> list[str]:
    return [name for name in known() if name.startswith(incomplete)]


def known() -> dict[str, Path]:
    """The measurements by name, in the order of their lessons."""
    return {
        path.stem: path for path in sorted(MEASUREMENTS.glob("[!_]*.py"), key=lambda path: (_lesson(path), path.stem))
    }


def _lesson(path: Path) -> int:
    number = re.search(r"Lesson (\d+)", _summary(path))
    return int(number[1]) if number else 0


def _summary(path: Path) -> str:
    return (ast.get_docstring(ast.parse(read_source(path))) or "").partition("\n")[0]


def measure(
    name: Annotated[str | None, argument("NAME", "A measurement.", complete_measurement)] = None,
    options: Annotated[
        list[str] | None,
        argument("OPTIONS", "Options of the measurement, for example --seed 1 or --target exercises."),
    ] = None,
) -> int:
    """Repeat the measurement behind a table of a lesson.

    Without NAME it lists the measurements. `headway measure NAME --help` shows what NAME measures, and its options."""
    if name is None:
        return _list()
    if name not in known():
        near = get_close_matches(name, known(), n=1)
        here, advice = (
            " in this handout" if is_handout() else "",
            f"did you mean {near[0]}?" if near else "`headway measure` lists them all",
        )
        print_error(f"there is no measurement {name!r}{here}; {advice}")
        return 2
    return subprocess.run([sys.executable, "-m", f"grader.teaching.measurements.{name}", *(options or [])]).returncode


def _list() -> int:
    console = make_console()
    if not known():
        why = "they belong to chapters that are not in it, or need exercises that are hidden"
        print_wrapped(console, f"This handout has no measurements: {why}.")
        return 0
    for name, path in known().items():
        print_wrapped(console, name, style="bold")
        print_wrapped(console, _summary(path))
        console.print()
    console.print("To run one:")
    console.print(command_line("headway measure NAME"))
    return 0
