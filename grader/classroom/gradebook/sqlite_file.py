"""Opens, locks and checks the gradebook's SQLite file, and runs transactions on it. Every failure is a GradebookProblem, one sentence."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from grader.classroom import sanitize
from grader.classroom.gradebook.folder_lock import FolderInUse, lock_folder, unlock_folder
from grader.classroom.intake.problems import GradingProblem
from grader.files import problem

NAME = "gradebook.sqlite"
FORMAT = 6  # version of the tables below; those of an earlier version are kept, and the others are added
PATIENCE = 60  # seconds to wait for another program that reads, or for the grader to store a submission
APPLICATION_ID = 0x48647779  # SQLite's application_id: "Hdwy"

TABLES = (
    """CREATE TABLE IF NOT EXISTS conditions (  -- what results depend on besides the content
        id INTEGER PRIMARY KEY, seed TEXT NOT NULL, versions TEXT NOT NULL,
        turn INTEGER NOT NULL, -- order of last use: greater is later
        UNIQUE (seed, versions))""",
    """CREATE TABLE IF NOT EXISTS run (  -- settings of the last run
        one INTEGER PRIMARY KEY CHECK (one = 1), conditions INTEGER NOT NULL REFERENCES conditions, exercises TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS people (  -- the submissions of the last run
        slug TEXT PRIMARY KEY, name TEXT NOT NULL, digest TEXT NOT NULL, problem TEXT NOT NULL, notes TEXT NOT NULL,
        submitted TEXT NOT NULL,  -- a time, empty, or LATE_MARK
        zone_known INTEGER NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS verdicts (  -- each content that was graded and for which exercises, or why grading failed
        conditions INTEGER NOT NULL REFERENCES conditions, digest TEXT NOT NULL,
        exercises TEXT NOT NULL, problem TEXT NOT NULL, broken TEXT NOT NULL, notes TEXT NOT NULL,
        PRIMARY KEY (conditions, digest)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS results (
        conditions INTEGER NOT NULL, digest TEXT NOT NULL, exercise TEXT NOT NULL, outcome TEXT NOT NULL, tests TEXT NOT NULL,
        diagnosis TEXT NOT NULL, forbidden TEXT NOT NULL, partial INTEGER NOT NULL, missing_weight REAL NOT NULL,
        PRIMARY KEY (conditions, digest, exercise),
        FOREIGN KEY (conditions, digest) REFERENCES verdicts ON DELETE CASCADE) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS secret (  -- decides which examples are drawn besides the common ones; made once
        one INTEGER PRIMARY KEY CHECK (one = 1), value TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS judged_chapters (  -- for each text of a chapter, a content whose results count for every content with this text
        conditions INTEGER NOT NULL, chapter TEXT NOT NULL, digest TEXT NOT NULL,  -- the key first, or quick_check of SQLite 3.40 finds a NULL
        PRIMARY KEY (conditions, chapter),
        FOREIGN KEY (conditions, digest) REFERENCES verdicts ON DELETE CASCADE) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS judged_chapters_of_verdicts ON judged_chapters (conditions, digest)",  # to delete them with their verdict
    """CREATE TABLE IF NOT EXISTS overrides (  -- points that the instructor gave; a revoked one stays, with the date
        id INTEGER PRIMARY KEY, name TEXT NOT NULL, slug TEXT NOT NULL, exercise TEXT NOT NULL, points TEXT NOT NULL, because TEXT NOT NULL,
        given TEXT NOT NULL, revoked TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS remarks (  -- sentences of the instructor for a person's feedback
        id INTEGER PRIMARY KEY, name TEXT NOT NULL, slug TEXT NOT NULL, text TEXT NOT NULL, given TEXT NOT NULL, revoked TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS ids (  -- what learning platforms call the people of the last run
        slug TEXT NOT NULL, field TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (slug, field)) WITHOUT ROWID""",
    "DROP TABLE IF EXISTS equal_exercises",  # this one and the next are of versions 2 to 5
    "DROP TABLE IF EXISTS judged_alone",
)


class Connection(sqlite3.Connection):
    """A connection, and the lock of its folder."""

    folder_lock: int | None = None


class GradebookProblem(GradingProblem):
    """The gradebook cannot be used; the message is one sentence for the instructor."""


def connect(folder: Path) -> Connection:
    """Open the gradebook in this folder, or create it, and lock it until it is closed. GradebookProblem if it cannot be used."""
    path = folder / NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GradebookProblem(problem(error, f"create the folder {_show_path(folder)} for the grades")) from error
    try:
        lock = lock_folder(folder)
    except FolderInUse:
        raise GradebookProblem(in_use_message(path)) from None
    try:
        with translate_sqlite_errors(path):
            database = sqlite3.connect(path, timeout=1, isolation_level=None, factory=Connection)
            database.folder_lock = lock
    except BaseException:
        unlock_folder(lock)
        raise
    try:
        with translate_sqlite_errors(path):
            if lock is None:  # such a gradebook cannot be read during a run
                database.execute("PRAGMA locking_mode = EXCLUSIVE")
            database.execute("PRAGMA synchronous = FULL")
            database.execute("PRAGMA foreign_keys = ON")
        with transaction(database, path):
            _check_format(database, path)
            if _read_pragma(database, "user_version") < FORMAT:
                for statement in TABLES:
                    database.execute(statement)
            database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            database.execute(f"PRAGMA user_version = {FORMAT}")  # also if it is set already: this write proves that the file is writable
        database.execute(f"PRAGMA busy_timeout = {1000 * PATIENCE}")  # from here on only readers can be in the way
    except BaseException:
        close(database)
        raise
    return database


def connect_to_read(folder: Path) -> Connection:
    """Open an existing gradebook to read it, also while a grader writes to it. GradebookProblem if it cannot be read."""
    path = folder / NAME
    if not path.is_file():
        raise GradebookProblem(f"{_show_path(folder)} has no gradebook; grade into it with `headway grade`, or choose another folder")
    for attempt in (1, 2):
        with translate_sqlite_errors(path):
            database = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, factory=Connection)
        try:
            with translate_sqlite_errors(path):
                _check_format(database, path)
                if _read_pragma(database, "user_version") == FORMAT or attempt == 2:
                    database.execute("PRAGMA query_only = ON")
                    return database
        except BaseException:
            close(database)
            raise
        close(database)
        close(connect(folder))  # gives it the tables of this version
    raise AssertionError


def close(database: Connection) -> None:
    with suppress(sqlite3.Error):
        database.close()
    unlock_folder(database.folder_lock)
    database.folder_lock = None


@contextmanager
def transaction(database: sqlite3.Connection, path: Path) -> Iterator[None]:
    """Run the block as one transaction: all of its changes are stored, or none."""
    with translate_sqlite_errors(path):
        database.execute("BEGIN EXCLUSIVE")
        try:
            yield
            database.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # after a disk error SQLite has already rolled back
                database.execute("ROLLBACK")
            raise


@contextmanager
def translate_sqlite_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into a GradebookProblem about this file."""
    try:
        yield
    except sqlite3.Error as error:
        raise GradebookProblem(_describe_error(error, path)) from error
    except UnicodeError as error:  # the text of SQLite's own error would quote the damaged bytes
        raise GradebookProblem(damage_message(path)) from error


def in_use_message(path: Path) -> str:
    return f"{_show_path(path)} is in use: another grader or a database viewer has it open; wait until that program ends, or end it"


def damage_message(path: Path) -> str:
    return (
        f"{_show_path(path)} is damaged and cannot be read; the grader did not change it. "
        "Restore a copy of it if you have one, or move it away, and run the same command again: then everything is graded again"
    )


def _check_format(database: sqlite3.Connection, path: Path) -> None:
    """Raise GradebookProblem unless this is an undamaged gradebook in a known format. An empty file is a new gradebook."""
    version, application = _read_pragma(database, "user_version"), _read_pragma(database, "application_id")
    tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if application != APPLICATION_ID and (application or version or tables):
        raise GradebookProblem(f"{_show_path(path)} is a database of another program, not a gradebook; choose another folder with --out, or move that file away")
    if version > FORMAT:
        raise GradebookProblem(
            f"{_show_path(path)} was written by a newer version of Headway; update this one (git pull, then make learn), or choose another folder with --out"
        )
    if database.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
        raise GradebookProblem(damage_message(path))


def _read_pragma(database: sqlite3.Connection, pragma: str) -> int:
    return database.execute(f"PRAGMA {pragma}").fetchone()[0]


def _describe_error(error: sqlite3.Error, path: Path) -> str:
    kind = getattr(error, "sqlite_errorname", "")
    shown = _show_path(path)
    if kind.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return in_use_message(path)
    if kind.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return f"{shown} cannot be written; allow writing to it and to its folder, or choose another folder with --out"
    if kind.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return damage_message(path)
    if kind.startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_TOOBIG")):
        return (
            f"{shown} could not be written: the disk is full, or a limit on file sizes was reached ({error}). "
            "Earlier results are saved; free some space and run the same command again to continue"
        )
    return f"{shown} could not be used: {error}"


def _show_path(path: Path) -> str:
    return sanitize.line(str(path))
