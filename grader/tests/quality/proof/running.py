"""What the proofs share: their options, and how they run their jobs."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence

from grader.course.syllabus import UnknownName, load_syllabus
from grader.tests.quality.benchmarks.figures import machine
from grader.tests.quality.devcheck.pool import PoolBroken, try_all
from grader.tests.quality.devcheck.trying import Tried, TryJob

PROGRESS_SECONDS = 60.0  # between two lines about the progress


def parser(name: str, description: str, seeds: int = 0) -> argparse.ArgumentParser:
    """The options of a proof; those about seeds if it tries so many by default."""
    prog, first_line = f"python -m grader.tests.quality.proof {name}", description.partition("\n")[0]
    parser = argparse.ArgumentParser(prog=prog, description=first_line)
    parser.set_defaults(seeds=0, first=0)
    if seeds:
        parser.add_argument("--seeds", type=int, default=seeds, metavar="N", help=f"how many seeds ({seeds})")
        parser.add_argument("--from", dest="first", type=int, default=0, metavar="SEED", help="the first seed (0)")
    parser.add_argument("--exercise", action="append", metavar="NAME", help="only this one or its chapter; repeatable")
    parser.add_argument("--jobs", "-j", type=int, default=2, metavar="N", help="how many exercises at once (2)")
    return parser


def parsed(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """The options; `exercises` are those to try, and `seeds` is a range."""
    options = parser.parse_args(arguments)
    try:
        options.exercises = load_syllabus().chosen([*(options.exercise or ()), *getattr(options, "names", ())])
    except UnknownName as problem:
        parser.error(str(problem))
    options.seeds = range(options.first, options.first + max(1, options.seeds))
    options.began = time.monotonic()
    print(f"{parser.prog.split()[-1]}: {machine()}", flush=True)
    return options


def results_of(jobs: Sequence[TryJob], options: argparse.Namespace) -> Iterator[tuple[TryJob, list[Tried]]]:
    """Each job with its results, in the order in which they end. Prints a line for each exercise that is done, or, if
    there are several seeds, for each seed; and how far it is if that takes long."""
    rows = {_row_of(job, options): [0, 0, 0] for job in jobs}  # the jobs to do, the code that was tried, and that failed
    for job in jobs:
        rows[_row_of(job, options)][0] += 1
    last, ended = time.monotonic(), 0
    try:
        for count, (job, tried) in enumerate(try_all(jobs, options.jobs), start=1):
            yield job, tried
            row = rows[_row_of(job, options)]
            row[:] = row[0] - 1, row[1] + len(tried), row[2] + sum(bool(each.failed_tests) for each in tried)
            if not row[0]:
                ended, last = ended + 1, time.monotonic()
                found = f"{row[1]} tried, {row[2]} with failed tests"
                print(f"  {ended} of {len(rows)}: {_row_of(job, options)}: {found} ({seconds_since(options)})", flush=True)
            elif time.monotonic() - last > PROGRESS_SECONDS:
                last = time.monotonic()
                print(f"  {count} of {len(jobs)} jobs ({seconds_since(options)})", flush=True)
    except PoolBroken as problem:
        sys.exit(f"the proof cannot go on: {problem}")


def _row_of(job: TryJob, options: argparse.Namespace) -> str:
    return f"seed {job.seed}" if len(options.seeds) > 1 else job.exercise


def seconds_since(options: argparse.Namespace) -> str:
    return f"{time.monotonic() - options.began:.0f} s"
