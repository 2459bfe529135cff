"""What the instructor adds to the verdicts: points for an exercise (overrides).

They are stored beside the results and belong to a person, so grading again never changes them. A revoked one stays in
the file, with the date.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from grader.classroom.gradebook.sqlite_file import GradebookFile


def to_storable(text: str) -> str:
    """Text that SQLite can store: a file name may contain bytes that are not valid text."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


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


class Corrections:
    """The overrides of one gradebook."""

    def __init__(self, file: GradebookFile) -> None:
        self._file = file

    def override(self, owner: Owner, exercise: str, points: Decimal, because: str, now: datetime) -> None:
        """Give these points; an earlier override of the exercise is revoked."""
        row = (to_storable(owner.name), owner.slug, exercise, str(points), to_storable(because), _to_iso(now), "")
        with self._file.transaction():
            self._revoke_override(owner, exercise, now)
            self._file.database.execute("INSERT INTO overrides VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", row)

    def revoke_override(self, owner: Owner, exercise: str, now: datetime) -> bool:
        """Let the verdict count again. False if there is no such override."""
        with self._file.transaction():
            return self._revoke_override(owner, exercise, now)

    def _revoke_override(self, owner: Owner, exercise: str, now: datetime) -> bool:
        statement = "UPDATE overrides SET revoked = ? WHERE name = ? AND slug = ? AND exercise = ? AND revoked = ''"
        values = (_to_iso(now), to_storable(owner.name), owner.slug, exercise)
        return self._file.database.execute(statement, values).rowcount > 0

    def overrides(self, revoked: bool = False) -> list[Override]:
        """Those that count, or all, in the order in which they were given."""
        columns = "name, slug, exercise, points, because, given, revoked"
        rows = self._file.texts(f"SELECT {columns} FROM overrides ORDER BY id")
        with self._file.checked():
            found = [
                Override(Owner(name, slug), exercise, _to_points(points), *rest)
                for name, slug, exercise, points, *rest in rows
            ]
        return [one for one in found if revoked or not one.revoked]


def _to_points(text: str) -> Decimal:
    points = Decimal(text)
    if not points.is_finite() or points < 0:
        raise ValueError("these are no points")
    return points


def _to_iso(now: datetime) -> str:
    return now.isoformat(timespec="seconds")
