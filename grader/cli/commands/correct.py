"""`headway override` gives points beside a verdict, and writes all files again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated

import typer
from grader.classroom import exports, report
from grader.classroom.gradebook.corrections import Override, Owner
from grader.classroom.gradebook.gradebook import Gradebook
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.judging.scoring import CENT, format_points
from grader.classroom.report.page import read_context
from grader.classroom.sanitize import line, shorten
from grader.cli.arguments import AssignmentName, CourseFile, Key, Out, Person, argument, complete_exercise, option
from grader.cli.commands.anonymity import StoredClass, stored_class
from grader.cli.commands.grading_options import folder_of
from grader.console.output import make_console, print_error
from grader.course.syllabus import load_syllabus

DONE = 0


def override(
    name: Person = "",
    exercise: Annotated[str, argument("EXERCISE", "An exercise.", complete_exercise)] = "",
    points: Annotated[str, argument("POINTS", "The points to give.")] = "",
    because: Annotated[str, option("The reason; the learner reads it.", "--because", metavar="TEXT")] = "",
    revoke: Annotated[bool, option("Let the verdict on EXERCISE count again.", "--revoke")] = False,
    show: Annotated[bool, option("List all overrides, or those of NAME; also revoked ones.", "--list")] = False,
    out: Out = None,
    assignment: AssignmentName = "",
    course: CourseFile = None,
    key: Key = None,
) -> int:
    """Give points beside the verdict (for instructors).

    Grading again does not change them. The feedback and the table say what you gave, when and why. A deduction for
    lateness still applies to the total.

    Exit status: 0 if it is done, 2 if not."""
    folder = folder_of(out, course, assignment)
    if show:
        return _list_overrides(folder, name, key)
    if not name or not exercise or not (points or revoke):
        raise typer.BadParameter("write NAME EXERCISE POINTS --because TEXT, NAME EXERCISE --revoke, or [NAME] --list")

    def change(book: Gradebook, graded: StoredClass, now: datetime) -> str:
        owner = book.find_owner(graded.find(name), graded.roster)
        found = load_syllabus().exercise(exercise)
        if revoke:
            return _revoke_override(book, owner, found.name, now)
        names = book.exercises_of_last_run()
        if found.name not in names:
            raise GradingProblem(f"{found.name} is not graded here; the exercises are {', '.join(names)}")
        given = _parse_points(points, Decimal(str(graded.rules.points_of(found))), found.name)
        if not because.strip():
            raise GradingProblem('say why, with --because "..."; the learner reads it in the feedback')
        book.corrections.override(owner, found.name, given, graded.scrub(because), now)
        points_now = f"{format_points(given)} points for {found.name}"
        return f"{line(owner.name)} now has {points_now}. Grading again does not change that."

    return _change(folder, change, key)


def _revoke_override(book: Gradebook, owner: Owner, exercise: str, now: datetime) -> str:
    if book.corrections.revoke_override(owner, exercise, now):
        return f"The verdict on {exercise} counts again for {line(owner.name)}."
    raise GradingProblem(f"{line(owner.name)}: there is no override of {exercise}; `headway override --list` shows all")


def _change(out: Path, change: Callable[[Gradebook, StoredClass, datetime], str], key: Path | None) -> int:
    """Change the gradebook, and write all files again."""
    stored = stored_class(out, key)
    with Gradebook(out) as book:
        sentence = change(book, stored, datetime.now().astimezone())
        book.continue_last_run()
        graded = book.graded_class(stored.rules)
        exports.write_all(graded, out)
        try:
            report.write(graded, out, read_context(stored.course, stored.options.assignment))
        except report.ReportProblem as problem:
            print_error(str(problem))
    make_console().print(sentence, soft_wrap=True)
    return DONE


def _list_overrides(out: Path, name: str, key: Path | None) -> int:
    """Those for the person of this name, or for everybody without a name."""
    with Gradebook.read(out) as book:
        found = book.corrections.overrides(revoked=True)
        if name:
            stored = stored_class(out, key)
            person = book.find_person(stored.find(name), stored.roster)
            found = [one for one in found if one.owner.is_for(person.name, person.slug)]
    lines = [
        f"{_who(one.owner)}, {one.exercise}: {format_points(one.points)} points, {_dates(one)}: {line(one.because)}"
        for one in found
    ]
    for sentence in lines or ["There are no overrides."]:
        make_console().print(sentence, soft_wrap=True)
    return DONE


def _parse_points(text: str, most: Decimal, exercise: str) -> Decimal:
    try:
        points = Decimal(text)
    except InvalidOperation:
        points = Decimal("nan")
    if not points.is_finite() or not 0 <= points <= most or points != points.quantize(CENT):
        range_ = f"from 0 to {format_points(most)}, which {exercise} is worth, with at most two decimal places"
        raise GradingProblem(f"{shorten(text)} is not a number of points {range_}")
    return points


def _who(owner: Owner) -> str:
    return line(f"{owner.name} ({owner.slug})" if owner.slug else owner.name)


def _when(iso: str) -> str:
    return iso[:16].replace("T", " ")


def _dates(one: Override) -> str:
    """When the points were given, and when they were revoked."""
    return f"{_when(one.given)}{f', revoked {_when(one.revoked)}' if one.revoked else ''}"
