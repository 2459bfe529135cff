"""The commands that grade, correct and compare a class (for instructors): they parse, and grader/cli/commands does the work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from grader.cli.commands import completing
from grader.cli.instructor_options import (
    AssignmentName,
    Because,
    Chapters,
    Copies,
    CourseFile,
    Dask,
    Exercises,
    Fewer,
    Jobs,
    Key,
    Maps,
    Out,
    Person,
    Points,
    RequireIsolation,
    Seed,
    TrustFileDates,
)  # fmt: skip

T = TypeVar("T")


def grade(
    submissions: Annotated[Path, typer.Argument(metavar="SUBMISSIONS", help="A folder, an archive, a table (CSV) of people and paths, or one file.")],
    out: Out = None,
    assignment: AssignmentName = "",
    course: CourseFile = None,
    add: Annotated[bool, typer.Option("--add", help="Grade these submissions in addition to those of the last run into this folder, for example late ones.")] = False,
    chapters: Chapters = "",
    exercises: Exercises = "",
    points: Points = None,
    seed: Seed = None,
    jobs: Jobs = None,
    require_isolation: RequireIsolation = False,
    dask: Dask = None,
    maps: Maps = None,
    copies: Copies = "",
    trust_file_dates: TrustFileDates = False,
    changed: Annotated[bool, typer.Option("--changed", help="Only list whose submission is new or changed. (Unchanged submissions are never graded twice.)")] = False,
    fewer: Fewer = False,
    anonymous: Annotated[bool, typer.Option("--anonymous", help="Write pseudonyms instead of names; the key is one file that you keep.")] = False,
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The key (default: anonymous_key.csv, next to the course file or to the folder of the grades).", show_default=False),
    ] = None,
) -> None:
    """Grade a class (for instructors).

    With --assignment, course.toml says what is graded, and by which rules.

    With --add, a person who is in several folders gets the newer submission, and the others stay. It uses the arguments of the last run,
    except those that you give.

    With --anonymous, no file but the key has a name, an e-mail address, a login or a student number. What learners write into their code or print
    stays as it is, and may contain their names.

    Exit status: 0 if every submission was graded, 1 if some could not be graded, 2 if the command is wrong."""
    from grader.classroom.intake.options import NEWEST
    from grader.cli.commands.grade import grade
    from grader.cli.commands.grading_request import Given, make_request, split_names

    request = _or_exit(make_request, submissions, out, chapters, exercises, seed or 0, points, require_isolation, course, assignment)
    if key is not None and not anonymous and not add:
        raise typer.BadParameter("--key goes with --anonymous; add it, or leave out --key")
    request = replace(request, maps=tuple(maps or ()), copies=copies or NEWEST, trust_file_dates=trust_file_dates, anonymous=anonymous, key=key)
    given = Given(None, split_names(chapters), split_names(exercises), points, seed, require_isolation=require_isolation, key=key)
    raise typer.Exit(grade(request, jobs, dask, changed, fewer, add=given if add else None))


def regrade(
    name: Person,
    out: Out = None,
    assignment: AssignmentName = "",
    course: CourseFile = None,
    submissions: Annotated[
        Path | None, typer.Option(metavar="SUBMISSIONS", help="Where the submissions are, if they have moved; or newer ones.", show_default=False)
    ] = None,
    chapters: Chapters = "",
    exercises: Exercises = "",
    points: Points = None,
    seed: Seed = None,
    jobs: Jobs = None,
    require_isolation: RequireIsolation = False,
    dask: Dask = None,
    maps: Maps = None,
    copies: Copies = "",
    trust_file_dates: TrustFileDates = False,
    fewer: Fewer = False,
    key: Key = None,
) -> None:
    """Grade one person again (for instructors).

    It uses the arguments of the last `headway grade`, except those that you give. --map, --copies and --trust-file-dates are for this person
    (and the other members of the group), also in later runs. --chapters, --exercises, --points and --seed are for the whole class.

    Exit status: 0 if this person was graded, 1 if not, 2 if the command is wrong."""
    from grader.cli.commands.grade import regrade
    from grader.cli.commands.grading_request import Given, folder_of, split_names

    reading = (tuple(maps or ()), copies, trust_file_dates)
    given = Given(submissions, split_names(chapters), split_names(exercises), points, seed, *reading, require_isolation, key)
    raise typer.Exit(regrade(name, _or_exit(folder_of, out, course, assignment), given, jobs, dask, fewer))


def _or_exit(make: Callable[..., T], *arguments: Any) -> T:
    """The result; or its problem as one sentence, and exit status 2."""
    from grader.classroom.intake.problems import GradingProblem
    from grader.console.output import print_error

    try:
        return make(*arguments)
    except GradingProblem as trouble:
        print_error(str(trouble))
        raise typer.Exit(2) from None


def override(
    name: Person = "",
    exercise: Annotated[str, typer.Argument(metavar="EXERCISE", help="An exercise.", autocompletion=completing.exercises, show_default=False)] = "",
    points: Annotated[str, typer.Argument(metavar="POINTS", help="The points to give.", show_default=False)] = "",
    because: Because = "",
    revoke: Annotated[bool, typer.Option("--revoke", help="Let the verdict on EXERCISE count again.")] = False,
    show: Annotated[bool, typer.Option("--list", help="List all overrides, or those of NAME; also revoked ones.")] = False,
    out: Out = None,
    assignment: AssignmentName = "",
    course: CourseFile = None,
    key: Key = None,
) -> None:
    """Give points beside the verdict (for instructors).

    Grading again does not change them. The feedback and the table say what you gave, when and why. A deduction for lateness still
    applies to the total.

    Exit status: 0 if it is done, 2 if not."""
    from grader.cli.commands.correct import list_overrides, override
    from grader.cli.commands.grading_request import folder_of

    folder = _or_exit(folder_of, out, course, assignment)
    if show:
        raise typer.Exit(list_overrides(folder, name, key))
    if not name or not exercise or not (points or revoke):
        raise typer.BadParameter("write NAME EXERCISE POINTS --because TEXT, NAME EXERCISE --revoke, or [NAME] --list")
    raise typer.Exit(override(folder, name, exercise, points, because, revoke, key))


def note(
    name: Person = "",
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The sentence, in quotes.", show_default=False)] = "",
    revoke: Annotated[int | None, typer.Option("--revoke", metavar="NUMBER", help="Take the note with this number out.", show_default=False)] = None,
    show: Annotated[bool, typer.Option("--list", help="List all notes, or those of NAME, with their numbers; also revoked ones.")] = False,
    out: Out = None,
    assignment: AssignmentName = "",
    course: CourseFile = None,
    key: Key = None,
) -> None:
    """Add a sentence to a person's feedback (for instructors).

    Exit status: 0 if it is done, 2 if not."""
    from grader.cli.commands.correct import list_notes, note, revoke_note
    from grader.cli.commands.grading_request import folder_of

    folder = _or_exit(folder_of, out, course, assignment)
    if show:
        raise typer.Exit(list_notes(folder, name, key))
    if revoke is not None:
        raise typer.Exit(revoke_note(folder, revoke, key))
    if not name or not text:
        raise typer.BadParameter("write NAME TEXT, --revoke NUMBER, or [NAME] --list")
    raise typer.Exit(note(folder, name, text, key))


def marks(
    course: CourseFile = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="The folder to write to (default: grades, next to the course file).", show_default=False)] = None,
    key: Key = None,
) -> None:
    """Add up the marks of a term (for instructors).

    It writes marks.csv and marks.html, from the assignments that are graded so far.

    Exit status: 0 if they are written, 2 if not."""
    from grader.cli.commands.marks import marks

    raise typer.Exit(marks(course, out, key))


def similarity(
    submissions: Annotated[
        Path | None,
        typer.Argument(metavar="SUBMISSIONS", help="As for `headway grade` (default: those that the last run into --out graded).", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder to write to (default: grades, or grades/NAME for an assignment).", show_default=False),
    ] = None,
    assignment: AssignmentName = "",
    course: CourseFile = None,
    chapters: Annotated[str, typer.Option(metavar="ch03,ch05", help="The chapters to compare (default: all).", autocompletion=completing.chapters)] = "",
    exercises: Annotated[str, typer.Option(metavar="NAMES", help="The exercises to compare (default: all of these chapters).", autocompletion=completing.exercises)] = "",
    maps: Maps = None,
    copies: Annotated[
        str, typer.Option(metavar="newest|fullest", help="Of several versions of a chapter: the newest, or the one with most exercises implemented.")
    ] = "newest",
    key: Key = None,
) -> None:
    """List pairs with similar code (for instructors).

    It writes similarity.html, with the code of each pair side by side, and similarity.csv. Renamed variables, other comments and another
    order of functions make no difference. Code that the course explains is left out. A percentage proves nothing.

    Exit status: 0 if they are written, 2 if not."""
    from grader.cli.commands.grading_request import make_request
    from grader.cli.commands.similarity import similarity

    request = _or_exit(make_request, submissions or Path(), out, chapters, exercises, 0, None, False, course, assignment)
    raise typer.Exit(similarity(replace(request, maps=tuple(maps or ()), copies=copies, key=key), submissions is not None))
