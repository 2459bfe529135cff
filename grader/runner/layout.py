"""The layout of results as text: for pytest, the watch and notebooks."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

from grader.teaching.show.catalog import has_picture
from grader.verdict.results import ExerciseResult, Failure, replaced_sentences

WIDTH = 80
MAX_ALSO_FAILED = 4  # further failed tests of an exercise that are listed by name
MAX_EXERCISE_LINES = 25
ROW_MARKUP = {"problem": {"red": True}, "that is": {"bold": True}}
# What is shortened, in this order, while there are more lines: a label, and the lines that are left of it.
STEPS = (
    ("also", 1), ("printed", 2), ("called", 3), ("got", 3), ("expected", 3), ("problem", 3), ("differs", 1),
    ("that is", 1), ("called", 1), ("got", 1), ("expected", 1), ("printed", 1), ("problem", 2), ("also", 0),
    ("promised", 1),
)  # fmt: skip


def print_result(page: Page, result: ExerciseResult, verbose: bool = False, last: str | None = None) -> None:
    """Print what is wrong with one exercise in at most LONGEST lines: one failure in full, the others by name. `last`
    replaces the line about hints."""
    hints = _hint_lines(result)
    last = "\n".join(hints) if last is None else last
    if verbose:
        _print_all(page, result, verbose, last)
        return
    # so that the watch, `headway check` and the feedback of a class shorten alike
    most = MAX_EXERCISE_LINES - 1 - len(hints) - (not result.script)
    for count in range(len(STEPS) + 1):
        lines: list[tuple[str, dict[str, bool]]] = []
        draft = Page(lambda text, **markup: lines.append((text, markup)), page.width)  # noqa: B023
        draft.few = dict(STEPS[:count])
        _print_all(draft, result, verbose, "")
        if len(lines) <= most:
            break
    if last:
        lines += [("", {}), *((line, {}) for line in last.splitlines())]
    for text, markup in lines:
        page.write(text, **markup)


def _print_all(page: Page, result: ExerciseResult, verbose: bool, last: str) -> None:
    page.title(result.exercise.name)
    for sentence in result.forbidden:
        page.wrapped(f"No points for this exercise: {sentence}.", red=True)
    for sentence in replaced_sentences(result.replaced):
        page.wrapped(sentence, yellow=True)
    failures, also = result.failures, page.few.get("also", MAX_ALSO_FAILED)
    for number, mistake in enumerate(result.diagnosis.mistakes if result.diagnosis else ()):
        if number > 0:
            page.blank()
        page.wrapped(mistake.says, red=True)
        page.wrapped(mistake.hint)
    if failures and (result.forbidden or result.diagnosis):
        page.blank()
    for number, test in enumerate(failures):
        if number == 0 or verbose:
            page.line(f"{test.outcome.upper()}  {test.name.partition('[')[0]}", red=True)
            if test.details:
                page.failure(test.details)
            if number == 0 and result.script:
                page.line(f"  run again {result.script}")  # a command stays on one line
        elif number <= also or len(failures) == also + 2:
            page.wrapped(f"also {test.outcome}: {test.name}", indent=2)
    if not verbose and len(failures) > also + 2:
        page.line(f"  and {len(failures) - also - 1} more")
    if last:
        page.blank()
        for line in last.splitlines():
            page.line(line)


def _hint_lines(result: ExerciseResult) -> list[str]:
    lines = [f"For a hint: headway hint {result.exercise.name}"]
    return lines + [f"For a picture: headway show {result.exercise.name}"] if has_failing_picture(result) else lines


def has_failing_picture(result: ExerciseResult) -> bool:
    """Whether a test failed whose exercise `headway show` can draw."""
    return has_picture(result.exercise.name) and any(test.outcome == "failed" for test in result.tests)


class Page:
    """Text of at most 80 columns. `write` prints one line, and takes `bold`, `red`, `green` and `yellow` as
    keywords."""

    def __init__(self, write: Callable[..., None], width: int) -> None:
        self.write = write
        self.width = min(WIDTH, width)
        self.few: dict[str, int] = {}  # the most lines of a label's text, where they are limited

    def title(self, text: str) -> None:
        self.write("")
        self.write(f"── {text} ".ljust(self.width, "─"), bold=True)

    def line(self, text: str, **markup: bool) -> None:
        self.write(text, **markup)

    def blank(self) -> None:
        self.write("")

    def wrapped(self, text: str, indent: int = 0, **markup: bool) -> None:
        pad = " " * indent
        for line in textwrap.wrap(
            text, self.width - 1, initial_indent=pad, subsequent_indent=pad, break_long_words=True
        ):
            self.write(line, **markup)

    def labelled(self, label: str, text: str, **markup: bool) -> None:
        """A label, and the text to its right; a line that is too long is wrapped."""
        head = f"  {label:<10}"
        room = self.width - len(head) - 1
        lines = [
            piece for line in text.split("\n") for piece in ([line] if len(line) <= room else textwrap.wrap(line, room))
        ]
        if len(lines) > (few := self.few.get(label, len(lines))):
            lines = [*lines[: few - 1], f"{lines[few - 1][: room - 2]} …"]
        for number, line in enumerate(lines):
            self.write((head if number == 0 else " " * len(head)) + line, **markup)

    def columns(self, left: str, middle: str, right: str, **markup: bool) -> None:
        line = f"{left:<{min(36, self.width - 10)}}{middle:>10}"
        if right and len(line) + 3 + len(right) > self.width:  # a narrow terminal: on its own line
            self.write(line, **markup)
            line = " " * 4 + right
        elif right:
            line += f"   {right}"
        self.write(line, **markup)

    def failure(self, words: Failure) -> None:
        for row in words.rows():
            text = words.called[0] if row.label == "called" and "called" in self.few else row.text
            self.labelled(row.label, text, **ROW_MARKUP.get(row.label, {}))
