"""The tables of the lessons, the commands that are named beside them, and the numbers that a command prints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.course.syllabus import EXERCISES
from torch import Tensor

COMMAND = re.compile(r"`headway measure (\w+)[^`]*`")
LOOKS_MEASURED = re.compile(r"\bmeasured\b|\brandom (?:weights|models?|queries|rows|noise)\b|\b(?:\d+|thousand) draws\b|\bwe ran\b", re.IGNORECASE)
NUMBER = re.compile(r"(-?)([\d,]*\.?\d+)(e-?\d+)?")


@dataclass(frozen=True)
class LessonTable:
    """A table of a lesson, with the text around it: back to the table or heading before it, and on to the next one."""

    lesson: str
    heading: str
    before: str
    rows: tuple[tuple[str, ...], ...]  # the header first
    after: str  # empty if another table follows: that text introduces the next table

    @property
    def looks_measured(self) -> bool:
        return bool(LOOKS_MEASURED.search(f"{self.heading} {self.before} {self.after.partition(chr(10) * 2)[0]}"))

    @property
    def command(self) -> str | None:
        """The measurement that is named before the table, or, for a table that looks measured, after it."""
        match = COMMAND.search(self.before) or (COMMAND.search(self.after) if self.looks_measured else None)
        return match and match[1]

    def __str__(self) -> str:
        return f"{self.lesson}, under {self.heading!r}"


def lessons() -> list[Path]:
    return sorted(EXERCISES.glob("ch*.md"))


def tables_of(path: Path) -> Iterator[LessonTable]:
    """The tables of a lesson in their order."""
    for section in re.split(r"^(?=#)", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
        heading = section.partition("\n")[0].strip("# ")
        texts = re.split(r"((?:^\|.*\n)+)", section, flags=re.MULTILINE)  # text, table, text, table, ..., text
        for place in range(1, len(texts), 2):
            last = place + 2 == len(texts)
            yield LessonTable(path.name, heading, texts[place - 1], read_table(texts[place]), texts[place + 1] if last else "")


def read_table(text: str) -> tuple[tuple[str, ...], ...]:
    """The cells of a table in Markdown, without emphasis and without the line below the header."""
    header, _, *lines = text.splitlines()
    return tuple(tuple(cell.strip(" *`") for cell in line.strip()[1:-1].split("|")) for line in (header, *lines))


def words_of(line: str | Iterable[str]) -> list[str]:
    """The words of a printed line, or of the cells of a row, without the edges of a table."""
    return re.sub(r"[^\S ]|[─-╿]|…", " ", line if isinstance(line, str) else " ".join(line)).split()


def agrees(said: str, found: str, relative: float, absolute: float = 0.0) -> bool:
    """Is the word of a lesson the word that was printed? Numbers may differ by this much, and decimal fractions by 1.5 in their last digit."""
    one, other = NUMBER.search(said), NUMBER.search(found)
    if not one or not other or NUMBER.sub("#", said) != NUMBER.sub("#", found):
        return said == found
    digits = len(one[2].partition(".")[2])
    unit = 10.0**-digits * float(f"1{one[3] or 'e0'}") if digits or one[3] else 0.0
    values = [float(match[0].replace(",", "")) for match in (one, other)]
    return abs(values[0] - values[1]) <= max(relative * abs(values[1]), absolute) + 1.5 * unit


def table_in(chapter: str, heading: str, place: int = 0) -> tuple[tuple[str, ...], ...]:
    """The rows below the header of a table under this heading, the first or a later one."""
    [path] = EXERCISES.glob(f"{chapter}_*.md")
    return [table for table in tables_of(path) if table.heading == heading][place].rows[1:]


def shown(text: str) -> list[tuple[float, int]]:
    """The numbers in a text, each with the number of its decimals. 1/4 is one number, and so is 12,707; in `2, 1` there are two."""
    found = []
    for match in re.finditer(r"(?<![\w.])-?(?:∞|(\d+)/(\d+)|\d[\d,]*(?:\.(\d+))?)", re.sub(r",(?!\d{3}(?!\d))", ", ", text)):
        if match[1]:
            found.append((int(match[1]) / int(match[2]) * (-1 if match[0][0] == "-" else 1), 15))
        else:
            found.append((float(match[0].strip(",").replace(",", "").replace("∞", "inf")), len(match[3] or "")))
    return found


def shows(text: str, *values: float) -> bool:
    """Does the text contain exactly these numbers, each rounded to the decimals that are shown?"""
    numbers = shown(text)
    return len(numbers) == len(values) and all(_rounds_to(value, *number) for value, number in zip(values, numbers))


def _rounds_to(value: float, said: float, decimals: int) -> bool:
    return value == said or abs(value - said) <= 0.505 * 10.0**-decimals + 1e-6 * abs(said)


def says(chapter: str, sentence: str, *values: float) -> bool:
    """Does the lesson contain this sentence, with these numbers in the places of {}?"""
    [path] = EXERCISES.glob(f"{chapter}_*.md")
    pattern = re.escape(" ".join(sentence.split())).replace(r"\{\}", r"(-?[\d.,]*\d)")
    found = re.search(pattern, " ".join(path.read_text(encoding="utf-8").split()))
    assert found, f"{path.name} does not contain: {sentence}"
    return all(shows(said, value) for said, value in zip(found.groups(), values, strict=True))


def show_rows(rows: Sequence[Sequence[str]], values: Tensor) -> bool:
    """Does each row of a table show this row of numbers after its first cell?"""
    return all(shows(" ; ".join(row[1:]), *line.flatten().tolist()) for row, line in zip(rows, values, strict=True))
