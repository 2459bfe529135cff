"""Finds the row of each graded person in a platform's table: by an id, by e-mail or login, or by an equal name.

It never guesses: if two rows fit, or an id differs, nothing is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from grader.classroom.exports.csv import format_table, spreadsheet_text
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.judging.graded_class import GradedClass, Person
from grader.classroom.judging.scoring import format_points
from grader.classroom.platforms.csv_table import AGAIN, TableRow
from grader.classroom.sanitize import line, shorten
from grader.classroom.term.roster import UNIQUE, Roster, RosterPerson, first_last, fold

NUMBERS = ("canvas_id", "moodle_id", "number")
ADDRESSES = ("email", "login")  # compared with each other: the login may be the e-mail address
SHOWN = {"canvas_id": "Canvas id", "moodle_id": "Moodle id", "number": "student number", "email": "e-mail address"}


@dataclass(frozen=True)
class PersonMark:
    """The mark of a person, with everything that is known about whose it is."""

    person: Person
    ids: dict[str, str] = field(default_factory=dict)  # fields of a RosterPerson that are known
    who: RosterPerson | None = None  # None if the person is not in the roster

    @property
    def name(self) -> str:
        return self.person.name

    @property
    def is_graded(self) -> bool:
        """False if it is not graded yet; or if it could not be graded, and the instructor gave no points."""
        return not self.person.waiting and (not self.person.problem or bool(self.person.given))


def collect_marks(graded: GradedClass, ids: Mapping[str, Mapping[str, str]], roster: Roster) -> list[PersonMark]:
    """A mark for each person, with the ids from the names of submitted files, and the other ones from the roster."""
    found = []
    for person in (one for one in graded.people if not one.missing or one.given):
        who = roster.find(person.name)
        found.append(PersonMark(person, {**(who.ids if who else {}), **ids.get(person.slug, {})}, who))
    return found


def format_marks(marks: Sequence[PersonMark], roster: Roster) -> str:
    """A table of the roster's people in its order, also those without a submission, and then of the others."""
    by_name = {mark.who.name: mark for mark in marks if mark.who}
    rows = [_format_mark(who, by_name.get(who.name)) for who in roster.people]
    rows += [_format_mark(RosterPerson(mark.name), mark) for mark in marks if mark.who is None]
    return format_table([["name", *UNIQUE, "section", "group", "points", "of", "remark"], *rows])


def _format_mark(who: RosterPerson, mark: PersonMark | None) -> list[str]:
    """A row; ids stay as they are."""
    known = who.ids | (mark.ids if mark else {})
    ids = [known.get(field, "") for field in UNIQUE]
    start = [spreadsheet_text(who.name), *ids, spreadsheet_text(who.section), spreadsheet_text(who.group)]
    if mark is None:
        return [*start, "", "", "nothing was submitted"]
    person = mark.person
    problem = "not graded yet" if person.waiting else f"not graded: {person.problem}"
    earned = format_points(person.total.earned) if mark.is_graded else ""
    remark = spreadsheet_text(person.late if mark.is_graded else problem)
    return [*start, earned, format_points(person.total.points), remark]


@dataclass
class Learner:
    """A row about one person."""

    row: TableRow
    name: str  # first name first; "" if the table hides the names
    ids: dict[str, str] = field(default_factory=dict)
    locked: str = ""  # why its grade cannot be changed

    @property
    def label(self) -> str:
        return line(self.name or " ".join(self.ids.values()), 60)

    def differs(self, mark: PersonMark, fields: Sequence[str]) -> str:
        """The first of these fields that both have with different values, or ""."""
        both = [name for name in fields if self.ids.get(name) and mark.ids.get(name)]
        return next((name for name in both if self.ids[name].casefold() != mark.ids[name].casefold()), "")


@dataclass
class Matches:
    pairs: list[tuple[Learner, PersonMark]]
    missing: list[Learner]  # rows without a mark
    strangers: list[tuple[PersonMark, str]]  # marks without a row, and why, if there is more to say


def match(file: str, learners: Sequence[Learner], marks: Sequence[PersonMark]) -> Matches:
    """The rows and the marks that belong together. GradingProblem if two rows have the same id."""
    seen: dict[tuple[str, str], int] = {}
    for learner in learners:
        for name, value in learner.ids.items():
            if (first := seen.setdefault((name, value.casefold()), learner.row.line)) != learner.row.line:
                also = f"the {name} {shorten(value)} is also in line {first}"
                raise GradingProblem(f"{file}, line {learner.row.line}: {also}; {AGAIN}")
    rows = [_find_row(mark, learners) for mark in marks]
    owners = Counter(row.row.line for row in rows if isinstance(row, Learner))
    pairs, strangers = [], []
    for mark, row in zip(marks, rows):
        if isinstance(row, str):
            strangers.append((mark, row))
        elif owners[row.row.line] > 1:
            strangers.append((mark, f"several submissions fit line {row.row.line}"))
        else:
            pairs.append((row, mark))
    return Matches(pairs, [learner for learner in learners if learner.row.line not in owners], strangers)


def _find_row(mark: PersonMark, learners: Sequence[Learner]) -> Learner | str:
    """The row of this mark; or why it is not clear, "" if no row fits."""

    def values(ids: Mapping[str, str], fields: Sequence[str]) -> set[str]:
        return {value.casefold() for name in fields if (value := ids.get(name, ""))}

    addresses = values(mark.ids, ADDRESSES)
    names = {fold(mark.name), *([fold(first_last(mark.who.name))] if mark.who else [])} - {""}
    ways = {
        "ids": lambda one: any(values(mark.ids, [n]) & values(one.ids, [n]) for n in NUMBERS),
        "e-mail or login": lambda one: addresses & values(one.ids, ADDRESSES),
        "name": lambda one: names & {fold(text) for text in (one.name, *one.ids.values())},
    }
    refused = ""
    for how, fits in ways.items():
        rows = [one for one in learners if fits(one)]
        fitting = [one for one in rows if not one.differs(mark, NUMBERS if how == "ids" else (*NUMBERS, "email"))]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            lines = " and ".join(str(one.row.line) for one in fitting)
            return f"its {how} fit{'' if how == 'ids' else 's'} lines {lines}"
        if rows and not refused:
            start = {"ids": "an id", "name": "the name"}.get(how, how)
            refused = f"{start} fits line {rows[0].row.line}, but {_describe_difference(mark, rows[0])}"
    return refused


def _describe_difference(mark: PersonMark, learner: Learner) -> str:
    name = learner.differs(mark, (*NUMBERS, "email"))
    mine, other = mark.ids[name], learner.ids[name]
    zeros = f" (a spreadsheet may have removed the zeros: {AGAIN})" if mine.lstrip("0") == other.lstrip("0") else ""
    return f"the {SHOWN[name]} differs: {shorten(mine)} here, {shorten(other)} there{zeros}"
