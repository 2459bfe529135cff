"""`mutants`: every small change to the reference is caught by the exercise's suite, or it is written down why it changes nothing promised.

The changes are made mechanically (`edits.py`), tried with the first failure ending it (`running.py`), what they met is kept (`kept.py`),
and the survivors are held against their explanations (`explained.py`, `explained/`).
"""

from __future__ import annotations

import argparse
import time

from grader.course.syllabus import Exercise, UnknownName, load_syllabus
from grader.quality.devcheck.pool import PoolBroken
from grader.quality.devcheck.subjects import solution_of
from grader.quality.proof.mutants.edits import mutants
from grader.quality.proof.mutants.explained import Judged, explanations, judge, strangers


def run(arguments: list[str]) -> int:
    """Print caught/total/equivalent/unexplained by exercise. 0 where every survivor is explained."""
    parser = argparse.ArgumentParser(prog="python -m grader.quality.proof mutants", description="Change the reference a little, everywhere, and see which tests notice.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="exercises or chapters (default: all)")
    parser.add_argument("--fresh", action="store_true", help="try again what was tried before")
    parser.add_argument("-j", "--processes", type=int, default=None, help="how many at a time (default: as many as there are processors)")
    options = parser.parse_args(arguments)
    from grader.quality.proof.mutants.running import try_all  # only here: it forks, and who wants to know what was found before need not be able to

    try:
        exercises = load_syllabus().chosen(options.names)
    except UnknownName as problem:
        print(problem)
        return 2
    began = time.monotonic()
    everything = {exercise: mutants(solution_of(exercise), exercise.name) for exercise in exercises}
    chapters = [chapter for chapter in load_syllabus().chapters if any(exercise.chapter == chapter.id for exercise in exercises)]
    known = {chapter.name: explanations(chapter.name) for chapter in chapters}
    lost = [sentence for chapter in chapters for sentence in strangers(chapter, known[chapter.name])]
    judged: dict[Exercise, Judged] = {}
    try:
        for exercise, met in try_all(everything, options.fresh, options.processes):
            judged[exercise] = judge(exercise, met, known[exercise.module])
    except PoolBroken as problem:
        print(f"the mutants cannot be tried: {problem}")
        return 1
    _print(exercises, judged, lost, time.monotonic() - began)
    return 0 if all(each.fine for each in judged.values()) and not lost else 1


def _print(exercises: list[Exercise], judged: dict[Exercise, Judged], lost: list[str], seconds: float) -> None:
    print(f"{'exercise':<32}{'mutants':>8}{'caught':>8}{'equivalent':>12}{'unexplained':>13}")
    chapter = ""
    for exercise in exercises:
        if exercise.chapter != chapter:
            chapter = exercise.chapter
            print(f"{chapter} {load_syllabus().chapter(chapter).title}")
        row = judged[exercise]
        print(f"  {exercise.name:<30}{row.total:>8}{row.caught:>8}{len(row.equivalent):>12}{len(row.unexplained):>13}")
    rows = list(judged.values())
    total, caught, equivalent, open_ = (sum(numbers) for numbers in zip(*((r.total, r.caught, len(r.equivalent), len(r.unexplained)) for r in rows)))
    print(f"{'all':<32}{total:>8}{caught:>8}{equivalent:>12}{open_:>13}")
    for exercise in exercises:
        for met in judged[exercise].unexplained:
            print(f"✗ {exercise.name}, line {met.mutant.number}: nothing catches `{met.mutant.edit}` in")
            print(f"    {met.mutant.line}")
    stale = [sentence for row in rows for sentence in row.stale] + lost
    for sentence in stale:
        print(f"✗ {sentence}")
    print(f"mutants: {caught} of {total} caught, {equivalent} equivalent, {open_} unexplained, in {seconds:.0f} s")
    if open_:
        print("A survivor is a law that is missing from the suite, or it keeps every promise: then say why in grader/quality/proof/mutants/explained/.")
    if stale:
        print("An explanation that explains nothing any more is to be taken out.")
