"""Writes the marks into the rows of a platform's table, and records what changed and what did not fit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from grader.classroom.intake.problems import GradingProblem
from grader.classroom.judging.scoring import format_points, round_to_cent
from grader.classroom.platforms.matching import Learner, PersonMark, match
from grader.classroom.platforms.sheets import Sheet
from grader.classroom.sanitize import shorten


@dataclass(frozen=True)
class Options:
    scale: bool | None = None  # convert the points to the table's largest grade; None: refuse if they differ
    keep: bool = False  # leave grades that the table has already
    zeros: bool = False  # 0 for people without a submission that can be graded


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


def fill(sheet: Sheet, marks: Sequence[PersonMark], options: Options) -> Filled:
    """Write the marks into the table. GradingProblem if this cannot be the right table."""
    found = match(sheet.table.name, sheet.learners, marks)
    strangers = [shorten(mark.name) + (f" ({why})" if why else "") for mark, why in found.strangers]
    if not found.pairs:
        example = next((f": for example, {shorten(mark.name)}: {why}" for mark, why in found.strangers if why), "")
        many = f"({len(sheet.learners)} people there, {len(marks)} here)"
        raise GradingProblem(
            f"no person in {sheet.table.name} is in this gradebook {many}{example}; "
            "check the file, the assignment and the roster's ids"
        )
    done = Filled(found.pairs, missing=[learner.label for learner in found.missing], strangers=strangers)
    comma = _has_decimal_comma(sheet)
    for learner, mark in sorted(found.pairs, key=lambda pair: pair[0].row.line):
        if mark.is_graded:
            _write(sheet, learner, _grade(sheet, learner, mark, options.scale), options, comma, done)
        elif options.zeros and not mark.person.waiting:
            _write(sheet, learner, Decimal(0), options, comma, done)
        else:
            done.not_graded.append(learner.label)
    for learner in found.missing if options.zeros else ():
        _write(sheet, learner, Decimal(0), options, comma, done)
    return done


def _write(sheet: Sheet, learner: Learner, grade: Decimal, options: Options, comma: bool, done: Filled) -> None:
    old, new = learner.row.value(sheet.column), format_points(grade)
    if old.casefold() in sheet.fixed:
        done.kept.append(f"{learner.label}: {old}")
    elif learner.locked:
        done.kept.append(f"{learner.label}: {old or 'no grade'} ({learner.locked})")
    elif parse_grade(old) == grade:
        done.unchanged += 1
    elif old and options.keep:
        done.kept.append(f"{learner.label}: {shorten(old)}, not {new}")
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
