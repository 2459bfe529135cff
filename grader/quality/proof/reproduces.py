"""Runs the script of each failure, as `headway repro` does, and checks that it makes the same failure again.

For every known mistake of the chosen exercises, and for each test that fails: the script calls the learner's function, `got` is what the page shows,
and the result is still wrong. `--field` takes the freely written code of `grader/tests/field` instead. `--shown` takes only the failure that the
page shows, with the diagnosis that chooses it.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from grader.course.known_mistakes import misconceptions
from grader.course.syllabus import load_syllabus
from grader.execution.target import Target
from grader.quality.devcheck.subjects import solution_of
from grader.quality.proof.field import attempts
from grader.quality.proof.running import parsed, parser
from grader.reproduction.example import FailedExample
from grader.reproduction.files import store_script
from grader.reproduction.running import agrees, error_line, run_script, verdict_of
from grader.runner.judging import judge_of
from grader.verdict.recordings import course_recordings
from grader.verdict.replay import cache_replies, text_with_mistake
from grader.verdict.trial import Trial

SECONDS = 8.0  # for one script


@dataclass(frozen=True)
class Reproduction:
    """What became of one failure's script."""

    exercise: str
    label: str
    test: str
    kind: str  # compared, law, raised, rule, time, import; "none" without a script
    problem: str = ""  # empty if the script makes the same failure again
    script: str = ""


Case = tuple[str, str, str]  # exercise, label, the text of its chapter


def reproduce(cases: Iterable[Case], shown_only: bool = False, done: Callable[[Reproduction], None] = lambda _: None) -> list[Reproduction]:
    """Run the suite on each case, and the script of each failure; in this process."""
    found: list[Reproduction] = []
    with tempfile.TemporaryDirectory(prefix="headway-") as folder, cache_replies():
        for exercise, label, text in cases:
            for each in _reproduce(exercise, label, text, Path(folder), shown_only):
                found.append(each)
                done(each)
    return found


def _reproduce(name: str, label: str, text: str, folder: Path, shown_only: bool) -> Iterator[Reproduction]:
    exercise = load_syllabus().exercise(name)
    file = folder / f"{exercise.module}.py"
    file.write_text(text, encoding="utf-8")
    judge = judge_of(Trial(Target(str(folder), folder)), course_recordings(), scripts=folder)
    run = judge.run
    for test in judge.tests_of(exercise):
        judge.runner.run_test(test)
    if shown_only:
        run.conclude()
    result = run.results[name]
    failures = result.failures[:1] if shown_only else result.failures
    if not failures:
        yield Reproduction(name, label, "", "none", "no test failed")
    for failure in failures:
        example = run.examples.get((name, failure.name))
        if example is None:
            yield Reproduction(name, label, failure.name, "none", f"no script for: {failure.message}")
            continue
        script = store_script(example, run.trial, folder)
        problem = problem_of_script(folder / f"{name}.py", script.facts, example, file) if script else "no script makes it again"
        yield Reproduction(name, label, failure.name, example.kind, problem, script.text if script else "")
    run.trial.close()


def problem_of_script(path: Path, facts: dict[str, Any], example: FailedExample, file: Path) -> str:
    """Why this script does not make the failure again; empty if it does."""
    called = False

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal called
        called = called or (event == "call" and frame.f_code.co_filename == str(file) and frame.f_code.co_name != "<module>")

    sys.setprofile(profile)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            run = run_script(path, SECONDS)
            verdict = verdict_of(run, facts)
    finally:
        sys.setprofile(None)
    said = f" ({error_line(run.error)})" if run.error else ""
    if verdict != "wrong":
        return f"the script's result is {verdict}{said}"
    if example.kind == "compared" and (run.error or not agrees(run.space.get("got"), example.got, None)):
        return f"the script's got is not the page's{said}"
    if not called and example.kind not in ("import", "rule") and "__init__" not in example.sentence:
        return "the learner's code did not run"
    return ""


def known_mistakes(names: Iterable[str]) -> Iterator[Case]:
    for name in names:
        exercise = load_syllabus().exercise(name)
        for mistake in misconceptions(exercise.module, name):
            yield name, mistake.id, text_with_mistake(exercise.module, mistake)


def field_attempts(names: Iterable[str]) -> Iterator[Case]:
    chosen = set(names)
    for attempt in attempts():
        if attempt.exercise in chosen:
            yield attempt.exercise, attempt.name, f"{solution_of(load_syllabus().exercise(attempt.exercise))}\n\n{attempt.code}"


def run(arguments: list[str]) -> int:
    options = parser("reproduces", __doc__ or "", 1)
    options.add_argument("--shown", action="store_true", help="only the failure that the page shows, with the diagnosis")
    options.add_argument("--field", action="store_true", help="the freely written code instead of the known mistakes")
    options.add_argument("--verbose", action="store_true", help="print the scripts that fail")
    chosen = parsed(options, arguments)
    counts: Counter[tuple[str, bool]] = Counter()
    out = sys.stdout

    def done(each: Reproduction) -> None:
        counts[each.kind, not each.problem] += 1
        if each.problem:
            print(f"{each.exercise} {each.label} {each.test}: {each.problem}", file=out, flush=True)
            if chosen.verbose:
                print(each.script, file=out, flush=True)

    cases = field_attempts if chosen.field else known_mistakes
    reproduce(cases(exercise.name for exercise in chosen.exercises), chosen.shown, done)
    for kind in sorted({kind for kind, _ in counts}):
        print(f"{kind:<10} {counts[kind, True]:>5} of {counts[kind, True] + counts[kind, False]} reproduce", file=out)
    return int(any(not fine for _, fine in counts))
