"""What has happened in a tuning so far, and how its time is divided."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from grader.models.tuning.evaluation import Evaluation
from grader.version import __version__

MINUTES = {"published": 9.0, "stories": 3.0}  # by the kind of the base
ANSWERS, REWARDS = PHASES = ("answers", "rewards")
ANSWERS_SHARE = 0.25  # of the time for training, at most


@dataclass
class Progress:
    """What has happened so far: the part of a checkpoint that is not tensors."""

    kind: str  # of the base
    base: str | None  # where it was found
    task: str
    seed: int
    minutes: float
    answer_steps: int  # at most
    steps: int | None  # of each phase, instead of minutes
    losses: list[float] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)  # means of the batches
    kls: list[float] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("evaluation", *PHASES), 0.0))
    evaluations: list[Evaluation] = field(default_factory=list)  # before, after answers, after rewards
    headway: str = __version__

    @property
    def phase(self) -> str:
        return ANSWERS if len(self.evaluations) < 2 else REWARDS

    @property
    def is_finished(self) -> bool:
        return len(self.evaluations) == 1 + len(PHASES)

    def steps_done(self, phase: str) -> int:
        return len(self.losses if phase == ANSWERS else self.rewards)

    def phase_seconds(self, phase: str) -> float:
        """For the training of this phase. The evaluations after it take at most as long as the first, because tuned
        answers are short."""
        left = max(60 * self.minutes - 2 * self.seconds["evaluation"], 0.0)
        if phase == ANSWERS:
            return ANSWERS_SHARE * left
        return left - self.seconds[ANSWERS]

    def share_done(self, phase: str) -> float:
        if self.steps is not None:
            return min(self.steps_done(phase) / self.steps, 1.0)
        share = self.seconds[phase] / max(self.phase_seconds(phase), 1e-9)
        if phase == ANSWERS:
            share = max(share, self.steps_done(phase) / self.answer_steps)
        return min(share, 1.0)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Progress:
        return cls(**data | {"evaluations": [Evaluation.from_data(one) for one in data["evaluations"]]})
