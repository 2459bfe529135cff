"""Writing files whole or not at all, and what is said to the user if something cannot be done."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


class UserProblem(Exception):
    """A problem that the user can fix: `headway` prints the message, one sentence, and ends with `exit_status`."""

    exit_status = 2


def write_whole(path: Path, content: str | bytes, durable: bool = True) -> None:
    """Replace the file `path` by `content` in one step: a reader sees the old file or the new one, never a part.
    OSError if it cannot be written.

    A file that is not `durable` may be damaged when the machine loses power: enough for a cache with a checksum, and
    quicker by milliseconds.
    """
    path = Path(os.path.realpath(path))
    data = content.encode("utf-8") if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.chmod(temporary, _mode(path))
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


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
