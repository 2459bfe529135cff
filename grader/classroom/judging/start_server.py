"""Starts the server that grades, which does with a GradeJob what grading_service.py says.

The command is `python -m grader.classroom.judging.start_server [--prestarted] ISOLATION`.
"""

from __future__ import annotations

from grader.execution.sandbox.isolation import Isolation
from grader.execution.worker_pool import WorkerPool
from grader.processes.server_process import main
from grader.processes.service import Service


def service(fork: bool, options: list[str]) -> Service:
    isolation = Isolation.named(options[-1])
    pool = WorkerPool(isolation=isolation)
    if fork:
        pool.start_early()  # the zygote loads torch while this process does
    from grader.classroom.judging.grading_service import ForkingGradingService, GradingService

    return ForkingGradingService(pool, isolation) if fork else GradingService(isolation)


if __name__ == "__main__":
    main("grader.classroom.judging.start_server", service)
