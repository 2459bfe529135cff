"""examples: finds the common examples that each test needs, and writes them to tests/needed_examples.toml.

All wrong code of an exercise (known mistakes, other natural ways with mistakes, trivial code, mutants, attempts of the
field test) runs on the common examples of every test. A test needs the second that is drawn (the first has the simplest
sizes, in all tests the same), and the fewest others that catch what all catch together. Code that ends or hangs the
process that tries it counts for nothing.

Run it for an exercise whose tests have changed: until then all examples of the changed tests run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from grader.course.syllabus import Exercise
from grader.files import write_whole
from grader.tests.quality.benchmarks.figures import table
from grader.tests.quality.devcheck.each_example import PINNED, USUAL, EachExampleJob, Failing
from grader.tests.quality.devcheck.pool import PoolBroken, run_jobs
from grader.tests.quality.devcheck.subjects import Subject, solution_of, subjects
from grader.tests.quality.proof.field import attempts
from grader.tests.quality.proof.mutator import mutants
from grader.tests.quality.proof.running import parsed, parser, seconds_since
from grader.verdict.needed_examples import NEEDED, format_needed_examples, needed_examples

MINUTES = 30


def wrong_code(exercise: Exercise) -> list[Subject]:
    solution = solution_of(exercise)
    known = [each for each in subjects(exercise) if each.kind in ("mistake", "base", "trivial")]
    changes = [Subject("mutant", str(each.key), each.in_chapter(solution)) for each in mutants(solution, exercise.name)]
    field = [each for each in attempts() if each.exercise == exercise.name]
    return [*known, *changes, *(Subject("attempt", each.name, f"{solution}\n\n{each.code}") for each in field)]


def needed_keys(drawn: Sequence[str], caught_by: Iterable[set[str]]) -> list[str]:
    """The usual example, and the fewest others so that one of each set is among them; in the order of `drawn`.

    A pinned example always runs, so it catches without being chosen.
    """
    chosen = {drawn[USUAL]}
    left = [keys for keys in caught_by if keys and not keys & {*chosen, PINNED}]
    while left:
        best = max(drawn, key=lambda key: sum(key in keys for keys in left))
        chosen.add(best)
        left = [keys for keys in left if best not in keys]
    return [key for key in drawn if key in chosen]


def needed_of_exercise(drawn: dict[str, list[str]], failing: Iterable[Failing | None]) -> dict[str, list[str]]:
    """The needed keys of each test that does not need all."""
    found = [each for each in failing if each is not None]
    needed = {test: needed_keys(keys, [set(each.get(test, ())) for each in found]) for test, keys in drawn.items()}
    return {test: keys for test, keys in needed.items() if len(keys) < len(drawn[test])}


def run(arguments: list[str]) -> int:
    """Write the tables of these exercises, and print their numbers."""
    options = parser("examples", __doc__)
    options.add_argument("names", nargs="*", metavar="NAME", help="exercises or chapters (default: all)")
    chosen = parsed(options, arguments)
    needed, lost, rows = dict(needed_examples()), 0, {}
    jobs = [EachExampleJob(exercise.name, tuple(wrong_code(exercise))) for exercise in chosen.exercises]
    try:
        for job, result in run_jobs(jobs, chosen.jobs):
            drawn, failing = result["drawn"], result["failing"]
            needed[job.exercise] = found = needed_of_exercise(drawn, failing)
            lost += failing.count(None)
            run_now = sum(len(found.get(test, keys)) for test, keys in drawn.items())
            rows[job.exercise] = [len(job.subjects), len(drawn), sum(map(len, drawn.values())), run_now]
            print(f"  {len(rows)} of {len(jobs)}: {job.exercise} ({seconds_since(chosen)})", flush=True)
    except PoolBroken as problem:
        sys.exit(f"the proof cannot go on: {problem}")
    finally:  # not earlier: the server ends when a file changes that verdicts depend on
        write_whole(NEEDED, format_needed_examples(needed))
    lines = [[f"`{each.name}`", *map(str, rows[each.name])] for each in chosen.exercises]
    sums = [str(sum(numbers)) for numbers in zip(*rows.values())]
    heads = ["exercise", "wrong implementations", "tests that draw several", "examples drawn", "examples needed"]
    print(table(heads, [*lines, [f"**{len(rows)}**", *sums]], words=1))
    print(f"examples: {sums[3]} of {sums[2]} needed; {lost} implementations ended or hung their process "
          f"({seconds_since(chosen)})")  # fmt: skip
    return 0
