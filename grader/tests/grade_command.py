"""A small class with everything in it, and real runs of `headway grade` over it."""

from __future__ import annotations

import contextlib
import csv
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import forked_python
from example_class import one_test
from grader.classroom.gradebook import Gradebook
from grader.classroom.intake.reader import read_submissions
from grader.cli.main import app
from grader.course.known_mistakes import misconceptions
from grader.course.syllabus import EXERCISES, ROOT, load_syllabus
from grader.tests.quality.benchmarks.workplace import without_markers
from grader.verdict.last_verdicts import versions
from grader.verdict.replay import text_with_mistake
from grader.verdict.results import ExerciseResult, Verdict
from pytest_runs import environment, solution
from typer.testing import CliRunner

MODULE = "ch03_attention"
EXERCISES_ASKED = ("--exercises", "softmax,causal_mask")
PATIENCE = 900.0
ENDLESS = "\n\ndef {}(*arguments, **options):\n    import time\n    while True:\n        time.sleep(1)\n"


def mistake(exercise: str, number: int = 0) -> str:
    """The chapter with one known mistake in this exercise."""
    return without_markers(text_with_mistake(MODULE, misconceptions(MODULE, exercise)[number]))


def make_class(folder: Path) -> Path:
    """Ten people, seven contents that can be graded."""
    right = solution("ch03")
    people = {
        "Broken": right + "\nimport nothing_like_it\n",
        "Endless": right + ENDLESS.format("causal_mask"),
        "Right": right,
        "Segfault": right + "\n\ndef causal_mask(*arguments, **options):\n    import ctypes\n    ctypes.string_at(0)\n",
        "Shortcut": right + "\n\ndef softmax(x, dim=-1):\n    return torch.softmax(x, dim)\n",
        "Stub": (EXERCISES / f"{MODULE}.py").read_text(encoding="utf-8"),
        "Twin": right,
        "Wrong": mistake("causal_mask"),
    }
    for name, text in people.items():
        hand_in(folder, name, text)
    (folder / "Nothing").mkdir()
    (folder / "Unreadable.zip").write_bytes(b"PK\x03\x04 and no more")
    return folder


def hand_in(folder: Path, name: str, text: str) -> None:
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / f"{MODULE}.py").write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class Ran:
    status: int
    out: str  # standard output, then errors


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "grader.cli.main", *map(str, arguments)]


def headway(*arguments: object) -> Ran:
    """The command in this process. What grades is a server in a process of its own, as always."""
    done = CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "80"})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return Ran(done.exit_code, done.stdout + done.stderr)


def headway_process(*arguments: object, **more: str) -> Ran:
    done = forked_python.run("grader.cli.main", list(map(str, arguments)), ROOT, environment(**more), timeout=PATIENCE)
    errors = done.stderr.decode()
    assert "Traceback" not in errors, errors
    return Ran(done.returncode, done.stdout.decode() + errors)


def store_verdicts(out: Path, submissions: Path, *exercises: str, wrong: str = "") -> None:
    """Fill a gradebook, so that `headway grade` has nothing to judge: all submissions pass, but not that of this person."""
    asked = [load_syllabus().exercise(name) for name in exercises]
    with Gradebook(out) as book:
        book.start_run(0, asked, versions())
        for one in book.submissions_to_do(read_submissions(submissions)):
            outcome = "failed" if one.name == wrong else "passed"
            book.store_verdict(one.digest, Verdict([ExerciseResult(exercise, [one_test(exercise, 1, outcome)]) for exercise in asked]))


def marks(out: Path) -> dict[str, dict[str, str]]:
    with (out / "grades.csv").open(encoding="utf-8-sig", newline="") as file:
        return {row["name"]: row for row in csv.DictReader(file)}


def exports(out: Path) -> dict[str, bytes]:
    """All files made from the gradebook, by name."""
    excluded = ("gradebook.sqlite", "asked.json")
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file() and not path.name.startswith(excluded)}


def count_graded(out: Path) -> int:
    """How many contents are in the gradebook; counted in a copy, because the running grader holds the lock.

    The copy includes the journal: without it, a copy taken in the middle of a commit contains what a killed grader would never have stored.
    """
    copy = out.with_name(f"{out.name}-looked-at.sqlite")
    journal = copy.with_name(f"{copy.name}-journal")
    try:
        shutil.copy(out / "gradebook.sqlite", copy)
        with contextlib.suppress(FileNotFoundError):
            shutil.copy(out / "gradebook.sqlite-journal", journal)
        database = sqlite3.connect(copy)
        try:
            return database.execute("SELECT count(*) FROM verdicts").fetchone()[0]
        finally:
            database.close()
    except (OSError, sqlite3.Error):
        return 0
    finally:
        copy.unlink(missing_ok=True)
        journal.unlink(missing_ok=True)


def until(true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)
