"""What has happened in a tuning so far, how its time is divided, and what a terminal shows of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from grader.console.output import progress_bar, wrap_text
from grader.models.training.live_page import CURVE_WIDTH, clock, recent_mean
from grader.models.tuning.evaluation import Evaluation
from grader.teaching.walks.walk_page import curve
from grader.version import __version__
from rich.text import Text

MINUTES_BY_BASE = {"published": 9.0, "stories": 3.0}
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


@dataclass
class View:
    name: str
    progress: Progress
    doing: str = ""
    trains: bool = False  # or else it answers held-out questions
    notice: str = "Control-C saves and stops."

    @property
    def samples(self) -> list[tuple[int, str]]:
        return []  # answers are shown at the end

    def describe(self) -> str:
        return ", ".join([self.doing, *(self._facts() if self.trains else [])])

    def lines(self, width: int) -> list[Text]:
        """Lines of less than `width` columns."""
        progress = self.progress
        lines = [Text(f"{self.name}: {self.doing}", style="bold")]
        if self.trains:
            share = progress.share_done(progress.phase)
            bar = progress_bar(share, min(30, max(width - 30, 8)))
            lines.append(Text.assemble(bar, f" {int(100 * share)} % of this phase"))
            lines += [Text(line) for line in wrap_text(", ".join(self._facts()), width)]
        curves = {"loss  ": progress.losses, "reward": progress.rewards, "KL    ": progress.kls}
        for name, values in curves.items():
            if len(values) > 1:
                lines += curve(name, values, width=min(CURVE_WIDTH, max(width - 26, 4)))
        lines.append(Text(self.notice, style="dim"))
        for line in lines:
            line.truncate(width - 1, overflow="ellipsis")
        return lines

    def _facts(self) -> list[str]:
        progress = self.progress
        most = progress.steps or (progress.answer_steps if progress.phase == ANSWERS else None)
        of = f" of {most:,}" if most else ""
        facts = [f"step {progress.steps_done(progress.phase):,}{of}"]
        numbers = (
            {"loss": progress.losses}
            if progress.phase == ANSWERS
            else {"mean reward": progress.rewards, "KL": progress.kls}
        )
        facts += [f"{name} {mean:.3f}" for name, values in numbers.items() if (mean := recent_mean(values)) is not None]
        if progress.steps is None and progress.phase == REWARDS:
            left = progress.phase_seconds(progress.phase) - progress.seconds[progress.phase]
            facts.append(f"{clock(max(left, 0.0))} left")
        return facts
