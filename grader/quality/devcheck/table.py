"""dev-check's results, one line for each exercise: for a terminal, or as Markdown with totals by chapter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from grader.course.syllabus import Exercise, load_syllabus

NO_MUTANTS = (
    "A dash: the exercise's mutants have not been tried on these sources; "
    "`python -m grader.quality.proof mutants` tries them, and the next table has them."
)


class Mutants(NamedTuple):
    """The results of an exercise's mutants, which are mechanical changes of the reference."""

    total: int
    caught: int
    equivalent: int  # a written explanation says why they break no promise


@dataclass
class Row:
    """One exercise's line in the table. The sets have names for which something was seen at some seed."""

    exercise: Exercise
    tests: int = 0
    known: set[str] = field(default_factory=set)
    missed: set[str] = field(default_factory=set)
    unnamed: set[str] = field(default_factory=set)
    behaviours: dict[tuple[str, ...], str] = field(default_factory=dict)  # failures → the first mistake with them
    tried: set[str] = field(default_factory=set)  # variants
    refused: set[str] = field(default_factory=set)
    milliseconds: float = 0.0
    mutants: Mutants | None = None  # None if unknown

    @property
    def numbers(self) -> tuple[int, ...]:
        """Number of tests; of mistakes known, caught and named; of variants tried and accepted."""
        known, tried = len(self.known), len(self.tried)
        caught, named = known - len(self.missed), known - len(self.missed | self.unnamed)
        return self.tests, known, caught, named, tried, tried - len(self.refused)


def for_a_terminal(rows: list[Row]) -> str:
    lines = [f"{'exercise':<32}{'tests':>6}{'points':>8}{'caught':>10}{'named':>10}{'variants':>10}{'ms':>8}"]
    for title, of_chapter in _by_chapter(rows):
        lines.append(title)
        for row in of_chapter:
            tests, known, caught, named, tried, accepted = row.numbers
            shares = f"{f'{caught}/{known}':>10}{f'{named}/{known}':>10}{f'{accepted}/{tried}':>10}"
            line = f"  {row.exercise.name:<30}{tests:>6}{row.exercise.points:>8g}{shares}{row.milliseconds:>8.0f}"
            lines.append(line)
    return "\n".join(lines)


def for_a_page(rows: list[Row]) -> str:
    lines = [
        "| exercise | tests | known mistakes caught | and named | correct variants accepted "
        "| mutants caught | equivalent | milliseconds |",
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
    mutants = [row.mutants for row in rows if row.mutants is not None]
    total, killed, equivalent = (sum(numbers) for numbers in zip(*mutants)) if len(mutants) == len(rows) else (0, 0, 0)
    of_mutants = [f"{killed}/{total}", str(equivalent)] if total else ["–", "–"]
    cells = [name, str(tests), f"{caught}/{known}", f"{named}/{known}", f"{accepted}/{tried}", *of_mutants]
    return f"| {' | '.join([*cells, f'{sum(row.milliseconds for row in rows):.0f}'])} |"
