"""Writes the marks into the rows of a platform's table, and records what changed and what did not fit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from grader.classroom.intake.problems import GradingProblem
from grader.classroom.judging.scoring import format_points
from grader.classroom.platforms.csv_table import CsvTable, TableRow
from grader.classroom.platforms.marks import PersonMark
from grader.classroom.platforms.matching import Learner, check_distinct, match
from grader.classroom.sanitize import shorten


@dataclass
class Sheet:
    """A platform's table: its rows about learners, and where the grades are."""

    table: CsvTable
    learners: list[Learner]
    grade: int  # the column
    title: str  # of that column
    most: dict[int, str] = field(default_factory=dict)  # the largest grade, as the table writes it, by line
    fixed: tuple[str, ...] = ()  # words in the column that are not replaced, in lower case


@dataclass(frozen=True)
class Options:
    scale: bool | None = None  # convert the points to the table's largest grade; None: refuse if they differ
    keep: bool = False  # leave grades that the table has already
    zeros: bool = False  # 0 for people without a submission that can be graded


@dataclass
class Filled:
    pairs: list[tuple[Learner, PersonMark]] = field(default_factory=list)  # all that belong together, also those whose grade was not changed
    written: int = 0
    unchanged: int = 0  # grades that the table had already
    changed: list[str] = field(default_factory=list)  # "Alpha One: 5, now 7"
    kept: list[str] = field(default_factory=list)
    not_graded: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # rows without a mark
    strangers: list[str] = field(default_factory=list)  # marks without a row


def fill(sheet: Sheet, marks: Sequence[PersonMark], options: Options) -> Filled:
    """Write the marks into the table. GradingProblem if this cannot be the right table."""
    check_distinct(sheet.table.name, sheet.learners)
    found = match(sheet.learners, marks)
    if not found.pairs:
        example = next((f": for example, {shorten(mark.name)}: {why}" for mark, why in found.strangers if why), "")
        raise GradingProblem(
            f"no person in {sheet.table.name} is in this gradebook ({len(sheet.learners)} people there, {len(marks)} here){example}; "
            "check the file, the assignment and the roster's ids"
        )
    done = Filled(pairs=found.pairs)
    done.strangers = [shorten(mark.name) + (f" ({why})" if why else "") for mark, why in found.strangers]
    comma = _has_decimal_comma(sheet)
    for learner, mark in sorted(found.pairs, key=lambda pair: pair[0].row.line):
        if mark.is_graded:
            _write(sheet, learner, _grade(sheet, learner.row, mark, options.scale), options, comma, done)
        elif options.zeros and not mark.person.waiting:
            _write(sheet, learner, Decimal(0), options, comma, done)
        else:
            done.not_graded.append(learner.label)
    for learner in found.missing:
        if options.zeros:
            _write(sheet, learner, Decimal(0), options, comma, done)
        done.missing.append(learner.label)
    return done


def _write(sheet: Sheet, learner: Learner, grade: Decimal, options: Options, comma: bool, done: Filled) -> None:
    old, new = learner.row.value(sheet.grade), format_points(grade)
    before = parse_grade(old)
    if old.casefold() in sheet.fixed:
        done.kept.append(f"{learner.label}: {old}")
    elif learner.locked:
        done.kept.append(f"{learner.label}: {old or 'no grade'} ({learner.locked})")
    elif before == grade:
        done.unchanged += 1
    elif old and options.keep:
        done.kept.append(f"{learner.label}: {shorten(old)}, not {new}")
    else:
        if old:
            done.changed.append(f"{learner.label}: {shorten(old)}, now {new}")
        sheet.table.set(learner.row, sheet.grade, new.replace(".", ",") if comma else new)
        done.written += 1


def _grade(sheet: Sheet, row: TableRow, mark: PersonMark, scale: bool | None) -> Decimal:
    most = sheet.most.get(row.line, "")
    if not most:
        return mark.earned
    largest = parse_grade(most)
    if largest is None:
        raise GradingProblem(f"{sheet.table.name}, line {row.line}: the largest grade is {shorten(most)!r}, not a number; set the assignment's grade to points")
    if largest == mark.points or scale is False:
        return mark.earned
    if scale is None:
        raise GradingProblem(
            f"{sheet.table.name}: the largest grade of {shorten(sheet.title)} is {format_points(largest)}, and {format_points(mark.points)} points can be earned here; "
            "add --scale to convert the points, or --no-scale to write them as they are"
        )
    if not mark.points:
        return Decimal(0)
    exactly = Fraction(mark.earned) * Fraction(largest) / Fraction(mark.points)
    return Decimal((200 * exactly.numerator + exactly.denominator) // (2 * exactly.denominator)).scaleb(-2)


def parse_grade(text: str) -> Decimal | None:
    """The number in a cell, with a decimal point or comma; None for a cell without a number."""
    if not re.fullmatch(r"-?[0-9]{1,9}(?:[.,][0-9]{1,9})?", text):
        return None
    try:
        return Decimal(text.replace(",", "."))
    except InvalidOperation:
        return None


def _has_decimal_comma(sheet: Sheet) -> bool:
    cells = [row.value(sheet.grade) for row in sheet.table.body] + list(sheet.most.values())
    return sheet.table.separator == ";" and any(re.fullmatch(r"[0-9]+,[0-9]+", cell) for cell in cells)
