"""Checks files and tries suites, prints the table, and returns whether the kit keeps its promises."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from grader.counts import format_count
from grader.course.known_mistakes import StaleEdit
from grader.course.source import SourceProblem
from grader.course.syllabus import Exercise, load_syllabus
from grader.tests.quality.benchmarks.figures import table
from grader.tests.quality.devcheck import invariants
from grader.tests.quality.devcheck.pool import PoolBroken, try_all
from grader.tests.quality.devcheck.subjects import subjects
from grader.tests.quality.devcheck.trying import Tried, TryJob

SEEDS = (0, 1, 2)
MAX_TRIVIAL_SHARE = 0.1  # of an exercise's points


@dataclass
class Row:
    """One exercise's line in the table. The sets have names for which something was seen at some seed."""

    exercise: Exercise
    tests: int = 0
    known: set[str] = field(default_factory=set)
    missed: set[str] = field(default_factory=set)
    unnamed: set[str] = field(default_factory=set)
    behaviours: dict[tuple[str, ...], str] = field(default_factory=dict)  # failures → the first mistake with them
    tried: set[str] = field(default_factory=set)  # variants
    refused: set[str] = field(default_factory=set)
    milliseconds: float = 0.0

    @property
    def numbers(self) -> tuple[int, ...]:
        """Number of tests; of mistakes known, caught and named; of variants tried and accepted."""
        known, tried = len(self.known), len(self.tried)
        caught, named = known - len(self.missed), known - len(self.missed | self.unnamed)
        return self.tests, known, caught, named, tried, tried - len(self.refused)


def run(names: Sequence[str] = (), full: bool = False, tenth: int = 0) -> int:
    """Check the whole kit, or the chapters and exercises named. 0 when every promise holds, 1 when one does not.

    `tenth`: 1 to 10 tries only this tenth of each exercise's known mistakes.
    """
    began = time.monotonic()
    exercises = load_syllabus().chosen(names)
    problems = [*_around(exercises, everything=not names)]
    problems += [sentence for exercise in exercises for sentence in invariants.of_exercise(exercise)]
    rows = {exercise.name: Row(exercise) for exercise in exercises if not any(invariants.missing_files(exercise))}
    jobs, stale = _jobs([row.exercise for row in rows.values()], full, tenth)
    problems += stale
    try:
        for job, tried in try_all(jobs):
            row, name = rows[job.exercise], job.exercise
            problems += [f"{name}: {sentence}" for entry in tried for sentence in _problems_of(row, job, entry)]
    except PoolBroken as error:
        print(f"dev-check cannot run the suites: {error}")
        return 1
    if rows:
        print(_table(list(rows.values())), flush=True)
    for exercise in exercises:
        for sentence in invariants.missing_extras(exercise):
            print(f"· {sentence}")
    for sentence in dict.fromkeys(problems):  # last: of a long run only the end may be kept
        print(f"✗ {sentence}")
    count = len(set(problems))
    verdict = f"{format_count(count, 'promise')} broken" if count else "every promise holds"
    seeds = "three seeds, in process and in workers" if full else "one seed"
    seeds += f", tenth {tenth} of the known mistakes" if tenth else ""
    what = f"{format_count(len(exercises), 'exercise')}, {seeds}"
    print(f"dev-check: {what}: {verdict} ({time.monotonic() - began:.0f} s)")
    return 1 if problems else 0


def _table(rows: list[Row]) -> str:
    heads = ["exercise", "tests", "known mistakes caught", "and named", "correct variants accepted", "milliseconds"]
    lines = []
    for chapter in load_syllabus().chapters:
        if of_chapter := [row for row in rows if row.exercise.chapter == chapter.id]:
            lines.append(_line(f"**{chapter.id} {chapter.title}**", of_chapter))
            lines += [_line(f"`{row.exercise.name}`", [row]) for row in of_chapter]
    lines.append(_line(f"**{format_count(len(rows), 'exercise')}**", rows))
    return table(heads, lines, words=1)


def _line(name: str, rows: list[Row]) -> list[str]:
    tests, known, caught, named, tried, accepted = (sum(numbers) for numbers in zip(*(row.numbers for row in rows)))
    milliseconds = sum(row.milliseconds for row in rows)
    shares = [f"{caught}/{known}", f"{named}/{known}", f"{accepted}/{tried}"]
    return [name, str(tests), *shares, f"{milliseconds:.0f}"]


def _around(exercises: list[Exercise], everything: bool) -> Iterator[str]:
    """What can be checked of the kit and of these exercises' chapters without running code."""
    if everything:
        yield from invariants.of_kit()
    for chapter in load_syllabus().chapters:
        if any(exercise.chapter == chapter.id for exercise in exercises):
            yield from invariants.of_chapter(chapter)


def _jobs(exercises: list[Exercise], full: bool, tenth: int) -> tuple[list[TryJob], list[str]]:
    """The jobs, and why an exercise cannot be tried."""
    jobs: list[TryJob] = []
    stale: list[str] = []
    for exercise in exercises:
        try:
            everything = tuple(subjects(exercise, tenth))
        except (StaleEdit, SourceProblem, ValueError) as error:
            stale.append(f"{exercise.name}: {error}")
            continue
        reference = tuple(subject for subject in everything if subject.kind == "reference")
        for seed in SEEDS if full else SEEDS[:1]:
            jobs.append(TryJob(exercise.name, False, seed, everything))
            jobs.append(TryJob(exercise.name, True, seed, everything if full else reference))
    return jobs, stale


def _problems_of(row: Row, job: TryJob, tried: Tried) -> Iterator[str]:
    """The problems that this trial shows in the exercise's suite."""
    at = f"(seed {job.seed}, {'in a worker' if job.in_worker else 'in process'})"
    points, failed = row.exercise.points, [f"{test}: {message}" for test, message in tried.failed_tests.items()]
    why = "; ".join([*tried.forbidden, *failed])[:400]
    gets = f"gets {tried.earned:g} of {points:g} {at}: {why}"
    match tried.kind:
        case "stub":
            row.tests, outcomes = len(tried.outcomes), sorted(set(tried.outcomes.values()))
            if tried.earned or outcomes != ["todo"]:
                yield f"the stub gets {tried.earned:g} points and {outcomes} instead of todo everywhere {at}"
        case "reference":
            row.milliseconds = row.milliseconds if job.in_worker else max(row.milliseconds, tried.milliseconds)
            if tried.earned != points or tried.forbidden:
                yield f"the reference {gets}"
        case "variant":
            row.tried.add(tried.name)
            if tried.earned != points:
                row.refused.add(tried.name)
                yield f"the variant `{tried.name}` is correct and {gets}"
        case "mistake":
            row.known.add(tried.name)
            if not failed:
                row.missed.add(tried.name)
                again = f"`python -m grader.tests.quality.proof examples {row.exercise.name}`"
                yield f"the mistake {tried.name} is not caught {at}; {again} chooses again which examples run"
            elif tried.names != [tried.name]:
                row.unnamed.add(tried.name)
                named = f"taken for {' and '.join(tried.names)}" if tried.names else "not named"
                same = row.behaviours.setdefault(tuple(failed), tried.name)
                why = f"fails {failed[0][:160]}"
                if same != tried.name:
                    why = f"fails the same tests with the same messages as {same}, so they are one mistake"
                yield f"the mistake {tried.name} is {named} {at}; {why}"
        case "base":
            true = next(each.true_names for each in job.subjects if (each.kind, each.name) == ("base", tried.name))
            has = f"the base {tried.name} has {' and '.join(true)}, and"
            if not true and tried.earned < points:
                yield f"the base {tried.name} lacks nothing, and {gets}"
            elif true and not failed:
                yield f"{has} no test catches it {at}"
            elif not set(tried.names) <= set(true):
                yield f"{has} is taken for {' and '.join(tried.names)} {at}"
        case "trivial" if tried.earned > MAX_TRIVIAL_SHARE * points:
            passed = [test for test, outcome in tried.outcomes.items() if outcome == "passed"]
            earns = f"earns {tried.earned:g} of {points:g}"
            yield f"`{tried.name}` is trivial code and {earns} {at}, by {', '.join(passed)}"
