"""Tries mutants on the suites of their exercises, each in a process forked from one that has loaded everything, until the first test fails."""

from __future__ import annotations

import contextlib
import gc
import json
import math
import os
import resource
import select
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import Phase, settings

from ... import plugin, trial
from ...devcheck.pool import spread
from ...devcheck.subjects import solution_of
from ...graded import GradedRun
from ...syllabus import TESTS, Exercise, load_syllabus
from ...target import Target
from ...trial import Trial
from ...warm.held import ARGUMENTS, warm
from ...warm.limits import be_silent, limit_this_process
from .edits import Mutant
from .kept import SURVIVED, Met, keep, kept

SEED = 0
PROCESSOR_SECONDS = 2  # a mutant that goes on for ever is caught after so long, and three times what the reference takes
CLOCK_SECONDS = 600.0  # and one that waits for ever after so long; on a busy machine the clock says little
PIECE = 30  # mutants that a process is handed at a time


@dataclass(frozen=True)
class Piece:
    exercise: str
    mutants: tuple[Mutant, ...]


def try_all(everything: dict[Exercise, list[Mutant]], fresh: bool = False, processes: int | None = None) -> Iterator[tuple[Exercise, list[Met]]]:
    """Each exercise with what its mutants met, as it comes; from what is kept where nothing it depends on has changed."""
    left: dict[str, int] = {}
    met: dict[str, list[Met]] = {}
    pieces: list[Piece] = []
    by_name = {exercise.name: exercise for exercise in everything}
    for exercise, mutants in everything.items():
        before = None if fresh else kept(exercise, mutants)
        if before is not None:
            yield exercise, before
            continue
        cut = [Piece(exercise.name, tuple(mutants[start : start + PIECE])) for start in range(0, len(mutants), PIECE)]
        left[exercise.name], met[exercise.name] = len(cut), []
        pieces += cut
    for piece, found in spread(pieces, serve, processes or os.cpu_count() or 1):
        met[piece.exercise] += found
        left[piece.exercise] -= 1
        if not left[piece.exercise]:
            exercise = by_name[piece.exercise]
            order = {mutant.key: place for place, mutant in enumerate(everything[exercise])}
            found = sorted(met[piece.exercise], key=lambda each: order[each.mutant.key])
            keep(exercise, everything[exercise], found)
            yield exercise, found


# ---- in a process that has everything loaded


def serve(pieces: Connection) -> None:
    """In a process of its own: answers each Piece with a list of Met, or with a sentence why it cannot, until None comes."""
    with open(os.devnull, "w") as null, contextlib.redirect_stdout(null):
        pytest.main(["-q", *ARGUMENTS, str(TESTS)], plugins=[_Trying(pieces)])


class _Trying:
    """A pytest plugin whose main loop tries mutants."""

    def __init__(self, pieces: Connection) -> None:
        self.pieces = pieces
        self.known: dict[str, dict[pytest.Function, float]] = {}  # exercise → its tests, with the seconds the reference takes
        self.caught: Counter[str] = Counter()  # by test: those that catch most in the least time are asked first
        self.last = ""  # how the last test ended

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        run = session.config.stash[plugin.RUN]
        vars(run).update(finished=self._note, message_of=lambda test: "")  # nobody reads why a mutant failed
        warm()
        trial.TEST_SECONDS = math.inf
        tests = [item for item in session.items if isinstance(item, pytest.Function)]
        for item in tests:
            quick = getattr(item.obj, "_hypothesis_internal_use_settings", None)
            if quick:  # nor asks for the smallest example
                item.obj._hypothesis_internal_use_settings = settings(quick, phases=(Phase.explicit, Phase.generate))
        gc.collect()
        gc.freeze()  # what is here already is not looked through in every process forked from this one
        while (piece := self.pieces.recv()) is not None:
            try:
                answer = "the graded suites cannot be collected; run pytest to see why" if session.testsfailed else self._try_piece(tests, run, piece)
            except ReferenceFails as problem:
                answer = str(problem)
            self.pieces.send(answer)
        del run.finished, run.message_of
        return True

    def _note(self, exercise: Exercise, test: str, outcome: str, *_: Any) -> None:
        self.last = outcome

    def _try_piece(self, tests: list[pytest.Function], run: GradedRun, piece: Piece) -> list[Met]:
        exercise = load_syllabus().exercise(piece.exercise)
        text = solution_of(exercise)
        if exercise.name not in self.known:
            items = [item for item in tests if (mark := item.get_closest_marker("exercise")) and mark.args[0] == exercise.name]
            self.known[exercise.name] = self._times(run, exercise, text, items)
        found = []
        for mutant in piece.mutants:
            seconds = self.known[exercise.name]
            items = sorted(seconds, key=lambda item: -(self.caught[item.name] + 0.5) / seconds[item])
            limit = PROCESSOR_SECONDS + math.ceil(3 * sum(seconds.values()))
            by, outcome = _in_a_fork(partial(self._first_failure, run, exercise, mutant.in_chapter(text), items), limit)
            self.caught[by] += 1
            found.append(Met(mutant, by, outcome))
        return found

    def _times(self, run: GradedRun, exercise: Exercise, text: str, items: list[pytest.Function]) -> dict[pytest.Function, float]:
        """How long the reference keeps a processor busy with each test. It is asked in this very process, which has then done everything once."""
        run.trial = _trial(exercise, text)
        seconds = {}
        for item in items:
            began = time.process_time()
            self._run_test(run, item, None)
            seconds[item] = time.process_time() - began + 1e-3
            if self.last != "passed":
                raise ReferenceFails(f"the reference itself does not pass {item.name}, so mutants of {exercise.name} would tell nothing")
        run.trial.close()
        return seconds

    def _first_failure(self, run: GradedRun, exercise: Exercise, text: str, items: list[pytest.Function]) -> tuple[str, str]:
        run.trial = _trial(exercise, text)
        for item, after in zip(items, [*items[1:], None]):
            self._run_test(run, item, after)
            if self.last != "passed":
                return item.name, self.last
        return "", SURVIVED

    def _run_test(self, run: GradedRun, item: pytest.Function, after: pytest.Function | None) -> None:
        self.last = "error"  # where nothing is noted
        item._initrequest()
        plugin.give_seed(item, run)
        runtestprotocol(item, log=False, nextitem=after)


class ReferenceFails(RuntimeError):
    """There is nothing to be learned from mutants of an exercise whose reference fails."""


def _trial(exercise: Exercise, text: str) -> Trial:
    return Trial(Target("mutant", None, {exercise.module: text}), seed=SEED, call_seconds=CLOCK_SECONDS)


def _in_a_fork(work: Callable[[], tuple[str, str]], processor_seconds: int) -> tuple[str, str]:
    """What `work` gives, done in a process that may loop, eat memory or die."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if not pid:
        with contextlib.suppress(BaseException):
            os.setsid()
            be_silent()
            limit_this_process()
            resource.setrlimit(resource.RLIMIT_CPU, (processor_seconds, processor_seconds + 1))
            os.write(theirs, json.dumps(work()).encode())
        os._exit(0)
    os.close(theirs)
    said = b""
    deadline = time.monotonic() + CLOCK_SECONDS
    while select.select([ours], [], [], max(0.0, deadline - time.monotonic()))[0] and (more := os.read(ours, 4096)):
        said += more
    os.close(ours)
    late = time.monotonic() >= deadline
    if late:
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # what it has left behind
    return tuple(json.loads(said)) if said else ("", "timeout" if late or -status == signal.SIGXCPU else "died")
