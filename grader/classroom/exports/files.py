"""A folder with a file for each person: what changed is written, and files of people who are gone go too."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from grader.classroom import sanitize
from grader.classroom.intake.problems import GradingProblem
from grader.files import problem, write_whole

_TEMPORARY = re.compile(r"\..+\.(?:csv|html|json|md|xml)\.[a-z0-9_]{8}\.tmp")  # as `write_whole` calls what it is at


def write_if_changed(path: Path, content: str) -> Path:
    """The file whole, or as it was; untouched where it says this already."""
    if _read_bytes(path) != content.encode("utf-8"):
        try:
            write_whole(path, content)
        except OSError as error:
            raise GradingProblem(problem(error, f"write {sanitize.line(str(path))}")) from error
    return path


def write_per_person(folder: Path, suffix: str, contents: dict[str, str], mark: str) -> list[Path]:
    """A file for each name. `mark` is how every one of them begins: a file with another beginning is not ours, and is never removed."""
    paths = [write_if_changed(folder / f"{name}{suffix}", content) for name, content in contents.items()]
    for path in set(folder.glob(f"*{suffix}")) - set(paths) if folder.is_dir() else ():
        if (_read_bytes(path) or b"").startswith(mark.encode("utf-8")):
            path.unlink()
    return paths


def remove_temporary_files(folder: Path) -> None:
    """Remove what a grader that was killed in the middle of a file has left of it. Whoever calls has the gradebook open: nobody else writes here."""
    for path in [*folder.glob(".*.tmp"), *folder.glob("*/.*.tmp")]:
        if _TEMPORARY.fullmatch(path.name):
            with contextlib.suppress(OSError):
                path.unlink()


def _read_bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
