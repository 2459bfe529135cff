"""Terms to add up and to show: a course, and graded classes as plain data."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from example_class import VERSIONS
from grader.classroom.judging.graded_class import GivenPoints, GradedClass, Mark, Person
from grader.classroom.judging.rules import Rules
from grader.classroom.term.course import Assignment, Course, Drop
from grader.classroom.term.marks import TermMarks, compute_term_marks
from grader.classroom.term.roster import Roster, RosterPerson
from grader.course.syllabus import load_syllabus

Points = int | float | str


def an_assignment(name: str, exercises: tuple[str, ...], weight: Points = 1) -> Assignment:
    found = tuple(load_syllabus().exercise(exercise) for exercise in exercises)
    return Assignment(name, name.title(), found, (), Decimal(str(weight)), False, Rules())


def a_course(*assignments: Assignment, people: tuple[RosterPerson, ...] = (), drops: tuple[Drop, ...] = ()) -> Course:
    return Course(Path("course.toml"), "A term", Roster(people), assignments, drops)


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


def a_term(many: int, title: str = "A term") -> TermMarks:
    """A term of so many people in three assignments; some are late, missing, or not gradable."""
    chapters = {chapter.id: tuple(exercise.name for exercise in chapter.exercises) for chapter in load_syllabus().chapters}
    assignments = [an_assignment(f"week{number}", chapters[chapter], 30) for number, chapter in enumerate(("ch01", "ch03", "ch05"), 1)]
    people = tuple(RosterPerson(f"Learner {number:03}", f"l{number}@example.edu", section=f"S{number % 3}", group=f"G{number // 3}") for number in range(many))
    classes = {}
    for place, one in enumerate(assignments):
        graded = []
        for number, person in enumerate(people):
            if (number + 3 * place) % 11 == 5:
                continue
            shares = tuple((0, 0.4, 0.5, 0.85, 1, 1, 1)[(number * 3 + index * (number % 4 + 1) + place) % 7] for index in range(len(one.exercises)))
            late = number % 9 == 4
            broken = "the archive is protected by a password" if (number + place) % 40 == 39 else ""
            shares = (0,) * len(shares) if broken else shares
            words = "2 days late (submitted 2026-12-03 10:00, due 2026-12-01 23:59): 20 % of the points earned are deducted" if late else ""
            given = one.exercises[0].name if number % 25 == 7 else ""
            graded.append(a_graded_person(person.name, one, shares, words, "0.8" if late else 1, broken, given))
        classes[one.name] = a_class_of(one, *graded)
    course = Course(Path("course.toml"), title, Roster(people), tuple(assignments), (Drop(("week1", "week2", "week3"), 2),))
    return compute_term_marks(course, classes)
