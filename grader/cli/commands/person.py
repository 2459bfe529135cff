"""`headway person NAME` shows what a gradebook, or all of a term, has about one person."""

from __future__ import annotations

from pathlib import Path

from grader.classroom.class_report import classify_all
from grader.classroom.exports import FEEDBACK_FOLDER, correction_sentences
from grader.classroom.gradebook import Gradebook
from grader.classroom.gradebook_file import has_gradebook
from grader.classroom.grading_options import folder_of, read_term_marks, stored_class
from grader.classroom.intake.submissions import GradingProblem
from grader.classroom.judging.marks import Person, describe_zero, format_points
from grader.classroom.judging.rules import suggest
from grader.classroom.sanitize import line, shorten
from grader.classroom.term.course import NAME, Course, find_course, read_course_file
from grader.classroom.term.roster import NamedPerson, describe_several, find_people
from grader.cli.arguments import AssignmentName, CourseFile, Key, Out
from grader.cli.arguments import Person as PersonName
from grader.console.output import print_sentence
from grader.course.status import short_path
from grader.course.syllabus import Exercise
from grader.verdict.results import Diagnosis

DONE = 0


def person(
    name: PersonName,
    out: Out = None,
    assignment: AssignmentName = "",
    course: CourseFile = None,
    key: Key = None,
) -> int:
    """Show everything about one person.

    It shows each assignment of the course in this folder, or the one that you name: the points, the verdict on each
    exercise, your overrides, lateness, and the page that the person got. Without a course file it shows the gradebook
    in --out.

    Exit status: 0 if there is such a person, 2 if not."""
    if out or assignment or not (course or Path(NAME).is_file()):
        folder = folder_of(out, course, assignment)
        stored = stored_class(folder, key)
        with Gradebook.read(folder) as book:
            who = book.find_person(stored.find(name), stored.roster)
            graded = book.graded_class(stored.rules)
        _print_person(who.name, who.ids)
        everybody = [*graded.people, *graded.missing]
        found = next(one for one in everybody if one.slug == who.slug or (not who.slug and one.name == who.name))
        _print_grades(stored.options.assignment or folder.resolve().name, found, graded.exercises, folder)
        return DONE
    return _print_term(read_course_file(find_course(course)), name, key)


def _print_term(course: Course, name: str, key: Path | None) -> int:
    """Every assignment of the course, and the total."""
    marks = read_term_marks(course, key)
    pseudonym = stored_class(course.folder(next(iter(marks.classes))), key).find(name)
    known = [NamedPerson(one.who.name, "", tuple(one.who.ids.values())) for one in marks.people]
    found = find_people(pseudonym, known)
    if len(found) != 1:
        near = suggest(name, [one.name for one in known])
        unknown = f"no person of this course is called {shorten(name)}{near or '; `headway marks` lists all names'}"
        raise GradingProblem(describe_several(name, found) if found else unknown)
    one = marks.people[known.index(found[0])]
    _print_person(one.who.name, tuple(one.who.ids.values()))
    for each in course.assignments:
        if each.name not in one.marks:
            state = "not graded yet" if not has_gradebook(course.folder(each.name)) else "no results yet"
            print_sentence(f"{each.name}: {state}.")
        elif (graded := one.marks[each.name].person) is None:
            print_sentence(f"{each.name}: 0 of {format_points(one.marks[each.name].points)} points: missing.")
        else:
            _print_grades(each.name, graded, marks.classes[each.name].exercises, course.folder(each.name))
    if one.percent is not None:
        print_sentence(f"Total so far: {format_points(one.percent)} %.")
    return DONE


def _print_person(name: str, ids: tuple[str, ...]) -> None:
    print_sentence(line(f"{name} ({', '.join(ids)})" if ids else name))


def _print_grades(title: str, found: Person, exercises: tuple[Exercise, ...], folder: Path) -> None:
    """The points and why, then the exercises in which something was sent or given, and the page with the feedback."""
    points = f"{format_points(found.total.earned)} of {format_points(found.total.points)} points"
    print_sentence(f"{title}: {points}{f': {found.remark}' if found.remark else ''}.")
    kinds = classify_all(found, exercises)
    results, given = {one.exercise.name: one for one in found.results}, correction_sentences(found)
    for name, mark in found.marks.items():
        result = results.get(name)
        words = given.get(name) or (
            kinds[name] if mark.earned or result is None else describe_zero(result, found.broken)
        )
        diagnosis: Diagnosis | None = result.diagnosis if result else None
        says = f". {diagnosis.says}" if diagnosis and name not in given else ""
        if result or name in given:
            print_sentence(f"  {name} {format_points(mark.earned)} of {format_points(mark.points)}: {words}{says}")
    if (page := folder / FEEDBACK_FOLDER / f"{found.slug}.md").is_file():
        print_sentence(f"  feedback: {short_path(page)}")
