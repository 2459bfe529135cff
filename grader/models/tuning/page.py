"""What a tuning shows while it runs: what it does now, and the curves of loss, mean reward and KL."""

from __future__ import annotations

from dataclasses import dataclass

from grader.console.output import progress_bar, wrap_text
from grader.models.training.live_page import CURVE_WIDTH, clock, recent_mean
from grader.models.tuning.progress import ANSWERS, REWARDS, Progress
from grader.teaching.walks.walk_page import curve
from rich.text import Text


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
