"""The watch where there is no screen to draw on: a pipe, a log, a terminal that only takes lines."""

from __future__ import annotations

from grader.console.output import make_console
from grader.watch.page import body, heading, status
from grader.watch.state import State
from rich.text import Text


class Plain:
    """Prints each thing once, when it is news."""

    def __init__(self) -> None:
        self.console = make_console()

    def start(self, state: State) -> None:
        self._print(*heading(state, self.console.width), Text("Testing at every save; Control-C ends it."), Text(""))

    def verdict(self, state: State) -> None:
        self._print(*body(state, self.console.width), *status(state, self.console.width), Text(""))

    def say(self, sentence: str) -> None:
        self._print(Text(sentence))

    def _print(self, *lines: Text) -> None:
        for line in lines:
            self.console.print(line, soft_wrap=True)
        self.console.file.flush()
