"""Labs: a question, a prediction, an experiment, and what was found here."""

from __future__ import annotations

import shlex
import subprocess
import sys
from difflib import get_close_matches
from typing import Annotated

from grader.cli.arguments import argument, option
from grader.console.output import command_line, make_console, print_error, print_wrapped
from grader.course.labs import Lab, keep_prediction, list_labs, load_predictions
from grader.course.syllabus import is_handout
from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text


def complete_lab(incomplete: str) -> list[str]:
    return [name for name in list_labs() if name.startswith(incomplete)]


def lab(
    name: Annotated[str | None, argument("NAME", "A lab.", complete_lab)] = None,
    predict: Annotated[str | None, option("Write down what you expect.", metavar="TEXT")] = None,
    found: Annotated[bool, option("Show what was found here, also without a prediction.", "--found")] = False,
) -> int:
    """Investigate a question that the lessons leave open.

    Without NAME it lists the labs. You write down what you expect, run the experiment, and compare its result with what
    you expected and with what was found here. Nothing is graded.

    Exit status: that of the experiment; 0 if it does not run, 2 if there is no such lab."""
    labs = list_labs()
    if name is None:
        return _list(labs)
    if name not in labs:
        near = get_close_matches(name, labs, n=1)
        here = " in this handout" if is_handout() else ""
        advice = f"did you mean {near[0]}?" if near else "`headway lab` lists them all"
        print_error(f"there is no lab {name!r}{here}; {advice}")
        return 2
    chosen, console = labs[name], make_console()
    console.print(Text(f"Lab {name}: {chosen.title}", style="bold"))
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
        console.print(command_line(f'headway lab {name} --predict "..."'))
        return status
    for heading, text in (("What was found here", chosen.found), ("An open question", chosen.open_question)):
        console.print(Text(f"\n{heading}\n", style="bold"))
        console.print(Markdown(text))
    return status


def _list(labs: dict[str, Lab]) -> int:
    console, predicted = make_console(), load_predictions()
    if not labs:
        print_wrapped(console, "This handout has no labs: they belong to chapters that are not in it.")
        return 0
    width = max(map(len, labs))
    for each in labs.values():
        tick = "x" if each.name in predicted else " "
        console.print(Text(f"{tick} {each.name:<{width}}  {each.chapter.number:>2}  {each.title}"))
    console.print()
    print_wrapped(console, "x: you have written down what you expect. The number is the chapter's. To open a lab:")
    console.print(command_line("headway lab NAME"))
    return 0


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
