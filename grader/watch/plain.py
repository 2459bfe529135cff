"""The watch without a full screen: in a pipe, a log, or a terminal that only prints lines."""

from __future__ import annotations

from grader.console.output import make_console
from grader.watch.page import body_lines, heading_lines, status_lines
from grader.watch.state import State
from rich.text import Text


class Plain:
    """Prints each new verdict or message once."""

    def __init__(self) -> None:
        self.console = make_console()

    def print_heading(self, state: State) -> None:
        name = state.exercise.name
        what = f"Each save tests {name}; `headway watch` without a name follows your changes." if state.pinned else "Each save tests the function that you changed."
        self._print(*heading_lines(state, self.console.width), Text(what), Text("Press Control-C to quit."), Text(""))

    def print_verdict(self, state: State) -> None:
        self._print(*body_lines(state, self.console.width), *status_lines(state, self.console.width), Text(""))

    def print_file_problem(self, state: State) -> None:
        self._print(*map(Text, state.file_excerpt), Text(f"{state.file_problem}. Waiting for the next save."))

    def print_message(self, sentence: str) -> None:
        self._print(Text(sentence))

    def _print(self, *lines: Text) -> None:
        for line in lines:
            self.console.print(line, soft_wrap=True)
        self.console.file.flush()
