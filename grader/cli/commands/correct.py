"""`headway override` gives points beside a verdict, and writes all files again."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated

import typer
from grader.classroom.class_report import read_context
from grader.classroom.exports import write_files
from grader.classroom.gradebook import Gradebook
from grader.classroom.grading_options import folder_of, stored_class
from grader.classroom.intake.submissions import GradingProblem
from grader.classroom.judging.marks import CENT, format_points
from grader.classroom.sanitize import line, shorten
from grader.cli.arguments import AssignmentName, CourseFile, Key, Out, Person, argument, complete_exercise, option
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
    """Give points beside the verdict.

    Grading again does not change them. The feedback and the table say what you gave, when and why. A deduction for
    lateness still applies to the total.

    Exit status: 0 if it is done, 2 if not."""
    folder = folder_of(out, course, assignment)
    if show:
        return _list_overrides(folder, name, key)
    if not name or not exercise or not (points or revoke):
        raise typer.BadParameter("write NAME EXERCISE POINTS --because TEXT, NAME EXERCISE --revoke, or [NAME] --list")

    stored, now = stored_class(folder, key), datetime.now().astimezone()
    with Gradebook(folder) as book:
        owner = book.find_owner(stored.find(name), stored.roster)
        found = load_syllabus().exercise(exercise)
        if revoke:
            if not book.revoke_override(owner, found.name, now):
                no_override = f"there is no override of {found.name}; `headway override --list` shows all"
                raise GradingProblem(f"{line(owner.name)}: {no_override}")
            sentence = f"The verdict on {found.name} counts again for {line(owner.name)}."
        else:
            names = book.exercises_of_last_run()
            if found.name not in names:
                raise GradingProblem(f"{found.name} is not graded here; the exercises are {', '.join(names)}")
            given = _parse_points(points, Decimal(str(stored.rules.points_of(found))), found.name)
            if not because.strip():
                raise GradingProblem('say why, with --because "..."; the learner reads it in the feedback')
            book.override(owner, found.name, given, stored.scrub(because), now)
            points_now = f"{format_points(given)} points for {found.name}"
            sentence = f"{line(owner.name)} now has {points_now}. Grading again does not change that."
        book.continue_last_run()
        graded = book.graded_class(stored.rules)
        _, problems = write_files(graded, folder, read_context(stored.course, stored.options.assignment))
    for problem in problems:
        print_error(problem)
    make_console().print(sentence, soft_wrap=True)
    return DONE


def _list_overrides(out: Path, name: str, key: Path | None) -> int:
    """Those for the person of this name, or for everybody without a name."""
    with Gradebook.read(out) as book:
        found = book.overrides(revoked=True)
        if name:
            stored = stored_class(out, key)
            person = book.find_person(stored.find(name), stored.roster)
            found = [one for one in found if one.owner.is_for(person.name, person.slug)]
    lines = []
    for one in found:
        who = line(f"{one.owner.name} ({one.owner.slug})" if one.owner.slug else one.owner.name)
        when, *revoked = (iso[:16].replace("T", " ") for iso in (one.given, one.revoked) if iso)
        dates = ", revoked ".join([when, *revoked])
        lines.append(f"{who}, {one.exercise}: {format_points(one.points)} points, {dates}: {line(one.because)}")
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
