"""A fingerprint of what a verdict depends on besides the judged code: the suites, the reference, the kit and its libraries."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path

import torch
from grader.course.syllabus import EXERCISES, REFERENCE, SOLUTIONS, TESTS

_ROOMS = ("course", "execution", "verdict", "plugin", "runner")  # of the kit, that decide about a verdict
_LIBRARIES = ("torch", "hypothesis", "pytest")


@cache
def conditions() -> str:
    """The fingerprint as it was when this process first asked for it, which is before the suites are loaded."""
    return read_conditions()


def read_conditions() -> str:
    """The fingerprint of the files as they are now, by content."""
    digest = hashlib.sha256()
    kit = Path(__file__).parents[1]
    files = [path for room in _ROOMS for path in sorted((kit / room).rglob("*")) if path.suffix in (".py", ".toml")]
    files += [*sorted(TESTS.glob("*.py")), *sorted(SOLUTIONS.glob("*.py")), *sorted(REFERENCE.glob("*")), EXERCISES / "syllabus.toml"]
    for path in files:
        if path.is_file():
            digest.update(f"{path.name} {path.stat().st_size}\n".encode() + path.read_bytes())
    versions = [platform.python_version(), *map(version, _LIBRARIES), platform.machine(), torch.backends.cpu.get_cpu_capability()]
    return f"{digest.hexdigest()} {' '.join(versions)}"
