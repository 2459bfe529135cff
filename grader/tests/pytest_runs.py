"""Real runs of pytest on small targets, as a learner or an instructor starts them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import forked_python
from grader.course.syllabus import ROOT, SOLUTIONS, load_syllabus
from grader.tests.quality.benchmarks.workplace import solved_chapter

QUICK = """
import pytest
import grader.runner.graded_run

@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    from grader.plugin.hooks import RUN
    config.stash[RUN].trial.import_seconds = 4.0
    config.stash[RUN].trial.call_seconds = 0.7
    if not config.option.worker:  # diagnosed once, in the run in a worker
        grader.runner.graded_run.diagnose = lambda *_: None
"""


@dataclass(frozen=True)
class Run:
    status: int
    out: str
    results_file: Path

    @cached_property
    def results(self) -> dict:
        return json.loads(self.results_file.read_text(encoding="utf-8"))

    def exercise(self, name: str) -> dict:
        return next(exercise for exercise in self.results["exercises"] if exercise["name"] == name)

    def timeless(self) -> dict:
        """The results without what a clock measured."""
        copy = json.loads(json.dumps(self.results))
        for exercise in copy["exercises"]:
            for test in exercise["tests"]:
                test["seconds"] = 0
        return copy


def environment(**more: str) -> dict[str, str]:
    dropped = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TTY_COMPATIBLE", "PYTEST_ADDOPTS", "PY_COLORS")
    variables = {name: value for name, value in os.environ.items() if name not in dropped and not name.startswith("PYTEST_")}
    return variables | {"PYTHONIOENCODING": "utf-8", "TERM": "xterm-256color", "COLUMNS": "80"} | more


def grade(*arguments: str, results: Path | None = None, cwd: Path = ROOT, quick: Path | None = None, **more: str) -> Run:
    """`python -m pytest ARGUMENTS`; `quick` is a folder for a plugin that shortens the time limits."""
    command = list(arguments)
    if results:
        command.append(f"--results={results}")
    if quick:
        (quick / "headway_quick.py").write_text(QUICK)
        command += ["-p", "headway_quick"]
        more["PYTHONPATH"] = os.pathsep.join([str(quick), str(ROOT)])
    done = forked_python.run("pytest", command, cwd, environment(**more), merged=True)
    return Run(done.returncode, done.stdout.decode("utf-8", "replace"), results or Path())


def solution(chapter: str) -> str:
    """A chapter as a learner who has everything right would have it."""
    return solved_chapter(module(chapter))


def module(chapter: str) -> str:
    return load_syllabus().chapter(chapter).name


def graded_exercises() -> list:
    """Those of chapters that are written."""
    return [exercise for exercise in load_syllabus().exercises if (SOLUTIONS / f"{exercise.module}.py").is_file()]
