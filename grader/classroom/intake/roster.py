"""Reads tables of submissions: an instructor's CSV, or the metadata of a Gradescope export."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from grader.classroom.intake.problems import GradingProblem
from grader.classroom.sanitize import shorten

COLUMNS = ("name", "path", "submitted")
LARGEST = 20_000_000
_ID = re.compile(r"[\w][\w.@+-]{0,200}")  # an e-mail address or a student number


@dataclass(frozen=True)
class RosterRow:
    name: str
    path: Path | None  # None if the table has none
    submitted: datetime | None
    line: int


@dataclass(frozen=True)
class GradescopeRecord:
    names: tuple[str, ...]  # of all people in the group
    submitted: datetime | None
    ids: tuple[dict[str, str], ...] = ()  # their "email" and "number", where the export has them


def read_roster(path: Path) -> list[RosterRow]:
    """The rows of a CSV with the columns name, path and optionally submitted. GradingProblem, with the line number, for an invalid row."""
    rows = read_cells(path)
    places = _parse_header(path.name, rows[0][1] if rows else [])
    if len(rows) < 2:
        raise GradingProblem(f"{path.name} has a header but no rows; write a row with the name and the path for each submission")
    return [_parse_row(path, line, cells, places) for line, cells in rows[1:]]


def read_cells(path: Path) -> list[tuple[int, list[str]]]:
    """The rows of a CSV that are not empty, each with its line; commas, semicolons or tabs separate the cells. GradingProblem if it is not CSV."""
    text = read_text(path)
    first = text.partition("\n")[0]
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count), strict=True)
        rows = []
        for cells in reader:
            rows.append((reader.line_num, [cell.strip() for cell in cells]))
    except csv.Error as error:
        raise GradingProblem(f"{path.name}, line {reader.line_num}: this is not CSV ({error})") from None
    return [(line, cells) for line, cells in rows if any(cells)]


def parse_time(text: str) -> datetime:
    """A time with its time zone, as in 2026-12-01T23:59:00+01:00; ValueError, with a sentence for the instructor, if it is invalid."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{shorten(text)!r} is not a time; write it like 2026-12-01T23:59:00+01:00") from None
    if not 1980 < when.year < 2200:
        raise ValueError(f"{shorten(text)!r} is in the year {when.year}; check the date")
    if when.tzinfo is None:
        raise ValueError(f"{shorten(text)!r} has no time zone; write it like {when.isoformat(timespec='seconds')}+01:00")
    return when


def read_gradescope(text: str) -> dict[str, GradescopeRecord]:
    """The people and time of each submission folder, from a Gradescope export's submission_metadata.yml (only the few lines needed for that)."""
    found: dict[str, GradescopeRecord] = {}
    folder = section = ""
    for line in text.splitlines():
        if top := re.fullmatch(r"[\"']?(submission_[\w-]+)[\"']?:\s*", line):
            folder, section = top[1], ""
            found[folder] = GradescopeRecord((), None)
        elif not folder:
            continue
        elif key := re.fullmatch(r"  :(\w+):(.*)", line):
            section = key[1]
            if section == "created_at":
                found[folder] = replace(found[folder], submitted=_parse_gradescope_time(key[2]))
        elif section == "submitters" and (entry := re.fullmatch(r" {2,6}(?:- )?(?:  )?:(name|sid|email): +(.+)", line)):
            found[folder] = _add_submitter(found[folder], entry[1], _parse_yaml_string(entry[2].strip()))
    return {folder: recorded for folder, recorded in found.items() if recorded.names}


def _add_submitter(record: GradescopeRecord, key: str, text: str) -> GradescopeRecord:
    """Gradescope writes each person's name first, then the ids."""
    if key == "name":
        return replace(record, names=(*record.names, text), ids=(*record.ids, {}))
    if not record.names or not _ID.fullmatch(text):
        return record
    return replace(record, ids=(*record.ids[:-1], record.ids[-1] | {"number" if key == "sid" else "email": text}))


def read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise GradingProblem(f"{path.name} cannot be read: {(error.strerror or type(error).__name__).lower()}") from None
    if len(data) > LARGEST:
        raise GradingProblem(f"{path.name} is larger than {LARGEST // 1_000_000} MB, which is too large for a class list")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise GradingProblem(f"{path.name}, line {line}: the text is not UTF-8; save the table as \"CSV UTF-8\"") from None


def _parse_header(file: str, cells: list[str]) -> dict[str, int]:
    names = [cell.lower() for cell in cells]
    wanted = "the first line names the columns: name,path or name,path,submitted"
    for column in COLUMNS[:2]:
        if column not in names:
            raise GradingProblem(f"{file}, line 1: the column {column} is missing; {wanted}")
    for name in names:
        if name not in COLUMNS:
            raise GradingProblem(f"{file}, line 1: the column {shorten(name)!r} is unknown; {wanted}")
        if names.count(name) > 1:
            raise GradingProblem(f"{file}, line 1: the column {name} appears twice; {wanted}")
    return {name: place for place, name in enumerate(names)}


def _parse_row(path: Path, line: int, cells: list[str], places: dict[str, int]) -> RosterRow:
    where = f"{path.name}, line {line}"
    if len(cells) > len(places):
        raise GradingProblem(f"{where}: there are {len(cells)} cells for {len(places)} columns; put cells that contain a comma in quotes")
    values = {column: cells[place] if place < len(cells) else "" for column, place in places.items()}
    if not values["name"]:
        raise GradingProblem(f"{where}: the name is missing")
    if "\0" in values["path"]:
        raise GradingProblem(f"{where}: the path contains a null byte")
    try:
        when = parse_time(values["submitted"]) if values.get("submitted") else None
    except ValueError as error:
        raise GradingProblem(f"{where}: {error}") from None
    return RosterRow(values["name"], path.parent / Path(values["path"]).expanduser() if values["path"] else None, when, line)


def _parse_gradescope_time(text: str) -> datetime | None:
    parts = re.fullmatch(r"\s*'?(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.\d+)? ?(Z|UTC|[+-]\d\d:?\d\d)'?\s*", text)
    if not parts:
        return None
    try:
        return parse_time(f"{parts[1]}T{parts[2]}{'+00:00' if parts[3] in ('Z', 'UTC') else parts[3]}")
    except ValueError:
        return None


def _parse_yaml_string(text: str) -> str:
    """A YAML string on one line: plain, 'single' or "double" quoted."""
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            return json.loads(text)
        except ValueError:
            return text[1:-1]
    return text
