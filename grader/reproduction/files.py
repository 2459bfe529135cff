"""The scripts of failures in exercises/.headway/repro, with the larger tensors and facts next to them."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from grader.course.syllabus import EXERCISES
from grader.execution.errors import ChapterBroken, HostDied, OutOfTime
from grader.files import write_whole
from grader.reproduction.example import FailedExample
from grader.reproduction.running import agrees, run_script, verdict_of
from grader.reproduction.script import Script, choices_of_requests, write_script
from grader.verdict.results import ExerciseResult
from grader.verdict.trial import Trial

FOLDER = EXERCISES / ".headway" / "repro"
OTHER_TARGETS = "others"  # the folder in that one with the scripts of code in other folders (pytest --target)
TRY_SECONDS = 2.0  # for one script, before it is left


@dataclass(frozen=True)
class StoredScript:
    path: Path
    facts: dict[str, Any]


def write_repro_script(
    result: ExerciseResult, examples: Mapping[tuple[str, str], FailedExample], trial: Trial, folder: Path
) -> None:
    """After a run: store the script of the failed test that is shown in full, and note its command in the result."""
    name, own = result.exercise.name, trial.target.folder == EXERCISES
    folder = folder if own else folder / OTHER_TARGETS
    if not result.failures and (result.outcome != "passed" or result.partial):
        return
    example = examples.get((name, result.failures[0].name)) if result.failures else None
    try:
        if example is not None and trial.target.folder is not None and store_script(example, trial, folder):
            result.script = f"headway repro {name}" if own else f"python {os.path.relpath(folder / f'{name}.py')}"
            return
    # a failure without a script is better than a run without a verdict
    except (Exception, ChapterBroken, HostDied, OutOfTime):
        pass
    _remove_script(name, folder)


def store_script(example: FailedExample, trial: Trial, folder: Path) -> Script | None:
    """Store the shortest script that makes the failure again, and return it; None if no script makes the failure.

    A call that ended its process or its time is not tried, nor is code that runs in a worker.
    """
    path = folder / f"{example.exercise.name}.py"
    tries = choices_of_requests(example)
    can_try = not (trial.in_worker or example.unanswered or example.kind == "import")
    for places in tries if can_try else tries[:2][-1:]:
        script = write_script(example, places, trial)
        stream = io.BytesIO()
        torch.save({"saved": script.saved, "facts": script.facts}, stream)
        write_whole(path.with_suffix(".pt"), stream.getvalue())
        write_whole(path, script.text)
        if not can_try or _fails_again(path, script, example):
            return script
    return None


def _fails_again(path: Path, script: Script, example: FailedExample) -> bool:
    with _undisturbed():
        run = run_script(path, TRY_SECONDS)
        same = example.kind != "compared" or agrees(run.space.get("got"), example.got, None)
        return same and verdict_of(run, script.facts) == "wrong"


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """The code prints nothing, and no debugger starts."""
    hook = sys.breakpointhook
    sys.breakpointhook = lambda *_, **__: None
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        sys.breakpointhook = hook


def _remove_script(name: str, folder: Path) -> None:
    for suffix in (".py", ".pt"):
        with contextlib.suppress(OSError):
            (folder / f"{name}{suffix}").unlink(missing_ok=True)


def stored_script(name: str, folder: Path = FOLDER) -> StoredScript | None:
    """The script of this exercise, if there is one."""
    path = folder / f"{name}.py"
    if not path.is_file():
        return None
    try:
        facts = torch.load(path.with_suffix(".pt"), weights_only=True)["facts"]
    except Exception:  # missing, damaged, or of an earlier version
        facts = {}
    return StoredScript(path, facts)


def last_script(folder: Path = FOLDER) -> StoredScript | None:
    """The newest script."""
    paths = sorted(folder.glob("*.py"), key=lambda path: path.stat().st_mtime) if folder.is_dir() else []
    return stored_script(paths[-1].stem, folder) if paths else None
