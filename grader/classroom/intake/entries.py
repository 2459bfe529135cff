"""The files found in a folder or an archive, described without reading their content."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NoReturn, Protocol

from grader.classroom.intake.file_names import is_skipped
from grader.classroom.intake.problems import UnreadableSubmission
from grader.classroom.sanitize import shorten

DEEPEST = 60  # levels of folders
MOST = 100_000  # entries of one folder that are considered


class ReadableFile(Protocol):
    """A file's bytes in order, from the disk or from an archive."""

    def read(self, size: int, /) -> bytes: ...


def _no_file() -> NoReturn:
    raise AssertionError("only entries of kind \"file\" can be opened")


@dataclass(frozen=True)
class FoundFile:
    path: tuple[str, ...]  # folders and file name, relative to the folder or archive
    kind: str  # "file", "folder", "link", "special" (a pipe, a device), "closed" (an unreadable folder), "escape" (outside of its archive), "sparse"
    size: int = 0
    time: datetime | None = None
    zone_known: bool = True  # zip archives store local time without a time zone
    open: Callable[[], AbstractContextManager[ReadableFile]] = _no_file  # for files; opening and reading raise UnreadableSubmission


def walk_folder(folder: Path, path: tuple[str, ...] = ()) -> Iterator[FoundFile]:
    """All entries below a folder, sorted by name. Links are not followed, ignored folders are not entered, and no file is opened."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(islice((entry for entry in entries if not is_skipped(entry.name)), MOST), key=lambda entry: entry.name)
    except OSError:
        yield FoundFile((*path, folder.name), "closed")
        return
    for entry in names:
        found = describe_entry(Path(entry.path), (*path, entry.name))
        yield found
        if found.kind == "folder" and len(found.path) < DEEPEST:
            yield from walk_folder(Path(entry.path), found.path)


def describe_entry(file: Path, path: tuple[str, ...]) -> FoundFile:
    """What this path is."""
    try:
        facts = os.lstat(file)
    except OSError:
        return FoundFile(path, "special")
    if stat.S_ISLNK(facts.st_mode):
        return FoundFile(path, "link")
    if stat.S_ISDIR(facts.st_mode):
        return FoundFile(path, "folder")
    if not stat.S_ISREG(facts.st_mode):
        return FoundFile(path, "special")
    return FoundFile(path, "file", facts.st_size, plausible_time(facts.st_mtime), open=lambda: open_regular_file(file))


def open_regular_file(file: Path) -> BinaryIO:
    """Open a regular file, without following a link and without waiting for the writer of a pipe."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        handle = os.open(file, flags)
    except OSError as error:
        raise UnreadableSubmission(f"{shorten(file.name)} cannot be opened: {(error.strerror or type(error).__name__).lower()}") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise UnreadableSubmission(f"{shorten(file.name)} is not a regular file")
    return os.fdopen(handle, "rb")


def plausible_time(seconds: float) -> datetime | None:
    """A time stamp as a time; None if it is before 1981 or after 2200, which placeholders are."""
    if not 347_155_200 <= seconds <= 7_258_118_400:
        return None
    return datetime.fromtimestamp(int(seconds), UTC)
