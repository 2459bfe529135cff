"""A copy of the kit to measure in, with every exercise done: a benchmark writes nothing in anybody's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grader.course.syllabus import EXERCISES, ROOT, SOLUTIONS, TESTS, load_syllabus
from grader.quality.benchmarks.figures import MARK, ratios

SIGN = ".measured-in"  # a file in exercises/ that says: this is such a copy


@contextmanager
def copied_kit() -> Iterator[Path]:
    """The folder of the copy, which is gone afterwards."""
    leave = shutil.ignore_patterns("__pycache__", "variants")
    with tempfile.TemporaryDirectory(prefix="headway-bench-", ignore_cleanup_errors=True) as folder:
        root = Path(folder) / "kit"
        for part in (SOLUTIONS, TESTS, ROOT / "grader"):
            shutil.copytree(part, root / part.name, ignore=leave)
        (root / "exercises").mkdir()
        (root / "exercises" / SIGN).touch()
        shutil.copy(EXERCISES / "syllabus.toml", root / "exercises")
        shutil.copy(ROOT / "pyproject.toml", root)
        for chapter in load_syllabus().chapters:
            (root / "exercises" / f"{chapter.name}.py").write_text(solved(chapter.name), encoding="utf-8")
        yield root


def is_a_copy() -> bool:
    return (EXERCISES / SIGN).exists()


def solved(module: str) -> str:
    """Our chapter as a learner would have it who has done all of it."""
    return without_marks((SOLUTIONS / f"{module}.py").read_text(encoding="utf-8"))


def without_marks(text: str) -> str:
    """A solution as a learner would have it."""
    return "".join(line for line in text.splitlines(keepends=True) if "SOLUTION" not in line)


def inside(root: Path, module: str, arguments: list[str]) -> int:
    """Run a module of the copy's own kit, showing what it prints; its exit status. The ratios it finds are ours too."""
    command = [sys.executable, "-u", "-P", "-m", module, *arguments]
    with subprocess.Popen(command, cwd=root, env=environment(root), stdout=subprocess.PIPE, text=True, encoding="utf-8") as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            if line.startswith(MARK):
                ratios.append(line.removeprefix(MARK).rstrip())
    return process.returncode


def environment(root: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return kept | {"PYTHONPATH": str(root), "PYTHONIOENCODING": "utf-8"}
