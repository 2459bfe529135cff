"""grading: times `headway grade`, and compares it with a process of pytest for each submission.

First with submissions of one exercise, then of the whole course. A class of one shows how long the start takes; the
others show what each further submission adds. All submissions are correct and different.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from grader.course.syllabus import Exercise, load_syllabus
from grader.quality.benchmarks.figures import format_seconds, machine, print_figure, print_goal, table
from grader.quality.benchmarks.workplace import copied_kit, environment, solved_chapter

GOAL_RATE = 25  # submissions of one exercise in a second, on two processors
GOAL_START_SECONDS, GOAL_COURSE_SECONDS = 2, 12
EXERCISE = "softmax"


class GradingFailed(Exception):
    """A command ended with an error; the message has its output."""


def measure(name: str, exercises: Sequence[Exercise], count: int, options: argparse.Namespace, kit: Path) -> list[str]:
    """A row of the table, after the figures."""
    names = ["--exercises", ",".join(exercise.name for exercise in exercises)]
    with tempfile.TemporaryDirectory(prefix="headway-bench-") as place:
        folders = [Path(place) / "class" / f"{number:03}" for number in range(count + 1)]
        for folder in folders:
            folder.mkdir(parents=True)
            for module in {exercise.module for exercise in exercises}:
                (folder / f"{module}.py").write_text(f"{solved_chapter(module)}\n# {folder.name}\n", encoding="utf-8")
        one = Path(place) / "one"
        one.mkdir()
        folders[-1].rename(one / folders.pop().name)
        grade = ["-m", "grader.cli", "grade", *names, "-j", str(options.jobs), "--out", place]
        alone = _seconds(kit, [*grade[:-1], f"{place}/first", str(one)])
        together = _seconds(kit, [*grade[:-1], f"{place}/all", str(Path(place) / "class")])
        pytest = ["-m", "pytest", "-q", "--worker", *(["--exercise", exercises[0].name] if len(exercises) == 1 else [])]
        some = folders[: max(1, min(options.cold, count))]
        began = time.perf_counter()
        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(lambda folder: _seconds(kit, [*pytest, "--target", str(folder)]), some))
        cold = (time.perf_counter() - began) / len(some)
    each = max(together - alone, 1e-3) / max(1, count - 1)
    start = max(alone - each, 0.0)
    print_figure(f"Grading, {name}: {cold / each:.1f} times as fast as a pytest process each.")
    if len(exercises) == 1:
        rate, goal = 1 / each, f"{GOAL_START_SECONDS} s"
        print_goal(f"That is {rate:.1f} submissions a second", f"{GOAL_RATE} on two processors", rate >= GOAL_RATE)
        print_goal(f"The start before it takes {format_seconds(start)}", goal, start <= GOAL_START_SECONDS)
    else:
        took, goal = each * options.jobs, f"{GOAL_COURSE_SECONDS} s"
        print_goal(f"A submission takes {format_seconds(took)} of a processor", goal, took < GOAL_COURSE_SECONDS)
    return [name, str(count), *map(format_seconds, (cold, start, each)), f"{cold / each:.1f}"]


def _seconds(kit: Path, arguments: list[str]) -> float:
    """Seconds of a command, which must succeed: all submissions are correct."""
    began = time.perf_counter()
    command = [sys.executable, "-P", *arguments]
    done = subprocess.run(command, cwd=kit, env=environment(kit), capture_output=True, text=True, check=False)
    if done.returncode:
        name = " ".join(arguments[:3])
        raise GradingFailed(f"{name} ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return time.perf_counter() - began


def run(arguments: list[str]) -> int:
    description, processors = (__doc__ or "").partition("\n")[0], os.cpu_count() or 1
    parser = argparse.ArgumentParser(prog="python -m grader.quality.benchmarks grading", description=description)
    parser.add_argument("--one", type=int, default=40, metavar="N", help="submissions of one exercise (40)")
    parser.add_argument("--whole", type=int, default=4, metavar="N", help="submissions of the whole course (4)")
    parser.add_argument("--cold", type=int, default=4, metavar="N", help="how many of them pytest grades (4)")
    parser.add_argument("--jobs", "-j", type=int, default=processors, metavar="N", help="how many at once")
    options = parser.parse_args(arguments)
    print(f"grading: {machine()}\n{options.jobs} at once\n", flush=True)
    course, rows = load_syllabus(), []
    try:
        with copied_kit() as kit:
            if options.one:
                rows.append(measure("one exercise", [course.exercise(EXERCISE)], options.one, options, kit))
            if options.whole:
                rows.append(measure("whole course", course.exercises, options.whole, options, kit))
    except GradingFailed as problem:
        print(f"grading: {problem}", file=sys.stderr)
        return 1
    print(f"\n{table(['submissions', 'graded', 'pytest each', 'start', 'graded each', 'times'], rows, words=1)}")
    return 0
