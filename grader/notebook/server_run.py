"""Runs the graded tests of the files in a process of their own, as `headway check` does."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

from grader.course.syllabus import Chapter, Exercise
from grader.processes.client import DOCTOR, AnyServer, NoServer
from grader.processes.job import CheckJob, retry_sentence
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


def run_tests(found: Exercise | Chapter, columns: int) -> tuple[Verdict, str]:
    """The verdict on the learner's file, and the page that `headway check` prints; NoVerdict where the tests could not
    run."""
    job = CheckJob(found.id if isinstance(found, Chapter) else found.name, os.getcwd(), columns)
    try:
        with _one_at_a_time:
            return _collected(_server.answers(job))
    except NoServer as problem:
        raise NoVerdict(str(problem) or f"the tests could not be run; {DOCTOR}") from None
    except KeyboardInterrupt:
        raise Stopped from None


def _collected(messages: Iterator[dict[str, Any]]) -> tuple[Verdict, str]:
    verdict, text = None, ""
    for message in messages:
        match message:
            case {"text": piece}:
                text += piece
            case {"again": why}:
                text = f"{retry_sentence(why)}\n"
            case {"restarted": sentence}:
                text = f"{sentence}\n"
            case {"verdict": data}:
                verdict = Verdict.from_data(data)
            case {"trouble": sentence}:
                raise NoVerdict(sentence)
    if not verdict:
        raise NoVerdict(f"the process that ran the tests has ended; {DOCTOR}")
    return verdict, text
