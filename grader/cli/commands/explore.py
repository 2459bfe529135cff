"""Tours of what the learner has built, measurements of the lessons, and labs: a question to try out."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping
from typing import Annotated

from grader.cli.arguments import argument, completing, known_name, option
from grader.console.output import command_line, make_console, print_error, print_wrapped
from grader.course.labs import Lab, keep_prediction, list_labs, load_predictions
from grader.course.syllabus import ROOT, is_handout
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
    step: Annotated[bool, option("In a terminal, wait for Enter after each section.", "--step")] = False,
) -> int:
    """Take a guided tour of what you have built, or list the tours.

    Without NAME it lists them.

    Exit status: 0 if the tour was taken, 2 if the command is wrong."""
    if typed is None:
        status = _list("walk", _possible_walks() if is_handout() else list_walks())
        print_wrapped(make_console(), "With `--step` it waits for Enter after each section.")
        return status
    name = known_name("walk", "headway walk", typed, list_walks())
    from grader.teaching.walks.guide import run_walk  # here: it imports torch, which the list does not need

    run_walk(name, seed, step and _has_terminal())
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
    run: Annotated[bool, option("Run the experiment now.", "--run")] = False,
    found: Annotated[bool, option("Show what was found here, also without a prediction.", "--found")] = False,
) -> int:
    """Investigate a question that the lessons leave open.

    Without NAME it lists the labs. You write down what you expect, run the experiment, and compare your own result with
    what you expected and with what was found here. Nothing is graded.

    Exit status: that of the experiment; 0 if it does not run, 2 if there is no such lab or the prediction is empty."""
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
    status = _experiment(console, chosen, run and bool(expected or found))
    if not (expected or found):
        console.print()
        print_wrapped(console, "Write down what you expect, and you see what was found here:")
        console.print(command_line(f'headway lab {chosen.name}{" --run" * run} --predict "WHAT YOU EXPECT"'))
        return status
    if expected:
        _heading(console, "What you expected")
        print_wrapped(console, expected)
    for heading, text in (
        ("What was found here", chosen.found),
        ("An open question", chosen.open_question),
        ("To start", chosen.to_start),
    ):
        _heading(console, heading)
        console.print(Markdown(text))
    console.print()
    _print_code(console, chosen.start)
    return status


def _heading(console: Console, words: str) -> None:
    console.print(Text(f"\n{words}\n", style="bold"))


def _print_code(console: Console, code: str) -> None:
    for line in code.splitlines():
        console.print(command_line(line), soft_wrap=True)


def _prediction(console: Console, chosen: Lab, given: str | None) -> str:
    """What the learner expects: as given now, as written down before, or as asked for at a terminal. UserProblem if it
    says nothing."""
    expected = given
    if expected is None and (before := load_predictions().get(chosen.name)):
        return before
    if expected is None:
        console.print()
        console.print(Markdown(f"**Predict.** {chosen.predict}"))
        expected = _ask("What do you expect, in one line? (Enter to skip) ") or None
    if expected is not None:
        keep_prediction(chosen.name, expected.strip())
    return expected or ""


def _experiment(console: Console, chosen: Lab, run: bool) -> int:
    console.print("\nThe experiment:")
    _print_code(console, chosen.experiment)
    if chosen.look_at:
        console.print()
        console.print(Markdown(chosen.look_at))
    if not run and _ask("Run it now? [y/N] ").lower() not in ("y", "yes"):
        return 0
    _heading(console, "Your result")
    sys.stdout.flush()
    if chosen.is_command:
        words = shlex.split(chosen.experiment)[1:]
        return subprocess.run([sys.executable, "-m", "grader.cli.main", *words], cwd=ROOT).returncode
    done = subprocess.run([sys.executable, "-c", chosen.experiment], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        [*_, last] = done.stderr.strip().splitlines() or ["it was stopped"]
        unwritten = "an exercise that it needs is not implemented yet"
        print_error(f"the experiment ended early: {unwritten if last.startswith('NotImplementedError') else last}")
    return done.returncode


def _has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _ask(question: str) -> str:
    """The answer in one line; none without a terminal, and after Control-D."""
    if not _has_terminal():
        return ""
    try:
        return input(question).strip()
    except EOFError:
        print()
        return ""
