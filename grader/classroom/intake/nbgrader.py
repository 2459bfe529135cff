"""Reads nbgrader's folders: a course has `submitted/STUDENT/ASSIGNMENT/`, and each of these folders has the time of its submission in timestamp.txt."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

SUBMITTED = "submitted"
STAMP = "timestamp.txt"
BESIDE = ("autograded", "feedback", "gradebook.db", "nbgrader_config.py", "release", "source")  # in the folder of a course


def find_submitted(folder: Path) -> Path | None:
    """The folder with the submissions, if `folder` is that of a course."""
    submitted = folder / SUBMITTED
    is_course = submitted.is_dir() and (any((folder / name).exists() for name in BESIDE) or any(submitted.glob(f"*/*/{STAMP}")))
    return submitted if is_course else None


def find_assignment(path: tuple[str, ...], stem: str) -> tuple[str, str] | None:
    """The person and the assignment whose time stamp has this path in a class called `stem`, which may be in a folder inside an archive."""
    is_below = (len(path) == 3 and stem == SUBMITTED) or (len(path) == 4 and path[0] == SUBMITTED)
    return (path[-3], path[-2]) if is_below and path[-1] == STAMP else None


def parse_stamp(text: str) -> datetime | None:
    """The time in "2026-12-01 10:30:47.524219 UTC"; None if it is invalid."""
    clock, _, zone = text.strip().rpartition(" ")
    try:
        return datetime.fromisoformat(clock).replace(tzinfo=UTC if zone in ("UTC", "GMT") else ZoneInfo(zone))
    except (ValueError, OSError, KeyError):
        return None
