"""`mutants`: checks that every small change to the reference is caught by the exercise's suite, or that a written explanation says why it breaks no promise.

The changes are made mechanically (`edits.py`) and tried until the first failure (`running.py`); the results are stored (`stored.py`),
and the survivors are compared with their explanations (`explained.py`, `explained/`).
"""

from __future__ import annotations

import argparse
import time

from grader.course.syllabus import Exercise, UnknownName, load_syllabus
from grader.quality.devcheck.pool import PoolBroken
from grader.quality.devcheck.subjects import solution_of
from grader.quality.proof.mutants.edits import mutants
from grader.quality.proof.mutants.explained import Classified, classify, explanations, misplaced_explanations


def run(arguments: list[str]) -> int:
    """Print the numbers total, caught, equivalent and unexplained for each exercise. Returns 0 if every survivor is explained."""
    parser = argparse.ArgumentParser(prog="python -m grader.quality.proof mutants", description="Change the reference a little, everywhere, and see which tests notice.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="exercises or chapters (default: all)")
    parser.add_argument("--fresh", action="store_true", help="try again what was tried before")
    parser.add_argument("-j", "--processes", type=int, default=None, help="how many at a time (default: as many as there are processors)")
    options = parser.parse_args(arguments)
    from grader.quality.proof.mutants.running import try_all  # imported here, because it needs fork, and reading stored results does not

    try:
        exercises = load_syllabus().chosen(options.names)
    except UnknownName as problem:
        print(problem)
        return 2
    began = time.monotonic()
    everything = {exercise: mutants(solution_of(exercise), exercise.name) for exercise in exercises}
    chapters = [chapter for chapter in load_syllabus().chapters if any(exercise.chapter == chapter.id for exercise in exercises)]
    known = {chapter.name: explanations(chapter.name) for chapter in chapters}
    misplaced = [sentence for chapter in chapters for sentence in misplaced_explanations(chapter, known[chapter.name])]
    classified: dict[Exercise, Classified] = {}
    try:
        for exercise, results in try_all(everything, options.fresh, options.processes):
            classified[exercise] = classify(exercise, results, known[exercise.module])
    except PoolBroken as problem:
        print(f"the mutants cannot be tried: {problem}")
        return 1
    _print(exercises, classified, misplaced, time.monotonic() - began)
    return 0 if all(each.fine for each in classified.values()) and not misplaced else 1


def _print(exercises: list[Exercise], classified: dict[Exercise, Classified], misplaced: list[str], seconds: float) -> None:
    print(f"{'exercise':<32}{'mutants':>8}{'caught':>8}{'equivalent':>12}{'unexplained':>13}")
    chapter = ""
    for exercise in exercises:
        if exercise.chapter != chapter:
            chapter = exercise.chapter
            print(f"{chapter} {load_syllabus().chapter(chapter).title}")
        row = classified[exercise]
        print(f"  {exercise.name:<30}{row.total:>8}{row.caught:>8}{len(row.equivalent):>12}{len(row.unexplained):>13}")
    rows = list(classified.values())
    total, caught, equivalent, open_ = (sum(numbers) for numbers in zip(*((r.total, r.caught, len(r.equivalent), len(r.unexplained)) for r in rows)))
    print(f"{'all':<32}{total:>8}{caught:>8}{equivalent:>12}{open_:>13}")
    for exercise in exercises:
        for result in classified[exercise].unexplained:
            print(f"✗ {exercise.name}, line {result.mutant.number}: nothing catches `{result.mutant.edit}` in")
            print(f"    {result.mutant.line}")
    stale = [sentence for row in rows for sentence in row.stale] + misplaced
    for sentence in stale:
        print(f"✗ {sentence}")
    print(f"mutants: {caught} of {total} caught, {equivalent} equivalent, {open_} unexplained, in {seconds:.0f} s")
    if open_:
        print("Add the test that is missing; or, if the mutant keeps every promise, explain why in grader/quality/proof/mutants/explained/.")
    if stale:
        print("Delete the explanations that no longer explain a survivor.")
