"""After a run: writes a script for each exercise that failed, and removes those of exercises that passed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from grader.course.syllabus import EXERCISES, load_syllabus
from grader.execution.errors import ChapterBroken, HostDied, OutOfTime
from grader.execution.target import package_sources
from grader.reproduction.example import FailedExample
from grader.reproduction.files import OTHERS, remove_script, store_script
from grader.reproduction.script import Script, write_script
from grader.reproduction.slicing import choose_slice
from grader.verdict.results import ExerciseResult
from grader.verdict.trial import Trial


def leave_script(result: ExerciseResult, examples: Mapping[tuple[str, str], FailedExample], trial: Trial, folder: Path) -> None:
    """Write the script of the failed test that is shown in full, and note the command in the result."""
    name = result.exercise.name
    own = trial.target.folder == EXERCISES
    folder = folder if own else folder / OTHERS
    if not result.failures:
        if result.outcome == "passed" and not result.partial:
            remove_script(name, folder)
        return
    example = examples.get((name, result.failures[0].name))
    if example is None or trial.target.folder is None:
        remove_script(name, folder)
        return
    try:
        script = make_script(example, trial)
    except (Exception, ChapterBroken, HostDied, OutOfTime):  # a failure without a script is better than a run without a verdict
        remove_script(name, folder)
        return
    if store_script(script, name, folder):
        result.script = f"headway repro {name}" if own else f"python {os.path.relpath(folder / f'{name}.py')}"


def make_script(example: FailedExample, trial: Trial) -> Script:
    """The script of a failed example of this trial's target."""
    chapter = load_syllabus().chapter(example.exercise.chapter)
    connect = None
    if example.kind != "import":
        try:
            connect = partial(trial.connect, chapter, package_sources(trial.target, chapter, trial.whole, example.replaced))
        except ChapterBroken:
            connect = None
    chosen = choose_slice(example, connect)
    return write_script(example, chosen, trial.target, trial.whole)
