"""A server that stays for ten minutes after its last run, so that the next `headway check` need not load torch.

There is at most one for a course folder. A file there, which only its user can read, has its address. It ends with the
session of the terminal that started it, when the kit changes, and with `headway stop`. It is left out where it could
not be ended safely: on systems without fork and process file descriptors, in folders of other users, and under pytest.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import select
import signal
import stat
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from grader.course.syllabus import EXERCISES, ROOT

FILE = EXERCISES / ".headway" / "server.json"
IDLE_SECONDS = 600.0
# how the names of variables begin that can change a run; a server keeps those with which it started
DECISIVE = ("HEADWAY", "PYTHON", "OMP", "MKL", "TORCH", "CUDA", "HYPOTHESIS", "HOME", "TMPDIR", "LANG", "LC_")


@dataclass(frozen=True)
class Kept:
    """What the file says of a server."""

    port: int
    token: str
    pid: int
    conditions: str  # of the process that started it

    @property
    def is_alive(self) -> bool:
        with contextlib.suppress(OSError):
            process = Path(f"/proc/{self.pid}")
            return b"--stay" in (process / "cmdline").read_bytes() and (process / "cwd").readlink() == ROOT.resolve()
        return False


def conditions() -> str:
    """A digest of the Python and the variables that decide how a run goes."""
    variables = sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith(DECISIVE))
    return hashlib.sha256("\0".join([sys.executable, *variables]).encode("utf-8", "surrogateescape")).hexdigest()


def is_possible() -> bool:
    """Whether a server may stay here."""
    if not sys.platform.startswith("linux") or not hasattr(os, "pidfd_open") or "PYTEST_VERSION" in os.environ:
        return False
    try:
        FILE.parent.mkdir(exist_ok=True)
        with session_end(os.getsid(0)) as end:
            has_ended = bool(select.select([end], [], [], 0)[0])
        return not has_ended and FILE.parent.stat().st_uid == os.getuid() and os.access(FILE.parent, os.W_OK)
    except OSError:  # as when the session has lost its first process, or is outside of this container
        return False


def find() -> Kept | None:
    """The server of this folder. None if no server runs, or if somebody else could have written the file."""
    try:
        with open(os.open(FILE, os.O_RDONLY | os.O_NOFOLLOW), encoding="utf-8") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) != 0o600:
                return None
            kept = Kept(**json.load(file))
    except (OSError, AttributeError, ValueError, TypeError):
        return None
    return kept if kept.is_alive else None


def is_this_one() -> bool:
    """Whether the file names this process."""
    kept = find()
    return kept is not None and kept.pid == os.getpid()


def stop() -> Kept | None:
    """End the server of this folder, if there is one, and return it."""
    kept = find()
    if kept:
        with contextlib.suppress(OSError):  # it has ended meanwhile
            os.kill(kept.pid, signal.SIGTERM)
            FILE.unlink()
    return kept


@contextlib.contextmanager
def only_one_starts() -> Iterator[bool]:
    """Whether one can be started here, and no other process is starting one."""
    import fcntl

    with contextlib.ExitStack() as stack:
        try:
            lock = stack.enter_context(open(FILE.with_suffix(".lock"), "w"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


# ---- in the server


def session_end(session: int) -> io.FileIO:
    """A file that becomes readable when the first process of this session has ended."""
    return io.FileIO(os.pidfd_open(session))


def publish(port: int, token: str, decided: str) -> None:
    """Write where this server is. `decided` are the conditions of the client."""
    descriptor, name = tempfile.mkstemp(dir=FILE.parent)  # with mode 600
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(Kept(port, token, os.getpid(), decided)), file)
    os.replace(name, FILE)


def withdraw() -> None:
    """At the end of a server: remove its file, unless another server has replaced it."""
    if is_this_one():
        FILE.unlink(missing_ok=True)
