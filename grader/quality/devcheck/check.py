"""Runs invariants and trials, prints the table, and returns as its exit status whether the kit keeps its promises."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

from grader.course.known_mistakes import StaleEdit
from grader.course.source import SourceProblem
from grader.course.syllabus import Exercise, load_syllabus
from grader.files import problem
from grader.quality.devcheck import invariants
from grader.quality.devcheck.pool import PoolBroken, try_all
from grader.quality.devcheck.record import record, unchanged
from grader.quality.devcheck.subjects import subjects
from grader.quality.devcheck.table import Mutants, Row, for_a_page, for_a_terminal
from grader.quality.devcheck.trying import Tried, TryJob

SEEDS = (0, 1, 2)
TRIVIAL_SHARE = 0.1  # the largest share of an exercise's points that trivial code may earn


def run(
    names: Sequence[str] = (),
    full: bool = False,
    fresh: bool = False,
    table: bool = False,
    mutants: Callable[[Exercise], Mutants | None] = lambda exercise: None,
    changed: bool = False,
) -> int:
    """Check the whole kit, or the chapters and exercises named. 0 when every promise holds, 1 when one does not.

    `changed`: try only those that have changed since they were recorded as keeping every promise. Every result is recorded.

    `table`: standard output has only the table, as Markdown for a page; everything else is printed to standard error. Known results of the
    exercises' `mutants` fill two columns there.
    """
    began, messages_to = time.monotonic(), sys.stderr if table else sys.stdout
    exercises = load_syllabus().chosen(names)
    in_files = {exercise.name: [sentence for check in invariants.OF_AN_EXERCISE for sentence in check(exercise)] for exercise in exercises}
    problems = [*_around(exercises, everything=not names), *(sentence for sentences in in_files.values() for sentence in sentences)]
    recorded = unchanged(exercises) if changed else set()
    tried_now = [exercise for exercise in exercises if exercise.name not in recorded]
    rows = {exercise.name: Row(exercise, mutants=mutants(exercise) if table else None) for exercise in tried_now}
    jobs, stale = _jobs(tried_now, full)
    problems += stale.values()
    broken = {name for name, sentences in in_files.items() if sentences} | set(stale)
    try:
        for job, tried in try_all(jobs, fresh):
            found = [sentence for entry in tried for sentence in _problems_of(rows[job.exercise], job, entry)]
            problems += found
            broken |= {job.exercise} if found else set()
    except PoolBroken as error:
        print(f"dev-check cannot run the suites: {error}", file=messages_to)
        return 1
    _record([exercise for exercise in tried_now if exercise.name not in broken], [exercise for exercise in tried_now if exercise.name in broken])
    if rows:
        print((for_a_page if table else for_a_terminal)(list(rows.values())), flush=True)
    for sentence in dict.fromkeys(problems):
        print(f"✗ {sentence}", file=messages_to)
    word = f"{len(set(problems))} promise{'s' * (len(set(problems)) > 1)} broken" if problems else "every promise holds"
    many = f"{len(exercises)} exercise{'s' * (len(exercises) > 1)}, {'three seeds, in process and in workers' if full else 'one seed'}"
    if recorded:
        many += f"; {len(recorded)} unchanged since tests/checked.toml was written and not tried"
    print(f"dev-check: {many}: {word} ({time.monotonic() - began:.0f} s)", file=messages_to)
    if len(names) == 1 and not problems and not table:
        print(f"For changes of the reference that no test catches: python -m grader.quality.proof mutants {names[0]}", file=messages_to)
    return 1 if problems else 0


def _record(intact: list[Exercise], broken: list[Exercise]) -> None:
    try:
        record(intact, broken)
    except OSError as error:
        print(problem(error, "write tests/checked.toml"), file=sys.stderr)


def _around(exercises: list[Exercise], everything: bool):
    """What can be checked of the kit and of these exercises' chapters without running code."""
    if everything:
        for of_the_kit in invariants.OF_THE_KIT:
            yield from of_the_kit()
    for chapter in load_syllabus().chapters:
        if any(exercise.chapter == chapter.id for exercise in exercises):
            for of_a_chapter in invariants.OF_A_CHAPTER:
                yield from of_a_chapter(chapter)


def _jobs(exercises: list[Exercise], full: bool) -> tuple[list[TryJob], dict[str, str]]:
    """The jobs, and the exercises that cannot be tried, each with the reason."""
    jobs: list[TryJob] = []
    stale: dict[str, str] = {}
    for exercise in exercises:
        try:
            everything = tuple(subjects(exercise))
        except (StaleEdit, SourceProblem, ValueError) as error:
            stale[exercise.name] = f"{exercise.name}: {error}"
            continue
        for in_worker in (False, True):
            for seed in SEEDS if full else SEEDS[:1]:
                chosen = everything if full or not in_worker else tuple(s for s in everything if s.kind == "reference")
                jobs.append(TryJob(exercise.name, in_worker, seed, chosen))
    return jobs, stale


def _problems_of(row: Row, job: TryJob, tried: Tried):
    """The problems that this trial shows in the exercise's suite."""
    exercise, points = row.exercise, row.exercise.points
    at = f"(seed {job.seed}, {'in a worker' if job.in_worker else 'in process'})"
    failed = [f"{test}: {tried.messages.get(test, '')}" for test, outcome in tried.outcomes.items() if outcome not in ("passed", "todo")]
    if not tried.outcomes:
        yield f"{exercise.name}: it has no graded tests"
        return
    if tried.kind == "stub":
        row.tests = len(tried.outcomes)
        if tried.earned or set(tried.outcomes.values()) != {"todo"}:
            yield f"{exercise.name}: the stub gets {tried.earned:g} points and {sorted(set(tried.outcomes.values()))} instead of todo everywhere {at}"
    elif tried.kind == "reference":
        row.milliseconds = max(row.milliseconds, tried.milliseconds) if not job.in_worker else row.milliseconds
        if tried.earned != points or tried.forbidden:
            yield f"{exercise.name}: the reference gets {tried.earned:g} of {points:g} {at}: {'; '.join([*tried.forbidden, *failed])[:400]}"
    elif tried.kind == "variant":
        if tried.earned == points:
            row.accepted.add(tried.name)
        else:
            row.refused.add(tried.name)
            yield f"{exercise.name}: the variant `{tried.name}` is correct and gets {tried.earned:g} of {points:g} {at}: {'; '.join([*tried.forbidden, *failed])[:400]}"
    elif tried.kind == "mistake":
        row.known.add(tried.name)
        if not failed:
            row.missed.add(tried.name)
            yield f"{exercise.name}: the mistake {tried.name} is not caught {at}"
        elif tried.names != [tried.name]:
            row.unnamed.add(tried.name)
            named = "taken for " + " and ".join(tried.names) if tried.names else "not named"
            same = row.behaviours.setdefault(tuple(failed), tried.name)
            why = f"fails {failed[0][:160]}"
            if same != tried.name:
                why = f"fails the same tests with the same messages as {same}; two mistakes with the same behaviour are one"
            yield f"{exercise.name}: the mistake {tried.name} is {named} {at}; {why}"
    elif tried.kind == "base":
        true = next(subject.true_names for subject in job.subjects if (subject.kind, subject.name) == ("base", tried.name))
        if not true and tried.earned < points:
            yield f"{exercise.name}: the base {tried.name} lacks nothing, and gets {tried.earned:g} of {points:g} {at}: {'; '.join(failed)[:400]}"
        elif true and not failed:
            yield f"{exercise.name}: the base {tried.name} has {' and '.join(true)}, and no test catches it {at}"
        elif not set(tried.names) <= set(true):
            yield f"{exercise.name}: the base {tried.name} has {' and '.join(true)}, and is taken for {' and '.join(tried.names)} {at}"
    elif tried.earned > TRIVIAL_SHARE * points:
        passed = [test for test, outcome in tried.outcomes.items() if outcome == "passed"]
        yield f"{exercise.name}: `{tried.name}` is trivial code and earns {tried.earned:g} of {points:g} {at}, by {', '.join(passed)}"
