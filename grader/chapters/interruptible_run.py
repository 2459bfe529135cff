"""What the runs of `headway tune`, `headway features` and `headway reason` share: they train, show it on a page, save a
checkpoint now and then and after Control-C, and go on from it later."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from grader.console.output import progress_bar, wrap_text
from grader.models.own_parts import OwnParts, explaining_crashes
from grader.models.training.live_page import CURVE_WIDTH, Page, clock
from grader.models.training.trainer import NotANumber, restore_state
from grader.teaching.terminal_drawing import curve
from grader.teaching.walks.parts import hidden_prints
from rich.text import Text
from torch import Tensor, nn

SAVE_SECONDS = 20.0  # between two checkpoints, at least
MOMENTS, LINE_SECONDS = 8, 10.0  # lines about a phase, and between two about a test, where the output is no terminal
Interrupted = Callable[[], bool]


class Run(Protocol):
    """Everything that runs. Its `progress` is the part of the checkpoint that is not tensors."""

    folder: Path
    progress: Any  # with `is_finished`, and `seconds` by phase

    @property
    def name(self) -> str: ...
    @property
    def own(self) -> OwnParts: ...
    def save(self) -> None: ...
    def close(self) -> None: ...


@dataclass
class View:
    """What a page shows of this moment; each command says what is done and what the numbers are."""

    name: str
    progress: Any
    doing: str = ""
    answered: int | None = None  # held-out questions of the test that is being made
    test_began: float = 0.0
    last_line: float = 0.0  # when one was written about that test
    notice: str = "Control-C saves and stops."
    span: ClassVar[tuple[float, float] | None] = None  # of the curves

    @property
    def share(self) -> float:
        """How much of the present part is done, from 0 to 1."""
        raise NotImplementedError

    @property
    def part(self) -> str:
        """The word for that part."""
        return "phase" if self.answered is None else "test"

    def facts(self) -> list[str]:
        raise NotImplementedError

    def curves(self) -> Mapping[str, list[float]]:
        raise NotImplementedError

    def begin_test(self, doing: str, page: Page) -> None:
        self.doing, self.answered, self.test_began = doing, 0, time.monotonic()
        self.last_line = self.test_began
        page.moment(self)

    def note_answered(self, page: Page, answered: int) -> None:
        """Show it: also in a line now and then, where the output is no terminal."""
        self.answered = answered
        page.update(self)
        if time.monotonic() - self.last_line > LINE_SECONDS:
            page.moment(self)
            self.last_line = time.monotonic()

    @property
    def question(self) -> str:
        count = self.progress.questions
        return f"question {self.answered}" + (f" of {count}" if count else ", to measure the speed")

    @property
    def time_left(self) -> str:
        """The time of the test that is being made is not recorded yet."""
        spent = 0.0 if self.answered is None else time.monotonic() - self.test_began
        return clock(max(self.progress.seconds_left - spent, 0.0))

    @property
    def samples(self) -> list[tuple[int, str]]:
        return []  # texts are shown at the end

    def describe(self) -> str:
        return ", ".join([self.doing, *self.facts()])

    def lines(self, width: int) -> list[Text]:
        """Lines of less than `width` columns."""
        lines = [Text(f"{self.name}: {self.doing}", style="bold")]
        bar = progress_bar(self.share, min(30, max(width - 30, 8)))
        lines.append(Text.assemble(bar, f" {int(100 * self.share)} % of this {self.part}"))
        lines += [Text(line) for line in wrap_text(", ".join(self.facts()), width)]
        for name, values in self.curves().items():
            if len(values) > 1:
                lines += curve(name, values, width=min(CURVE_WIDTH, max(width - 20 - len(name), 4)), span=self.span)
        lines.append(Text(self.notice, style="dim"))
        for line in lines:
            line.truncate(width - 1, overflow="ellipsis")
        return lines


@contextmanager
def saving(run: Run, view: View, page: Page) -> Iterator[None]:
    """Inside, the run goes on, to its end or until Control-C; then it is saved. CodeProblem if the learner's code
    raises an exception; the last checkpoint stays."""
    with explaining_crashes(run.own.parts, NotANumber):
        try:
            yield
            run.save()
        finally:
            view.notice = ""
            page.close(view)


def take_steps(
    run: Run, view: View, page: Page, interrupted: Interrupted, step: Callable[[], None], phase: str,
    is_over: Callable[[], bool],
) -> bool:  # fmt: skip
    """Take steps until this phase, or a part of it, is over, and save now and then; False if it was interrupted."""
    view.answered = None
    page.moment(view)
    saved, moments = time.monotonic(), int(MOMENTS * view.share)
    while not is_over():
        if interrupted():
            return False
        with timed(run.progress.seconds, phase), hidden_prints():
            step()
        if time.monotonic() - saved > SAVE_SECONDS:
            run.save()
            saved = time.monotonic()
        if int(MOMENTS * view.share) > moments:
            moments = int(MOMENTS * view.share)
            page.moment(view)
        page.update(view)
    return True


@contextmanager
def timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    """Add the time that passes inside to that of this name."""
    began = time.monotonic()
    yield
    seconds[name] += time.monotonic() - began


def restore_optimizer(optimizer: Any, parameters: Iterable[nn.Parameter], state: Mapping[str, Tensor]) -> bool:
    """Give a new optimizer its state; return whether it fits. If the state is that after updates, an update with the
    learning rate 0 makes the places for it; it changes nothing."""
    if restore_state(optimizer, state):
        return True
    for weight in parameters:
        weight.grad = weight.detach() * 0
    optimizer.step()
    return restore_state(optimizer, state)
