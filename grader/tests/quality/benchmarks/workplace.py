"""A copy of the kit to measure, prove and record in, so that no file of the real kit changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grader.course.stubs import write_stubs
from grader.course.syllabus import EXERCISES, ROOT, SOLUTIONS, TESTS, load_syllabus

MARKER = ".measured-in"  # a file in exercises/ that marks such a copy


@contextmanager
def copied_kit(solved: bool = True) -> Iterator[Path]:
    """The folder of a copy of the kit, with every exercise solved or with every stub unchanged; deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="headway-bench-", ignore_cleanup_errors=True) as folder:
        root = Path(folder) / "kit"
        copy_kit(root)
        (root / "exercises" / MARKER).touch()
        for chapter in load_syllabus().chapters if solved else ():
            (root / "exercises" / f"{chapter.name}.py").write_text(solved_chapter(chapter.name), encoding="utf-8")
        yield root


def copy_kit(root: Path) -> None:
    """Copy the kit with every stub unchanged, and without the kit's own tests; what Python has compiled stays valid."""
    for part in (SOLUTIONS, TESTS, ROOT / "grader"):
        shutil.copytree(part, root / part.name, ignore=_left_out)
    left_out = shutil.ignore_patterns("__pycache__", ".*", "progress.txt", "*.py")
    shutil.copytree(EXERCISES, root / "exercises", ignore=left_out)
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, root)
    write_stubs(root / "exercises")


def _left_out(folder: str, names: list[str]) -> list[str]:
    is_tests = Path(folder) == ROOT / "grader" / "tests"
    return [name for name in names if name.startswith(".") or is_tests and name not in ("field", "quality")]


def is_a_copy() -> bool:
    return (EXERCISES / MARKER).exists()


def solved_chapter(module: str) -> str:
    """The reference's chapter as the file of a learner who has solved all of it."""
    return without_markers((SOLUTIONS / f"{module}.py").read_text(encoding="utf-8"))


def without_markers(text: str) -> str:
    """A solution without its BEGIN and END markers, as a learner would write it."""
    return "".join(line for line in text.splitlines(keepends=True) if "SOLUTION" not in line)


def run_in_copy(root: Path, module: str, arguments: list[str]) -> int:
    """Run a module in the copy's own kit; return its exit status."""
    command = [sys.executable, "-u", "-P", "-m", module, *arguments]
    return subprocess.call(command, cwd=root, env=environment(root))


def environment(root: Path) -> dict[str, str]:
    """Variables for a process that uses this kit, without those that change what a command prints or opens."""
    dropped = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "VISUAL", "EDITOR", "TTY_COMPATIBLE")
    stays = "PYTEST_VERSION"  # with it, no server is left running
    kept = [name for name in os.environ if name == stays or name not in dropped and not name.startswith("PYTEST_")]
    variables = {name: os.environ[name] for name in kept}
    return variables | {"PYTHONPATH": str(root), "PYTHONIOENCODING": "utf-8", "TERM": "xterm-256color"}
