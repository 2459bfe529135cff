"""`headway progress`: what a model of the learner's own parts writes now, and how far it has come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from grader.cli.arguments import option
from grader.cli.commands.train import DONE
from grader.console.output import make_console, print_wrapped
from grader.models.packages import require_packages
from rich.text import Text

if TYPE_CHECKING:
    from grader.models.growth import Line, Stage
    from grader.models.own_parts import OwnParts

USUAL_MINUTES = 1.0
MAX_MISSING_NAMES = 3


def progress(
    minutes: Annotated[
        float | None,
        option("Train the best model of your parts, also if it was trained before.", min=0.05, max=1000, metavar="M"),
    ] = None,
) -> int:
    """See what a model of your own parts writes now.

    It builds the best language model that your passed exercises allow: bigrams, an embedding with a head, one attention
    layer, one block, or a GPT. It trains the model on little stories, and keeps its loss on other stories and a text
    that it writes. All models continue the same words, so you see how each chapter changes the text. Without --minutes
    it trains for one minute, and only a model that it has not trained yet.

    What trains the model is yours where it passes, and the reference's elsewhere.

    Exit status: 0, 1 if your code raises an error, 2 if a part is not in this handout, 130 after Control-C."""
    require_packages("progress")
    from grader.models.growth import STAGES, exercises_of, load_lines
    from grader.models.own_parts import find_own_parts
    from grader.teaching.walks.progress_line import show_progress

    own = find_own_parts(exercises_of(STAGES), show_progress)
    try:
        lines = load_lines()
        possible = [stage for stage in STAGES if not stage.missing(own)]
        if possible and (minutes is not None or possible[-1].name not in lines):
            lines[possible[-1].name] = _measure(possible[-1], own, minutes or USUAL_MINUTES)
        _print_lines(lines, own)
    finally:
        own.close()
    return DONE


def _measure(stage: Stage, own: OwnParts, minutes: float) -> Line:
    from grader.models.growth import keep_line, measure
    from grader.models.own_parts import explaining_crashes
    from grader.teaching.walks.progress_line import show_progress

    what = "counting the stories" if stage.is_counted else f"training {stage.title} for {minutes:g} min"
    with explaining_crashes(own.parts), show_progress(what, 100) as step:
        shown = 0

        def advance(share: float) -> None:
            nonlocal shown
            while shown < int(100 * share):
                shown += 1
                step()

        line = measure(stage, own.parts, minutes, advance=advance)
    keep_line(line)
    return line


def _print_lines(lines: dict[str, Line], own: OwnParts) -> None:
    from grader.models.growth import PROMPT, STAGES

    console = make_console()
    console.print(Text(f"What a model of your own parts writes after “{PROMPT}”\n", style="bold"))
    for stage in STAGES:
        heading, lacking = f"{stage.title}, chapter {stage.chapter}", stage.missing(own)
        if line := lines.get(stage.name):
            trained = "" if stage.is_counted else f", after {line.minutes:g} min"
            console.print(Text(f"{heading}: loss {line.loss:.2f}{trained}", style="bold"))
            print_wrapped(console, f"  {line.text}")
        elif lacking:
            more = f" and {len(lacking) - MAX_MISSING_NAMES} more" if len(lacking) > MAX_MISSING_NAMES else ""
            print_wrapped(console, f"{heading}: needs {', '.join(lacking[:MAX_MISSING_NAMES])}{more}", style="dim")
        else:
            print_wrapped(console, f"{heading}: not measured, because a later model was possible", style="dim")
        console.print()
    print_wrapped(console, "The loss is measured on stories that no model trains on; without any knowledge it is 6.15.")
