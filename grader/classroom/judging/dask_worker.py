"""What a Dask worker does for a class: it runs a dispatcher with its server (dispatch.py) as long as submissions arrive.

The worker's process has the server's lifeline open, so that no server outlives its worker. Only plain data comes in and goes out.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from grader.classroom.intake.submissions import Submission
from grader.classroom.judging.dispatch import Dispatcher, GradingStopped
from grader.execution.sandbox.isolation import available, missing_layers
from grader.verdict.conditions import versions
from grader.verdict.summary import Verdict

IDLE = 600.0  # seconds without a submission until a dispatcher is closed: its client may be gone without a message

Capabilities = dict[str, Any]


def capabilities() -> Capabilities:
    """What decides whether this worker may grade: the versions here, and a sentence for each layer of isolation that is missing."""
    return {"versions": versions(), "lacking": [str(layer) for layer in missing_layers()]}


def refusal(there: Capabilities, here: dict[str, str], isolated: bool) -> str:
    """Why a worker must not grade, as the end of a sentence that names it; empty where it may."""
    other = [f"{name} {there['versions'].get(name, 'unknown')} instead of {ours}" for name, ours in here.items() if there["versions"].get(name) != ours]
    if other:
        return f"has {', '.join(other)}; marks must not depend on who grades, so install the same there as here"
    if isolated and there["lacking"]:
        return f"does not have the isolation that --require-isolation demands: {'; '.join(there['lacking'])}"
    return ""


def grade(
    sources: dict[str, str], unread: dict[str, str], digest: str, exercises: Sequence[str], seed: int, here: dict[str, str], isolated: bool,
    seeds: dict[str, int] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Some exercises of one submission: their `verdict`, or the `trouble` with it, or the worker was `refused`, with the reason."""
    with _dispatcher_for(tuple(exercises), seed) as shared:
        why = refusal(shared.capabilities, here, isolated)
        if why:
            return {"refused": why}
        try:
            verdict = shared.dispatcher.grade(Submission("", sources, broken=unread, digest=digest), seeds)
        except GradingStopped as problem:
            return {"refused": f"cannot grade: {problem}"}
    return {"verdict": verdict.as_data()} if isinstance(verdict, Verdict) else {"trouble": verdict}


def release(exercises: Sequence[str], seed: int) -> None:
    """Mark the dispatcher for these as no longer wanted. It closes when it is idle; this call does not wait for that."""
    with _lock:
        shared = _dispatchers.pop((tuple(exercises), seed), None)
        if shared is not None:
            shared.wanted = False
            shared.close_when_idle()


class _SharedDispatcher:
    """This worker's dispatcher for some exercises and a seed, used by all its threads."""

    def __init__(self, exercises: tuple[str, ...], seed: int) -> None:
        self.exercises, self.seed = exercises, seed
        self.capabilities = capabilities()  # now: the kit may have been replaced since the worker began
        self.dispatcher = Dispatcher(available(), list(exercises), seed)
        self.under_way = 0
        self.wanted = True
        self.timer: threading.Timer | None = None

    def use(self) -> None:
        self.under_way += 1
        if self.timer:
            self.timer.cancel()

    def close_when_idle(self) -> None:
        """If idle: close at once if it is not wanted, else after a while."""
        if self.under_way:
            return
        if self.timer:
            self.timer.cancel()
        self.timer = threading.Timer(IDLE, self._release_if_idle) if self.wanted else threading.Timer(0, self.dispatcher.close)
        self.timer.daemon = True
        self.timer.start()

    def _release_if_idle(self) -> None:
        with _lock:
            idle = self.wanted and not self.under_way
        if idle:
            release(self.exercises, self.seed)


_lock = threading.Lock()
_dispatchers: dict[tuple[tuple[str, ...], int], _SharedDispatcher] = {}


@contextmanager
def _dispatcher_for(exercises: tuple[str, ...], seed: int) -> Iterator[_SharedDispatcher]:
    with _lock:
        shared = _dispatchers.get((exercises, seed))
        if shared is None:
            shared = _dispatchers[exercises, seed] = _SharedDispatcher(exercises, seed)
        shared.use()
    try:
        yield shared
    finally:
        with _lock:
            shared.under_way -= 1
            shared.close_when_idle()
