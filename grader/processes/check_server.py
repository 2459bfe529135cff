"""The server behind `headway check`, the watch and the pictures: `python -m grader.processes.check_server [--idle SECONDS] [--prestarted]`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from grader.processes.job import CheckJob, Job, PictureJob
from grader.processes.server_process import main
from grader.processes.service import Service

if TYPE_CHECKING:
    import pytest


def service(fork: bool, options: list[str]) -> Service:
    from grader.processes.check_run import preload_exercise, preload_mistakes, prepare_check
    from grader.processes.picture_run import draw

    class CheckService(Service):
        session: pytest.Session | None = None

        def loaded(self, session: pytest.Session) -> None:
            self.session = session

        def before_first_run(self, job: Job) -> None:
            if self.session and isinstance(job, CheckJob):
                preload_exercise(self.session, job)

        def after_first_run(self, job: Job) -> None:
            if isinstance(job, CheckJob):
                preload_mistakes(job)

    return CheckService({CheckJob: partial(prepare_check, fork=fork), PictureJob: partial(draw, fork=fork)}, public=True)


if __name__ == "__main__":
    main("grader.processes.check_server", service)
