"""Terms to add up and to show: a course, and graded classes as plain data."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from example_class import VERSIONS
from grader.classroom.judging.marks import GivenPoints, GradedClass, Mark, Person
from grader.classroom.judging.rules import Rules
from grader.classroom.term.course import Assignment, Course
from grader.classroom.term.roster import Roster, RosterPerson
from grader.course.syllabus import load_syllabus

Points = int | float | str


def an_assignment(name: str, exercises: tuple[str, ...], weight: Points = 1) -> Assignment:
    found = tuple(load_syllabus().exercise(exercise) for exercise in exercises)
    return Assignment(name, name.title(), found, (), Decimal(str(weight)), False, Rules())


def a_course(*assignments: Assignment, people: tuple[RosterPerson, ...] = ()) -> Course:
    return Course(Path("course.toml"), "A term", Roster(people), assignments)


def a_graded_person(name: str, assignment: Assignment, shares: tuple[float, ...], late: str = "", factor: Points = 1, problem: str = "", given: str = "") -> Person:
    """A person with these shares of the points of each exercise."""
    marks = {}
    for exercise, share in zip(assignment.exercises, shares):
        worth = Decimal(str(exercise.points))
        marks[exercise.name] = Mark((worth * Decimal(str(share))).quantize(Decimal("0.01")), worth)
    earned = sum(mark.earned for mark in marks.values()) * Decimal(str(factor))
    gave = {given: GivenPoints(marks[given].earned, Decimal(0), "x", "2026-12-01")} if given else {}
    return Person(name, name, "0" * 64, problem, marks=marks, late=late, total=Mark(earned, sum(mark.points for mark in marks.values())), given=gave)


def a_class_of(assignment: Assignment, *people: Person) -> GradedClass:
    return GradedClass(people, assignment.exercises, 0, VERSIONS)
