"""`headway course` describes the course of a term, and `headway marks` adds up its marks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from grader.classroom.exports import write_marks
from grader.classroom.grading_options import read_term_marks
from grader.classroom.intake.submissions import GradingProblem
from grader.classroom.judging.marks import format_points
from grader.classroom.sanitize import line, list_names
from grader.classroom.term.course import (
    GRADES,
    Assignment,
    find_course,
    read_course_file,
    write_course,
)
from grader.cli.arguments import CourseFile, Key, argument, option
from grader.console.output import make_console, print_error, print_wrapped
from grader.counts import format_count
from grader.course.status import short_path
from grader.files import make_private

DONE, DOES_NOT_FIT = 0, 1
MAX_LINE_CHARACTERS = 2000

course_commands = typer.Typer(
    help="Describe the course of a term.", rich_markup_mode=None, no_args_is_help=True
)


@course_commands.command()
def init(
    export: Annotated[
        Path | None,
        argument("EXPORT", "The people: a CSV from Canvas, Moodle or Gradescope, or your own."),
    ] = None,
    folder: Annotated[Path, option("The folder of the course (default: this folder).", "--into", metavar="DIR")] = Path(
        "."
    ),
    title: Annotated[str, option("The title of the course (default: the name of the folder).", metavar="TEXT")] = "",
) -> int:
    """Write a course.toml with comments, and the roster.

    The columns of the roster, and so the fields, are name, email, login, number, canvas_id, moodle_id, section and
    group.

    Exit status: 0 if it is written, 2 if not."""
    path, found = write_course(folder, title or folder.resolve().name, export)
    console = make_console()
    roster = f", and roster.csv has {format_count(len(found.people), 'person', 'people')}" if found.people else ""
    print_wrapped(
        console, f"{short_path(path)} is written{roster}. Edit its assignments, then run `headway course check`."
    )
    return DONE


@course_commands.command()
def check(
    file: Annotated[Path | None, argument("FILE", "The course file (default: course.toml in this folder).")] = None,
) -> int:
    """Say what does not fit in course.toml.

    Exit status: 0 if everything fits, 1 if not, 2 if there is no such file."""
    path = find_course(file, "name one with `headway course check FILE`")
    try:
        course = read_course_file(path)
    except GradingProblem as misfit:
        print_error(str(misfit))
        return DOES_NOT_FIT
    console, people = make_console(), format_count(len(course.roster.people), "person", "people")
    print_wrapped(console, f"{course.title or course.path.name}: {people} in the roster.")
    for assignment in course.assignments:
        print_wrapped(console, _describe(assignment))
    return DONE


def _describe(one: Assignment) -> str:
    points = sum(map(one.rules.points_of, one.exercises))
    facts = [f"{format_count(len(one.exercises), 'exercise')}, {points:g} points, weight {format_points(one.weight)}"]
    if one.rules.own_tests:
        facts.append("own tests")
    if one.rules.due:
        facts.append(f"due {one.rules.due:%Y-%m-%d %H:%M}")
    if one.rules.extensions:
        facts.append(format_count(len(one.rules.extensions), "extension"))
    if one.hidden:
        facts.append(f"hidden: {', '.join(one.hidden)}")
    return f"{one.name}: {', '.join(facts)}."


# ---- the marks of a term


def marks(
    course: CourseFile = None,
    out: Annotated[
        Path | None, option("The folder to write to (default: grades, next to the course file).", metavar="DIR")
    ] = None,
    key: Key = None,
) -> int:
    """Add up the marks of a term.

    It writes marks.csv, from the assignments that are graded so far.

    Exit status: 0 if they are written, 2 if not."""
    term = read_course_file(find_course(course))
    found = read_term_marks(term, key)
    folder = out or term.path.parent / GRADES
    written = write_marks(found, folder)
    if out is None:
        make_private(folder)
    for name in found.classes:
        missing = [person.who.name for person in found.people if name in person.missing]
        words = f"; missing: {list_names(missing)}" if missing else ""
        people = format_count(len(found.people), "person", "people")
        _print(f"{name}: {len(found.people) - len(missing)} of {people}{words}")
    for note in found.notes:
        _print(f"Note: {note}")
    _print(f"Written: {short_path(written)}.")
    return DONE


def _print(sentence: str) -> None:
    make_console().print(line(sentence, MAX_LINE_CHARACTERS), soft_wrap=True)
