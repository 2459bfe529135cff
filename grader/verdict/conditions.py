"""What a verdict depends on besides the judged code: the suites, the reference, the kit and its libraries."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path

from grader.course.syllabus import EXERCISES, REFERENCE, ROOT, SOLUTIONS, TESTS
from grader.version import __version__

# Parts of the kit that only display results or that judging never runs: a change there changes no verdict.
WITHOUT_EFFECT = {
    "anonymous", "cli", "console", "exports", "handout", "language_server", "models", "notebook", "platforms",
    "quality", "report", "similarity", "teaching", "term", "tests", "tutor", "watch",
}  # fmt: skip


def versions() -> dict[str, str]:
    """The versions of the kit (with a fingerprint of its content), Python, torch, pytest and hypothesis."""
    libraries = {name: version(name) for name in ("torch", "pytest", "hypothesis")}
    return {"kit": f"{__version__}+{_kit_fingerprint()}", "python": platform.python_version()} | libraries


@cache
def conditions() -> str:
    """The versions and the processor as they were before this process loaded the suites."""
    return read_conditions()


def run_conditions(seed: int = 0) -> str:
    """A short fingerprint of these conditions and of a run's seed."""
    return hashlib.sha256(f"{seed} {conditions()}".encode()).hexdigest()[:32]


def read_conditions() -> str:
    """The versions and the processor as they are now."""
    # here, because who asks for the versions alone need not load torch
    from torch.backends.cpu import get_cpu_capability

    return " ".join([*versions().values(), platform.machine(), get_cpu_capability()])


def _kit_fingerprint() -> str:
    """Twelve hexadecimal digits that change with everything in the kit that can change a verdict."""
    digest = hashlib.sha256()
    for path in _deciding_files():
        digest.update(f"{path.name} {path.stat().st_size}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _deciding_files() -> list[Path]:
    rooms = [path for path in sorted((ROOT / "grader").iterdir()) if path.name not in WITHOUT_EFFECT]
    kit = [path for room in rooms for path in (sorted(room.rglob("*")) if room.is_dir() else [room])]
    kit = [
        path
        for path in kit
        if path.suffix in (".py", ".toml") and not WITHOUT_EFFECT & set(path.relative_to(ROOT / "grader").parts)
    ]
    suites = [path for kind in ("*.py", "*.toml", "misconceptions/*.toml") for path in sorted(TESTS.glob(kind))]
    reference = [*sorted(SOLUTIONS.glob("*.py")), *sorted(REFERENCE.glob("*"))]
    files = [*kit, *suites, *reference, EXERCISES / "syllabus.toml", ROOT / "pyproject.toml"]
    return [path for path in files if path.is_file()]
