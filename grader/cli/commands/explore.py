"""Tours of what the learner has built, measurements of the lessons, and labs: a question to try out."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping
from typing import Annotated

from grader.cli.arguments import argument, completing, known_name, option
from grader.console.output import command_line, make_console, print_wrapped
from grader.course.labs import Lab, keep_prediction, list_labs, load_predictions
from grader.course.syllabus import is_handout
from grader.teaching.measurements import list_measurements
from grader.teaching.walks import list_walks
from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text


def walk(
    typed: Annotated[str | None, argument("NAME", "A tour.", completing(list_walks))] = None,
    seed: Annotated[
        int,
        option("Use other random numbers; the run stays repeatable (default: 0).", min=0, max=2**31 - 1, metavar="N"),
    ] = 0,
) -> int:
    """Take a guided tour of what you have built, or list the tours.

    Without NAME it lists them.

    Exit status: 0 if the tour was taken, 2 if the command is wrong."""
    if typed is None:
        return _list("walk", _possible_walks() if is_handout() else list_walks())
    name = known_name("walk", "headway walk", typed, list_walks())
    from grader.teaching.walks.guide import run_walk  # here: it imports torch, which the list does not need

    run_walk(name, seed)
    return 0


def _possible_walks() -> dict[str, str]:
    """The walks whose exercises are all in this handout."""
    from grader.teaching.walks.guide import load_available_walk
    from grader.teaching.walks.parts import NotInHandout

    def is_here(name: str) -> bool:
        try:
            load_available_walk(name)
        except NotInHandout:
            return False
        return True

    return {name: title for name, title in list_walks().items() if is_here(name)}


def measure(
    name: Annotated[str | None, argument("NAME", "A measurement.", completing(list_measurements))] = None,
    options: Annotated[
        list[str] | None,
        argument("OPTIONS", "Options of the measurement, for example --seed 1 or --target exercises."),
    ] = None,
) -> int:
    """Repeat the measurement behind a table of a lesson.

    Without NAME it lists the measurements. `headway measure NAME --help` shows what NAME measures, and its options."""
    known = list_measurements()
    if name is None:
        return _list("measure", {name: measurement.title for name, measurement in known.items()})
    arguments = [known_name("measurement", "headway measure", name, known), *(options or [])]
    return subprocess.run([sys.executable, "-m", "grader.teaching.measurements", *arguments]).returncode


def _list(command: str, titles: Mapping[str, str]) -> int:
    console = make_console()
    for name, title in titles.items():
        print_wrapped(console, name, style="bold")
        print_wrapped(console, title)
        console.print()
    if titles:
        console.print("To choose one:")
        console.print(command_line(f"headway {command} NAME"))
    else:
        print_wrapped(console, f"This handout lacks the chapters that `headway {command}` needs.")
    return 0


# ---- labs


def lab(
    name: Annotated[str | None, argument("NAME", "A lab.", completing(list_labs))] = None,
    predict: Annotated[str | None, option("Write down what you expect.", metavar="TEXT")] = None,
    found: Annotated[bool, option("Show what was found here, also without a prediction.", "--found")] = False,
) -> int:
    """Investigate a question that the lessons leave open.

    Without NAME it lists the labs. You write down what you expect, run the experiment, and compare its result with what
    you expected and with what was found here. Nothing is graded.

    Exit status: that of the experiment; 0 if it does not run, 2 if there is no such lab."""
    labs, console = list_labs(), make_console()
    if name is None:
        done = dict.fromkeys(load_predictions(), " You have written down what you expect.")
        titles = {name: f"Chapter {each.chapter.number}: {each.title}" for name, each in labs.items()}
        return _list("lab", {name: title + done.get(name, "") for name, title in titles.items()})
    chosen = labs[known_name("lab", "headway lab", name, labs)]
    console.print(Text(f"Lab {chosen.name}: {chosen.title}", style="bold"))
    print_wrapped(console, f"Chapter {chosen.chapter.number}, {chosen.chapter.title}", style="dim")
    console.print()
    console.print(Markdown(chosen.question))
    expected = _prediction(console, chosen, predict)
    if expected:
        console.print()
        print_wrapped(console, f"You expect: {expected}")
    status = _experiment(console, chosen)
    if not (expected or found):
        console.print()
        print_wrapped(console, "Write down what you expect, and you see what was found here:")
        console.print(command_line(f'headway lab {chosen.name} --predict "..."'))
        return status
    for heading, text in (("What was found here", chosen.found), ("An open question", chosen.open_question)):
        console.print(Text(f"\n{heading}\n", style="bold"))
        console.print(Markdown(text))
    return status


def _prediction(console: Console, chosen: Lab, given: str | None) -> str:
    """What the learner expects: as given now, as written down before, or as asked for at a terminal."""
    expected = (given or "").strip()
    if not expected and (before := load_predictions().get(chosen.name)):
        return before
    if not expected:
        console.print()
        console.print(Markdown(f"**Predict.** {chosen.predict}"))
        expected = _ask("What do you expect, in one line? (Enter to skip) ")
    if expected:
        keep_prediction(chosen.name, expected)
    return expected


def _experiment(console: Console, chosen: Lab) -> int:
    console.print("\nThe experiment:")
    for line in chosen.experiment.splitlines():
        console.print(command_line(line))
    if chosen.look_at:
        console.print()
        console.print(Markdown(chosen.look_at))
    if not chosen.is_command or _ask("Run it now? [y/N] ").lower() not in ("y", "yes"):
        return 0
    return subprocess.run([sys.executable, "-m", "grader.cli.main", *shlex.split(chosen.experiment)[1:]]).returncode


def _ask(question: str) -> str:
    """The answer in one line; none without a terminal, and after Control-D."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return ""
    try:
        return input(question).strip()
    except EOFError:
        print()
        return ""
