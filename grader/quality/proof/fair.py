"""fair: runs five honest courses, each in its own style, at twenty seeds, in process and in a worker. Each run must earn full marks.

They are in grader/tests/honest/, one folder for each style. Every chapter uses the course's own earlier chapters (`--whole`), not the reference's.
A course may lack exercises; the reference's replace them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from grader.course.syllabus import ROOT
from grader.quality.benchmarks.figures import machine, table
from grader.quality.proof.partial_course import with_missing_exercises
from grader.quality.proof.running import Course, Found, in_a_copy, parsed, parser, run_all, shortfall

HONEST = ROOT / "grader" / "tests" / "honest"
WHERE = {False: "in process", True: "in a worker"}  # in_worker → words for the table


def styles() -> dict[str, dict[str, str]]:
    """Style → chapter → text."""
    folders = [folder for folder in sorted(HONEST.iterdir()) if any(folder.glob("ch*.py"))] if HONEST.is_dir() else []
    return {folder.name: _chapters(folder) for folder in folders}


def _chapters(folder: Path) -> dict[str, str]:
    return {path.stem: with_missing_exercises(path.stem, path.read_text(encoding="utf-8")) for path in sorted(folder.glob("ch*.py"))}


def prove(options: argparse.Namespace) -> int:
    everything = styles()
    lacking = [name for name in options.style or () if name not in everything]
    if lacking or not everything:
        print(f"there is no {lacking[0] if lacking else 'honest'} course in {HONEST}; there are {', '.join(everything) or 'none'}", file=sys.stderr)
        return 2
    exercises, names = options.exercises, options.style or list(everything)
    problems = [f"{style} has no {module}.py" for style in names for module in dict.fromkeys(e.module for e in exercises) if module not in everything[style]]
    courses = [Course(style, everything[style], seed, in_worker, whole=True) for seed in options.seeds for style in names for in_worker in WHERE]
    print(f"fair: {machine()}", flush=True)
    began = time.monotonic()
    runs: Counter[tuple[str, bool]] = Counter()
    full: Counter[tuple[str, bool]] = Counter()

    def done(course: Course, found: Found) -> None:
        runs[course.style, course.in_worker] += 1
        if isinstance(found, str):
            short = [found]
        else:
            short = [f"{result.exercise.name}: {words}" for result in found.results if (words := shortfall(result))]
            if not short and len(found.results) != len(exercises):
                short = [f"{len(found.results)} of {len(exercises)} exercises were graded"]
        full[course.style, course.in_worker] += not short
        problems.extend(f"{course}: {sentence}" for sentence in short)
        for sentence in short:
            print(f"✗ {course}: {sentence}", flush=True)
        if (ended := runs.total()) % 20 == 0:
            print(f"  {ended} of {len(courses)} runs, {full.total()} with full marks ({time.monotonic() - began:.0f} s)", flush=True)

    for sentence in problems:
        print(f"✗ {sentence}")
    run_all(courses, exercises, options.jobs, done)
    rows = [[style, where, str(runs[style, in_worker]), str(full[style, in_worker])] for style in names for in_worker, where in WHERE.items()]
    print("\n" + table(["style", "where", "runs", "full marks"], rows, words=2))
    what = f"{len(names)} courses, {len(exercises)} exercise{'s' * (len(exercises) > 1)}, seeds {options.seeds[0]} to {options.seeds[-1]}, in process and in workers"
    print(f"\nfair: {what}: {full.total()} of {runs.total()} runs earned full marks ({time.monotonic() - began:.0f} s).")
    return int(bool(problems))


OPTIONS = parser("fair", __doc__, seeds=20)
OPTIONS.add_argument("--style", action="append", metavar="NAME", help="only this course; may be repeated")


def run(arguments: list[str]) -> int:
    parsed(OPTIONS, arguments)
    return in_a_copy("fair", arguments)


if __name__ == "__main__":
    sys.exit(prove(parsed(OPTIONS, sys.argv[1:])))
