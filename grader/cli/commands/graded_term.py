"""Reads the graded assignments of a course: with names, or all with pseudonyms if one of them is anonymous."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from grader.classroom.anonymous.pseudonyms import Pseudonyms
from grader.classroom.gradebook import sqlite_file
from grader.classroom.gradebook.gradebook import Gradebook
from grader.classroom.judging.graded_class import GradedClass
from grader.classroom.report.numbers import format_count
from grader.classroom.term.course_file import Course
from grader.cli.commands.stored_request import read_request


def read_classes(course: Course, key: Path | None = None) -> tuple[Course, dict[str, GradedClass]]:
    """The course as the classes name its people, and the graded classes by assignment.

    GradingProblem if a gradebook cannot be read, or if it is anonymous and the key is missing.
    """
    graded = [one.name for one in course.assignments if (course.folder(one.name) / sqlite_file.NAME).is_file()]
    asked = {name: request for name in graded if (request := read_request(course.folder(name))) and request.anonymous}
    if not asked:
        return course, _without_empty({name: _read(course, name) for name in graded})
    first = next(iter(asked.values()))
    pseudonyms = Pseudonyms.read(replace(first, key=key or first.key).key_path)
    hidden = pseudonyms.hide_course(course)
    return hidden, _without_empty({name: _read(hidden, name) if name in asked else pseudonyms.hide_class(_read(course, name)) for name in graded})


def describe_unfinished(course: Course, classes: Mapping[str, GradedClass]) -> list[str]:
    """A sentence for each assignment whose run was stopped or killed, with the command that continues it."""
    notes = []
    for name, graded in classes.items():
        waiting, asked = sum(person.waiting for person in graded.people), read_request(course.folder(name))
        if waiting:
            many = format_count(waiting, "submission is", "submissions are")
            command = f"continue with: {asked.command()}" if asked else "run the same `headway grade` command again"
            notes.append(f"{name}: {many} not graded yet and {'does' if waiting == 1 else 'do'} not count; {command}")
    return notes


def _without_empty(classes: dict[str, GradedClass]) -> dict[str, GradedClass]:
    """Without the gradebooks of runs that were killed before they had read the submissions: not everybody is missing there."""
    return {name: graded for name, graded in classes.items() if graded.people}


def _read(course: Course, name: str) -> GradedClass:
    with Gradebook.read(course.folder(name)) as book:
        return book.graded_class(course.assignment(name).rules)
