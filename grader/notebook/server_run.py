"""Runs the graded tests of the files in a process of their own, as `headway check` does."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

from grader.course.syllabus import Chapter, Exercise
from grader.notebook.shell import notebook_shell
from grader.processes.client import DOCTOR, AnyServer, NoServer
from grader.processes.job import CheckJob
from grader.verdict.summary import Verdict

# without a watch it starts one that lives as long as the notebook, so that only the first check waits until torch is
# loaded
_server = AnyServer()
_one_at_a_time = threading.Lock()


class NoVerdict(Exception):
    """There is no verdict; the message says why, in one sentence."""


class Stopped(KeyboardInterrupt):
    """The learner pressed the stop button; a notebook shows one line instead of a traceback."""

    def _render_traceback_(self) -> list[str]:
        return ["The check was stopped."]


def run_tests(found: Exercise | Chapter) -> Verdict:
    """The verdict on the learner's file; NoVerdict where the tests could not run."""
    job = CheckJob(found.id if isinstance(found, Chapter) else found.name, os.getcwd())
    try:
        with _one_at_a_time:
            verdict = _verdict(_server.answers(job))
    except NoServer as problem:
        raise NoVerdict(str(problem) or f"the tests could not be run; {DOCTOR}") from None
    except KeyboardInterrupt:
        raise Stopped from None
    if notebook_shell() is not None:
        for result in verdict.results:
            result.script = result.script and f'repro("{result.exercise.name}")'
    return verdict


def _verdict(messages: Iterator[dict[str, Any]]) -> Verdict:
    verdict: Verdict | None = None
    for message in messages:
        match message:
            case {"verdict": data}:
                verdict = Verdict.from_data(data)
            case {"trouble": sentence}:
                raise NoVerdict(sentence)
    if not verdict:
        raise NoVerdict(f"the process that ran the tests has ended; {DOCTOR}")
    return verdict
