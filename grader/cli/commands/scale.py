"""`headway scale`: many tiny trainings, the law that they show, and a larger training that tests it."""

from __future__ import annotations

from typing import Annotated

from grader.cli.arguments import option
from grader.cli.commands.train import DONE, FAILED, INTERRUPTED, Seed
from grader.console.output import command_line, make_console, print_wrapped
from grader.models.packages import require_packages


def scale(
    minutes: Annotated[float, option("How long. Default: 15.", min=0.05, max=10_000, metavar="M")] = 15.0,
    seed: Seed = None,
) -> int:
    """Find how model and data should grow, by tiny models, and test it with a larger one.

    GPTs of your own parts, of fifteen sizes, are trained at three budgets of FLOPs, each twice. Your compute_optimal
    and fit_power_law predict the best size and the loss at a larger budget; then that model is trained. What is trained
    stays in checkpoints/scale/. After Control-C, the same command goes on."""
    require_packages("scale", exit_status=FAILED)
    from contextlib import closing

    from grader.course.status import short_path
    from grader.files import write_whole
    from grader.models.own_parts import explaining_crashes, find_own_parts
    from grader.models.scaling.experiment import EXERCISES, run
    from grader.models.scaling.record import path_of
    from grader.models.scaling.report import describe, draw
    from grader.models.scaling.trainings import Trainings
    from grader.teaching.walks.progress_line import show_progress

    console, seed = make_console(), seed or 0
    with closing(find_own_parts(EXERCISES, show_progress)) as own, explaining_crashes(own.parts):
        for sentence in own.sentences():
            print_wrapped(console, sentence)
        trainings = Trainings(own.parts, seed)
        try:
            found = run(trainings, minutes, show_progress)
        except KeyboardInterrupt:
            print_wrapped(console, "Stopped; the finished trainings are saved. To go on:")
            console.print(command_line(f"headway scale --minutes {minutes:g} --seed {seed}"))
            return INTERRUPTED
        for part in describe(found, trainings.bits_per_byte):
            print_wrapped(console, part) if isinstance(part, str) else console.print(part)
        record = path_of(minutes, seed)
        picture = record.with_suffix(".svg")
        write_whole(picture, draw(found))
    print_wrapped(console, f"The picture is {short_path(picture)}. To train again, delete {short_path(record)}.")
    return DONE
