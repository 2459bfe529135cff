"""The options that several commands for instructors share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from grader.cli.arguments import complete_chapter, complete_exercise, option

ALL_EXERCISES = "(default: all of these chapters)"
VERSIONS = (
    "Of several versions of a chapter: the newest, the one with most exercises implemented, or the one with most points "
    "(up to three are judged)."
)

Out = Annotated[
    Path | None, option(metavar="DIR", help="The folder of the gradebook (default: grades, or grades/NAME for an assignment).")
]
CourseFile = Annotated[Path | None, option("--course", metavar="FILE", help="The course file (default: course.toml in this folder).")]
AssignmentName = Annotated[str, option("--assignment", metavar="NAME", help="An assignment of course.toml.")]
Chapters = Annotated[str, option(metavar="ch03,ch05", help="The chapters (default: all).", autocompletion=complete_chapter)]
Exercises = Annotated[
    str, option(metavar="NAMES", help=f"The exercises {ALL_EXERCISES}.", autocompletion=complete_exercise)
]
Points = Annotated[Path | None, option(metavar="FILE", help="Your own points and rules for late work (TOML).")]
Seed = Annotated[int | None, option(metavar="N", help="Draw other examples; the run stays repeatable (default: 0).")]
Maps = Annotated[
    list[str] | None,
    option("--map", metavar="FILE=ch03", help="Read files of this name as this chapter, as in homework3.py=ch03. You can repeat it."),
]
Copies = Annotated[str, option(metavar="newest|fullest|better", help=VERSIONS)]
TrustFileDates = Annotated[
    bool,
    option(
        "--trust-file-dates",
        help="Where no other time is known, use the dates of files for late work. Copying changes these dates.",
    ),
]
Fewer = Annotated[bool, option("--fewer", help="Leave out exercises or people that the last run into this folder graded.")]
Jobs = Annotated[
    int | None, option("-j", "--jobs", min=1, max=64, metavar="N", help="How many submissions run at the same time (default: one per processor).")
]
Dask = Annotated[str | None, option(metavar="ADDRESS", help="Grade on a Dask cluster.")]
RequireIsolation = Annotated[
    bool, option("--require-isolation", help="Refuse to run if a layer of the sandbox is missing; `headway doctor` lists the layers.")
]
Key = Annotated[
    Path | None, option("--key", metavar="FILE", help="The key of the pseudonyms, if the grades are anonymous and it has moved.")
]
Person = Annotated[
    str, typer.Argument(metavar="NAME", help="A person: the name, e-mail address, login or number.", show_default=False)
]
