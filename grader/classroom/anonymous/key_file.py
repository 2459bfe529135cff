"""The key of anonymous grading: a CSV file, readable by its owner only, with a row for each person."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from grader.classroom.exports.csv import format_table
from grader.classroom.gradebook.sqlite_file import FolderInUse, lock_folder, unlock_folder
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.intake.roster import read_text
from grader.classroom.sanitize import line
from grader.classroom.term.roster import UNIQUE as IDS
from grader.files import problem, write_whole

NAME = "anonymous_key.csv"
COLUMNS = ("pseudonym", "name", *IDS)
LOCK_SECONDS = 20  # to wait for another command that adds people to the key


@dataclass(frozen=True)
class KeyEntry:
    pseudonym: str
    name: str
    ids: dict[str, str] = field(default_factory=dict)  # those of IDS that are known

    def shares_an_id(self, ids: dict[str, str]) -> bool:
        return any(value and self.ids.get(name) == value for name, value in ids.items())

    def contradicts(self, ids: dict[str, str]) -> bool:
        return any(value and self.ids.get(name, value) != value for name, value in ids.items())

    def add_ids(self, ids: dict[str, str]) -> KeyEntry:
        return replace(self, ids={name: value for name in IDS if (value := self.ids.get(name) or ids.get(name))})


def read_key(path: Path) -> list[KeyEntry]:
    """The people in the key. GradingProblem, one sentence, if it is missing or damaged."""
    shown, way_out = line(str(path)), "or name another one with --key FILE"
    if not path.is_file():
        raise GradingProblem(f"the key of the pseudonyms, {shown}, is missing; put it back, or name it with --key FILE")
    try:
        cells = list(csv.reader(io.StringIO(read_text(path), newline="")))
    except csv.Error:
        cells = [[]]  # no header, so the sentence below describes it
    header, *rows = cells or [[*COLUMNS]]  # a key is empty if a command was killed
    is_complete = tuple(header) == COLUMNS and all(len(row) == len(COLUMNS) for row in rows)
    if not is_complete or len({row[0] for row in rows}) < len(rows):
        changed = "is not a key of pseudonyms, or somebody has changed it"
        raise GradingProblem(f"{shown} {changed}; put back a copy, {way_out}")
    return [KeyEntry(row[0], row[1], {name: value for name, value in zip(IDS, row[2:]) if value}) for row in rows]


def write_key(path: Path, entries: list[KeyEntry]) -> None:
    rows = [[entry.pseudonym, entry.name, *(entry.ids.get(name, "") for name in IDS)] for entry in entries]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))  # replacing a file keeps its mode
        write_whole(path, format_table([[*COLUMNS], *rows]))
    except OSError as error:
        raise GradingProblem(problem(error, f"write the key {line(str(path))}")) from error


@contextmanager
def lock_key(path: Path) -> Iterator[None]:
    """Keep other commands from adding people to this key during the block."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        lock = lock_folder(path.parent, LOCK_SECONDS)
    except FolderInUse:
        raise GradingProblem(f"{line(str(path))} is in use by another command; wait until that one ends") from None
    try:
        yield
    finally:
        unlock_folder(lock)
