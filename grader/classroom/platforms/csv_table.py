"""A CSV table of a learning platform. Cells that are not changed keep their text: spaces and leading zeros, too."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from grader.classroom.intake.problems import GradingProblem
from grader.classroom.intake.roster import find_separator, read_text

BYTE_ORDER_MARK = "\ufeff"
AGAIN = "export the table again"


@dataclass
class TableRow:
    line: int
    cells: list[str]

    def value(self, place: int | None) -> str:
        """The text of a cell without spaces around it; "" if there is no such cell."""
        return self.cells[place].strip() if place is not None and place < len(self.cells) else ""

    def set(self, place: int, text: str) -> None:
        self.cells += [""] * (place + 1 - len(self.cells))
        self.cells[place] = text


@dataclass
class CsvTable:
    name: str
    separator: str
    rows: list[TableRow]  # the first one names the columns
    mark: str  # the byte order mark, or ""
    line_end: str

    @property
    def header(self) -> list[str]:
        return [cell.strip() for cell in self.rows[0].cells]

    @property
    def body(self) -> list[TableRow]:
        """The rows below the header that are not empty."""
        return [row for row in self.rows[1:] if any(map(str.strip, row.cells))]

    def column(self, *names: str) -> int | None:
        """The place of the column with one of these names. GradingProblem if there are two."""
        places = [place for place, cell in enumerate(self.header) if cell.casefold() in names]
        if len(places) > 1:
            raise GradingProblem(f"{self.name}, line 1: the column {self.header[places[0]]} appears twice; {AGAIN}")
        return places[0] if places else None

    def text(self) -> str:
        out = io.StringIO(newline="")
        writer = csv.writer(out, delimiter=self.separator, lineterminator=self.line_end)
        writer.writerows(row.cells for row in self.rows)
        return self.mark + out.getvalue()


def read_table(path: Path) -> CsvTable:
    """The table in this file. GradingProblem, one sentence with the line, if it is not one."""
    text = read_text(path)
    separator = find_separator(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    rows, line = [], 1
    try:
        for cells in reader:
            rows.append(TableRow(line, cells))
            line = reader.line_num + 1
    except csv.Error as error:
        raise GradingProblem(f"{path.name}, line {line}: this is not CSV ({error}); {AGAIN}") from None
    if not any(cell.strip() for row in rows for cell in row.cells):
        raise GradingProblem(f"{path.name} is empty; {AGAIN}")
    columns = len(rows[0].cells)
    for row in rows[1:]:
        if any(row.cells[columns:]):
            many = f"there are {len(row.cells)} cells for {columns} columns"
            raise GradingProblem(f"{path.name}, line {row.line}: {many}; {AGAIN}")
    with path.open("rb") as file:
        mark = BYTE_ORDER_MARK if file.read(3) == BYTE_ORDER_MARK.encode() else ""
    return CsvTable(path.name, separator, rows, mark, "\r\n" if "\r\n" in text else "\n")
