"""`headway course` describes the course of a term, `headway marks` adds up its marks, `headway person` shows one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from grader.classroom.class_report import classify_all
from grader.classroom.exports import FEEDBACK_FOLDER, correction_sentences, write_marks
from grader.classroom.gradebook import Gradebook
from grader.classroom.grading_options import folder_of, read_term_marks, stored_class
from grader.classroom.intake.submissions import GradingProblem
from grader.classroom.judging.marks import Person, describe_zero, format_points
from grader.classroom.judging.rules import suggest
from grader.classroom.sanitize import line, list_names, shorten
from grader.classroom.term.course import (
    GRADES,
    NAME,
    Assignment,
    Course,
    find_course,
    read_course_file,
    write_course,
)
from grader.classroom.term.roster import NamedPerson, describe_several, find_people
from grader.cli import arguments as given
from grader.cli.arguments import CourseFile, Key, argument, option
from grader.console.output import make_console, print_error, print_sentence, print_wrapped
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


# ---- one person


def person(
    name: given.Person, out: given.Out = None, assignment: given.AssignmentName = "", course: CourseFile = None,
    key: Key = None,
) -> int:  # fmt: skip
    """Show everything about one person.

    It shows each assignment of the course in this folder, or the one that you name: the points, the verdict on each
    exercise, your overrides, lateness, and the page that the person got. Without a course file it shows the gradebook
    in --out.

    Exit status: 0 if there is such a person, 2 if not."""
    if not (out or assignment) and (course or Path(NAME).is_file()):
        _print_term(read_course_file(find_course(course)), name, key)
        return DONE
    folder = folder_of(out, course, assignment)
    stored = stored_class(folder, key)
    with Gradebook.read(folder) as book:
        who = book.find_person(stored.find(name), stored.roster)
        graded = book.graded_class(stored.rules)
    _print_name(who.name, who.ids)
    everybody = [*graded.people, *graded.missing]
    found = next(one for one in everybody if one.slug == who.slug or (not who.slug and one.name == who.name))
    _print_grades(stored.options.assignment or folder.resolve().name, found, folder)
    return DONE


def _print_term(course: Course, name: str, key: Path | None) -> None:
    """Every assignment of the course, and the total."""
    marks = read_term_marks(course, key)
    wanted = stored_class(course.folder(next(iter(marks.classes))), key).find(name)
    known = [NamedPerson(one.who.name, "", tuple(one.who.ids.values())) for one in marks.people]
    found = find_people(wanted, known)
    if len(found) != 1:
        near = suggest(name, [one.name for one in known]) or "; `headway marks` lists all names"
        unknown = f"no person of this course is called {shorten(name)}{near}"
        raise GradingProblem(describe_several(name, found) if found else unknown)
    one = marks.people[known.index(found[0])]
    _print_name(found[0].name, found[0].ids)
    for title in (each.name for each in course.assignments):
        if (mark := one.marks.get(title)) and mark.person:
            _print_grades(title, mark.person, course.folder(title))
        else:
            state = f"0 of {format_points(mark.points)} points: {mark.remark}" if mark else "not graded yet"
            print_sentence(f"{title}: {state}.")
    if one.percent is not None:
        print_sentence(f"Total so far: {format_points(one.percent)} %.")


def _print_name(name: str, ids: Sequence[str]) -> None:
    print_sentence(line(f"{name} ({', '.join(ids)})" if ids else name))


def _print_grades(title: str, found: Person, folder: Path) -> None:
    """The points and why, the exercises in which something was sent or given, and the page with the feedback."""
    points = f"{format_points(found.total.earned)} of {format_points(found.total.points)} points"
    print_sentence(f"{title}: {points}{f': {found.remark}' if found.remark else ''}.")
    results, words = {one.exercise.name: one for one in found.results}, correction_sentences(found)
    kinds = classify_all(found, [one.exercise for one in found.results])
    for name, result in results.items():
        state = kinds[name] if found.marks[name].earned else describe_zero(result, found.broken)
        words.setdefault(name, f"{state}. {result.diagnosis.says}" if result.diagnosis else state)
    for name, mark in found.marks.items():
        if name in words:
            print_sentence(f"  {name} {format_points(mark.earned)} of {format_points(mark.points)}: {words[name]}")
    if (page := folder / FEEDBACK_FOLDER / f"{found.slug}.md").is_file():
        print_sentence(f"  feedback: {short_path(page)}")
