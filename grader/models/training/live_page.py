"""What a training shows: a page that is redrawn in a terminal, or a line now and then where there is none."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Protocol

from grader.console.output import make_console, progress_bar, supports_unicode, wrap_text
from grader.models.training.curves import draw_curves
from grader.models.training.trainer import History
from rich.console import Group
from rich.live import Live
from rich.text import Text

REDRAW_SECONDS = 0.2
CURVE_LINES = 8
SAMPLE_LINES = 3  # of the newest sample but one; the newest has one more
RECENT = 20  # steps that "now" is a mean of


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
        recent = self.history.losses[-RECENT:]
        return sum(recent) / len(recent) if recent else None

    @property
    def norm(self) -> float | None:
        recent = self.history.norms[-RECENT:]
        return sum(recent) / len(recent) if recent else None

    @property
    def tokens_per_second(self) -> float | None:
        seconds = sum(self.recent_seconds)
        return sum(self.recent_tokens) / seconds if seconds else None

    def note_step(self, seconds: float, tokens: int) -> None:
        self.recent_seconds = [*self.recent_seconds[-RECENT + 1 :], seconds]
        self.recent_tokens = [*self.recent_tokens[-RECENT + 1 :], tokens]


class Page(Protocol):
    """Shows a view; `moment` is called where there is something to report in a line."""

    def update(self, view: View) -> None: ...
    def moment(self, view: View) -> None: ...
    def close(self, view: View) -> None: ...


def make_page() -> Page:
    console = make_console()
    return LivePage() if console.is_terminal and not console.is_dumb_terminal else PlainPage()


class PlainPage:
    """Lines for a file or a pipe."""

    def __init__(self) -> None:
        self.console = make_console()
        self._samples = 0

    def update(self, view: View) -> None:
        pass

    def moment(self, view: View) -> None:
        facts = [f"step {view.steps_done}" + (f" of {view.total}" if view.total else ""), *_facts(view)]
        if view.seconds_left is not None:
            facts.append(f"{_clock(view.seconds_left)} left")
        self.console.print(", ".join(facts), soft_wrap=True)
        for step, text in view.history.samples[self._samples :]:
            self.console.print(f"  at step {step}: {_one_line(text)}", soft_wrap=True)
        self._samples = len(view.history.samples)

    def close(self, view: View) -> None:
        pass


class LivePage:
    """A page on a terminal, redrawn a few times a second."""

    def __init__(self) -> None:
        self.console = make_console()
        self._live: Live | None = None
        self._drawn = 0.0

    def update(self, view: View) -> None:
        if time.monotonic() - self._drawn >= REDRAW_SECONDS:
            self._draw(view)

    def moment(self, view: View) -> None:
        self._draw(view)

    def close(self, view: View) -> None:
        if self._live is not None:
            self._draw(view)
            self._live.stop()
            self._live = None

    def _draw(self, view: View) -> None:
        if self._live is None:
            self._live = Live(console=self.console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
            self._live.start()
        real = make_console()  # the terminal may have another width now
        self._live.update(Group(*page_lines(view, real.width, real.height)), refresh=True)
        self._drawn = time.monotonic()


def page_lines(view: View, width: int, height: int, unicode: bool | None = None) -> list[Text]:
    """The page, at most `height` - 1 lines of at most `width` columns."""
    unicode = supports_unicode() if unicode is None else unicode
    of_total = f" of {view.total:,}" if view.total else ""
    lines = [_fitted(Text(f"step {view.steps_done:,}{of_total}, {view.name}", style="bold"), width)]
    if view.total:
        share = view.steps_done / view.total
        bar = progress_bar(share, min(30, max(width - 30, 8)))
        left = f"{_clock(view.seconds_left)} left" if view.seconds_left is not None else ""
        lines.append(_fitted(Text.assemble(bar, f" {int(100 * share)} %  {left}"), width))
    else:
        lines.append(_fitted(Text("measuring the speed, to plan the training", style="dim"), width))
    lines += [Text(line) for line in _joined(_facts(view), width)]
    below = _samples(view, width) + [
        Text(line, style="dim") for line in (wrap_text(view.notice, width) if view.notice else [])
    ]
    room = height - 2 - len(lines) - len(below)
    while room < 5 and len(below) > 2:  # a low terminal: the curves are worth more than old samples
        below.pop(0)
        room += 1
    return (lines + _curves(view, width, min(CURVE_LINES, room - 1), unicode) + below)[: height - 1]


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


def _curves(view: View, width: int, height: int, unicode: bool) -> list[Text]:
    losses = list(enumerate(view.history.losses, 1))
    if len(losses) < 2 or height < 3:
        return []
    last = view.total or len(losses)
    lines = draw_curves([(losses, "cyan"), (view.history.validation, "yellow")], last, width, height - 1, unicode)
    marks = ("⣀⣀", "⣀⣀") if unicode else ("**", "oo")
    legend = Text(" " * 7 + "0  ", style="dim")
    legend.append(f"{marks[0]} loss  ", style="cyan").append(f"{marks[1]} validation", style="yellow")
    end = f"{last:,}"
    legend.append(" " * max(width - legend.cell_len - len(end) - 1, 1) + end, style="dim")
    legend.truncate(width - 1)
    return [*lines, legend] if lines else []


def _samples(view: View, width: int) -> list[Text]:
    lines: list[Text] = []
    chosen = view.history.samples[:1] + view.history.samples[1:][-2:]
    for number, (step, text) in enumerate(chosen):
        wrapped = wrap_text(f"at step {step:,}: {_one_line(text)}", width)
        most = SAMPLE_LINES + 1 if number == len(chosen) - 1 else SAMPLE_LINES
        if len(wrapped) > most:
            wrapped = [*wrapped[: most - 1], wrapped[most - 1][: width - 6] + " ..."]
        start = f"at step {step:,}:"
        first = Text(wrapped[0])
        first.stylize("bold", 0, len(start))
        lines += [first, *map(Text, wrapped[1:])]
    return lines


def _joined(facts: list[str], width: int) -> list[str]:
    """The facts on as few lines as they need."""
    lines: list[str] = []
    for fact in facts:
        if lines and len(lines[-1]) + 3 + len(fact) < width:
            lines[-1] += "   " + fact
        else:
            lines.append(fact[: width - 1])
    return lines


def _fitted(text: Text, width: int) -> Text:
    text.truncate(width - 1, overflow="ellipsis")
    return text


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() or c.isspace() else "\ufffd" for c in text).split())


def _clock(seconds: float) -> str:
    whole = max(int(seconds + 0.5), 0)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
