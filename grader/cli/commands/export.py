"""`headway export` writes the marks of a gradebook into the table that a learning platform exported, for its import."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grader.classroom.anonymous.pseudonyms import Pseudonyms
from grader.classroom.exports.feedback import page
from grader.classroom.gradebook.gradebook import Gradebook
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.judging.graded_class import GradedClass
from grader.classroom.platforms import canvas, gradescope, moodle, plain
from grader.classroom.platforms.filling import Filled, Options, Sheet, fill
from grader.classroom.platforms.marks import PersonMark, collect_marks
from grader.classroom.report.numbers import format_count
from grader.classroom.sanitize import line
from grader.classroom.term.course_file import Assignment
from grader.classroom.term.roster import Roster
from grader.cli.commands.anonymity import hide_names_for
from grader.cli.commands.grading_request import Request, folder_of
from grader.cli.commands.stored_request import last_request
from grader.console.output import make_console, print_error
from grader.files import problem, write_whole

ALL_WRITTEN, SOME_NOT, WRONG_USE = 0, 1, 2
SHOWN = 20  # names of people without a mark


@dataclass(frozen=True)
class Wanted:
    """What the options of every platform say."""

    out: Path | None  # the folder of the gradebook
    course: Path | None
    assignment: str
    to: Path | None  # the file to write
    force: bool = False
    options: Options = Options()
    key: Path | None = None  # of the pseudonyms, if it has moved


@dataclass(frozen=True)
class _Grades:
    graded: GradedClass
    marks: list[PersonMark]
    roster: Roster
    assignment: Assignment | None


def export_canvas(file: Path, wanted: Wanted, column: str, new: bool) -> int:
    def write(target: Path, grades: _Grades) -> int:
        named = [grades.assignment.name, grades.assignment.title] if grades.assignment else []
        sheet = canvas.open_sheet(file, [column] if column else named, new, grades.graded.points)
        done = fill(sheet, grades.marks, wanted.options)
        return _finish(target, sheet, done)

    return _export(wanted, file, write)


def export_moodle(file: Path, wanted: Wanted, column: str) -> int:
    def write(target: Path, grades: _Grades) -> int:
        sheet = moodle.open_sheet(file, column)
        archive = target.with_name(f"{target.stem}-feedback.zip")
        _refuse_replacing(archive, file, wanted)
        done = fill(sheet, grades.marks, wanted.options)
        others = moodle.write_comments(sheet.table, done.pairs)
        _write(archive, moodle.feedback_archive([(learner, page(mark.person, grades.graded)) for learner, mark in done.pairs]))
        status = _finish(target, sheet, done)
        _say(f"{archive} has the feedback of {format_count(len(done.pairs), 'person', 'people')}.")
        if sheet.table.column(moodle.COMMENTS) is None:
            _say("The worksheet has no column Feedback comments (in English), so no comments are written into it.")
        if others:
            _say(f"{format_count(others, 'comment')} in the worksheet {'are' if others > 1 else 'is'} not from Headway, and stayed.")
        return status

    return _export(wanted, file, write)


def export_gradescope(file: Path, wanted: Wanted) -> int:
    def write(target: Path, grades: _Grades) -> int:
        sheet = gradescope.open_sheet(file, grades.graded.points)
        return _finish(target, sheet, fill(sheet, grades.marks, wanted.options))

    return _export(wanted, file, write)


def export_plain(wanted: Wanted) -> int:
    def write(target: Path, grades: _Grades) -> int:
        _write(target, plain.format_marks(grades.marks, grades.roster))
        graded = sum(mark.is_graded for mark in grades.marks)
        _say(f"{target} has the marks of {format_count(graded, 'person', 'people')}.")
        _list("Not graded, so without points", [mark.name for mark in grades.marks if not mark.is_graded], SHOWN)
        return ALL_WRITTEN

    return _export(wanted, None, write)


def _export(wanted: Wanted, file: Path | None, write: Callable[[Path, _Grades], int]) -> int:
    try:
        folder = folder_of(wanted.out, wanted.course, wanted.assignment)
        if file is not None and not file.exists():
            raise GradingProblem(f"{file} does not exist; name the file that you downloaded from the learning platform")
        asked = _read_request(folder, wanted.key)
        target = wanted.to or (file.with_name(f"{file.stem}-graded.csv") if file else _place_for_names(folder, asked))
        _refuse_replacing(target, file, wanted)
        return write(target, _read_grades(folder, asked))
    except GradingProblem as trouble:
        print_error(str(trouble))
        return WRONG_USE


def _read_request(folder: Path, key: Path | None) -> Request:
    asked = last_request(folder)
    return replace(asked, key=key or asked.key)


def _place_for_names(folder: Path, asked: Request) -> Path:
    """Where the table with names is written: for anonymous grades next to the key, and not among the files without names."""
    return asked.key_path.with_name(f"{folder.resolve().name}-plain.csv") if asked.anonymous else folder / "plain.csv"


def _read_grades(folder: Path, asked: Request) -> _Grades:
    _, rules, course = asked.resolve()
    pseudonyms = Pseudonyms.read(asked.key_path) if asked.anonymous else None
    with Gradebook.read(folder) as book:
        graded, ids = book.graded_class(hide_names_for(asked, rules, course).rules), book.list_ids()
    if not graded.people:
        raise GradingProblem(f"the gradebook in {folder} has no people yet; run `headway grade` first")
    if pseudonyms:
        graded, ids = pseudonyms.show_class(graded), pseudonyms.show_ids(graded)
    roster = course.roster if course else Roster()
    return _Grades(graded, collect_marks(graded, ids, roster), roster, course.assignment(asked.assignment) if course else None)


def _refuse_replacing(target: Path, file: Path | None, wanted: Wanted) -> None:
    """The platform's file is never overwritten, and another one only if the instructor says so."""
    if file is not None and target.exists() and target.samefile(file):
        raise GradingProblem(f"{target} is the file that you exported, and it is never overwritten; choose another name with --to")
    if target.exists() and not wanted.force:
        raise GradingProblem(f"{target} exists already; add --force to replace it, or choose another name with --to")


def _finish(target: Path, sheet: Sheet, done: Filled) -> int:
    """Write the table, and print what was done. The exit status."""
    _write(target, sheet.table.text())
    _say(f"{target}: {format_count(done.written, 'grade')} written into the column {line(sheet.title, 80)}, {done.unchanged} the same as before.")
    _list("Grades that differ from those in the file", done.changed)
    _list("Not changed in the file", done.kept)
    _list("Not graded, so not changed", done.not_graded)
    _list("In the file, but without a submission", done.missing, SHOWN)
    _list("Graded, but not found in the file", done.strangers)
    return SOME_NOT if done.strangers or done.not_graded else ALL_WRITTEN


def _list(title: str, entries: Sequence[str], most: int | None = None) -> None:
    if entries:
        more = [f"and {len(entries) - most} more"] if most and len(entries) > most else []
        _say(f"{title} ({len(entries)}): {'; '.join([*map(line, entries[:most]), *more])}")


def _say(sentence: str) -> None:
    make_console().print(sentence, soft_wrap=True, markup=False, highlight=False)


def _write(target: Path, content: str | bytes) -> None:
    try:
        write_whole(target, content)
    except OSError as error:
        raise GradingProblem(problem(error, f"write {line(str(target))}")) from error
