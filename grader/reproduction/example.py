"""What a failed test leaves for its script: the requests of the failing example, and which of them the failure is about."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from grader.course.syllabus import Exercise
from grader.execution.calls import Call
from grader.execution.errors import ChapterBroken, HostDied, LearnerError, OutOfTime, RuleBroken
from grader.execution.host_connection import Exchange
from grader.execution.proxy import Boundary, Handle
from grader.reproduction.tested_code import TestedCode, condition_code, value_code_of
from grader.verdict.comparing import Example, Mismatch
from grader.verdict.explanation import find_failed_calls
from torch import Tensor

LOG_BYTES = 8 * 1024 * 1024  # of the requests of an example; a larger one leaves no script


@dataclass(frozen=True)
class FailedExample:
    """The last example of a failed test."""

    exercise: Exercise
    test: str
    promise: str
    sentence: str  # what is wrong, as on the page
    kind: str  # compared, law, raised, rule, time, import
    seed: int
    replaced: tuple[str, ...] = ()  # exercises of the chapter whose reference was used
    in_worker: bool = False
    log: list[Exchange] = field(default_factory=list)
    unanswered: tuple[str, Any, list[bytes]] | None = None  # the request that did not end
    positions: tuple[int, ...] = ()  # in the log, of the calls that the failure is about; the unanswered request has the next position
    tested: TestedCode | None = None  # the value or the condition that the test looked at, as code
    got: Any = None
    expected: Any = None
    tolerance: float | None = None

    @property
    def requests(self) -> list[tuple[str, Any, list[bytes]]]:
        known = [(exchange.op, exchange.tree, exchange.buffers) for exchange in self.log]
        return [*known, self.unanswered] if self.unanswered else known


def keep_example(
    problem: BaseException | None, boundary: Boundary | None, example: Example, exercise: Exercise, test: str, promise: str, sentence: str, seed: int,
    in_worker: bool = False,
) -> FailedExample | None:  # fmt: skip
    """What the failed test leaves; None if there is nothing to run again."""
    if isinstance(problem, ChapterBroken):
        return FailedExample(exercise, test, promise, sentence, "import", seed, in_worker=in_worker)
    if boundary is None or sum(len(part) for exchange in boundary.log for part in [*exchange.buffers, *exchange.out]) > LOG_BYTES:
        return None
    mismatch = example.mismatches[0] if example.mismatches else problem if isinstance(problem, Mismatch) else None
    common: dict[str, Any] = dict(replaced=tuple(boundary.replaced), in_worker=in_worker, log=list(boundary.log), unanswered=boundary.unanswered)
    if isinstance(problem, OutOfTime | HostDied):
        if boundary.unanswered is None:
            return None  # the time of the whole test was over, between two calls
        return FailedExample(exercise, test, promise, sentence, "time" if isinstance(problem, OutOfTime) else "raised", seed, positions=(len(boundary.log),), **common)
    if mismatch is None and isinstance(problem, LearnerError) and (failed := _last_error(boundary.log)) is not None:
        return FailedExample(exercise, test, promise, sentence, "rule" if isinstance(problem, RuleBroken) else "raised", seed, positions=(failed,), **common)
    calls = find_failed_calls(problem, boundary, example)
    positions = tuple(sorted({call.position for call in calls if call.position >= 0}))
    tested, kind = None, "law"
    if mismatch is not None and mismatch.compared and _is_plain(mismatch.expected):
        tested = value_code_of(boundary, mismatch.looked_at, mismatch.moments, positions)
        kind = "compared" if tested else "law"
    elif mismatch is not None:
        tested = condition_code(boundary, mismatch.moments)
    if tested:
        positions = tested.positions
    if not positions:
        return None
    if mismatch is not None and kind == "compared":
        common |= dict(got=mismatch.got, expected=mismatch.expected, tolerance=mismatch.tol)
    return FailedExample(exercise, test, promise, sentence, kind, seed, positions=positions, tested=tested, **common)


def _last_error(log: list[Exchange]) -> int | None:
    return next((at for at in reversed(range(len(log))) if "error" in log[at].reply), None)


def _is_plain(value: Any) -> bool:
    """Is there no object of an implementation in this value?"""
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    return value is None or isinstance(value, bool | int | float | str | bytes | Tensor) and not isinstance(value, Handle | Call)
