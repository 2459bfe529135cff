"""Keeps code that Headway replaces in the learner's files: exercises/.headway/kept/NAME.1.py, NAME.2.py, ..."""

from __future__ import annotations

import re
from pathlib import Path

from grader.course.source import SourceProblem
from grader.course.status import short_path
from grader.course.stubs import fingerprint
from grader.course.syllabus import EXERCISES
from grader.files import problem, write_whole

KEPT = EXERCISES / ".headway" / "kept"


def keep(stem: str, data: bytes) -> str:
    """Save replaced code; returns where. SourceProblem if it cannot be saved: then do not replace it."""
    numbers = [_number(path) for path in kept_versions(stem)]
    path = KEPT / f"{stem}.{max(numbers, default=0) + 1}.py"
    try:
        write_whole(path, data)
    except OSError as error:
        why = problem(error, f"write {short_path(path)}")
        raise SourceProblem(f"nothing was changed, because your code could not be saved: {why}") from error
    return short_path(path)


def kept_versions(stem: str) -> list[Path]:
    """The files of this name, the newest last."""
    paths = [path for path in KEPT.glob(f"{stem}.*.py") if re.fullmatch(rf"{re.escape(stem)}\.\d+\.py", path.name)]
    return sorted(paths, key=_number)


def _number(path: Path) -> int:
    return int(path.name.split(".")[-2])


def same_text(one: str, other: str) -> bool:
    """Whether two pieces of code differ at most in line ends, and in space around them."""
    return fingerprint(one.strip()) == fingerprint(other.strip())
