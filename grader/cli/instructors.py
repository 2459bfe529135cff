"""The commands for instructors: they parse, and grader/cli/commands does the work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from grader.cli.commands import completing

T = TypeVar("T")
course_commands = typer.Typer(help="Describe the course of a term (for instructors).", rich_markup_mode=None, no_args_is_help=True)

AT_ONCE = "How many submissions run at the same time (default: one per processor)."


Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The folder of the gradebook (default: grades, or grades/NAME for an assignment).", show_default=False),
]
CourseFile = Annotated[Path | None, typer.Option("--course", metavar="FILE", help="The course file (default: course.toml in this folder).", show_default=False)]
AssignmentName = Annotated[str, typer.Option("--assignment", metavar="NAME", help="An assignment of course.toml.", show_default=False)]
Maps = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="FILE=ch03", help="Read files of this name as this chapter, as in homework3.py=ch03. You can repeat it.", show_default=False),
]
Points = Annotated[Path | None, typer.Option(metavar="FILE", help="Your own points and rules for late work (TOML).", show_default=False)]
Jobs = Annotated[int | None, typer.Option("-j", "--jobs", min=1, max=64, metavar="N", help=AT_ONCE, show_default=False)]
Dask = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Grade on a Dask cluster.", show_default=False)]
RequireIsolation = Annotated[
    bool, typer.Option("--require-isolation", help="Refuse to run if a layer of the sandbox is missing; `headway doctor` lists the layers.")
]

Key = Annotated[Path | None, typer.Option("--key", metavar="FILE", help="The key of the pseudonyms, if the grades are anonymous and it has moved.", show_default=False)]


def grade(
    submissions: Annotated[Path, typer.Argument(metavar="SUBMISSIONS", help="A folder, an archive, a table (CSV) of people and paths, or one file.")],
    out: Out = None,
    assignment: AssignmentName = "",
    course: CourseFile = None,
    chapters: Annotated[str, typer.Option(metavar="ch03,ch05", help="The chapters to grade (default: all).", autocompletion=completing.chapters)] = "",
    exercises: Annotated[str, typer.Option(metavar="NAMES", help="The exercises to grade (default: all of these chapters).", autocompletion=completing.exercises)] = "",
    points: Points = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Draw other examples; the run stays repeatable.")] = 0,
    jobs: Jobs = None,
    require_isolation: RequireIsolation = False,
    dask: Dask = None,
    maps: Maps = None,
    copies: Annotated[
        str,
        typer.Option(
            metavar="newest|fullest|better",
            help="Of several versions of a chapter: the newest, the one with most exercises implemented, or the one with most points (up to three are judged).",
        ),
    ] = "newest",
    trust_file_dates: Annotated[
        bool, typer.Option("--trust-file-dates", help="Where no other time is known, use the dates of files for late work. Copying changes these dates.")
    ] = False,
    changed: Annotated[bool, typer.Option("--changed", help="List whose submission is new or changed. (Unchanged submissions are never graded twice.)")] = False,
    fewer: Annotated[bool, typer.Option("--fewer", help="Leave out exercises that the last run into this folder graded.")] = False,
    anonymous: Annotated[bool, typer.Option("--anonymous", help="Write pseudonyms instead of names; the key is one file that you keep.")] = False,
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The key (default: anonymous_key.csv, next to the course file or to the folder of the grades).", show_default=False),
    ] = None,
) -> None:
    """Grade a class (for instructors).

    With --assignment, course.toml says what is graded, and by which rules.

    With --anonymous, no file but the key has a name, an e-mail address, a login or a student number. What learners write into their code or print
    stays as it is, and may contain their names.

    Exit status: 0 if every submission was graded, 1 if some could not be graded, 2 if the command is wrong."""
    from grader.cli.commands.grade import grade
    from grader.cli.commands.grading_request import make_request

    request = _or_exit(make_request, submissions, out, chapters, exercises, seed, points, require_isolation, course, assignment)
    if key is not None and not anonymous:
        raise typer.BadParameter("--key goes with --anonymous; add it, or leave out --key")
    request = replace(request, maps=tuple(maps or ()), copies=copies, trust_file_dates=trust_file_dates, anonymous=anonymous, key=key)
    raise typer.Exit(grade(request, jobs, dask, changed, fewer))


def regrade(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A person: the name, e-mail address, login or number.")],
    out: Out = None,
    assignment: AssignmentName = "",
    course: CourseFile = None,
    submissions: Annotated[Path | None, typer.Option(metavar="SUBMISSIONS", help="The submissions, if they have moved.", show_default=False)] = None,
    points: Points = None,
    jobs: Jobs = None,
    require_isolation: RequireIsolation = False,
    dask: Dask = None,
    key: Key = None,
) -> None:
    """Grade one person again (for instructors).

    It uses the arguments of the last `headway grade`, except those that you give."""
    from grader.cli.commands.grade import regrade
    from grader.cli.commands.grading_request import folder_of

    raise typer.Exit(regrade(name, _or_exit(folder_of, out, course, assignment), jobs, dask, submissions, points, require_isolation, key))


def _or_exit(make: Callable[..., T], *arguments: Any) -> T:
    """The result; or its problem as one sentence, and exit status 2."""
    from grader.classroom.intake.problems import GradingProblem
    from grader.console.output import print_error

    try:
        return make(*arguments)
    except GradingProblem as trouble:
        print_error(str(trouble))
        raise typer.Exit(2) from None


Because = Annotated[str, typer.Option("--because", metavar="TEXT", help="The reason; the learner reads it.", show_default=False)]
AnyPerson = Annotated[str, typer.Argument(metavar="NAME", help="A person: the name, e-mail address, login or number.", show_default=False)]


def override(
    name: AnyPerson = "",
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
    name: AnyPerson = "",
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


def handout(
    folder: Annotated[Path | None, typer.Argument(metavar="DIR", help="The folder to make.", show_default=False)] = None,
    chapters: Annotated[str, typer.Option(metavar="ch03,ch05", help="The chapters that learners get (default: all).", autocompletion=completing.chapters)] = "",
    hidden: Annotated[
        str,
        typer.Option(metavar="NAMES", help="Exercises that only you grade: the folder has neither their tests nor their reference.", autocompletion=completing.exercises),
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier handout.")] = False,
    into: Annotated[
        Path | None, typer.Option("--into", metavar="FOLDER", help="Update this earlier handout; its owner's work stays.", show_default=False)
    ] = None,
    assignment: AssignmentName = "",
    course: CourseFile = None,
) -> None:
    """Make the folder that learners get (for instructors).

    It contains stubs, lessons and tests. The reference is sealed. With --assignment it has the chapters of the assignment's exercises, and
    hides those that course.toml calls hidden: their stubs are there, but neither their tests nor their reference."""
    from grader.cli.commands.handout import handout, update_handout

    if into is not None:
        raise typer.Exit(update_handout(into, folder, chapters, hidden, course, assignment))
    if folder is None:
        raise typer.BadParameter("name the folder to make, or an earlier handout with --into", param_hint="DIR")
    raise typer.Exit(handout(folder, chapters, hidden, force, course, assignment))


def gradescope(
    archive: Annotated[Path, typer.Argument(metavar="OUT.zip", help="The archive to make.")],
    chapters: Annotated[str, typer.Option(metavar="ch03,ch05", help="The chapters to grade (default: all).", autocompletion=completing.chapters)] = "",
    exercises: Annotated[str, typer.Option(metavar="NAMES", help="The exercises to grade (default: all of these chapters).", autocompletion=completing.exercises)] = "",
    hidden: Annotated[
        str, typer.Option(metavar="NAMES", help="Exercises whose results students see after you publish the grades.", autocompletion=completing.exercises)
    ] = "",
    points: Points = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Draw other examples; the run stays repeatable.")] = 0,
    torch_index: Annotated[
        str, typer.Option(metavar="ADDRESS", help="A package index with a CPU build of torch; PyTorch's page on its installation has the address.", show_default=False)
    ] = "",
    assignment: AssignmentName = "",
    course: CourseFile = None,
) -> None:
    """Make an autograder for Gradescope (for instructors).

    With --assignment it grades the exercises of the assignment by the rules of course.toml. Students see the results of its hidden exercises
    after you publish the grades.

    If the rules for late work have no due date, the due date in Gradescope counts. An extension in Gradescope always counts."""
    from grader.cli.commands.handout import gradescope

    raise typer.Exit(gradescope(archive, chapters, exercises, hidden, points, seed, torch_index, course, assignment))


@course_commands.command()
def init(
    export: Annotated[
        Path | None,
        typer.Argument(metavar="EXPORT", help="The people: a CSV from Canvas, Moodle or Gradescope, or your own.", show_default=False),
    ] = None,
    folder: Annotated[Path, typer.Option("--into", metavar="DIR", help="The folder of the course.")] = Path("."),
    title: Annotated[str, typer.Option(metavar="TEXT", help="The title of the course (default: the name of the folder).", show_default=False)] = "",
    columns: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="FIELD=TITLE", help="The title of a column of EXPORT, as in number=Matrikelnummer. You can repeat it.", show_default=False),
    ] = None,
) -> None:
    """Write a course.toml with comments, and the roster.

    The columns of the roster, and so the fields, are name, email, login, number, canvas_id, moodle_id, section and group.

    Exit status: 0 if it is written, 2 if not."""
    from grader.cli.commands.course import init

    raise typer.Exit(init(export, folder, title, columns or ()))


@course_commands.command()
def check(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="The course file (default: course.toml in this folder).", show_default=False)] = None,
) -> None:
    """Say what does not fit in course.toml, with its line.

    Exit status: 0 if everything fits, 1 if not, 2 if there is no such file."""
    from grader.cli.commands.course import check

    raise typer.Exit(check(file))
