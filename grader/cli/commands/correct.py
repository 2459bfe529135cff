"""`headway override` gives points beside a verdict, and `headway note` adds a sentence to somebody's feedback. Both write the files of the last run again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path

from grader.classroom import exports, report
from grader.classroom.gradebook.corrections import Owner
from grader.classroom.gradebook.gradebook import Gradebook
from grader.classroom.gradebook.person_lookup import find_owner, find_person
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.judging.scoring import CENT, format_points
from grader.classroom.report.context import read_context
from grader.classroom.sanitize import line, shorten
from grader.cli.commands.anonymity import HiddenNames, names_of
from grader.cli.commands.stored_request import last_request
from grader.console.output import make_console, print_error
from grader.course.syllabus import load_syllabus

DONE, WRONG_USE = 0, 2


def override(out: Path, name: str, exercise: str, points: str, because: str, revoke: bool, key: Path | None = None) -> int:
    """Give points, or revoke what was given; the exit status is 0, or 2 if that is not possible."""

    def change(book: Gradebook, names: HiddenNames, now: datetime) -> str:
        owner = find_owner(book, names.find(name), names.roster)
        found = load_syllabus().exercise(exercise)
        if revoke:
            if not book.corrections.revoke_override(owner, found.name, now):
                gone = [one.revoked for one in book.corrections.overrides(revoked=True) if (one.owner, one.exercise) == (owner, found.name)]
                why = f"the override of {found.name} was revoked already, on {_when(gone[-1])}" if gone else f"there is no override of {found.name}"
                raise GradingProblem(f"{line(owner.name)}: {why}; `headway override --list` shows all")
            return f"The verdict on {found.name} counts again for {line(owner.name)}."
        graded = book.exercises_of_last_run()
        if found.name not in graded:
            raise GradingProblem(f"{found.name} is not graded here; the exercises are {', '.join(graded)}")
        given = _parse_points(points, Decimal(str(names.rules.points_of(found))), found.name)
        if not because.strip():
            raise GradingProblem('say why, with --because "..."; the learner reads it in the feedback')
        book.corrections.override(owner, found.name, given, names.scrub(because), now)
        return f"{line(owner.name)} now has {format_points(given)} points for {found.name}. Grading again does not change that."

    return _change(out, change, key)


def note(out: Path, name: str, text: str, key: Path | None = None) -> int:
    """Add a sentence to a person's feedback; the exit status is 0, or 2 if that is not possible."""

    def change(book: Gradebook, names: HiddenNames, now: datetime) -> str:
        if not text.strip():
            raise GradingProblem('the note is empty; write it in quotes: headway note "NAME" "..."')
        owner = find_owner(book, names.find(name), names.roster)
        book.corrections.remark(owner, names.scrub(text), now)
        return f"The feedback of {line(owner.name)} now has this note."

    return _change(out, change, key)


def revoke_note(out: Path, number: int, key: Path | None = None) -> int:
    def change(book: Gradebook, names: HiddenNames, now: datetime) -> str:
        if not book.corrections.revoke_remark(number, now):
            before = next((one for one in book.corrections.remarks(revoked=True) if one.number == number), None)
            if before is None:
                raise GradingProblem(f"there is no note {number}; `headway note --list` shows all with their numbers")
            raise GradingProblem(f"note {number} was revoked already, on {_when(before.revoked)}; `headway note --list` shows all")
        return f"Note {number} is no longer in the feedback."

    return _change(out, change, key)


def list_overrides(out: Path, name: str = "", key: Path | None = None) -> int:
    """Print all overrides, or those of one person; also revoked ones."""

    def lines(book: Gradebook, is_asked: Callable[[Owner], bool]) -> list[str]:
        return [
            f"{_who(one.owner)}, {one.exercise}: {format_points(one.points)} points, {_when(one.given)}{_until(one.revoked)}: {line(one.because)}"
            for one in book.corrections.overrides(revoked=True) if is_asked(one.owner)
        ]  # fmt: skip

    return _print_list(out, lines, "There are no overrides.", name, key)


def list_notes(out: Path, name: str = "", key: Path | None = None) -> int:
    """Print all notes, or those of one person; also revoked ones."""

    def lines(book: Gradebook, is_asked: Callable[[Owner], bool]) -> list[str]:
        remarks = [one for one in book.corrections.remarks(revoked=True) if is_asked(one.owner)]
        return [f"{one.number}  {_who(one.owner)}, {_when(one.given)}{_until(one.revoked)}: {line(one.text)}" for one in remarks]

    return _print_list(out, lines, "There are no notes.", name, key)


def _change(out: Path, change: Callable[[Gradebook, HiddenNames, datetime], str], key: Path | None) -> int:
    """Change the gradebook, and write all files again."""
    try:
        asked = last_request(out)
        names = names_of(asked, key)
        with Gradebook(out) as book:
            said = change(book, names, datetime.now().astimezone())
            book.continue_last_run()
            graded = book.graded_class(names.rules)
            exports.write_all(graded, out)
            try:
                report.write(graded, out, read_context(names.course, asked.assignment)[0])
            except report.ReportProblem as problem:
                print_error(str(problem))
    except GradingProblem as trouble:
        print_error(str(trouble))
        return WRONG_USE
    make_console().print(said, soft_wrap=True)
    return DONE


def _print_list(out: Path, lines: Callable[[Gradebook, Callable[[Owner], bool]], list[str]], nothing: str, name: str, key: Path | None) -> int:
    try:
        with Gradebook.read(out) as book:
            found = lines(book, _owners_called(book, out, name, key) if name else lambda owner: True)
    except GradingProblem as trouble:
        print_error(str(trouble))
        return WRONG_USE
    for words in found or [nothing]:
        make_console().print(words, soft_wrap=True)
    return DONE


def _owners_called(book: Gradebook, out: Path, name: str, key: Path | None) -> Callable[[Owner], bool]:
    """Whether an owner is this person."""
    names = names_of(last_request(out), key)
    person = find_person(book, names.find(name), names.roster)
    return lambda owner: owner.is_for(person.name, person.slug)


def _parse_points(text: str, most: Decimal, exercise: str) -> Decimal:
    try:
        points = Decimal(text)
    except InvalidOperation:
        points = Decimal("nan")
    if not points.is_finite() or not 0 <= points <= most or points != points.quantize(CENT):
        raise GradingProblem(f"{shorten(text)} is not a number of points from 0 to {format_points(most)}, which {exercise} is worth, with at most two decimal places")
    return points


def _who(owner: Owner) -> str:
    return line(f"{owner.name} ({owner.slug})" if owner.slug else owner.name)


def _when(iso: str) -> str:
    return iso[:16].replace("T", " ")


def _until(iso: str) -> str:
    return f", revoked {_when(iso)}" if iso else ""
