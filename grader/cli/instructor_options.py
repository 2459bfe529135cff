"""The options that several commands for instructors share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from grader.cli.commands import completing

AT_ONCE = "How many submissions run at the same time (default: one per processor)."
VERSIONS = "Of several versions of a chapter: the newest, the one with most exercises implemented, or the one with most points (up to three are judged)."

Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The folder of the gradebook (default: grades, or grades/NAME for an assignment).", show_default=False),
]
CourseFile = Annotated[Path | None, typer.Option("--course", metavar="FILE", help="The course file (default: course.toml in this folder).", show_default=False)]
AssignmentName = Annotated[str, typer.Option("--assignment", metavar="NAME", help="An assignment of course.toml.", show_default=False)]
Chapters = Annotated[str, typer.Option(metavar="ch03,ch05", help="The chapters to grade (default: all).", autocompletion=completing.chapters)]
Exercises = Annotated[str, typer.Option(metavar="NAMES", help="The exercises to grade (default: all of these chapters).", autocompletion=completing.exercises)]
Points = Annotated[Path | None, typer.Option(metavar="FILE", help="Your own points and rules for late work (TOML).", show_default=False)]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Draw other examples; the run stays repeatable (default: 0).", show_default=False)]
Maps = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="FILE=ch03", help="Read files of this name as this chapter, as in homework3.py=ch03. You can repeat it.", show_default=False),
]
Copies = Annotated[str, typer.Option(metavar="newest|fullest|better", help=VERSIONS, show_default=False)]
TrustFileDates = Annotated[
    bool, typer.Option("--trust-file-dates", help="Where no other time is known, use the dates of files for late work. Copying changes these dates.")
]
Fewer = Annotated[bool, typer.Option("--fewer", help="Leave out exercises or people that the last run into this folder graded.")]
Jobs = Annotated[int | None, typer.Option("-j", "--jobs", min=1, max=64, metavar="N", help=AT_ONCE, show_default=False)]
Dask = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Grade on a Dask cluster.", show_default=False)]
RequireIsolation = Annotated[
    bool, typer.Option("--require-isolation", help="Refuse to run if a layer of the sandbox is missing; `headway doctor` lists the layers.")
]
Key = Annotated[Path | None, typer.Option("--key", metavar="FILE", help="The key of the pseudonyms, if the grades are anonymous and it has moved.", show_default=False)]
Person = Annotated[str, typer.Argument(metavar="NAME", help="A person: the name, e-mail address, login or number.", show_default=False)]
Because = Annotated[str, typer.Option("--because", metavar="TEXT", help="The reason; the learner reads it.", show_default=False)]
