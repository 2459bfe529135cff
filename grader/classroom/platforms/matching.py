"""Finds the row of each graded person in a platform's table: by an id, then by e-mail or login, then by an equal name. It never guesses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from grader.classroom.intake.problems import GradingProblem
from grader.classroom.platforms.csv_table import TableRow
from grader.classroom.platforms.marks import PersonMark
from grader.classroom.sanitize import line, shorten
from grader.classroom.term.roster import first_last, fold

IDS = ("canvas_id", "moodle_id", "number")
SHOWN = {"canvas_id": "Canvas id", "moodle_id": "Moodle id", "number": "student number", "email": "e-mail address"}
ADDRESSES = ("email", "login")  # compared with each other: the login may be the e-mail address


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


@dataclass
class Matches:
    pairs: list[tuple[Learner, PersonMark]]
    missing: list[Learner]  # rows without a mark
    strangers: list[tuple[PersonMark, str]]  # marks without a row, and why, if there is more to say


def check_distinct(file: str, learners: Sequence[Learner]) -> None:
    """GradingProblem if two rows have the same id."""
    seen: dict[tuple[str, str], int] = {}
    for learner in learners:
        for name, value in learner.ids.items():
            key = (name, value.casefold())
            if value and key in seen:
                raise GradingProblem(f"{file}, line {learner.row.line}: the {name} {shorten(value)} is also in line {seen[key]}; export the table again")
            seen[key] = learner.row.line


def match(learners: Sequence[Learner], marks: Sequence[PersonMark]) -> Matches:
    found: list[tuple[Learner, PersonMark]] = []
    strangers: list[tuple[PersonMark, str]] = []
    for mark in marks:
        rows, why = _find_rows(mark, learners)
        if len(rows) == 1:
            found.append((rows[0], mark))
        else:
            strangers.append((mark, why))
    owners = Counter(learner.row.line for learner, _ in found)
    for learner, mark in found:
        if owners[learner.row.line] > 1:
            strangers.append((mark, f"several submissions fit line {learner.row.line}"))
    pairs = [(learner, mark) for learner, mark in found if owners[learner.row.line] == 1]
    return Matches(pairs, [learner for learner in learners if learner.row.line not in owners], strangers)


def _find_rows(mark: PersonMark, learners: Sequence[Learner]) -> tuple[list[Learner], str]:
    """The row of this mark; or none or several, and why it is not clear."""
    by_id = [one for one in learners if any(_same(mark.ids.get(name), one.ids.get(name)) for name in IDS)]
    addresses = {mark.ids.get(name, "").casefold() for name in ADDRESSES} - {""}
    by_address = [one for one in learners if addresses & {one.ids.get(name, "").casefold() for name in ADDRESSES}]
    names = _names(mark)
    by_name = [one for one in learners if (one.name and fold(one.name) in names) or names & {fold(value) for value in one.ids.values() if value}]
    for rows, how in ((by_id, "ids"), (by_address, "e-mail or login"), (by_name, "name")):
        fitting = [one for one in rows if not _contradiction(mark, one, IDS if how == "ids" else (*IDS, "email"))]
        if len(fitting) > 1:
            return fitting, f"its {how} {'fit' if how == 'ids' else 'fits'} lines {' and '.join(str(one.row.line) for one in fitting)}"
        if fitting:
            return fitting, ""
    for refused, how in ((by_id, "an id"), (by_address, "e-mail or login"), (by_name, "the name")):
        if refused:
            return [], f"{how} fits line {refused[0].row.line}, but the {_describe(mark, refused[0], _contradiction(mark, refused[0], (*IDS, 'email')))}"
    return [], ""


def _names(mark: PersonMark) -> set[str]:
    """What is accepted as an equal name: that of the gradebook, and of the roster. A submission may also be named by a login or a number."""
    names = {fold(mark.name)} | ({fold(first_last(mark.who.name))} if mark.who else set())
    return names - {""}


def _contradiction(mark: PersonMark, learner: Learner, fields: Sequence[str]) -> str:
    """Return the first field that both have with different values, else an empty text."""
    for name in fields:
        mine, other = mark.ids.get(name, ""), learner.ids.get(name, "")
        if mine and other and mine.casefold() != other.casefold():
            return name
    return ""


def _describe(mark: PersonMark, learner: Learner, name: str) -> str:
    mine, other = mark.ids[name], learner.ids[name]
    words = f"{SHOWN[name]} differs: {shorten(mine)} here, {shorten(other)} there"
    return f"{words} (a spreadsheet may have removed the zeros: export the table again)" if mine.lstrip("0") == other.lstrip("0") else words


def _same(mine: str | None, other: str | None) -> bool:
    return bool(mine and other and mine.casefold() == other.casefold())
