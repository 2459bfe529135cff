"""When each stage of a pipeline does what, from the schedules of chapter 18's pipeline_schedule. No clock is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

    A forward pass needs that of the stage before, a backward pass that of the stage after. Messages take no time.
    `duration(stage, kind, micro)` is how long a step takes.
    """
    done: list[list[TimedStep]] = [[] for _ in schedule]
    ends: dict[tuple[int, str, int], float] = {}
    while any(len(timed) < len(steps) for timed, steps in zip(done, schedule)):
        moved = False
        for stage, (timed, steps) in enumerate(zip(done, schedule)):
            while len(timed) < len(steps):
                kind, micro = steps[len(timed)]
                needed = stage - 1 if kind == "forward" else stage + 1
                if 0 <= needed < len(schedule) and (needed, kind, micro) not in ends:
                    break
                start = max(timed[-1].end if timed else 0.0, ends.get((needed, kind, micro), 0.0))
                timed.append(TimedStep(kind, micro, start, start + duration(stage, kind, micro)))
                ends[stage, kind, micro] = timed[-1].end
                moved = True
        if not moved:
            waiting = [
                (stage, steps[len(done[stage])])
                for stage, steps in enumerate(schedule)
                if len(done[stage]) < len(steps)
            ]
            raise ScheduleProblem(
                "no stage can go on: "
                + ", ".join(f"stage {stage} waits to do {kind} {micro}" for stage, (kind, micro) in waiting)
            )
    return done


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
