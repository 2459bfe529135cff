"""When each stage of a pipeline does what, from the schedules of chapter 18's pipeline_schedule. No clock is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

Schedule = Sequence[Sequence[tuple[str, int]]]  # for each stage its steps, in their order


class ScheduleProblem(ValueError):
    """The stages wait for each other; the message says for what."""


@dataclass(frozen=True)
class TimedStep:
    kind: str
    micro: int
    start: float
    end: float


def time_steps(schedule: Schedule, duration: Callable[[int, str, int], float]) -> list[list[TimedStep]]:
    """Return for each stage its steps with their times, if each begins as soon as it can.

    A forward pass needs that of the stage before; a backward pass needs that of the stage after, and its own forward
    pass. Messages take no time. `duration(stage, kind, micro)` is how long a step takes.
    """
    done: list[list[TimedStep]] = [[] for _ in schedule]
    ends: dict[tuple[int, str, int], float] = {}
    for _ in range(sum(map(len, schedule))):
        for stage, steps in enumerate(schedule):
            if len(done[stage]) == len(steps):
                continue
            kind, micro = steps[len(done[stage])]
            beside = stage - 1 if kind == "forward" else stage + 1
            needed = [(beside, kind, micro)] if 0 <= beside < len(schedule) else []
            needed += [(stage, "forward", micro)] if kind == "backward" else []
            if all(step in ends for step in needed):
                start = max([ends[step] for step in needed] + [step.end for step in done[stage][-1:]], default=0.0)
                ends[stage, kind, micro] = start + duration(stage, kind, micro)
                done[stage].append(TimedStep(kind, micro, start, ends[stage, kind, micro]))
                break
        else:
            raise ScheduleProblem("no stage can go on: " + ", ".join(_waiting(schedule, done)))
    return done


def _waiting(schedule: Schedule, done: Sequence[Sequence[TimedStep]]) -> Iterator[str]:
    for stage, (steps, timed) in enumerate(zip(schedule, done)):
        if len(timed) < len(steps):
            kind, micro = steps[len(timed)]
            yield f"stage {stage} waits to do {kind} {micro}"


def pass_time(stage: int, kind: str, micro: int) -> float:
    """A backward pass takes twice as long as a forward pass: it computes two matrix products for each one."""
    return 1.0 if kind == "forward" else 2.0


def total_time(timed: Sequence[Sequence[TimedStep]]) -> float:
    return max(steps[-1].end for steps in timed if steps)


def bubble(timed: Sequence[Sequence[TimedStep]]) -> float:
    """Return the share of the time in which a stage waits, over all stages."""
    busy = sum(step.end - step.start for steps in timed for step in steps)
    return 1 - busy / (total_time(timed) * len(timed))


def most_kept(steps: Sequence[tuple[str, int]]) -> int:
    """Return how many micro-batches a stage keeps at most between their forward and their backward pass."""
    kept = most = 0
    for kind, _ in steps:
        kept += 1 if kind == "forward" else -1
        most = max(most, kept)
    return most
