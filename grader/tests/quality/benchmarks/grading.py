"""grading: times `headway grade`, first with submissions of one exercise, then of the whole course.

A class of one shows how long the start takes; the others show what each further submission adds. All submissions are
correct and different. Before that, one submission is graded without being timed: that makes the recordings which every
class shares. The examples of each class's own seeds are still recorded while it is timed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from grader.course.syllabus import Exercise, load_syllabus
from grader.tests.quality.benchmarks.figures import format_seconds, machine, print_goal
from grader.tests.quality.benchmarks.workplace import copied_kit, environment, solved_chapter

MINUTES = 10

GOAL_RATE = 15  # submissions of one exercise in a second, on two processors
GOAL_START_SECONDS, GOAL_COURSE_SECONDS = 3, 15
EXERCISE = "softmax"


class GradingFailed(Exception):
    """A command ended with an error; the message has its output."""


def measure(exercises: Sequence[Exercise], count: int, jobs: int, kit: Path) -> tuple[float, float]:
    """The seconds of the start, and of each further submission."""
    place = kit.parent / f"{len(exercises)} exercises"
    for number in range(count + 1):
        folder = place / ("class" if number else "one") / f"{number:03}"
        folder.mkdir(parents=True)
        for module in {exercise.module for exercise in exercises}:
            (folder / f"{module}.py").write_text(f"{solved_chapter(module)}\n# {number}\n", encoding="utf-8")
    names = ",".join(exercise.name for exercise in exercises)
    runs = ("one", "untimed"), ("one", "alone"), ("class", "together")
    _, alone, together = (_seconds(kit, place / name, place / out, names, jobs) for name, out in runs)
    each = max(together - alone, 1e-3) / max(1, count - 1)
    return max(alone - each, 0.0), each


def _seconds(kit: Path, submissions: Path, out: Path, names: str, jobs: int) -> float:
    """Seconds of the command, which must succeed: all submissions are correct."""
    command = [sys.executable, "-P", "-m", "grader.cli", "grade", str(submissions), "--exercises", names]
    command += ["-j", str(jobs), "--out", str(out)]
    began = time.perf_counter()
    done = subprocess.run(command, cwd=kit, env=environment(kit), capture_output=True, text=True)
    if done.returncode:
        raise GradingFailed(f"headway grade ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return time.perf_counter() - began


def run(arguments: list[str]) -> int:
    description, processors = (__doc__ or "").partition("\n")[0], os.cpu_count() or 1
    parser = argparse.ArgumentParser(prog="python -m grader.tests.quality.benchmarks grading", description=description)
    parser.add_argument("--one", type=int, default=40, metavar="N", help="submissions of one exercise (40)")
    parser.add_argument("--whole", type=int, default=4, metavar="N", help="submissions of the whole course (4)")
    parser.add_argument("--jobs", "-j", type=int, default=processors, metavar="N", help="how many at once")
    options = parser.parse_args(arguments)
    print(f"grading: {machine()}\n{options.jobs} at once\n", flush=True)
    course = load_syllabus()
    try:
        with copied_kit() as kit:
            if options.one:
                start, each = measure([course.exercise(EXERCISE)], options.one, options.jobs, kit)
                rate, goal = 1 / each, f"{GOAL_RATE} on two processors"
                print_goal(f"One exercise: {rate:.1f} submissions a second", goal, rate >= GOAL_RATE)
                goal = f"{GOAL_START_SECONDS} s"
                print_goal(f"The start before it takes {format_seconds(start)}", goal, start <= GOAL_START_SECONDS)
            if options.whole:
                _, each = measure(course.exercises, options.whole, options.jobs, kit)
                took, goal = each * options.jobs, f"{GOAL_COURSE_SECONDS} s"
                sentence = f"The whole course: a submission takes {format_seconds(took)} of a processor"
                print_goal(sentence, goal, took < GOAL_COURSE_SECONDS)
    except GradingFailed as problem:
        print(f"grading: {problem}", file=sys.stderr)
        return 1
    return 0
