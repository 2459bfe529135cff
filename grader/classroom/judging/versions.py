"""The versions that marks depend on besides the submitted code: the kit, Python, torch, pytest and hypothesis."""

from __future__ import annotations

import hashlib
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from grader.course.syllabus import EXERCISES, ROOT, SOLUTIONS, TESTS
from grader.version import __version__

# Parts of the kit that only display results or that judging never runs: a change there changes no verdict.
WITHOUT_EFFECT = {
    "anonymous", "cli", "console", "exports", "handout", "models", "notebook", "platforms", "quality", "report", "similarity", "solution_diff.py",
    "teaching", "term", "tests", "watch",
}  # fmt: skip


def versions() -> dict[str, str]:
    """The versions of the kit (with a fingerprint of its content), Python, torch, pytest and hypothesis."""
    packages = {name: _package_version(name) for name in ("torch", "pytest", "hypothesis")}
    return {"kit": f"{__version__}+{kit_fingerprint()}", "python": platform.python_version()} | packages


def kit_fingerprint() -> str:
    """Twelve hexadecimal digits that change with everything that can change a mark: grader, suites, solutions, syllabus."""
    digest = hashlib.sha256()
    for path in _files_with_effect():
        digest.update(f"{path.relative_to(ROOT).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]


def _files_with_effect() -> list[Path]:
    grader = [path for path in (ROOT / "grader").rglob("*.py") if not WITHOUT_EFFECT & set(path.relative_to(ROOT / "grader").parts)]
    solutions = [path for path in SOLUTIONS.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    suites = [*TESTS.glob("*.py"), *(TESTS / "misconceptions").glob("*.toml")]
    single = [path for path in (EXERCISES / "syllabus.toml", ROOT / "pyproject.toml") if path.is_file()]
    return sorted([*grader, *solutions, *suites, *single], key=lambda path: path.relative_to(ROOT).as_posix())


def _package_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
