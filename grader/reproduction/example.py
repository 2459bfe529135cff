"""What a failed test leaves for its script: its requests, and which of them the failure is about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from grader.course.syllabus import Exercise
from grader.execution.connection import Exchange
from grader.execution.errors import ChapterBroken, HostDied, LearnerError, OutOfTime, RuleBroken
from grader.execution.proxy import Boundary
from grader.verdict.comparing import Example, Mismatch
from grader.verdict.explanation import find_failed_calls
from grader.verdict.failed_calls import find_calls
from torch import Tensor

MAX_LOG_BYTES = 8 * 1024 * 1024  # an example with larger requests leaves no script

Request = tuple[str, Any, list[bytes]]


@dataclass(frozen=True)
class FailedExample:
    """The last example of a failed test."""

    exercise: Exercise
    test: str
    sentence: str  # what is wrong, as on the page
    kind: str  # compared (with an expected value), law (without one), raised, rule, time, import
    seed: int
    in_worker: bool = False
    replaced: tuple[str, ...] = ()  # exercises of the chapter whose reference was used
    log: list[Exchange] = field(default_factory=list)
    unanswered: Request | None = None  # the request that did not end
    # in the log, of the calls that the failure is about; the unanswered request has the next position
    positions: tuple[int, ...] = ()
    part: str = ""  # of the result, that was compared: "[0]"
    got: Any = None
    expected: Any = None
    tolerance: float | None = None

    @property
    def requests(self) -> list[Request]:
        known = [(exchange.op, exchange.tree, exchange.buffers) for exchange in self.log]
        return [*known, self.unanswered] if self.unanswered else known


def keep_example(
    problem: BaseException | None, boundary: Boundary | None, example: Example, exercise: Exercise, test: str,
    sentence: str, seed: int, in_worker: bool = False,
) -> FailedExample | None:  # fmt: skip
    """What the failed test leaves; None if there is nothing to run again."""

    def made(kind: str, *positions: int, **more: Any) -> FailedExample:
        return FailedExample(exercise, test, sentence, kind, seed, in_worker, positions=positions, **more)

    if isinstance(problem, ChapterBroken):
        return made("import")
    if boundary is None:
        return None
    log, unanswered = list(boundary.log), boundary.unanswered
    if sum(len(part) for exchange in log for part in [*exchange.buffers, *exchange.out]) > MAX_LOG_BYTES:
        return None
    common: dict[str, Any] = dict(replaced=tuple(boundary.replaced), log=log, unanswered=unanswered)
    if isinstance(problem, OutOfTime | HostDied):
        if boundary.unanswered is None:
            return None  # the time of the whole test was over, between two calls
        return made("time" if isinstance(problem, OutOfTime) else "raised", len(boundary.log), **common)
    mismatch = example.mismatches[0] if example.mismatches else problem if isinstance(problem, Mismatch) else None
    if mismatch is None and isinstance(problem, LearnerError) and (failed := _last_error(boundary.log)) is not None:
        return made("rule" if isinstance(problem, RuleBroken) else "raised", failed, **common)
    if mismatch is not None and mismatch.compared and _is_plain(mismatch.expected):
        if found := _find_result(boundary, mismatch):
            common |= dict(part=found[1], got=mismatch.got, expected=mismatch.expected, tolerance=mismatch.tol)
            return made("compared", found[0], **common)
    positions = sorted({call.position for call in find_failed_calls(problem, boundary, example) if call.position >= 0})
    return made("law", *positions, **common) if positions else None


def _last_error(log: list[Exchange]) -> int | None:
    return next((at for at in reversed(range(len(log))) if "error" in log[at].reply), None)


def _find_result(boundary: Boundary, mismatch: Mismatch) -> tuple[int, str] | None:
    """The position of the request whose result was compared, and its part ("" or "[0]"); None without a comparison."""
    results = [(reading.position, reading.value) for reading in boundary.readings]
    results += [(call.position, call.result) for call in boundary.calls if 0 <= call.position < len(boundary.log)]
    results = [(at, value) for at, value in results if isinstance(value, dict) or boundary.log[at].op != "gradients"]
    looked_at = mismatch.looked_at
    parts = [(at, text, part) for at, value in reversed(results) for text, part in _parts(value)]
    # which Python does not share, as it shares small numbers
    if isinstance(looked_at, Tensor | list | tuple | dict | set | float):
        for at, text, part in parts:
            if part is looked_at:
                return at, text
    about = {call.position for call in find_calls(boundary, looked_at, mismatch.moments)}
    about |= {reading.position for reading in boundary.readings[-1:]}
    found = [(at, text) for at, text, part in parts if at in about and _is_equal(part, looked_at)]
    return found[0] if len(found) == 1 else None


def _is_equal(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor):
        return one.dtype == other.dtype and not one.is_meta and torch.equal(one, other)
    return repr(one) == repr(other)  # dicts of the same order too


def _parts(value: Any, text: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    yield text, value
    if depth < 5 and isinstance(value, list | tuple | dict) and len(value) <= 200:
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _parts(part, f"{text}[{key!r}]", depth + 1)


def _is_plain(value: Any) -> bool:
    """Is there no object of an implementation in this value?"""
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    return value is None or isinstance(value, bool | int | float | str | bytes | Tensor)
