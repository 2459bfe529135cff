"""Opens, locks and checks the gradebook's SQLite file. Every failure is a GradebookProblem, one sentence.

SQLite uses a rollback journal instead of a write-ahead log: people copy a gradebook, mail it and put it on network
drives, so it should be one file that is complete after every submission. `synchronous = FULL` makes a commit survive a
power cut.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from grader.classroom import sanitize
from grader.classroom.intake.submissions import GradingProblem
from grader.files import PRIVATE_FILE, make_folders, make_private, problem

NAME = "gradebook.sqlite"
FORMAT = 7  # version of the tables below
WAIT_SECONDS = 60  # for another program that reads, or for the grader to store a submission
APPLICATION_ID = 0x48647779  # SQLite's application_id: "Hdwy"
# Exceptions that parsing raises when a column does not contain what was written.
DAMAGE = (UnicodeError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)

TABLES = (
    """CREATE TABLE run (  -- settings of the last run, with which all results were found
        one INTEGER PRIMARY KEY CHECK (one = 1), seed TEXT NOT NULL, versions TEXT NOT NULL,
        exercises TEXT NOT NULL)""",
    """CREATE TABLE people (  -- the submissions of the last run
        slug TEXT PRIMARY KEY, name TEXT NOT NULL, digest TEXT NOT NULL, problem TEXT NOT NULL, notes TEXT NOT NULL,
        submitted TEXT NOT NULL,
        ids TEXT NOT NULL)""",  # what learning platforms call them
    """CREATE TABLE verdicts (  -- each content that was graded and for which exercises, or why grading failed
        digest TEXT PRIMARY KEY, exercises TEXT NOT NULL, problem TEXT NOT NULL,
        verdict TEXT NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE secret (  -- decides which examples are drawn besides the common ones; made once
        one INTEGER PRIMARY KEY CHECK (one = 1), value TEXT NOT NULL)""",
    """CREATE TABLE overrides (  -- points that the instructor gave; a revoked one stays, with the date
        id INTEGER PRIMARY KEY, name TEXT NOT NULL, slug TEXT NOT NULL, exercise TEXT NOT NULL, points TEXT NOT NULL,
        because TEXT NOT NULL, given TEXT NOT NULL, revoked TEXT NOT NULL)""",
)


def has_gradebook(folder: Path) -> bool:
    return (folder / NAME).is_file()


class GradebookProblem(GradingProblem):
    """The gradebook cannot be used; the message is one sentence for the instructor."""


class GradebookFile:
    """An open gradebook. To write, it is locked until it is closed; reading works meanwhile."""

    def __init__(self, folder: Path, read_only: bool = False) -> None:
        """Open the file, or create it unless it is to be read. GradebookProblem if it cannot be used."""
        self.path = folder / NAME
        self._lock: int | None = None
        if read_only and (not self.path.is_file() or not self.path.stat().st_size):
            way = "grade into it with `headway grade`, or choose another folder"
            raise GradebookProblem(f"{sanitize.line(str(folder))} has no gradebook; {way}")
        if not read_only:
            self._lock_folder(folder)
        with self.closed_on_error():
            with self.checked():
                wait = WAIT_SECONDS if read_only else 1  # while a grader has the lock, only readers can be in the way
                self.database = sqlite3.connect(self.path, timeout=wait, isolation_level=None)
                if not read_only and self._lock is None:  # such a gradebook cannot be read during a run
                    self.database.execute("PRAGMA locking_mode = EXCLUSIVE")
                self.database.execute("PRAGMA synchronous = FULL")
            if read_only:
                with self.checked():
                    self._check_format()
                    self.database.execute("PRAGMA query_only = ON")
                return
            with self.transaction():
                if self._check_format() == 0:
                    for statement in TABLES:
                        self.database.execute(statement)
                    self.database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                self.database.execute(f"PRAGMA user_version = {FORMAT}")  # this write proves that the file is writable
            self.database.execute(f"PRAGMA busy_timeout = {1000 * WAIT_SECONDS}")

    def _lock_folder(self, folder: Path) -> None:
        try:
            make_folders(folder, private=True)
            self._lock = lock_folder(folder)
            self._make_private(folder)
        except FolderInUse:
            raise GradebookProblem(self._in_use) from None
        except OSError as error:
            doing = f"create the folder {sanitize.line(str(folder))} for the grades"
            raise GradebookProblem(problem(error, doing)) from error

    def _make_private(self, folder: Path) -> None:
        """The folder, the gradebook and the files that SQLite writes next to it, which get the gradebook's mode."""
        if not self.path.exists():
            with suppress(OSError):  # SQLite says why
                os.close(os.open(self.path, os.O_CREAT | os.O_WRONLY, PRIVATE_FILE))
        for path in (folder, *folder.glob(f"{NAME}*")):
            make_private(path)

    @contextmanager
    def closed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        with suppress(sqlite3.Error, AttributeError):
            self.database.close()
        unlock_folder(self._lock)
        self._lock = None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block as one transaction: all of its changes are stored, or none."""
        with self.checked():
            self.database.execute("BEGIN EXCLUSIVE")
            try:
                yield
                self.database.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # after a disk error SQLite has already rolled back
                    self.database.execute("ROLLBACK")
                raise

    def query(self, query: str, *values: object) -> list[tuple]:
        with self.checked():
            return self.database.execute(query, values).fetchall()

    def texts(self, query: str, *values: object) -> list[tuple[str, ...]]:
        """The rows of a query whose columns are all texts."""
        with self.checked():
            rows = self.query(query, *values)
            if not all(type(column) is str for row in rows for column in row):
                raise TypeError("a text column contains another type")
            return rows

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Turn errors of SQLite, and of values that the grader never writes, into a GradebookProblem."""
        try:
            yield
        except sqlite3.Error as error:
            raise GradebookProblem(self._describe(error)) from error
        except GradingProblem:
            raise
        except DAMAGE as error:  # SQLite cannot detect such damage
            raise GradebookProblem(self._damaged) from error

    def _check_format(self) -> int:
        """The version of the tables, 0 for an empty file. GradebookProblem for a file of another kind or version."""
        [(version,)], [(application,)] = self.query("PRAGMA user_version"), self.query("PRAGMA application_id")
        [(tables,)] = self.query("SELECT count(*) FROM sqlite_master")
        if application != APPLICATION_ID and (application or version or tables):
            raise GradebookProblem(
                f"{self._shown} is a database of another program, not a gradebook; "
                "choose another folder with --out, or move that file away"
            )
        if version not in (0, FORMAT):
            age = "a newer version of Headway; update this one (git pull, then make learn), or"
            if version < FORMAT:
                age = "a version of Headway that is too old for this one; to grade everything again,"
            raise GradebookProblem(f"{self._shown} was written by {age} choose another folder with --out")
        if self.query("PRAGMA quick_check(1)") != [("ok",)]:
            raise GradebookProblem(self._damaged)
        return version

    def _describe(self, error: sqlite3.Error) -> str:
        kind = getattr(error, "sqlite_errorname", "")
        if kind.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return self._in_use
        if kind.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
            how = "allow writing to it and to its folder, or choose another folder with --out"
            return f"{self._shown} cannot be written; {how}"
        if kind.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            return self._damaged
        if kind.startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_TOOBIG")):
            return (
                f"{self._shown} could not be written: the disk is full, or a limit on file sizes was reached "
                f"({error}). Earlier results are saved; free some space and run the same command again to continue"
            )
        return f"{self._shown} could not be used: {error}"

    @property
    def _shown(self) -> str:
        return sanitize.line(str(self.path))

    @property
    def _in_use(self) -> str:
        by = "another grader or a database viewer has it open; wait until that program ends, or end it"
        return f"{self._shown} is in use: {by}"

    @property
    def _damaged(self) -> str:
        return (
            f"{self._shown} is damaged and cannot be read; the grader did not change it. Restore a copy of it if you "
            "have one, or move it away, and run the same command again: then everything is graded again"
        )


# ---- the lock of a folder: one grader at a time writes to it, and others can still read


class FolderInUse(Exception):
    """Another process holds the lock."""


def lock_folder(folder: Path, wait_seconds: float = 0) -> int | None:
    """The descriptor that holds the lock; None where folders cannot be locked (Windows, some network drives).

    The system releases the lock when the process ends. A lock of the folder leaves no file behind, and does not affect
    SQLite's own locks.
    """
    deadline = time.monotonic() + wait_seconds
    try:
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        return None
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() < deadline:
                time.sleep(0.05)
                continue
            os.close(descriptor)
            raise FolderInUse from None
        except OSError:
            os.close(descriptor)
            return None


def unlock_folder(descriptor: int | None) -> None:
    if descriptor is not None:
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # a process forked from this one may have a copy of the descriptor
        os.close(descriptor)
