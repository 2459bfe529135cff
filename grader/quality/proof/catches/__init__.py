"""`catches`: counts at how many seeds of 200 each known mistake is caught by its exercise's own tests. Catching a mistake must never depend on the seed.

Every run draws the common examples; a submission of a class gets some more that depend on its content. If a test catches a mistake at some seeds only, the
mistake needs a pinned example (`@example`) that shows it, or another test; CONTRIBUTING.md says how.
"""

from __future__ import annotations

import argparse
import time

from grader.quality.benchmarks.figures import machine
from grader.quality.devcheck.pool import PoolBroken
from grader.quality.proof.running import parsed, parser


def prove(options: argparse.Namespace) -> int:
    from grader.quality.proof.catches.counting import count_all, known_mistakes  # imported here, because it needs fork, which some systems lack

    print(f"catches: {machine()}", flush=True)
    everything = {exercise: known_mistakes(exercise, options.mistake) for exercise in options.exercises}
    total, began = sum(map(len, everything.values())), time.monotonic()
    found = []
    try:
        for exercise, counted in count_all(everything, options.seeds, options.fresh, options.jobs):
            found += [(exercise, each) for each in counted]
            for each in counted:
                if each.rate < 1:
                    print(f"✗ {exercise.name}: {each.id} is caught at {each.caught} of {each.seeds} seeds; not at {_some(each.missed)}", flush=True)
            print(f"  {len(found)} of {total} mistakes, last {exercise.name} ({time.monotonic() - began:.0f} s)", flush=True)
    except PoolBroken as problem:
        print(f"the mistakes cannot be tried: {problem}")
        return 1
    rates = [each.rate for _, each in found]
    fixed = sum(bool(each.by) for _, each in found)
    least = min(rates, default=0.0)
    print(
        f"catches: {len(found)} known mistakes: {fixed} are caught in the same way at every seed; of the other {len(found) - fixed}, tried at seeds"
        f" {options.seeds[0]} to {options.seeds[-1]}, {sum(rate < 1 for rate in rates)} are missed at some seed. The smallest catch rate is {100 * least:.4g} %."
    )
    return 0 if least == 1 and len(found) == total else 1


def _some(seeds: list[int]) -> str:
    return ", ".join(map(str, seeds[:5])) + (", …" if len(seeds) > 5 else "")


OPTIONS = parser("catches", __doc__, seeds=200)
OPTIONS.add_argument("--mistake", action="append", metavar="ID", help="only this known mistake; may be repeated")
OPTIONS.add_argument("--fresh", action="store_true", help="count again what was counted before")


def run(arguments: list[str]) -> int:
    return prove(parsed(OPTIONS, arguments))

