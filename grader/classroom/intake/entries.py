"""A file that was found in a folder or an archive, before anybody decided to read it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NoReturn, Protocol

from grader.classroom.intake.file_names import is_skipped
from grader.classroom.intake.problems import UnreadableSubmission
from grader.classroom.sanitize import shown

DEEPEST = 60  # folders below each other
MOST = 100_000  # files and folders in one folder that are looked at


class ReadableFile(Protocol):
    """A file's bytes, in order: on disk, or on their way out of an archive."""

    def read(self, size: int, /) -> bytes: ...

    def __enter__(self) -> ReadableFile: ...

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None, /) -> None: ...


def _no_file() -> NoReturn:
    raise AssertionError("only files are opened")


@dataclass(frozen=True)
class FoundFile:
    path: tuple[str, ...]  # the folders and the file name, below what was opened
    kind: str  # "file", "folder", "link", "special" (a pipe, a device), "closed" (a folder that cannot be read), "escape" (it leads out of its archive), "sparse"
    size: int = 0
    time: datetime | None = None
    zone_known: bool = True  # zip archives keep the hour but not the time zone
    open: Callable[[], ReadableFile] = _no_file  # for files; raises Unreadable, and so does reading what it gives


def walk_folder(folder: Path, path: tuple[str, ...] = ()) -> Iterator[FoundFile]:
    """Everything in a folder in order of name, without following a link, entering what is skipped, or opening anything."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(islice((entry for entry in entries if not is_skipped(entry.name)), MOST), key=lambda entry: entry.name)
    except OSError:
        yield FoundFile((*path, folder.name), "closed")
        return
    for entry in names:
        found = described(Path(entry.path), (*path, entry.name))
        yield found
        if found.kind == "folder" and len(found.path) < DEEPEST:
            yield from walk_folder(Path(entry.path), found.path)


def described(file: Path, path: tuple[str, ...]) -> FoundFile:
    """What one name in a folder is."""
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
    """The file, opened without following a link and without waiting for the far end of a pipe."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        handle = os.open(file, flags)
    except OSError as error:
        raise UnreadableSubmission(f"{shown(file.name)} cannot be opened: {(error.strerror or type(error).__name__).lower()}") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise UnreadableSubmission(f"{shown(file.name)} is not a regular file")
    return os.fdopen(handle, "rb")


def plausible_time(seconds: float) -> datetime | None:
    """A time stamp as a time; None for what only stands in for one (before 1981, after 2200)."""
    if not 347_155_200 <= seconds <= 7_258_118_400:
        return None
    return datetime.fromtimestamp(int(seconds), UTC)
