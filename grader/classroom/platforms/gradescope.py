"""Gradescope's tables: its grades ("Download Grades": First Name, Last Name, SID, Email, Total Score, Max Points, Status, ...), or its roster."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from grader.classroom.judging.scoring import format_points
from grader.classroom.platforms.csv_table import read_table
from grader.classroom.platforms.filling import Sheet
from grader.classroom.platforms.matching import Learner
from grader.classroom.platforms.recognition import missing_column
from grader.classroom.term.roster import first_last
from grader.classroom.term.roster_table import STAFF

SCORE, MOST = "Total Score", "Max Points"


def open_sheet(path: Path, points: Decimal) -> Sheet:
    """The table; a roster gets the columns of the score. GradingProblem if it does not fit."""
    table = read_table(path)
    name = table.column("name", "full name")
    first, last, role = table.column("first name"), table.column("last name"), table.column("role")
    ids = {"number": table.column("sid"), "email": table.column("email", "email address")}
    if (name is None and (first is None or last is None)) or ids["email"] is None:
        raise missing_column(table, "a Gradescope table", "Name (or First Name and Last Name) and Email")
    learners = []
    for row in table.body:
        if role is not None and row.value(role).lower() in STAFF:
            continue
        shown = first_last(row.value(name)) if name is not None else f"{row.value(first or 0)} {row.value(last or 0)}".strip()
        learners.append(Learner(row, shown, {field: row.value(place) for field, place in ids.items() if place is not None}))
    column, most = table.column(SCORE.casefold()), table.column(MOST.casefold())
    if column is None:
        column = table.add_column(SCORE)
        if most is None:
            most = table.add_column(MOST)
            for learner in learners:
                table.set(learner.row, most, format_points(points))
    largest = {} if most is None else {learner.row.line: value for learner in learners if (value := learner.row.value(most))}
    return Sheet(table, learners, column, SCORE, largest)
