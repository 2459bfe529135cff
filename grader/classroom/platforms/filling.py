"""Finds the row of each graded person in a platform's table, and writes the marks there.

A row is found by an id, by e-mail or login, or by an equal name. This module never guesses: if two rows fit, or an id
differs, nothing is written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from grader.classroom.intake.problems import GradingProblem
from grader.classroom.judging.graded_class import GradedClass, Person
from grader.classroom.judging.scoring import format_points, round_to_cent
from grader.classroom.platforms.sheets import AGAIN, Learner, Sheet
from grader.classroom.sanitize import shorten
from grader.classroom.term.roster import Roster, RosterPerson, first_last, fold

NUMBERS = ("canvas_id", "moodle_id", "number")
ADDRESSES = ("email", "login")  # compared with each other: the login may be the e-mail address


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


@dataclass
class Filled:
    pairs: list[tuple[Learner, PersonMark]] = field(default_factory=list)  # also those whose grade was not changed
    written: int = 0
    unchanged: int = 0  # grades that the table had already
    changed: list[str] = field(default_factory=list)  # "Alpha One: 5, now 7"
    kept: list[str] = field(default_factory=list)
    not_graded: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # rows without a mark
    strangers: list[str] = field(default_factory=list)  # marks without a row


def fill(sheet: Sheet, marks: Sequence[PersonMark], scale: bool | None, zeros: bool) -> Filled:
    """Write the marks into the table. GradingProblem if this cannot be the right table.

    `scale` converts the points to the table's largest grade; None refuses if they differ. `zeros` writes 0 for people
    without a submission that can be graded.
    """
    pairs, strangers = _match(sheet, marks)
    if not pairs:
        many = f"({len(sheet.learners)} people there, {len(marks)} here)"
        raise GradingProblem(
            f"no person in {sheet.table.name} is in this gradebook {many}; "
            "check the file, the assignment and the roster's ids"
        )
    matched = {learner.row.line for learner, _ in pairs}
    missing = [learner for learner in sheet.learners if learner.row.line not in matched]
    done = Filled(pairs, missing=[learner.label for learner in missing], strangers=strangers)
    comma = _has_decimal_comma(sheet)
    for learner, mark in sorted(pairs, key=lambda pair: pair[0].row.line):
        if mark.is_graded:
            _write(sheet, learner, _grade(sheet, learner, mark, scale), comma, done)
        elif zeros and not mark.person.waiting:
            _write(sheet, learner, Decimal(0), comma, done)
        else:
            done.not_graded.append(learner.label)
    for learner in missing if zeros else ():
        _write(sheet, learner, Decimal(0), comma, done)
    return done


def _match(sheet: Sheet, marks: Sequence[PersonMark]) -> tuple[list[tuple[Learner, PersonMark]], list[str]]:
    """The rows and the marks that belong together, and the names of the other marks.

    GradingProblem if two rows have the same id.
    """
    seen: dict[tuple[str, str], int] = {}
    for learner in sheet.learners:
        for name, value in learner.ids.items():
            if (first := seen.setdefault((name, value.casefold()), learner.row.line)) != learner.row.line:
                also = f"the {name} {shorten(value)} is also in line {first}"
                raise GradingProblem(f"{sheet.table.name}, line {learner.row.line}: {also}; {AGAIN}")
    found = [_find_rows(mark, sheet.learners) for mark in marks]
    owners = Counter(rows[0].row.line for rows in found if len(rows) == 1)
    pairs, strangers = [], []
    for mark, rows in zip(marks, found):
        if len(rows) == 1 and owners[rows[0].row.line] == 1:
            pairs.append((rows[0], mark))
        else:
            several = f"several submissions fit line {rows[0].row.line}" if len(rows) == 1 else "several rows fit"
            strangers.append(shorten(mark.name) + (f" ({several})" if rows else ""))
    return pairs, strangers


def _find_rows(mark: PersonMark, learners: Sequence[Learner]) -> list[Learner]:
    """The rows with an id or an address of this person; if there are none, those with the name."""
    keys = _keys(mark.ids)
    if by_id := [one for one in learners if keys & _keys(one.ids)]:
        return [one for one in by_id if not _differ(one.ids, mark.ids, NUMBERS)]
    names = {fold(mark.name), *([fold(first_last(mark.who.name))] if mark.who else [])} - {""}
    by_name = [one for one in learners if names & {fold(text) for text in (one.name, *one.ids.values())}]
    return [one for one in by_name if not _differ(one.ids, mark.ids, (*NUMBERS, "email"))]


def _keys(ids: Mapping[str, str]) -> set[tuple[str, str]]:
    return {("address" if name in ADDRESSES else name, value.casefold()) for name, value in ids.items() if value}


def _differ(ids: Mapping[str, str], other: Mapping[str, str], fields: Sequence[str]) -> bool:
    """Whether both have one of these fields, with different values."""
    both = [name for name in fields if ids.get(name) and other.get(name)]
    return any(ids[name].casefold() != other[name].casefold() for name in both)


def _write(sheet: Sheet, learner: Learner, grade: Decimal, comma: bool, done: Filled) -> None:
    old, new = learner.row.value(sheet.column), format_points(grade)
    if old.casefold() in sheet.fixed:
        done.kept.append(f"{learner.label}: {old}")
    elif learner.locked:
        done.kept.append(f"{learner.label}: {old or 'no grade'} ({learner.locked})")
    elif parse_grade(old) == grade:
        done.unchanged += 1
    else:
        if old:
            done.changed.append(f"{learner.label}: {shorten(old)}, now {new}")
        learner.row.set(sheet.column, new.replace(".", ",") if comma else new)
        done.written += 1


def _grade(sheet: Sheet, learner: Learner, mark: PersonMark, scale: bool | None) -> Decimal:
    total, most = mark.person.total, sheet.largest_grades.get(learner.row.line, "")
    if not most:
        return total.earned
    largest, where = parse_grade(most), sheet.table.name
    if largest is None:
        problem = f"the largest grade is {shorten(most)!r}, not a number; set the assignment's grade to points"
        raise GradingProblem(f"{where}, line {learner.row.line}: {problem}")
    if largest == total.points or scale is False:
        return total.earned
    if scale is None:
        points = f"{format_points(largest)}, and {format_points(total.points)} points can be earned here"
        raise GradingProblem(
            f"{where}: the largest grade of {shorten(sheet.title)} is {points}; "
            "add --scale to convert the points, or --no-scale to write them as they are"
        )
    if not total.points:
        return Decimal(0)
    return round_to_cent(Fraction(total.earned) * Fraction(largest) / Fraction(total.points))


def parse_grade(text: str) -> Decimal | None:
    """The number in a cell, with a decimal point or comma; None for a cell without a number."""
    is_number = re.fullmatch(r"-?[0-9]{1,9}(?:[.,][0-9]{1,9})?", text)
    return Decimal(text.replace(",", ".")) if is_number else None


def _has_decimal_comma(sheet: Sheet) -> bool:
    cells = [row.value(sheet.column) for row in sheet.table.body] + list(sheet.largest_grades.values())
    return sheet.table.separator == ";" and any(re.fullmatch(r"[0-9]+,[0-9]+", cell) for cell in cells)
