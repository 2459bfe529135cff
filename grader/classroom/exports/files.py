"""Writes exports: only changed files are written, and files of people who are no longer in the class are removed."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from grader.classroom import sanitize
from grader.classroom.intake.problems import GradingProblem
from grader.files import problem, write_whole

_TEMPORARY = re.compile(r"\..+\.(?:csv|html|json|md|xml)\.[a-z0-9_]{8}\.tmp")  # the temporary names that `write_whole` uses


def write_if_changed(path: Path, content: str) -> Path:
    """Replace the file in one step, or leave it untouched if it already has this content."""
    if _read_bytes(path) != content.encode("utf-8"):
        try:
            write_whole(path, content)
        except OSError as error:
            raise GradingProblem(problem(error, f"write {sanitize.line(str(path))}")) from error
    return path


def write_per_person(folder: Path, suffix: str, contents: dict[str, str], mark: str) -> list[Path]:
    """Write a file for each name, and remove the files of other names. Only files that start with `mark`, as all of these do, are removed."""
    paths = [write_if_changed(folder / f"{name}{suffix}", content) for name, content in contents.items()]
    for path in set(folder.glob(f"*{suffix}")) - set(paths) if folder.is_dir() else ():
        if (_read_bytes(path) or b"").startswith(mark.encode("utf-8")):
            path.unlink()
    return paths


def remove_temporary_files(folder: Path) -> None:
    """Remove incomplete files of a grader that was killed. Call it with the gradebook open: then no other grader writes here."""
    for path in [*folder.glob(".*.tmp"), *folder.glob("*/.*.tmp")]:
        if _TEMPORARY.fullmatch(path.name):
            with contextlib.suppress(OSError):
                path.unlink()


def _read_bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
