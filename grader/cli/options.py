"""The options that several commands for instructors share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from grader.cli.arguments import argument, complete_chapter, complete_exercise, option

ALL_EXERCISES = "(default: all of these chapters)"

Out = Annotated[
    Path | None,
    option("The folder of the gradebook (default: grades, or grades/NAME for an assignment).", metavar="DIR"),
]
CourseFile = Annotated[
    Path | None, option("The course file (default: course.toml in this folder).", "--course", metavar="FILE")
]
AssignmentName = Annotated[str, option("An assignment of course.toml.", "--assignment", metavar="NAME")]
Chapters = Annotated[str, option("The chapters (default: all).", metavar="ch03,ch05", autocompletion=complete_chapter)]
Exercises = Annotated[str, option(f"The exercises {ALL_EXERCISES}.", metavar="NAMES", autocompletion=complete_exercise)]
Seed = Annotated[int | None, option("Draw other examples; the run stays repeatable (default: 0).", metavar="N")]
Fewer = Annotated[bool, option("Leave out exercises or people that the last run into this folder graded.", "--fewer")]
Jobs = Annotated[
    int | None,
    option(
        "How many submissions run at the same time (default: one per processor).",
        "-j",
        "--jobs",
        min=1,
        max=64,
        metavar="N",
    ),
]
Dask = Annotated[str | None, option("Grade on a Dask cluster.", metavar="ADDRESS")]
RequireIsolation = Annotated[
    bool,
    option(
        "Refuse to run if a layer of the sandbox is missing; `headway doctor` lists the layers.", "--require-isolation"
    ),
]
Key = Annotated[
    Path | None,
    option("The key of the pseudonyms, if the grades are anonymous and it has moved.", "--key", metavar="FILE"),
]
Person = Annotated[str, argument("NAME", "A person: the name, e-mail address, login or number.")]


def split_option(words: str) -> list[str]:
    """The names in an option such as --chapters ch03,ch05."""
    return [name.strip() for name in words.split(",") if name.strip()]
