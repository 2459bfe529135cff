"""Reads the graded assignments of a course: with names, or all with pseudonyms if one of them is anonymous."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from grader.classroom.anonymous.pseudonyms import Pseudonyms
from grader.classroom.gradebook import sqlite_file
from grader.classroom.gradebook.gradebook import Gradebook
from grader.classroom.judging.graded_class import GradedClass
from grader.classroom.term.course_file import Course
from grader.cli.commands.grading_request import read_request


def read_classes(course: Course, key: Path | None = None) -> tuple[Course, dict[str, GradedClass]]:
    """The course as the classes name its people, and the graded classes by assignment.

    GradingProblem if a gradebook cannot be read, or if it is anonymous and the key is missing.
    """
    graded = [one.name for one in course.assignments if (course.folder(one.name) / sqlite_file.NAME).is_file()]
    asked = {name: request for name in graded if (request := read_request(course.folder(name))) and request.anonymous}
    if not asked:
        return course, {name: _read(course, name) for name in graded}
    first = next(iter(asked.values()))
    pseudonyms = Pseudonyms.read(replace(first, key=key or first.key).key_path)
    hidden = pseudonyms.hide_course(course)
    return hidden, {name: _read(hidden, name) if name in asked else pseudonyms.hide_class(_read(course, name)) for name in graded}


def _read(course: Course, name: str) -> GradedClass:
    with Gradebook.read(course.folder(name)) as book:
        return book.graded_class(course.assignment(name).rules)
