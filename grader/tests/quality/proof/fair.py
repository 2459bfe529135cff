"""fair: runs three honest courses and the reference at twenty seeds, in process and in a worker, for full marks.

The courses are in grader/tests/honest/, one folder for each style. Every chapter uses the course's own earlier
chapters, not the reference's. A course may lack exercises; the reference's replace them, so a new exercise needs no
new code there. A test that fails the reference at one seed is flaky.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Collection
from pathlib import Path

from grader.counts import format_count
from grader.course.chapter_source import bound_names, imported_names
from grader.course.source import definition, find_definition, module_names, read_source
from grader.course.syllabus import ROOT, SOLUTIONS, load_syllabus
from grader.execution.names_used import closure, names_used
from grader.tests.quality.benchmarks.figures import table
from grader.tests.quality.devcheck.subjects import Subject
from grader.tests.quality.devcheck.trying import Tried, TryJob
from grader.tests.quality.proof.running import parsed, parser, results_of, seconds_since

MINUTES = 110

HONEST = ROOT / "grader" / "tests" / "honest"
WHERE = {False: "in process", True: "in a worker"}  # in_worker → words for the table


def styles() -> dict[str, dict[str, str]]:
    """Style → chapter → text."""
    folders = sorted({path.parent for path in HONEST.glob("*/ch*.py")})
    return {folder.name: _chapters(folder) for folder in folders}


def _chapters(folder: Path) -> dict[str, str]:
    return {path.stem: with_missing_exercises(path.stem, read_source(path)) for path in sorted(folder.glob("ch*.py"))}


def with_missing_exercises(module: str, text: str) -> str:
    """The chapter's text, and the reference's definition of each exercise that it lacks, with all that this uses.

    What the text uses without defining it, such as a function that the stub gives, is the reference's too.
    """
    exercises = load_syllabus().chapter(module).exercises
    solution = read_source(SOLUTIONS / f"{module}.py")
    names, own = names_used(solution), module_names(text)
    missing = [exercise.name for exercise in exercises if find_definition(text, exercise.name) is None]
    read = frozenset[str]().union(*names_used(text).used.values())
    missing += [name for name in names.statements if name in read - own and name not in missing]
    if not missing:
        return text
    needed = {names.statements[name] for name in closure(names, missing, without=own, written=True)}
    words = {word for statement in needed for word in names.written[statement]} - own
    imports = [each for each in names.used if isinstance(each, ast.Import | ast.ImportFrom)]
    lines = sorted({line for statement in imports for line in _imports_of(statement, words)})
    chosen = [min(bound_names(each)) for each in names.used if each in needed]
    definitions = [definition(solution, name).text.rstrip("\n") for name in chosen]
    return "\n\n\n".join([text.rstrip("\n"), *(["\n".join(lines)] if lines else []), *definitions]) + "\n"


def _imports_of(statement: ast.Import | ast.ImportFrom, names: Collection[str]) -> list[str]:
    """The statement for each of these names alone, so that it imports nothing that the course defines itself."""
    found = [alias for alias, name in zip(statement.names, imported_names(statement)) if name in names]
    if isinstance(statement, ast.Import):
        return [ast.unparse(ast.Import([alias])) for alias in found]
    return [ast.unparse(ast.ImportFrom(statement.module, [alias], statement.level)) for alias in found]


def run(arguments: list[str]) -> int:
    options = parser("fair", __doc__, seeds=20)
    options.add_argument("--style", action="append", metavar="NAME", help="only this course; may be repeated")
    chosen = parsed(options, arguments)
    courses = styles() | {"reference": {path.stem: read_source(path) for path in SOLUTIONS.glob("ch*.py")}}
    names, exercises = chosen.style or list(courses), {exercise.name: exercise for exercise in chosen.exercises}
    if unknown := [name for name in names if name not in courses]:
        print(f"there is no {unknown[0]} course in {HONEST}; there are {', '.join(courses)}", file=sys.stderr)
        return 2
    modules = dict.fromkeys(exercise.module for exercise in chosen.exercises)
    problems = [f"{style} has no {module}.py" for style in names for module in modules if module not in courses[style]]
    subjects = {module: tuple(_subject(style, module, courses[style]) for style in names) for module in modules}
    jobs = [
        TryJob(exercise.name, in_worker, seed, subjects[exercise.module])
        for seed in chosen.seeds for in_worker in WHERE for exercise in chosen.exercises
    ]  # fmt: skip
    for sentence in problems:
        print(f"✗ {sentence}")
    short: set[tuple[str, int, bool]] = set()  # runs that lack points
    for job, results in results_of(jobs, chosen):
        for tried in results:
            if words := _shortfall(tried, exercises[job.exercise].points):
                short.add((tried.name, job.seed, job.in_worker))
                print(f"✗ {tried.name}, seed {job.seed}, {WHERE[job.in_worker]}: {job.exercise}: {words}", flush=True)
    runs = len(chosen.seeds)
    lacking = Counter((style, place) for style, _, place in short)
    full = {(style, place): runs - lacking[style, place] for style in names for place in WHERE}
    rows = [[style, WHERE[place], str(runs), str(count)] for (style, place), count in full.items()]
    print("\n" + table(["style", "where", "runs", "full marks"], rows, words=2))
    what = f"{len(names)} courses, {format_count(len(exercises), 'exercise')}"
    what += f", seeds {chosen.seeds[0]} to {chosen.seeds[-1]}, in process and in workers"
    found = f"{sum(full.values())} of {len(full) * runs} runs earned full marks"
    print(f"\nfair: {what}: {found} ({seconds_since(chosen)}).")
    return int(bool(problems or short))


def _subject(style: str, module: str, course: dict[str, str]) -> Subject:
    """The course up to this chapter, which cannot use later ones."""
    until = {name: text for name, text in course.items() if name <= module}
    return Subject("course", style, course.get(module, ""), course=until)


def _shortfall(tried: Tried, points: float) -> str:
    """Why an exercise did not get all of its points, in a line or two; empty if it did."""
    if tried.outcome == "passed" and tried.earned == points:
        return ""
    failed = []
    for test, message in tried.failed_tests.items():
        failed.append(f"{test} ({tried.outcomes[test]}): {' '.join(message.split())[:300]}")
    return "; ".join(tried.forbidden) or f"{tried.earned:g} of {points:g} points; {'; '.join(failed)}"
