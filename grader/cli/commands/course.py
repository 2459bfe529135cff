"""`headway course init` writes a course.toml, and `headway course check` says what does not fit in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from grader.classroom.intake.problems import GradingProblem
from grader.classroom.judging.scoring import format_points
from grader.classroom.report.numbers import format_count
from grader.classroom.sanitize import list_names
from grader.classroom.term.course_file import Assignment, check_course_file, find_course
from grader.classroom.term.new_course import write_course
from grader.classroom.term.roster import FIELDS
from grader.classroom.term.roster_table import parse_column_names
from grader.console.output import make_console, print_error, print_wrapped
from grader.course.status import short_path

DONE, DOES_NOT_FIT, WRONG_USE = 0, 1, 2
SHOWN = 8  # columns in one sentence


def init(export: Path | None, folder: Path, title: str, columns: Sequence[str] = ()) -> int:
    """Write course.toml and the roster; the exit status is 0, or 2 if that is not possible."""
    try:
        if columns and export is None:
            raise GradingProblem("--column is about the columns of EXPORT; name this file, too")
        path, found = write_course(folder, title or folder.resolve().name, export, parse_column_names(columns))
    except GradingProblem as trouble:
        print_error(str(trouble))
        return WRONG_USE
    console = make_console()
    roster = f", and roster.csv has {format_count(len(found.people), 'person', 'people')}" if found.people else ""
    print_wrapped(console, f"{short_path(path)} is written{roster}. Edit its assignments, then run `headway course check`.")
    if export and found.unused:
        print_wrapped(console, f"Note: {export.name} has columns that were not used: {list_names(found.unused, SHOWN)}. To use one, name it like --column number=TITLE.")
    return DONE


def check(named: Path | None) -> int:
    """Print what does not fit; the exit status is 0 if everything fits, 1 if not, 2 if there is no such file."""
    try:
        course, problems = check_course_file(find_course(named, "name one with `headway course check FILE`"))
    except GradingProblem as trouble:
        print_error(str(trouble))
        return WRONG_USE
    if course is None:
        for sentence in problems:
            print_error(sentence)
        return DOES_NOT_FIT
    console = make_console()
    print_wrapped(console, f"{course.title or course.path.name}: {format_count(len(course.roster.people), 'person', 'people')} in the roster.")
    for assignment in course.assignments:
        print_wrapped(console, _describe(assignment))
    for drop in course.drops:
        print_wrapped(console, f"The best {drop.best} of {', '.join(drop.assignments)} count.")
    if course.roster.unused:
        print_wrapped(console, f"Note: the roster has columns that are not used: {list_names(course.roster.unused, SHOWN)}. The columns are {', '.join(FIELDS)}.")
    return DONE




def _describe(one: Assignment) -> str:
    points = sum(map(one.rules.points_of, one.exercises))
    due = f", due {one.rules.due:%Y-%m-%d %H:%M}" if one.rules.due else ""
    extended = f", {format_count(len(one.rules.extensions), 'extension')}" if one.rules.extensions else ""
    hidden = f", hidden: {', '.join(one.hidden)}" if one.hidden else ""
    return f"{one.name}: {format_count(len(one.exercises), 'exercise')}, {points:g} points, weight {format_points(one.weight)}{due}{extended}{hidden}."
