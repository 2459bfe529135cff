"""The server behind `headway check`, the watch and the pictures: `python -m grader.processes.check_server [--idle
SECONDS] [--prestarted] [--once] [--stay SESSION CONDITIONS]`."""

from __future__ import annotations

from functools import partial

from grader.processes.job import CheckJob, Job, PictureJob
from grader.processes.server_process import main
from grader.processes.service import Service
from grader.system.kernel import use_huge_pages


def service(fork: bool, options: list[str]) -> Service:
    from grader.processes.check_run import check, draw, preload_exercise

    class CheckService(Service):
        def before_first_run(self, job: Job) -> None:
            if isinstance(job, CheckJob):
                preload_exercise(job)

        def at_rest(self) -> None:
            if fork:
                use_huge_pages()  # takes 0.4 s the first time, and 4 ms later

    return CheckService({CheckJob: partial(check, fork=fork), PictureJob: partial(draw, fork=fork)})


if __name__ == "__main__":
    main("grader.processes.check_server", service)
