"""A CSV table in which unchanged cells keep every byte: quotes, spaces, leading zeros, line ends and the byte order mark."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from grader.classroom.intake.problems import GradingProblem
from grader.classroom.intake.roster import read_text

SEPARATORS = ",;\t"
BYTE_ORDER_MARK = "\ufeff"


@dataclass
class TableRow:
    line: int
    cells: list[str]  # as they are in the file, with quotes
    end: str  # "\n", "\r\n" or ""

    def value(self, place: int) -> str:
        """The text of a cell without quotes and without spaces around it; "" if the row is shorter."""
        return _unquote(self.cells[place]).strip() if place < len(self.cells) else ""

    def set(self, place: int, text: str, separator: str) -> None:
        self.cells += [""] * (place + 1 - len(self.cells))
        self.cells[place] = _quote(text, separator)


@dataclass
class CsvTable:
    name: str
    separator: str
    rows: list[TableRow]  # the first one names the columns
    mark: str  # the byte order mark, or ""

    @property
    def header(self) -> list[str]:
        return [self.rows[0].value(place) for place in range(len(self.rows[0].cells))]

    @property
    def body(self) -> list[TableRow]:
        """The rows below the header that are not empty."""
        return [row for row in self.rows[1:] if any(map(str.strip, row.cells))]

    def column(self, *names: str) -> int | None:
        """The place of the column with one of these names. GradingProblem if there are two."""
        places = [place for place, cell in enumerate(self.header) if cell.casefold() in names]
        if len(places) > 1:
            raise GradingProblem(f"{self.name}, line 1: the column {self.header[places[0]]} appears twice; export the table again")
        return places[0] if places else None

    def add_column(self, title: str) -> int:
        """Add an empty column at the end; return its place."""
        place = len(self.rows[0].cells)
        self.rows[0].set(place, title, self.separator)
        return place

    def set(self, row: TableRow, place: int, text: str) -> None:
        row.set(place, text, self.separator)

    def text(self) -> str:
        return self.mark + "".join(self.separator.join(row.cells) + row.end for row in self.rows)


def read_table(path: Path) -> CsvTable:
    """The table in this file. GradingProblem, one sentence with the line, if it is not one."""
    text = read_text(path)
    first = re.sub(r'"[^"]*"', "", text.partition("\n")[0])  # a separator inside quotes does not count
    separator = max(SEPARATORS, key=first.count)
    rows = _split(path.name, text, separator)
    if not any(map(str.strip, (cell for row in rows for cell in row.cells))):
        raise GradingProblem(f"{path.name} is empty; export the table again")
    for row in rows[1:]:
        if len(row.cells) > len(rows[0].cells) and any(row.cells[len(rows[0].cells) :]):
            raise GradingProblem(f"{path.name}, line {row.line}: there are {len(row.cells)} cells for {len(rows[0].cells)} columns; export the table again")
    with path.open("rb") as file:
        mark = BYTE_ORDER_MARK if file.read(3) == BYTE_ORDER_MARK.encode() else ""
    return CsvTable(path.name, separator, rows, mark)


def _split(name: str, text: str, separator: str) -> list[TableRow]:
    cell = re.compile(rf'"[^"]*(?:""[^"]*)*"|(?!")[^{separator}\r\n]*')
    end = re.compile(r"\r\n|\n|\r|\Z")
    rows: list[TableRow] = []
    cells: list[str] = []
    place, line = 0, 1
    while place < len(text) or cells:
        found = cell.match(text, place)
        if found is None:
            raise GradingProblem(f"{name}, line {line}: this is not CSV (a quote is not closed); export the table again")
        cells.append(found[0])
        place = found.end()
        if text[place : place + 1] == separator:
            place += 1
            continue
        ended = end.match(text, place)
        if ended is None:
            raise GradingProblem(f"{name}, line {line}: this is not CSV (there is text after a closing quote); export the table again")
        rows.append(TableRow(line, cells, ended[0]))
        line += 1 + sum(one.count("\n") for one in cells)
        place, cells = ended.end(), []
    return rows


def _unquote(cell: str) -> str:
    return cell[1:-1].replace('""', '"') if cell.startswith('"') else cell


def _quote(text: str, separator: str) -> str:
    return '"' + text.replace('"', '""') + '"' if separator in text or re.search(r'["\r\n]|^\s|\s$', text) else text
