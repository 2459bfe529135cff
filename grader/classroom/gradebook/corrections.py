"""What the instructor adds to the verdicts: points for an exercise (overrides), and sentences for the feedback (remarks).

They are stored beside the results and belong to a person, so grading again never changes them. A revoked one stays in the file, with the date.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path

from grader.classroom.gradebook import columns, sqlite_file
from grader.classroom.gradebook.columns import to_storable
from grader.classroom.gradebook.sqlite_file import GradebookProblem


@dataclass(frozen=True)
class Owner:
    """The person that a correction is for: by name, and by file name where two people have the same name."""

    name: str
    slug: str = ""

    def is_for(self, name: str, slug: str) -> bool:
        return self.name == name and self.slug in ("", slug)


@dataclass(frozen=True)
class Override:
    owner: Owner
    exercise: str
    points: Decimal
    because: str
    given: str  # ISO
    revoked: str = ""  # ISO; "" while it counts


@dataclass(frozen=True)
class Remark:
    number: int
    owner: Owner
    text: str
    given: str
    revoked: str = ""


class Corrections:
    """The overrides and remarks of one gradebook."""

    def __init__(self, database: sqlite3.Connection, path: Path) -> None:
        self._database, self._path = database, path

    def override(self, owner: Owner, exercise: str, points: Decimal, because: str, now: datetime) -> None:
        """Give these points; an earlier override of the exercise is revoked."""
        with sqlite_file.transaction(self._database, self._path):
            self._revoke(owner, exercise, now)
            row = (to_storable(owner.name), owner.slug, exercise, str(points), to_storable(because), _stamp(now))
            self._database.execute("INSERT INTO overrides (name, slug, exercise, points, because, given, revoked) VALUES (?, ?, ?, ?, ?, ?, '')", row)

    def revoke_override(self, owner: Owner, exercise: str, now: datetime) -> bool:
        """Let the verdict count again. False if there is no such override."""
        with sqlite_file.transaction(self._database, self._path):
            return self._revoke(owner, exercise, now)

    def _revoke(self, owner: Owner, exercise: str, now: datetime) -> bool:
        key = (_stamp(now), to_storable(owner.name), owner.slug, exercise)
        done = self._database.execute("UPDATE overrides SET revoked = ? WHERE name = ? AND slug = ? AND exercise = ? AND revoked = ''", key)
        return done.rowcount > 0

    def remark(self, owner: Owner, text: str, now: datetime) -> None:
        with sqlite_file.transaction(self._database, self._path):
            row = (to_storable(owner.name), owner.slug, to_storable(text), _stamp(now))
            self._database.execute("INSERT INTO remarks (name, slug, text, given, revoked) VALUES (?, ?, ?, ?, '')", row)

    def revoke_remark(self, number: int, now: datetime) -> bool:
        """Take a remark out of the feedback. False if it does not count, or if there is none with this number."""
        with sqlite_file.transaction(self._database, self._path):
            return self._database.execute("UPDATE remarks SET revoked = ? WHERE id = ? AND revoked = ''", (_stamp(now), number)).rowcount > 0

    def overrides(self, revoked: bool = False) -> list[Override]:
        """Those that count, or all, in the order in which they were given."""
        rows = self._query("SELECT name, slug, exercise, points, because, given, revoked FROM overrides ORDER BY id")
        found = [Override(Owner(name, slug), exercise, _points(points, self._path), *rest) for name, slug, exercise, points, *rest in rows]
        return [one for one in found if revoked or not one.revoked]

    def remarks(self, revoked: bool = False) -> list[Remark]:
        with sqlite_file.translate_sqlite_errors(self._path):
            numbers = [number for (number,) in self._database.execute("SELECT id FROM remarks ORDER BY id")]
        rows = self._query("SELECT name, slug, text, given, revoked FROM remarks ORDER BY id")
        found = [Remark(number, Owner(name, slug), *rest) for number, (name, slug, *rest) in zip(numbers, rows)]
        return [one for one in found if revoked or not one.revoked]

    def _query(self, query: str) -> list[Sequence[str]]:
        with sqlite_file.translate_sqlite_errors(self._path):
            rows = self._database.execute(query).fetchall()
        try:
            return [columns.require_texts(row) for row in rows]
        except TypeError as error:
            raise GradebookProblem(sqlite_file.damage_message(self._path)) from error


def _points(text: str, path: Path) -> Decimal:
    try:
        points = Decimal(text)
    except InvalidOperation:
        points = Decimal("nan")
    if not points.is_finite() or points < 0:
        raise GradebookProblem(sqlite_file.damage_message(path))
    return points


def _stamp(now: datetime) -> str:
    return now.isoformat(timespec="seconds")
