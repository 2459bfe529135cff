"""reproduces: runs the script of each failure, as `headway repro` does: it must make the same failure again.

For every known mistake of the chosen exercises, and for each test that fails: the script calls the learner's function,
`got` is what the page shows, and the result is still wrong.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from grader.course.syllabus import Exercise
from grader.execution.target import Target
from grader.quality.devcheck.subjects import mistakes, solution_of
from grader.quality.proof.field import attempts
from grader.quality.proof.running import parsed, parser
from grader.reproduction.example import FailedExample
from grader.reproduction.files import store_script
from grader.reproduction.running import agrees, error_line, run_script, verdict_of
from grader.runner.judging import judge_of
from grader.verdict.recordings import course_recordings
from grader.verdict.replay import cache_replies
from grader.verdict.trial import Trial

SCRIPT_SECONDS = 8.0


@dataclass(frozen=True)
class Reproduction:
    """What became of one failure's script."""

    test: str
    kind: str  # compared, law, raised, rule, time, import; "none" without a script
    problem: str = ""  # empty if the script makes the same failure again
    script: str = ""


def reproduce(exercise: Exercise, text: str, folder: Path, shown_only: bool) -> Iterator[Reproduction]:
    """Run the suite on this text of the chapter, and the script of each failure."""
    name, file = exercise.name, folder / f"{exercise.module}.py"
    file.write_text(text, encoding="utf-8")
    judge = judge_of(Trial(Target(str(folder), folder)), course_recordings(), scripts=folder)
    run = judge.run
    for test in judge.tests_of(exercise):
        judge.runner.run_test(test)
    if shown_only:
        run.conclude()
    failures = run.results[name].failures[: 1 if shown_only else None]
    if not failures:
        yield Reproduction("", "none", "no test failed")
    for failure in failures:
        example = run.examples.get((name, failure.name))
        if example is None:
            yield Reproduction(failure.name, "none", f"no script for: {failure.message}")
            continue
        script = store_script(example, run.trial, folder)
        problem = (
            problem_of_script(folder / f"{name}.py", script.facts, example, file)
            if script
            else "no script makes it again"
        )
        yield Reproduction(failure.name, example.kind, problem, script.text if script else "")
    run.trial.close()


def problem_of_script(path: Path, facts: dict[str, Any], example: FailedExample, file: Path) -> str:
    """Why this script does not make the failure again; empty if it does."""
    called = False

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal called
        code = frame.f_code
        called = called or (event == "call" and code.co_filename == str(file) and code.co_name != "<module>")

    sys.setprofile(profile)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            run = run_script(path, SCRIPT_SECONDS)
            verdict = verdict_of(run, facts)
    finally:
        sys.setprofile(None)
    error = f" ({error_line(run.error)})" if run.error else ""
    if verdict != "wrong":
        return f"the script's result is {verdict}{error}"
    if example.kind == "compared" and (run.error or not agrees(run.space.get("got"), example.got, None)):
        return f"the script's got is not the page's{error}"
    if not called and example.kind not in ("import", "rule") and "__init__" not in example.sentence:
        return "the learner's code did not run"
    return ""


def cases_of(exercise: Exercise, from_field: bool) -> Iterator[tuple[str, str]]:
    """The wrong code to run, each with its name: the text of its chapter."""
    if from_field:
        for attempt in attempts():
            if attempt.exercise == exercise.name:
                yield attempt.name, f"{solution_of(exercise)}\n\n{attempt.code}"
    else:
        yield from ((mistake.name, mistake.text) for mistake in mistakes(exercise))


def run(arguments: list[str]) -> int:
    options = parser("reproduces", __doc__, jobs=False)
    options.add_argument("--shown", action="store_true", help="only the failure that the page shows")
    options.add_argument("--field", action="store_true", help="freely written code instead of the known mistakes")
    options.add_argument("--verbose", action="store_true", help="print the scripts that fail")
    chosen = parsed(options, arguments)
    counts: Counter[tuple[str, bool]] = Counter()
    with tempfile.TemporaryDirectory(prefix="headway-") as folder, cache_replies():
        for exercise in chosen.exercises:
            for label, text in cases_of(exercise, chosen.field):
                for each in reproduce(exercise, text, Path(folder), chosen.shown):
                    counts[each.kind, not each.problem] += 1
                    if each.problem:
                        print(f"{exercise.name} {label} {each.test}: {each.problem}", flush=True)
                        print(each.script if chosen.verbose else "", end="", flush=True)
    for kind in sorted({kind for kind, _ in counts}):
        print(f"{kind:<10} {counts[kind, True]:>5} of {counts[kind, True] + counts[kind, False]} reproduce")
    return int(any(not fine for _, fine in counts))
