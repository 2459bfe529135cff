"""What marks depend on besides the code handed in: the kit by its content, torch, and what runs the tests."""

from __future__ import annotations

import hashlib
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from grader.course.syllabus import EXERCISES, ROOT, SOLUTIONS, TESTS
from grader.version import __version__

# Parts of the kit that only show what was found, or that a grader never runs: a change there leaves every mark as it is.
ASIDE = {"cli", "console", "exports", "notebook", "quality", "report", "solution_diff.py", "teaching", "tests", "watch"}


def versions() -> dict[str, str]:
    """The kit's version with a stamp of its content, and those of Python, torch, pytest and hypothesis."""
    return {"kit": f"{__version__}+{kit_stamp()}", "python": platform.python_version()} | {name: _of(name) for name in ("torch", "pytest", "hypothesis")}


def kit_stamp() -> str:
    """Twelve letters that change when anything changes that decides marks: grader, suites, solutions or syllabus."""
    digest = hashlib.sha256()
    for path in _deciding():
        digest.update(f"{path.relative_to(ROOT).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]


def _deciding() -> list[Path]:
    grader = [path for path in (ROOT / "grader").rglob("*.py") if not ASIDE & set(path.relative_to(ROOT / "grader").parts)]
    solutions = [path for path in SOLUTIONS.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    suites = [*TESTS.glob("*.py"), *(TESTS / "misconceptions").glob("*.toml")]
    single = [path for path in (EXERCISES / "syllabus.toml", ROOT / "pyproject.toml") if path.is_file()]
    return sorted([*grader, *solutions, *suites, *single], key=lambda path: path.relative_to(ROOT).as_posix())


def _of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
