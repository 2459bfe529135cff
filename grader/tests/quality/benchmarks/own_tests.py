"""own_tests: measures `headway try-test softmax`, from the start of the command to its end, in a copy of the kit.

The file of tests is the one that the command writes, and then one that finds every known mistake.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from grader.course.syllabus import load_syllabus
from grader.own_tests.versions import versions_of
from grader.tests.quality.benchmarks.figures import format_seconds, machine, print_goal
from grader.tests.quality.benchmarks.workplace import copied_kit, environment

GOOD = Path(__file__).parents[2] / "own_tests" / "good" / "softmax.py"
GOAL_SECONDS = 5


def run(arguments: list[str]) -> int:
    description = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(
        prog="python -m grader.tests.quality.benchmarks own_tests", description=description
    )
    parser.add_argument("--runs", type=int, default=5, help="of each file (default 5)")
    options = parser.parse_args(arguments)
    versions = versions_of(load_syllabus().exercise("softmax"))
    print(f"own_tests: {machine()}\nmedians of {options.runs} runs, {len(versions)} versions\n")
    with copied_kit(solved=False) as root:
        _run(root)  # writes the file
        file = root / "exercises" / "my_tests" / "test_softmax.py"
        for what, text in (("one example", file.read_text()), (f"laws, {GOOD.name}", GOOD.read_text())):
            file.write_text(text)
            seconds = median(_run(root) for _ in range(options.runs))
            took = f"`headway try-test softmax` takes {format_seconds(seconds)} ({what})"
            print_goal(took, f"{GOAL_SECONDS} s", seconds < GOAL_SECONDS)
    return 0


def _run(root: Path) -> float:
    began = time.perf_counter()
    command = [sys.executable, "-m", "grader.cli", "try-test", "softmax"]
    done = subprocess.run(command, cwd=root, env=environment(root), capture_output=True, text=True)
    seconds = time.perf_counter() - began
    assert "softmax.py" in done.stdout, done.stdout + done.stderr
    return seconds
