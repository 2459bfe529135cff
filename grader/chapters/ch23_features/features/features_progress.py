"""What has happened so far in `headway features`, how the time is divided, and what a terminal shows of it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import Any

from grader.chapters import interruptible_run
from grader.models.training.live_page import recent_mean
from grader.version import __version__

MINUTES = 6.0
OPENING, STATES, TRAINING, EXAMINING, SENTENCES, PROBES, STEERING = STAGES = (
    "opening", "states", "training", "examining", "sentences", "probes", "steering"
)  # fmt: skip
SHARES = {  # of the time after the opening, at most; what a stage leaves over is for those behind it
    STATES: 0.12, TRAINING: 0.42, EXAMINING: 0.16, SENTENCES: 0.12, PROBES: 0.1, STEERING: 0.08,
}  # fmt: skip
MOST_STEPS = 4000
DOING = {
    STATES: "reading stories for the autoencoder",
    TRAINING: "training the autoencoder",
    EXAMINING: "looking at features in held-out stories",
    SENTENCES: "reading sentences for the probes",
    PROBES: "fitting probes",
    STEERING: "steering",
}


@dataclass
class Progress:
    """What has happened so far: the part of the file that is not tensors."""

    base: str  # the stories' model
    layer: int
    n_features: int
    k: int
    seed: int
    minutes: float
    story_batches: int = 0  # that the autoencoder learns from
    scale: float = 1.0  # of its states
    losses: list[float] = field(default_factory=list)  # the shares of the variance that are not explained
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    examined: dict[str, Any] | None = None  # what was found in held-out stories
    probed: dict[str, Any] | None = None  # by probes and steering
    notes: list[str] = field(default_factory=list)
    headway: str = __version__

    @property
    def is_finished(self) -> bool:
        return self.examined is not None and self.probed is not None

    @property
    def seconds_spent(self) -> float:
        return sum(self.seconds.values())

    @property
    def seconds_left(self) -> float:
        return max(60 * self.minutes - self.seconds_spent, 0.0)

    def has_time(self, stage: str) -> bool:
        """Whether this stage, and those before it, have taken less than their shares."""
        before = STAGES[1 : STAGES.index(stage) + 1]
        time = max(60 * self.minutes - self.seconds[OPENING], 0.0)
        return sum(self.seconds[each] for each in before) < time * sum(SHARES[each] for each in before)

    @property
    def training_done(self) -> float:
        """1 if the training is over: also if half of the next step would be too late."""
        steps = len(self.losses)
        if not steps:
            return 0.0
        time = max(60 * self.minutes - self.seconds[OPENING], 1e-9) * (SHARES[STATES] + SHARES[TRAINING])
        spent = self.seconds[TRAINING]
        share = (spent + spent / steps / 2) / max(time - self.seconds[STATES], 1e-9)
        return min(max(share, steps / MOST_STEPS), 1.0)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Progress:
        """TypeError if it has unknown entries."""
        return cls(**data | {"seconds": dict.fromkeys(STAGES, 0.0) | data["seconds"]})

    def command(self, minutes: int) -> str:
        """The same run with another length."""
        seed = f" --seed {self.seed}" if self.seed else ""
        return (
            f"headway features --base {shlex.quote(self.base)} --layer {self.layer} --features {self.n_features} "
            f"--k {self.k}{seed} --minutes {minutes}"
        )


@dataclass
class View(interruptible_run.View):
    stage: str = STATES
    done: int = 0  # of what this stage does, besides training
    total: int = 1
    unit: str = ""
    part = "part"
    span = (0.0, 1.0)

    @property
    def share(self) -> float:
        return self.progress.training_done if self.stage == TRAINING else min(self.done / max(self.total, 1), 1.0)

    def curves(self) -> dict[str, list[float]]:
        return {"explained": [1 - loss for loss in self.progress.losses]}

    def facts(self) -> list[str]:
        progress: Progress = self.progress
        if self.stage == TRAINING:
            facts = [f"step {len(progress.losses):,}"]
            if (loss := recent_mean(progress.losses)) is not None:
                facts.append(f"{100 * (1 - loss):.0f} % of the variance explained")
        else:
            facts = [f"{self.done:,} of {self.total:,} {self.unit}"]
        return [*facts, f"{self.time_left} left at most"]
