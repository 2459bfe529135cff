"""What a training shows: a few lines that are redrawn in a terminal, or a line now and then in other outputs.

Control-C is asked for here too.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from grader.console.output import make_console, print_wrapped, progress_bar, wrap_text
from grader.models.training.trainer import History
from grader.teaching.terminal_drawing import curve
from rich.console import Group
from rich.live import Live
from rich.text import Text

REDRAW_SECONDS = 0.2
RECENT_STEPS = 20  # that "now" is a mean of
CURVE_WIDTH = 36


@dataclass
class View:
    """The numbers of this moment."""

    name: str
    history: History
    total: int | None = None
    seconds_left: float | None = None
    notice: str = ""  # what Control-C does, or is doing
    recent_seconds: list[float] = field(default_factory=list)
    recent_tokens: list[int] = field(default_factory=list)

    @property
    def steps_done(self) -> int:
        return len(self.history.losses)

    @property
    def loss(self) -> float | None:
        return recent_mean(self.history.losses)

    @property
    def norm(self) -> float | None:
        return recent_mean(self.history.norms)

    @property
    def tokens_per_second(self) -> float | None:
        seconds = sum(self.recent_seconds)
        return sum(self.recent_tokens) / seconds if seconds else None

    @property
    def samples(self) -> list[tuple[int, str]]:
        return self.history.samples

    def describe(self) -> str:
        facts = [f"step {self.steps_done}" + (f" of {self.total}" if self.total else ""), *_facts(self)]
        if self.seconds_left is not None:
            facts.append(f"{clock(self.seconds_left)} left")
        return ", ".join(facts)

    def lines(self, width: int) -> list[Text]:
        return page_lines(self, width)

    def note_step(self, seconds: float, tokens: int) -> None:
        self.recent_seconds = [*self.recent_seconds[-RECENT_STEPS + 1 :], seconds]
        self.recent_tokens = [*self.recent_tokens[-RECENT_STEPS + 1 :], tokens]


def recent_mean(values: list[float]) -> float | None:
    recent = values[-RECENT_STEPS:]
    return sum(recent) / len(recent) if recent else None


class Shown(Protocol):
    """What a page shows of a training or a tuning."""

    @property
    def samples(self) -> list[tuple[int, str]]:
        """Texts of the model, with the number of the step."""
        ...

    def describe(self) -> str: ...
    def lines(self, width: int) -> list[Text]: ...


class Page:
    """Lines for a file or a pipe. `moment` is called where there is something to report in a line, `update` after each
    step."""

    def __init__(self) -> None:
        self.console = make_console()
        self.console.file = sys.stdout  # also while what an exercise prints is hidden
        self._samples = 0

    def update(self, view: Shown) -> None:
        pass

    def moment(self, view: Shown) -> None:
        self.console.print(view.describe(), soft_wrap=True)
        for sample in self.new_samples(view):
            self.console.print(f"  {sample}", soft_wrap=True)

    def close(self, view: Shown) -> None:
        pass

    def new_samples(self, view: Shown) -> list[str]:
        """The samples that were not shown yet, each on one line."""
        new = view.samples[self._samples :]
        self._samples = len(view.samples)
        return [f"at step {step}: {_one_line(text)}" for step, text in new]


class LivePage(Page):
    """Lines at the end of a terminal that are redrawn a few times a second; the samples stay above them."""

    def __init__(self) -> None:
        super().__init__()
        self._live = Live(console=self.console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._drawn = 0.0

    def update(self, view: Shown) -> None:
        if time.monotonic() - self._drawn >= REDRAW_SECONDS:
            self._draw(view)

    def moment(self, view: Shown) -> None:
        self._draw(view)
        for sample in self.new_samples(view):
            print_wrapped(self.console, sample)

    def close(self, view: Shown) -> None:
        self._draw(view)
        self._live.stop()

    def _draw(self, view: Shown) -> None:
        self._live.start()  # does nothing after the first time
        width = make_console().width  # the terminal may have another width now
        self._live.update(Group(*view.lines(width)), refresh=True)
        self._drawn = time.monotonic()


def make_page() -> Page:
    console = make_console()
    return LivePage() if console.is_terminal and not console.is_dumb_terminal else Page()


def page_lines(view: View, width: int) -> list[Text]:
    """The page in lines of less than `width` columns: progress, numbers, and both losses as curves."""
    of_total = f" of {view.total:,}" if view.total else ""
    lines = [Text(f"step {view.steps_done:,}{of_total}, {view.name}", style="bold")]
    if view.total:
        share = view.steps_done / view.total
        left = f"{clock(view.seconds_left)} left" if view.seconds_left is not None else ""
        lines.append(Text.assemble(progress_bar(share, min(30, max(width - 30, 8))), f" {int(100 * share)} %  {left}"))
    else:
        lines.append(Text("measuring the speed, to plan the training", style="dim"))
    lines += [Text(line) for line in wrap_text(", ".join(_facts(view)), width)]
    losses = {"loss      ": view.history.losses, "validation": [loss for _, loss in view.history.validation]}
    shown = {name: values for name, values in losses.items() if len(values) > 1}
    span = (min(map(min, shown.values()), default=0.0), max(map(max, shown.values()), default=0.0))
    for name, values in shown.items():
        lines += curve(name, values, width=min(CURVE_WIDTH, max(width - 26, 4)), span=span)
    if view.notice:
        lines.append(Text(view.notice, style="dim"))
    for line in lines:
        line.truncate(width - 1, overflow="ellipsis")
    return lines


def _facts(view: View) -> list[str]:
    facts = []
    if view.loss is not None:
        facts.append(f"loss {view.loss:.3f}")
    if view.history.validation:
        facts.append(f"validation {view.history.validation[-1][1]:.3f}")
    if view.norm is not None:
        facts.append(f"gradient norm {view.norm:.2f}")
    if view.tokens_per_second is not None:
        facts.append(f"{view.tokens_per_second:,.0f} tokens a second")
    return facts


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() or c.isspace() else "\ufffd" for c in text).split())


def clock(seconds: float) -> str:
    whole = max(int(seconds + 0.5), 0)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


@contextlib.contextmanager
def control_c() -> Iterator[Callable[[], bool]]:
    """Inside, the first Control-C makes the function return True; the second is a KeyboardInterrupt at once."""
    asked = False

    def ask(signum: int, frame: object) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    previous = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, previous)
