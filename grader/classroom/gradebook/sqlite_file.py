"""The gradebook as a file: opened, locked and checked, or refused in one sentence; written in whole transactions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from grader.classroom import sanitize
from grader.classroom.intake.problems import GradingProblem
from grader.files import problem

NAME = "gradebook.sqlite"
FORMAT = 1  # of the tables below; a newer Headway may raise it
OURS = 0x48647779  # SQLite's application id: "Hdwy"

TABLES = (
    """CREATE TABLE conditions (       -- what results depend on besides the content: equal here, and they are interchangeable
        id INTEGER PRIMARY KEY, seed TEXT NOT NULL, versions TEXT NOT NULL,
        turn INTEGER NOT NULL, -- greater is later: when they last counted
        UNIQUE (seed, versions))""",
    """CREATE TABLE run (              -- what the last run asked for
        one INTEGER PRIMARY KEY CHECK (one = 1), conditions INTEGER NOT NULL REFERENCES conditions, exercises TEXT NOT NULL)""",
    """CREATE TABLE people (           -- who handed in what, as of the last run
        slug TEXT PRIMARY KEY, name TEXT NOT NULL, digest TEXT NOT NULL, problem TEXT NOT NULL, notes TEXT NOT NULL,
        submitted TEXT NOT NULL, zone_known INTEGER NOT NULL)""",
    """CREATE TABLE verdicts (         -- each content that was graded, for which exercises; or why it could not be
        conditions INTEGER NOT NULL REFERENCES conditions, digest TEXT NOT NULL,
        exercises TEXT NOT NULL, problem TEXT NOT NULL, broken TEXT NOT NULL, notes TEXT NOT NULL,
        PRIMARY KEY (conditions, digest)) WITHOUT ROWID""",
    """CREATE TABLE results (
        conditions INTEGER NOT NULL, digest TEXT NOT NULL, exercise TEXT NOT NULL, outcome TEXT NOT NULL, tests TEXT NOT NULL,
        diagnosis TEXT NOT NULL, forbidden TEXT NOT NULL, partial INTEGER NOT NULL, missing_weight REAL NOT NULL,
        PRIMARY KEY (conditions, digest, exercise),
        FOREIGN KEY (conditions, digest) REFERENCES verdicts ON DELETE CASCADE) WITHOUT ROWID""",
)


class GradebookProblem(GradingProblem):
    """The gradebook cannot be used, or not for this; the message is a sentence for the instructor."""


def connect(folder: Path) -> sqlite3.Connection:
    """The gradebook in this folder, made where there is none, and locked until it is closed. GradebookProblem where it cannot be used."""
    path = folder / NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GradebookProblem(problem(error, f"make the folder {_shown(folder)} for the grades")) from error
    with told(path):
        database = sqlite3.connect(path, timeout=1, isolation_level=None)
    try:
        with told(path):
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
            database.execute("PRAGMA synchronous = FULL")
            database.execute("PRAGMA foreign_keys = ON")
        with transaction(database, path):
            _check(database, path)
            for table in TABLES if not _of(database, "user_version") else ():
                database.execute(table)
            database.execute(f"PRAGMA application_id = {OURS}")
            database.execute(f"PRAGMA user_version = {FORMAT}")  # written even where it stands there: now we know that we may write
    except BaseException:
        close(database)
        raise
    return database


def close(database: sqlite3.Connection) -> None:
    with suppress(sqlite3.Error):
        database.close()


@contextmanager
def transaction(database: sqlite3.Connection, path: Path) -> Iterator[None]:
    """All of what is done inside, or nothing of it."""
    with told(path):
        database.execute("BEGIN EXCLUSIVE")
        try:
            yield
            database.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # SQLite has rolled back by itself where the disk failed
                database.execute("ROLLBACK")
            raise


@contextmanager
def told(path: Path) -> Iterator[None]:
    """What SQLite says, as a sentence about this gradebook."""
    try:
        yield
    except sqlite3.Error as error:
        raise GradebookProblem(_sentence(error, path)) from error
    except UnicodeError as error:  # its complaint quotes what is damaged
        raise GradebookProblem(damaged(path)) from error


def damaged(path: Path) -> str:
    return (
        f"{_shown(path)} is damaged and cannot be read; it is left as it is. "
        "Put a copy of it back if you have one, or move it away, and everything is graded anew"
    )


def _check(database: sqlite3.Connection, path: Path) -> None:
    """Is this a gradebook, whole, and of a format we know? An empty file is one that has not been begun."""
    version, whose = _of(database, "user_version"), _of(database, "application_id")
    tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if whose != OURS and (whose or version or tables):
        raise GradebookProblem(f"{_shown(path)} is a database of something else, not a gradebook; give --out another folder, or move that file away")
    if version > FORMAT:
        raise GradebookProblem(
            f"{_shown(path)} was written by a newer Headway than this one; update this one (git pull, then make learn), or give --out another folder"
        )
    if database.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
        raise GradebookProblem(damaged(path))


def _of(database: sqlite3.Connection, pragma: str) -> int:
    return database.execute(f"PRAGMA {pragma}").fetchone()[0]


def _sentence(error: sqlite3.Error, path: Path) -> str:
    kind = getattr(error, "sqlite_errorname", "")
    shown = _shown(path)
    if kind.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return f"{shown} is in use: another grader (or a database viewer) has it open; wait until it is done, or end it"
    if kind.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return f"{shown} cannot be written: allow writing to it and to its folder, or give --out another folder"
    if kind.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return damaged(path)
    if kind.startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_TOOBIG")):
        return (
            f"{shown} could not be written: the disk is full, or there is a limit on file sizes ({error}). "
            "What was graded before is kept; make room and run the same command again to go on"
        )
    return f"{shown} could not be used: {error}"


def _shown(path: Path) -> str:
    return sanitize.line(str(path))
