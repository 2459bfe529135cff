"""Reads the submissions of a request, under the names of the roster."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from grader.classroom.anonymous.key_file import to_cell
from grader.classroom.anonymous.pseudonyms import Pseudonyms
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.intake.submissions import Submission, add_slugs
from grader.classroom.sanitize import line
from grader.classroom.term.course_file import Course
from grader.classroom.term.deliveries import Delivery, Wanted, read_deliveries
from grader.classroom.term.matching import name_by_roster
from grader.classroom.term.name_notes import NameNote, Note
from grader.classroom.term.roster import NO_ROSTER
from grader.cli.commands.grading_request import OwnReading, Request
from grader.course.syllabus import Exercise


def without_missing(request: Request) -> tuple[Request, list[str]]:
    """The request without earlier deliveries that do not exist any more, and their paths."""
    gone = [one for one in request.earlier if not one.submissions.exists()]
    return replace(request, earlier=tuple(one for one in request.earlier if one not in gone)), [line(str(one.submissions)) for one in gone]


def read_class(request: Request, course: Course | None, chosen: Iterable[Exercise]) -> tuple[list[Submission], list[Note]]:
    """The submissions, and sentences for the instructor. GradingProblem or UnknownName if the request cannot be read."""
    for delivery in request.deliveries:
        delivery.reading()  # a wrong option is reported before anything is read
        if delivery.submissions.is_dir() and request.out.resolve().is_relative_to(delivery.submissions.resolve()):
            out = line(str(request.out))
            raise GradingProblem(f"the folder for the result, {out}, is inside the folder with the submissions; choose another one with --out")
    wanted = Wanted(frozenset(exercise.module for exercise in chosen), request.assignment)
    submissions, notes = _read(request, request.deliveries, wanted, course)
    for own in request.own_reading:
        names = _real_names(own, request)
        asked = {one.name for one in submissions if _shown(one.name, request) in names}
        if asked:
            again, _ = _read(request, [own.apply(delivery) for delivery in request.deliveries], wanted, course)
            asked |= _same_group(asked, submissions, course if course and course.assignment(request.assignment).groups else None)
            found = {one.name: one for one in again if one.name in asked}
            submissions = [found.get(one.name, one) for one in submissions]
            notes.append(NameNote(f"read with {own}, as `headway regrade` said: ", tuple(sorted(asked))))
    return add_slugs(submissions), notes


def _read(request: Request, deliveries: Collection[Delivery], wanted: Wanted, course: Course | None) -> tuple[list[Submission], list[Note]]:
    notes: list[Note] = []
    submissions = read_deliveries(list(deliveries), wanted, course.roster if course else NO_ROSTER, notes.append)
    if course is None:
        return submissions, notes
    named, more = name_by_roster(submissions, course.roster, course.assignment(request.assignment).groups)
    return named, [*notes, *more]


def _real_names(own: OwnReading, request: Request) -> set[str]:
    """The names of these people, also where the gradebook has pseudonyms; written as in the key then."""
    if not request.anonymous:
        return set(own.names)
    key = Pseudonyms.read(request.key_path)
    return {entry.name for name in own.names if (entry := key.entry(name))}


def _shown(name: str, request: Request) -> str:
    return to_cell(name) if request.anonymous else name


def _same_group(names: Collection[str], submissions: Collection[Submission], course: Course | None) -> set[str]:
    """The other members of their groups, who handed in the same."""
    groups = {person.name: person.group for person in course.roster.people if person.group} if course else {}
    shared = {(one.digest, group) for one in submissions if one.name in names for group in (one.group, groups.get(one.name)) if group}
    return {one.name for one in submissions if {(one.digest, one.group), (one.digest, groups.get(one.name))} & shared}
