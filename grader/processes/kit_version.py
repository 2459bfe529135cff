"""Detects whether the kit has changed since the server loaded it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from grader.course.syllabus import EXERCISES, REFERENCE, ROOT, SOLUTIONS, TESTS

Stamp = dict[str, tuple[int, int]]


def stamp() -> Stamp:
    """Modification time and size of each file that a server loads."""
    found: Stamp = {}
    for folder in (ROOT / "grader", SOLUTIONS, REFERENCE, TESTS):
        for place, folders, names in os.walk(folder):
            folders[:] = [
                name
                for name in folders
                if name not in ("__pycache__", "variants") and Path(place, name) != ROOT / "grader" / "tests"
            ]
            for name in names:
                if name.endswith((".py", ".toml", ".sealed", ".mistakes")):
                    _note(found, os.path.join(place, name))
    for path in (EXERCISES / "syllabus.toml", ROOT / "pyproject.toml", sys.executable):
        _note(found, str(path))
    return found


def _note(found: Stamp, path: str) -> None:
    try:
        status = os.stat(path)
    except OSError:
        return
    found[path] = (status.st_mtime_ns, status.st_size)
