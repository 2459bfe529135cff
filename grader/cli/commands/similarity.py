"""`headway similarity` lists pairs of people with similar code: similarity.html and similarity.csv."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from grader.classroom.anonymous.key_file import read_key
from grader.classroom.anonymous.pseudonyms import hide_names
from grader.classroom.intake.options import BETTER
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.judging.rules import Rules
from grader.classroom.report import ReportProblem
from grader.classroom.report.numbers import format_count
from grader.classroom.sanitize import line, shorten
from grader.classroom.similarity import page, table
from grader.classroom.similarity.comparison import Comparison, compare
from grader.classroom.term.roster import NO_ROSTER
from grader.cli.commands.class_submissions import read_class, without_missing
from grader.cli.commands.grading_request import Request
from grader.cli.commands.stored_request import read_request
from grader.console.output import make_console, print_error, print_wrapped
from grader.course.status import short_path

DONE, WRONG_USE = 0, 2
SHOWN = 10  # pairs on the terminal
WARNING = "A percentage proves nothing: people may have learned together or used the same source. Read both sides before you speak with anyone."


def similarity(request: Request, is_named: bool) -> int:
    """Compare the class; the exit status is 0, or 2 if that is not possible. Unless submissions are named, those of the last `headway grade` are compared."""
    try:
        request = request if is_named else _last_request(request)
        chosen, _, course = request.resolve()
        out = request.out
        request, gone = without_missing(request)
        submissions, found_notes = read_class(request, course, chosen)
        found_notes += [f"{path}, which an earlier run graded, does not exist any more and is not compared" for path in gone]
        notes = list(map(str, found_notes))
        if (key := _key_of(request)) is not None:
            pseudonyms, submissions, _, notes = hide_names(key, submissions, course.roster if course else NO_ROSTER, Rules(), found_notes)
            course = pseudonyms.hide_course(course) if course else None
        if request.copies == BETTER:
            notes.append("of several versions of a chapter, the newest is compared; --copies better is for grading")
        groups: dict[str, str] = {}
        if course is not None and course.assignment(request.assignment).groups:
            groups = {person.name: person.group for person in course.roster.people if person.group}
        comparison = compare(submissions, chosen, groups)
        written = [table.write(comparison, out)]
        try:
            written.append(page.write(comparison, out, request.assignment or line(request.submissions.resolve().name)))
        except ReportProblem as trouble:
            print_error(str(trouble))
    except GradingProblem as trouble:
        print_error(str(trouble))
        return WRONG_USE
    _print(comparison, notes, written)
    return DONE


def _last_request(request: Request) -> Request:
    """The arguments of the last `headway grade` into this folder."""
    asked = read_request(request.out)
    if asked is None:
        raise GradingProblem(f"{line(str(request.out))} is not a folder that `headway grade` has written to; name the submissions, or that folder with --out")
    return replace(asked, chapters=request.chapters or asked.chapters, exercises=request.exercises or asked.exercises, key=request.key or asked.key)


def _key_of(request: Request) -> Path | None:
    """The key of the pseudonyms, if the grades in this folder are anonymous. GradingProblem if it is missing."""
    asked = read_request(request.out)
    if asked is None or not asked.anonymous:
        return None
    path = replace(asked, key=request.key or asked.key).key_path
    read_key(path)
    return path


def _print(comparison: Comparison, notes: list[str], written: list[Path]) -> None:
    console = make_console()
    found = format_count(comparison.found, "pair") if comparison.found else "no pair"
    console.print(f"{format_count(comparison.compared, 'person', 'people')} compared, {found} to look at.")
    for names in comparison.identical:
        many = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        console.print(line(f"Identical files: {', '.join(map(shorten, names[:SHOWN]))}{many}.", 2000), soft_wrap=True)
    for pair in comparison.pairs[:SHOWN]:
        first, second = map(shorten, comparison.names(pair))
        alike = f"{pair.alike_exercises} of {format_count(pair.compared, 'exercise')} similar"
        console.print(f"{pair.percent:>4} %  {first} and {second}: {alike}", soft_wrap=True, markup=False, highlight=False)
    if comparison.found > SHOWN:
        console.print(f"        and {format_count(comparison.found - SHOWN, 'more pair')}")
    if comparison.found:
        print_wrapped(console, WARNING)
    for note in [*notes, *comparison.notes]:
        console.print(line(f"Note: {note}", 2000), soft_wrap=True, markup=False, highlight=False)
    console.print(f"Written: {' and '.join(short_path(path) for path in written)}.", soft_wrap=True)
