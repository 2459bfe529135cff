"""The server behind `headway check`, the watch and the pictures: `python -m grader.processes.check_server [--idle SECONDS] [--prestarted]`."""

from __future__ import annotations

from functools import partial

from grader.processes.job import CheckJob, PictureJob
from grader.processes.server import Service
from grader.processes.server_process import main


def service(fork: bool, options: list[str]) -> Service:
    from grader.processes.check_run import prepare_session
    from grader.processes.picture_run import draw

    return Service({CheckJob: partial(prepare_session, fork=fork), PictureJob: partial(draw, fork=fork)}, public=True)


if __name__ == "__main__":
    main("grader.processes.check_server", service)
