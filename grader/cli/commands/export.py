"""`headway export` writes the marks of a gradebook into the table that a learning platform exported, for its import."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from grader.classroom.exports import feedback_page, write_file
from grader.classroom.grading_options import folder_of
from grader.classroom.intake.submissions import GradingProblem
from grader.classroom.platforms import (
    Filled,
    Sheet,
    fill,
    make_feedback_archive,
    open_canvas,
    open_gradescope,
    open_moodle,
    read_grades,
)
from grader.classroom.sanitize import line
from grader.cli.arguments import AssignmentName, CourseFile, Key, Out, argument, option
from grader.console.output import make_console
from grader.counts import format_count

ALL_WRITTEN, SOME_NOT = 0, 1
MAX_NAMES = 20  # of people without a mark

Platform = StrEnum("Platform", "canvas moodle gradescope")


def export(
    platform: Annotated[Platform, argument("PLATFORM", "canvas, moodle or gradescope.")],
    file: Annotated[Path, argument("FILE", "The file that you exported there; it stays as it is.")],
    out: Out = None,
    assignment: AssignmentName = "",
    course: CourseFile = None,
    to: Annotated[
        Path | None, option("The file to write (default: FILE-graded.csv, next to FILE).", "--to", metavar="FILE")
    ] = None,
    column: Annotated[
        str, option("Canvas, Moodle: the column, if it has another title.", "--column", metavar="TITLE")
    ] = "",
    scale: Annotated[
        bool | None,
        option(
            "If the largest grade in the file is another one: convert the points, or write them unchanged.",
            "--scale/--no-scale",
        ),
    ] = None,
    zeros: Annotated[bool, option("Write 0 for people without a submission that can be graded.", "--zeros")] = False,
    force: Annotated[bool, option("Replace an earlier file.", "--force")] = False,
    key: Key = None,
) -> int:
    """Write the marks into a platform's table.

    It fills a Canvas gradebook (Export in Canvas), a Moodle grading worksheet, or Gradescope's grades. Only the cells
    of this assignment change. For Moodle it also writes a zip with everybody's feedback, for "Upload multiple feedback
    files in a zip".

    Exit status: 0 if every mark is written, 1 if some fit no row or were not graded, 2 if nothing is written."""
    if column and platform == Platform.gradescope:
        raise GradingProblem(f"--column does not go with {platform}; leave it out")
    target = to or file.with_name(f"{file.stem}-graded.csv")
    _refuse_replacing(target, file, force)
    graded, marks, one = read_grades(folder_of(out, course, assignment), key)
    named = [one.name, one.title] if one else []
    archive = None
    if platform == Platform.canvas:
        sheet = open_canvas(file, [column] if column else named)
    elif platform == Platform.gradescope:
        sheet = open_gradescope(file)
    else:
        sheet = open_moodle(file, column)
        archive = target.with_name(f"{target.stem}-feedback.zip")
        _refuse_replacing(archive, file, force)
    done = fill(sheet, marks, scale, zeros)
    if archive is None:
        return _finish(target, sheet, done)
    feedback = [(learner, feedback_page(mark.person, graded)) for learner, mark in done.pairs]
    write_file(archive, make_feedback_archive(feedback))
    status = _finish(target, sheet, done)
    _print(f"{archive} has the feedback of {format_count(len(done.pairs), 'person', 'people')}.")
    return status


def _refuse_replacing(target: Path, file: Path, force: bool) -> None:
    """The platform's file is never overwritten, and another one only if the instructor says so."""
    if not file.exists():
        raise GradingProblem(f"{file} does not exist; name the file that you downloaded from the learning platform")
    if target.exists() and target.samefile(file):
        advice = "it is never overwritten; choose another name with --to"
        raise GradingProblem(f"{target} is the file that you exported, and {advice}")
    if target.exists() and not force:
        raise GradingProblem(f"{target} exists already; add --force to replace it, or choose another name with --to")


def _finish(target: Path, sheet: Sheet, done: Filled) -> int:
    """Write the table, and print what was done. The exit status."""
    write_file(target, sheet.table.text())
    written = f"{format_count(done.written, 'grade')} written into the column {line(sheet.title, 80)}"
    _print(f"{target}: {written}, {done.unchanged} the same as before.")
    _list("Grades that differ from those in the file", done.changed)
    _list("Not changed in the file", done.kept)
    _list("Not graded, so not changed", done.not_graded)
    _list("In the file, but without a submission", done.missing, MAX_NAMES)
    _list("Graded, but not found in the file", done.strangers)
    return SOME_NOT if done.strangers or done.not_graded else ALL_WRITTEN


def _list(title: str, entries: Sequence[str], most: int | None = None) -> None:
    if entries:
        more = [f"and {len(entries) - most} more"] if most and len(entries) > most else []
        _print(f"{title} ({len(entries)}): {'; '.join([*map(line, entries[:most]), *more])}")


def _print(sentence: str) -> None:
    make_console().print(sentence, soft_wrap=True)
