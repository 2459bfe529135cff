"""The server that tries implementations for dev-check and the proofs: `python -m grader.quality.server [--prestarted]`. devcheck/pool.py starts it."""

from __future__ import annotations

import math
from functools import partial

from grader.processes.job import Job
from grader.processes.server_process import main
from grader.processes.service import Runner, Service


def service(fork: bool, options: list[str]) -> Service:
    from grader.quality.devcheck.trying import TryJob, try_implementations
    from grader.quality.proof.catches.counting import CountJob, count_catches
    from grader.quality.proof.mutants.running import MutantsJob, try_mutants

    runners: dict[type[Job], Runner] = {TryJob: partial(try_implementations, fork=fork), MutantsJob: try_mutants, CountJob: count_catches}
    return Service(runners, run_seconds=math.inf, longest_request=1 << 26)


if __name__ == "__main__":
    main("grader.quality.server", service)
