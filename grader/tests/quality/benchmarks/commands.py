"""commands: measures how long commands take from their start to their end, in a copy of the kit.

The first ones compute nothing; `headway check softmax` tests correct code, at first and with the server that this
leaves; `headway hunt softmax` hides a mistake and finds what to show; `headway try-test softmax` tries a file of tests
that finds every known mistake.
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
from grader.tests.quality.benchmarks.workplace import copied_kit, environment, without_markers

MINUTES = 1

GOOD = Path(__file__).parents[2] / "own_tests" / "good" / "softmax.py"
QUICK: tuple[list[str], ...] = ([], ["--help"], ["list"], ["next"], ["path"], ["hint", "softmax"], ["again"])
GOAL_QUICK, GOAL_HUNT, GOAL_TRY_TEST = 0.3, 2.0, 5.0  # seconds
GOAL_FIRST_CHECK, GOAL_NEXT_CHECK = 3.0, 0.3


def run(arguments: list[str]) -> int:
    description = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m grader.tests.quality.benchmarks commands", description=description)
    parser.add_argument("--runs", type=int, default=5, help="of each command (default 5)")
    options = parser.parse_args(arguments)
    print(f"commands: {machine()}\nmedians of {options.runs} runs\n")
    with copied_kit() as root:
        points = load_syllabus().exercise("softmax").points
        (root / "exercises" / "progress.txt").write_text(f"softmax {points}/{points}\n")
        for words in QUICK:
            _print(root, words, GOAL_QUICK, options.runs)
        chapter = f"{load_syllabus().exercise('softmax').module}.py"
        (root / "exercises" / chapter).write_text(without_markers((root / "solutions" / chapter).read_text()))
        check, stop = ["check", "softmax"], ("stop",)
        _print(root, check, GOAL_FIRST_CHECK, options.runs, more=" without a server", afterwards=stop)
        _took(root, check)
        _print(root, check, GOAL_NEXT_CHECK, options.runs, more=" with the server of the one before")
        _took(root, [*stop])
        _print(root, ["hunt", "softmax"], GOAL_HUNT, options.runs, afterwards=("hunt", "--give-up"))
        _took(root, ["try-test", "softmax"])  # writes the file
        (root / "exercises" / "my_tests" / "test_softmax.py").write_text(GOOD.read_text())
        versions = len(versions_of(load_syllabus().exercise("softmax")))
        _print(root, ["try-test", "softmax"], GOAL_TRY_TEST, options.runs, more=f" on {versions} versions")
    return 0


def _print(
    root: Path, words: list[str], goal: float, runs: int, more: str = "", afterwards: tuple[str, ...] = ()
) -> None:
    times = []
    for _ in range(runs):
        times.append(_took(root, words))
        if afterwards:
            _took(root, [*afterwards])
    seconds = median(times)
    command = " ".join(["headway", *words])
    print_goal(f"`{command}` takes {format_seconds(seconds)}{more}", f"{goal:g} s", seconds < goal)


def _took(root: Path, words: list[str]) -> float:
    began = time.perf_counter()
    command = [sys.executable, "-m", "grader.cli", *words]
    done = subprocess.run(command, cwd=root, env=environment(root), capture_output=True, text=True)
    seconds = time.perf_counter() - began
    assert done.returncode in (0, 1) and done.stdout, done.stdout + done.stderr
    return seconds
