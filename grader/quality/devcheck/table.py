"""dev-check's results, one line for each exercise: for a terminal, or as Markdown for a page, with totals by chapter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from grader.course.syllabus import Exercise, load_syllabus

NO_MUTANTS = "A dash: the exercise's mutants have not been tried on these sources; `python -m grader.quality.proof mutants` tries them, and the next table has them."


class Mutants(NamedTuple):
    """The results of an exercise's mutants, which are mechanical changes of the reference."""

    total: int
    caught: int
    equivalent: int  # a written explanation says why they break no promise


@dataclass
class Row:
    """One exercise's line in the table."""

    exercise: Exercise
    tests: int = 0
    known: set[str] = field(default_factory=set)
    missed: set[str] = field(default_factory=set)  # not caught at some seed, in process or in a worker
    unnamed: set[str] = field(default_factory=set)  # not named at some seed, in process or in a worker
    behaviours: dict[tuple[str, ...], str] = field(default_factory=dict)  # failed tests with their messages → the first unnamed mistake that fails so
    accepted: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    milliseconds: float = 0.0
    mutants: Mutants | None = None  # None if unknown

    @property
    def numbers(self) -> tuple[int, ...]:
        """Number of tests; of mistakes known, caught and named; of variants tried and accepted."""
        known, tried = len(self.known), len(self.accepted | self.refused)
        return self.tests, known, known - len(self.missed), known - len(self.missed | self.unnamed), tried, len(self.accepted - self.refused)


def for_a_terminal(rows: list[Row]) -> str:
    lines = [f"{'exercise':<32}{'tests':>6}{'points':>8}{'caught':>10}{'named':>10}{'variants':>10}{'ms':>8}"]
    for title, of_chapter in _by_chapter(rows):
        lines.append(title)
        for row in of_chapter:
            tests, known, caught, named, tried, accepted = row.numbers
            shares = f"{f'{caught}/{known}':>10}{f'{named}/{known}':>10}{f'{accepted}/{tried}':>10}"
            lines.append(f"  {row.exercise.name:<30}{tests:>6}{row.exercise.points:>8g}{shares}{row.milliseconds:>8.0f}")
    return "\n".join(lines)


def for_a_page(rows: list[Row]) -> str:
    lines = [
        "| exercise | tests | known mistakes caught | and named | correct variants accepted | mutants caught | equivalent | milliseconds |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for title, of_chapter in _by_chapter(rows):
        lines.append(_line(f"**{title}**", of_chapter))
        lines += [_line(f"`{row.exercise.name}`", [row]) for row in of_chapter]
    lines.append(_line(f"**{len(rows)} exercise{'s' * (len(rows) > 1)}**", rows))
    if any(row.mutants is None for row in rows):
        lines += ["", NO_MUTANTS]
    return "\n".join(lines)


def _by_chapter(rows: list[Row]) -> Iterable[tuple[str, list[Row]]]:
    for chapter in load_syllabus().chapters:
        if of_chapter := [row for row in rows if row.exercise.chapter == chapter.id]:
            yield f"{chapter.id} {chapter.title}", of_chapter


def _line(name: str, rows: list[Row]) -> str:
    tests, known, caught, named, tried, accepted = (sum(numbers) for numbers in zip(*(row.numbers for row in rows)))
    shares = [f"{caught}/{known}", f"{named}/{known}", f"{accepted}/{tried}"]
    cells = [name, str(tests), *shares, *_mutants([row.mutants for row in rows]), f"{sum(row.milliseconds for row in rows):.0f}"]
    return f"| {' | '.join(cells)} |"


def _mutants(each: list[Mutants | None]) -> list[str]:
    """The two columns about mutants: sums, or dashes if one of them is unknown."""
    known = [mutants for mutants in each if mutants is not None]
    if len(known) < len(each):
        return ["–", "–"]
    total, caught, equivalent = (sum(numbers) for numbers in zip(*known))
    return [f"{caught}/{total}", str(equivalent)]
