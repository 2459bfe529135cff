"""steady: runs the reference at a hundred seeds. A test that fails once is flaky or unfair, because the reference is correct at every seed.

Each run is all suites with the examples of one seed, in process.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from grader.course.syllabus import SOLUTIONS, load_syllabus
from grader.quality.benchmarks.figures import machine
from grader.quality.proof.running import Course, Found, in_a_copy, parsed, parser, run_all, shortfall


def prove(options: argparse.Namespace) -> int:
    sources = {chapter.name: (SOLUTIONS / f"{chapter.name}.py").read_text(encoding="utf-8") for chapter in load_syllabus().chapters}
    courses = [Course("reference", sources, seed, False) for seed in options.seeds]
    print(f"steady: {machine()}", flush=True)
    began, judged, tests, lost = time.monotonic(), 0, 0, []
    failures: Counter[str] = Counter()
    examples: dict[str, str] = {}

    def done(course: Course, found: Found) -> None:
        nonlocal judged, tests
        if isinstance(found, str):
            lost.append(f"seed {course.seed}: {found}")
            return
        judged += 1
        for result in found.results:
            tests += len(result.tests)
            failing = [test.name for test in result.tests if test.outcome != "passed"]
            failures.update(failing)
            for name in failing or ([result.exercise.name] if shortfall(result) else []):
                examples.setdefault(name, f"--exercise {result.exercise.name} --seed {course.seed}: {shortfall(result)}")
        if judged % 10 == 0:
            print(f"  {judged} of {len(courses)} runs, {len(examples)} tests that failed ({time.monotonic() - began:.0f} s)", flush=True)

    run_all(courses, options.exercises, options.jobs, done)
    for name, example in examples.items():
        print(f"✗ {name} failed in {failures[name]} of {judged} runs; python -m pytest --target solutions {example}")
    for sentence in lost:
        print(f"✗ no verdict: {sentence}")
    print(
        f"steady: the reference at seeds {options.seeds[0]} to {options.seeds[-1]}: {judged} runs, {tests} tests run, {sum(failures.values())} failed"
        f" ({len(examples)} different one{'s' * (len(examples) != 1)}; {time.monotonic() - began:.0f} s)."
    )
    return int(bool(examples or lost or not tests))


OPTIONS = parser("steady", __doc__, seeds=100)


def run(arguments: list[str]) -> int:
    parsed(OPTIONS, arguments)  # report wrong arguments before copying anything
    return in_a_copy("steady", arguments)


if __name__ == "__main__":
    sys.exit(prove(parsed(OPTIONS, sys.argv[1:])))
