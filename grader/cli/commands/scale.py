"""`headway scale`: many tiny trainings, the law that they show, and a larger training that tests it."""

from __future__ import annotations

from typing import Annotated

from grader.cli.arguments import option
from grader.cli.commands.train import DONE, FAILED, INTERRUPTED, Seed
from grader.console.output import command_line, make_console, print_wrapped
from grader.models.packages import require_packages


def scale(
    minutes: Annotated[
        float | None,
        option("How long. Default: 15, or what the smallest experiment takes.", min=0.05, max=10_000, metavar="M"),
    ] = None,
    seed: Seed = None,
) -> int:
    """Find how model and data should grow, by tiny models.

    30 GPTs of your own parts are trained: five sizes at each of three budgets of FLOPs, each twice. Your
    compute_optimal and fit_power_law predict the best size and the loss at a larger budget; then that model is trained,
    and one or two others if time is left. What is trained stays in checkpoints/scale/. After Control-C, the same
    command goes on."""
    require_packages("scale", exit_status=FAILED)
    from contextlib import closing

    from grader.chapters.ch19_data_and_scale.scaling.experiment import EXERCISES, MINUTES, run
    from grader.chapters.ch19_data_and_scale.scaling.record import path_of
    from grader.chapters.ch19_data_and_scale.scaling.report import describe, draw
    from grader.chapters.ch19_data_and_scale.scaling.trainings import Trainings
    from grader.console.output import show_progress
    from grader.course.status import short_path
    from grader.files import write_whole
    from grader.models.own_parts import explaining_crashes, find_own_parts

    console, seed = make_console(), seed or 0
    with closing(find_own_parts(EXERCISES, show_progress)) as own, explaining_crashes(own.parts):
        for sentence in own.sentences():
            print_wrapped(console, sentence)
        trainings = Trainings(own.parts, seed)
        try:
            found = run(trainings, minutes, show_progress, lambda sentence: print_wrapped(console, sentence))
        except KeyboardInterrupt:
            print_wrapped(console, "Stopped; the finished trainings are saved. To go on:")
            length = f" --minutes {minutes:g}" if minutes else ""
            console.print(command_line(f"headway scale{length} --seed {seed}"))
            return INTERRUPTED
        for part in describe(found, trainings.bits_per_byte):
            print_wrapped(console, part) if isinstance(part, str) else console.print(part)
        record = path_of(minutes or MINUTES, seed)
        picture = record.with_suffix(".svg")
        write_whole(picture, draw(found))
    print_wrapped(console, f"The picture is {short_path(picture)}. To train again, delete {short_path(record)}.")
    return DONE
