"""Writing files whole or not at all, and what is said to the user: where a file is, and why something cannot be done.

Files about the people of a class are private: only their owner may read them.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

MAX_NAME = 100  # characters of a file's name in that of its temporary file, which may not be too long


class UserProblem(Exception):
    """A problem that the user can fix: `headway` prints the message, one sentence, and ends with `exit_status`."""

    exit_status = 2


PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700


class NotWritten(OSError):
    """A file could not be written; `filename` is that file, and not a temporary one or a folder above it."""


def write_whole(path: Path, content: str | bytes, durable: bool = True, private: bool = False) -> None:
    """Replace the file `path` by `content` in one step: a reader sees the old file or the new one, never a part.
    NotWritten if it cannot be written.

    A file that is not `durable` may be damaged when the machine loses power: enough for a cache with a checksum, and
    quicker by milliseconds. A `private` one is readable only by its owner, as are the folders that are made for it.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        _replace(Path(os.path.realpath(path)), data, durable, private)
    except OSError as error:
        raise NotWritten(error.errno, error.strerror, str(path)) from error


def _replace(path: Path, data: bytes, durable: bool, private: bool) -> None:
    make_folders(path.parent, private)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:MAX_NAME]}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.chmod(temporary, PRIVATE_FILE if private else _mode(path))
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def make_folders(folder: Path, private: bool = False) -> None:
    """Make this folder and those around it, where they are missing."""
    for missing in reversed([one for one in (folder, *folder.parents) if not one.is_dir()]):
        missing.mkdir(PRIVATE_FOLDER if private else 0o777, exist_ok=True)


def make_private(path: Path) -> None:
    """Take the rights of everybody but the owner, where there is this file or folder and the file system has modes."""
    with contextlib.suppress(OSError):
        path.chmod(path.stat().st_mode & 0o700)


def problem(error: OSError, doing: str) -> str:
    """One sentence about a file that could not be used: `doing` is "write exercises/progress.txt"."""
    return f"could not {doing}: {(error.strerror or str(error) or type(error).__name__).lower()}"


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def short_path(path: Path) -> str:
    """The shortest way to write a path: relative to the current folder if it is near."""
    try:
        relative = os.path.relpath(path)
    except (ValueError, OSError):
        return str(path)
    return str(path) if relative.startswith(os.path.join("..", "..", "..")) else relative
