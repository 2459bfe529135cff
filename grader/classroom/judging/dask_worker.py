"""What a Dask worker does for a class: keeps a judge's process (judging.py) as long as submissions come, and asks it.

The judge's lifeline is held by the worker's process, so that no judge outlives its worker. Only plain data comes in and goes out.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from grader.classroom.intake.submissions import Submission
from grader.classroom.judging.dispatch import Judge, NotJudged
from grader.classroom.judging.versions import versions
from grader.execution.sandbox.isolation import available, missing_layers
from grader.verdict.summary import Verdict

IDLE = 600.0  # seconds until a judge is put away that nobody asks any more: whoever wanted it may be gone without a word

Standing = dict[str, Any]


def standing() -> Standing:
    """What marks, and those who ask for walls, depend on: the versions here, and the sentences of the walls that do not stand."""
    return {"versions": versions(), "lacking": [str(layer) for layer in missing_layers()]}


def refusal(there: Standing, here: dict[str, str], walled: bool) -> str:
    """Why a worker must not grade, as the end of a sentence that names it; empty where it may."""
    other = [f"{name} {there['versions'].get(name, 'unknown')} instead of {ours}" for name, ours in here.items() if there["versions"].get(name) != ours]
    if other:
        return f"has {', '.join(other)}; marks must not depend on who grades, so install the same there as here"
    if walled and there["lacking"]:
        return f"cannot do as --require-isolation asks: {'; '.join(there['lacking'])}"
    return ""


def judged(
    sources: dict[str, str], unread: dict[str, str], digest: str, exercises: Sequence[str], seed: int, here: dict[str, str], walled: bool,
) -> dict[str, Any]:  # fmt: skip
    """One submission: its `verdict`, or the `trouble` with it, or the worker was `refused`, with the reason."""
    with _asking(tuple(exercises), seed) as kept:
        why = refusal(kept.standing, here, walled)
        if why:
            return {"refused": why}
        try:
            verdict = kept.judge.judge(Submission("", sources, broken=unread, digest=digest))
        except NotJudged as problem:
            return {"refused": f"cannot grade: {problem}"}
    return {"verdict": verdict.as_data()} if isinstance(verdict, Verdict) else {"trouble": verdict}


def put_away(exercises: Sequence[str], seed: int) -> None:
    """The judge for these is not wanted any more. It ends when it has nothing under way; nobody waits for that."""
    with _lock:
        kept = _kept.pop((tuple(exercises), seed), None)
        if kept is not None:
            kept.wanted = False
            kept.rest()


class _Kept:
    """A judge of this worker's process, for some exercises and a seed."""

    def __init__(self, exercises: tuple[str, ...], seed: int) -> None:
        self.exercises, self.seed = exercises, seed
        self.standing = standing()  # as the judge starts: the kit may have been replaced since the worker began
        self.judge = Judge(available(), list(exercises), seed)
        self.under_way = 0
        self.wanted = True
        self.later: threading.Timer | None = None

    def begin(self) -> None:
        self.under_way += 1
        if self.later:
            self.later.cancel()

    def rest(self) -> None:
        """With nothing under way: the end where it is not wanted, and a while of waiting where it is."""
        if self.under_way:
            return
        if self.later:
            self.later.cancel()
        self.later = threading.Timer(IDLE, self._give_up) if self.wanted else threading.Timer(0, self.judge.close)
        self.later.daemon = True
        self.later.start()

    def _give_up(self) -> None:
        with _lock:
            idle = self.wanted and not self.under_way
        if idle:
            put_away(self.exercises, self.seed)


_lock = threading.Lock()
_kept: dict[tuple[tuple[str, ...], int], _Kept] = {}


@contextmanager
def _asking(exercises: tuple[str, ...], seed: int) -> Iterator[_Kept]:
    with _lock:
        kept = _kept.get((exercises, seed))
        if kept is None:
            kept = _kept[exercises, seed] = _Kept(exercises, seed)
        kept.begin()
    try:
        yield kept
    finally:
        with _lock:
            kept.under_way -= 1
            kept.rest()
