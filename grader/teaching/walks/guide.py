"""Run a walk: find out whose code runs, measure with it, print the walk's template with the numbers.

The template is exercises/walks/chNN_name.md, Markdown with places for the numbers of a run:

# A title               says what the walk shows
## A heading | a note   a numbered step; the note is printed at the right
a paragraph             is wrapped; {loss:.2f}, {losses[-1]:.2f} and {model.size} are numbers, as in str.format
{noise_table}           alone in a paragraph: what the functions of terminal_drawing.py made, such as a table
[if same] a paragraph   is printed if `same` is true; [if not same] if it is false
    an indented line    is not wrapped; between ** it is bold
## Next                 (the last heading) what to try next
"""

from __future__ import annotations

import os
import random
import re
import string
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: the same sums everywhere, and small models need no more

import torch  # noqa: E402
from grader.console.output import (  # noqa: E402
    ProgressReporter,
    command_line,
    make_console,
    print_wrapped,
    show_progress,
    supports_unicode,
)
from grader.counts import format_count  # noqa: E402
from grader.course.source import read_source  # noqa: E402
from grader.course.syllabus import load_syllabus  # noqa: E402
from grader.teaching.terminal_drawing import Block, line  # noqa: E402
from grader.teaching.walks import load, template_path  # noqa: E402
from grader.teaching.walks.parts import ExerciseStatus, MixedChapters, NotInHandout, find_status, hidden_prints  # noqa: E402  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.control import Control  # noqa: E402
from rich.segment import ControlType  # noqa: E402
from rich.text import Text  # noqa: E402

INDENT = "  "
_CONDITION = re.compile(r"\[if (not )?(\w+)\] ")


class WalkStopped(Exception):
    """The reader does not want the next section."""


class WalkPage:
    """Prints a walk; each method prints what its name says. `pauses`: wait for Enter before each section."""

    def __init__(self, console: Console, pauses: bool = False) -> None:
        self.console, self.pauses = console, pauses
        self.steps = 0

    def step(self, text: str, note: str = "") -> None:
        """Print a numbered heading, with a short note at its right, such as the shape of the result."""
        self.steps += 1
        self.heading(f"{self.steps}  {text}".ljust(41) + f" {note}" if note else f"{self.steps}  {text}")

    def heading(self, text: str) -> None:
        if self.pauses:
            self._wait()
        rule = "─" if supports_unicode() else "-"
        self.console.print()
        self.console.print(Text(f"{rule * 2} {text} ".ljust(self.console.width, rule), style="bold"), soft_wrap=True)

    def _wait(self) -> None:
        """Wait for Enter, and remove the line that asks for it. WalkStopped for q, and for the end of the input."""
        self.console.print()
        self.console.print(Text("Enter: the next section; q and Enter: stop ", style="dim"), end="")
        try:
            answer = self.console.input()
        except EOFError:
            answer = "q"
        self.console.control(Control((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2)))
        self.console.control(Control((ControlType.CURSOR_UP, 1)))
        if answer.strip().lower().startswith("q"):
            raise WalkStopped

    def say(self, text: str) -> None:
        print_wrapped(self.console, text)

    def show(self, block: Block) -> None:
        for part in block:
            if isinstance(part, str):
                self.say(part)
            else:
                indented = Text(INDENT) + part
                indented.rstrip()
                self.console.print(indented, soft_wrap=True)


def read_template(path: Path) -> SimpleNamespace:
    """Return the title, the paragraphs of the introduction, each step as (heading, paragraphs), and the next step."""
    head, *steps = re.split(r"^## ", read_source(path), flags=re.MULTILINE)
    title, *introduction = _paragraphs(head)
    *parts, (_, next_step) = ((heading, paragraphs) for heading, *paragraphs in map(_paragraphs, steps))
    texts = {"title": title.removeprefix("# "), "introduction": introduction, "next_step": " ".join(next_step)}
    return SimpleNamespace(steps=parts, **texts)


def _paragraphs(text: str) -> list[str]:
    """Return the paragraphs; each is one line, but indented lines stay."""
    found = [paragraph for paragraph in re.split(r"\n\s*\n", text.rstrip()) if paragraph]
    return [paragraph if paragraph.startswith(" ") else " ".join(paragraph.split("\n")) for paragraph in found]


def print_template(page: WalkPage, template: SimpleNamespace, numbers: Mapping[str, Any]) -> None:
    for paragraph in template.introduction:
        _print(page, paragraph, numbers)
    for heading, paragraphs in template.steps:
        page.step(*fill(heading, numbers).split(" | "))
        for paragraph in paragraphs:
            _print(page, paragraph, numbers)


def _print(page: WalkPage, paragraph: str, numbers: Mapping[str, Any]) -> None:
    if condition := _CONDITION.match(paragraph):
        if bool(numbers[condition[2]]) == bool(condition[1]):
            return
        paragraph = paragraph[condition.end() :]
    field = re.fullmatch(r"\{([\w\[\]]+)\}", paragraph)
    if field and isinstance(block := _Formatter().get_field(field[1], (), numbers)[0], list):
        page.show(block)
    elif paragraph.startswith(" "):
        for text in fill(paragraph, numbers).split("\n"):
            bare = text.strip().removeprefix("**").removesuffix("**")
            page.show(line(bare, style="bold" if bare != text.strip() else ""))
    else:
        page.say(fill(paragraph, numbers))


def fill(text: str, numbers: Mapping[str, Any]) -> str:
    """Return the text with the numbers in their places."""
    return _Formatter().vformat(text, (), numbers)


class _Formatter(string.Formatter):
    """str.format, but `{losses[-1]}` is the last loss."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        name, *keys = re.findall(r"[^.\[\]]+", field_name)
        value = kwargs[name]
        for key in keys:
            if re.fullmatch(r"-?\d+", key):
                value = value[int(key)]
            else:
                value = value[key] if isinstance(value, Mapping) else getattr(value, key)
        return value, name


def run_walk(name: str, seed: int, pauses: bool = False) -> None:
    """Run the walk: the whole, or until the reader stops it in a pause between sections. Raises NotInHandout if this
    handout lacks an exercise that the walk needs, and another UserProblem if it cannot run on this machine."""
    walk, template = load_available_walk(name), read_template(template_path(name))
    if hasattr(walk, "require"):
        walk.require()
    walk_page = WalkPage(make_console(), pauses)
    walk_page.console.print(f"headway walk {name}", style="bold")
    walk_page.say(template.title)
    walk_page.console.print()
    status = find_status(walk.REQUIRED_EXERCISES, show_progress)
    measurement = measure(walk, status, seed, show_progress)
    learner = [name for name in _in_course_order(measurement) if name in measurement.from_learner]
    for sentence in [*status.sentences_about(learner, measurement.from_reference), *measurement.notes]:
        walk_page.say(sentence)
    numbers = template_numbers(walk, measurement.numbers)
    with suppress(WalkStopped):
        print_template(walk_page, template, numbers)
        walk_page.heading("Next")
        _print_next_step(walk_page, fill(template.next_step, numbers), measurement)


def load_available_walk(name: str) -> ModuleType:
    """Import the walk; raise NotInHandout if it needs exercises that this handout leaves out."""
    walk = load(name)
    here = {exercise.name for exercise in load_syllabus().exercises}
    if gone := [exercise for exercise in walk.REQUIRED_EXERCISES if exercise not in here]:
        others = f" and {format_count(len(gone) - 1, 'more exercise')}" if len(gone) > 1 else ""
        verb = "are" if others else "is"
        raise NotInHandout(f"the walk {name} needs {gone[0]}{others}, which {verb} not in this handout")
    return walk


def template_numbers(walk: ModuleType, numbers: SimpleNamespace) -> dict[str, Any]:
    """Return all that the walk's template may name: the module's constants, the numbers, and what follows from them."""
    constants = {name: value for name, value in vars(walk).items() if name.isupper()}
    return constants | vars(numbers) | walk.describe(numbers)


def measure(walk: ModuleType, status: ExerciseStatus, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
    """Return the numbers of the walk, measured with the learner's code where it passes its tests, and whose code ran.

    If such code raises here all the same, the reference's code replaces it, and a note says so.
    """
    passed, notes = set(status.passed), []
    while True:
        parts = MixedChapters(walk.REQUIRED_EXERCISES, passed)
        for why in parts.broken.values():
            notes.append(f"{why}. So this walk uses the reference's code for that whole chapter.")
        passed = set(parts.from_learner)
        random.seed(seed)
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        try:
            with hidden_prints(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                numbers = walk.measure(parts, seed, report_progress)
            authors = {"from_learner": set(parts.from_learner), "from_reference": parts.from_reference}
            return SimpleNamespace(numbers=numbers, notes=notes, **authors)
        except KeyboardInterrupt:
            raise
        except BaseException as trouble:
            if not parts.from_learner:
                raise
            culprit = parts.find_raising_exercise(trouble)
            what = f"{type(trouble).__name__}: {trouble}".split("\n")[0][:120]
            if culprit:
                notes.append(
                    f"Your {culprit} passes its tests but raised {what} here. "
                    "So this walk uses the reference's code for it."
                )
                passed.discard(culprit)
            else:
                notes.append(
                    f"Your code passes its tests, but this walk fails with it ({what}). "
                    "So the walk uses the reference's code for all exercises."
                )
                passed = set()
        finally:
            parts.close()


def _in_course_order(measurement: SimpleNamespace) -> list[str]:
    """Return all exercises of the walk, from both sources, in the order of the course."""
    wanted = measurement.from_learner | set(measurement.from_reference)
    return [exercise.name for exercise in load_syllabus().exercises if exercise.name in wanted]


def _print_next_step(walk_page: WalkPage, next_step: str, measurement: SimpleNamespace) -> None:
    """Propose what to try: the walk's own proposal, then the first exercise of this walk that is not the learner's."""
    walk_page.say(next_step)
    if undone := [name for name in _in_course_order(measurement) if name in measurement.from_reference]:
        walk_page.say(f"The first exercise of this walk that does not use your code yet is {undone[0]}:")
        walk_page.console.print(command_line(f"headway check {undone[0]}"), soft_wrap=True)
    sys.stdout.flush()
