"""A plain table of one gradebook: everybody with every id that is known, and the points."""

from __future__ import annotations

from collections.abc import Sequence

from grader.classroom.exports.csv import format_table, spreadsheet_text
from grader.classroom.judging.scoring import format_points
from grader.classroom.platforms.marks import IDS, PersonMark
from grader.classroom.term.roster import Roster, RosterPerson

HEADER = ("name", *IDS, "section", "group", "points", "of", "remark")


def format_marks(marks: Sequence[PersonMark], roster: Roster) -> str:
    """The roster's people in its order, also those without a submission, and then the others. Ids stay as they are, byte for byte."""
    by_name = {mark.who.name: mark for mark in marks if mark.who}
    rows = [_row(who, by_name.get(who.name)) for who in roster.people]
    rows += [_row(RosterPerson(mark.name), mark) for mark in marks if mark.who is None]
    return format_table([list(HEADER), *rows])


def _row(who: RosterPerson, mark: PersonMark | None) -> list[str]:
    ids = [(mark.ids.get(field, "") if mark else "") or getattr(who, field) for field in IDS]
    start = [spreadsheet_text(who.name), *ids, spreadsheet_text(who.section), spreadsheet_text(who.group)]
    if mark is None:
        return [*start, "", "", "nothing was submitted"]
    problem = "not graded yet" if mark.person.waiting else f"not graded: {mark.person.problem}"
    remark = mark.person.late if mark.is_graded else problem
    earned = format_points(mark.earned) if mark.is_graded else ""
    return [*start, earned, format_points(mark.points), spreadsheet_text(remark)]
