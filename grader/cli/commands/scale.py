"""`headway scale`: many tiny trainings, the law that they show, and a larger training that tests it."""

from __future__ import annotations

import os
from typing import Annotated

# before torch: on a busy machine, threads that wait actively slow each other down
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from grader.cli.arguments import option  # noqa: E402
from grader.cli.commands.train import DONE, FAILED, INTERRUPTED, Seed  # noqa: E402
from grader.console.output import command_line, make_console, print_error, print_wrapped  # noqa: E402
from grader.models.packages import missing_packages  # noqa: E402

MINUTES = 15.0


def scale(
    minutes: Annotated[
        float | None, option("How long, on this machine. Default: 15.", min=0.05, max=10_000, metavar="M")
    ] = None,
    seed: Seed = None,
) -> int:
    """Find how model and data should grow, by tiny models, and test it with a larger one.

    Twelve GPTs of your own parts are trained at three budgets of FLOPs. Your compute_optimal and fit_power_law predict
    the best size and the loss at a larger budget; then that model is trained. After Control-C the same command goes
    on; what is trained stays in checkpoints/scale/."""
    if missing := missing_packages("scale"):
        print_error(missing)
        return FAILED
    from contextlib import closing

    from grader.models.own_parts import explaining_crashes, find_own_parts
    from grader.models.scaling.experiment import EXERCISES
    from grader.teaching.walks.progress_line import show_progress

    with closing(find_own_parts(EXERCISES, show_progress)) as own, explaining_crashes(own.parts):
        return _scale(own, MINUTES if minutes is None else minutes, seed or 0)


def _scale(own, minutes: float, seed: int) -> int:
    from grader.course.status import short_path
    from grader.files import write_whole
    from grader.models.scaling.experiment import open_record, run, tests_of
    from grader.models.scaling.report import describe, draw
    from grader.models.scaling.trainings import Trainings
    from grader.models.training.live_page import control_c
    from grader.teaching.walks.progress_line import show_progress

    console = make_console()
    for sentence in own.sentences():
        print_wrapped(console, sentence)
    trainings = Trainings(own.parts, seed)
    record = open_record(minutes, seed, trainings)
    with control_c() as interrupted:
        law = run(record, own.parts, trainings, show_progress, interrupted)
    if law is None:
        print_wrapped(console, f"Stopped; {len(record.trained)} finished trainings are saved. To go on:")
        console.print(command_line(f"headway scale --minutes {minutes:g} --seed {seed}"))
        return INTERRUPTED
    for part in describe(record, law, trainings):
        if isinstance(part, str):
            print_wrapped(console, part)
        else:
            console.print(part)
    picture = record.path.with_suffix(".svg")
    write_whole(picture, draw(record, law, tests_of(record, law, trainings.sizes)))
    console.print()
    spent = f"The trainings took {record.seconds / 60:.1f} minutes."
    print_wrapped(console, f"{spent} The picture is {short_path(picture)}; to train again, delete the files beside it.")
    return DONE
