"""Reads tables: an instructor's CSV, and the metadata of a Gradescope export; term/roster.py has the people."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from grader.classroom.intake.submissions import GradingProblem, describe_error
from grader.classroom.sanitize import shorten
from grader.counts import format_count

COLUMNS = ("name", "path", "submitted")
MAX_TABLE_BYTES = 20_000_000
_ID = re.compile(r"\w[\w.@+-]{0,200}")  # an e-mail address or a student number
_FOLDER = re.compile(r"[\"']?(submission_[\w-]+)[\"']?:\s*")
_KEY = re.compile(r"  :(\w+):(.*)")
_SUBMITTER = re.compile(r" {2,6}(?:- )?:(name|sid|email): +(.+?) *")


@dataclass(frozen=True)
class SubmissionRow:
    name: str
    path: Path | None  # None if the table has none
    submitted: datetime | None
    line: int


@dataclass
class GradescopeRecord:
    names: list[str] = field(default_factory=list)  # of all people in the group
    ids: list[dict[str, str]] = field(default_factory=list)  # their "email" and "number", where the export has them
    submitted: datetime | None = None


def read_submission_table(path: Path) -> list[SubmissionRow]:
    """The rows of a CSV with the columns name, path and optionally submitted. GradingProblem with the line if not."""
    rows = read_cells(path)
    places = _parse_header(path.name, rows[0][1] if rows else [])
    if len(rows) < 2:
        advice = "write a row with the name and the path for each submission"
        raise GradingProblem(f"{path.name} has a header but no rows; {advice}")
    return [_parse_row(path, line, cells, places) for line, cells in rows[1:]]


def read_cells(path: Path) -> list[tuple[int, list[str]]]:
    """The rows of a CSV that are not empty, each with its line. Commas, semicolons or tabs separate the cells."""
    text = read_text(path)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=find_separator(text), strict=True)
    try:
        rows = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader]
    except csv.Error as error:
        raise GradingProblem(f"{path.name}, line {reader.line_num}: this is not CSV ({error})") from None
    return [(line, cells) for line, cells in rows if any(cells)]


def find_separator(text: str) -> str:
    """The character between the cells of a table; one inside quotes does not count."""
    first = re.sub(r'"[^"]*"', "", text.partition("\n")[0])
    return max(",;\t", key=first.count)


def parse_time(text: str) -> datetime:
    """A time with its time zone, as in 2026-12-01T23:59:00+01:00; ValueError, with a sentence, if it is invalid."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{shorten(text)!r} is not a time; write it like 2026-12-01T23:59:00+01:00") from None
    return checked_time(when, repr(shorten(text)))


def checked_time(when: datetime, shown: str) -> datetime:
    """A time, `shown` as it was written; ValueError, with a sentence, if it has no time zone or an unlikely year."""
    if not 1980 < when.year < 2200:
        raise ValueError(f"{shown} is in the year {when.year}; check the date")
    if when.tzinfo is None:
        example = f"{when.isoformat(timespec='seconds')}+01:00"
        raise ValueError(f"{shown} has no time zone; write it like {example}")
    return when


def read_gradescope(text: str) -> dict[str, GradescopeRecord]:
    """The people and time of each submission folder, from a Gradescope export's submission_metadata.yml.

    Only the lines needed for that are read: a YAML library would read all results of all submissions, tens of
    megabytes.
    """
    found: dict[str, GradescopeRecord] = {}
    record, section = GradescopeRecord(), ""
    for line in text.splitlines():
        if top := _FOLDER.fullmatch(line):
            record = found[top[1]] = GradescopeRecord()
        elif key := _KEY.fullmatch(line):
            section = key[1]
            if section == "created_at":
                record.submitted = _parse_gradescope_time(key[2].strip(" '"))
        elif section == "submitters" and (entry := _SUBMITTER.fullmatch(line)):
            value = _parse_yaml_string(entry[2])
            if entry[1] == "name":  # Gradescope writes each person's name first, then the ids
                record.names.append(value)
                record.ids.append({})
            elif record.ids and _ID.fullmatch(value):
                record.ids[-1]["number" if entry[1] == "sid" else "email"] = value
    return {folder: record for folder, record in found.items() if record.names}


def _parse_gradescope_time(text: str) -> datetime | None:
    """The time in "2026-11-20 09:21:27.370285000 -08:00"; None if it is invalid."""
    parts = re.fullmatch(r"(.{19})(?:\.\d+)? ?(Z|UTC|[+-]\d\d:?\d\d)", text)
    try:
        return parse_time(f"{parts[1]}{'+00:00' if parts[2] in ('Z', 'UTC') else parts[2]}") if parts else None
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


def read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_TABLE_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise GradingProblem(f"{path.name} cannot be read: {describe_error(error)}") from None
    if len(data) > MAX_TABLE_BYTES:
        limit = f"{MAX_TABLE_BYTES // 1_000_000} MB"
        raise GradingProblem(f"{path.name} is larger than {limit}, which is too large for a class list")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = 'the text is not UTF-8; save the table as "CSV UTF-8"'
        raise GradingProblem(f"{path.name}, line {line}: {problem}") from None


def _parse_header(file: str, cells: list[str]) -> dict[str, int]:
    names = [cell.lower() for cell in cells]
    problems = [
        *(f"the column {column} is missing" for column in COLUMNS[:2] if column not in names),
        *(f"the column {shorten(name)!r} is unknown" for name in names if name not in COLUMNS),
        *(f"the column {name} appears twice" for name in names if names.count(name) > 1),
    ]
    if problems:
        advice = "the first line names the columns: name,path or name,path,submitted"
        raise GradingProblem(f"{file}, line 1: {problems[0]}; {advice}")
    return {name: place for place, name in enumerate(names)}


def _parse_row(path: Path, line: int, cells: list[str], places: dict[str, int]) -> SubmissionRow:
    where = f"{path.name}, line {line}"
    if len(cells) > len(places):
        counts = f"there are {len(cells)} cells for {format_count(len(places), 'column')}"
        raise GradingProblem(f"{where}: {counts}; put cells that contain a comma in quotes")
    values = {column: cells[place] if place < len(cells) else "" for column, place in places.items()}
    if not values["name"]:
        raise GradingProblem(f"{where}: the name is missing")
    if "\0" in values["path"]:
        raise GradingProblem(f"{where}: the path contains a null byte")
    try:
        when = parse_time(values["submitted"]) if values.get("submitted") else None
    except ValueError as error:
        raise GradingProblem(f"{where}: {error}") from None
    place = path.parent / Path(values["path"]).expanduser() if values["path"] else None
    return SubmissionRow(values["name"], place, when, line)
