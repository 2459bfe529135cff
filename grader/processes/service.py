"""What a server needs to know: its service (which jobs it does, and how), and what starts the processes of its runs."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from grader.processes.job import Job

if TYPE_CHECKING:
    from grader.processes.report import Report

Runner = Callable[[Any, "Report"], int]  # does a job; returns the status of `done`


@dataclass
class Service:
    """What a server does, and the limits that it sets."""

    runners: Mapping[type[Job], Runner]  # by type of job, called in the process of the run
    idle_seconds: float = 3600.0  # without a run, after which the server ends
    run_seconds: float = 900.0  # for one run
    longest_request: int = 1 << 16  # bytes
    kit_seconds: float = 0.0  # so long the kit counts as unchanged after a look at its files
    stays_under: str = ""  # the conditions of a server that stays when the process that started it has ended
    crashed: str = "the run broke off, also in a separate process: {}"

    def loaded(self) -> None:
        """Called in a server that forks its runs, when torch and the kit are loaded."""

    def before_first_run(self, job: Job) -> None:
        """Called in a server that forks its runs, before the first of several runs of the same exercise."""

    def before_start(self, job: Job) -> None:
        """Called in the server before it starts the process of a run, which inherits what is made here."""

    def after_start(self) -> None:
        """Called in the server when the process has been started or could not be started."""

    def at_rest(self) -> None:
        """Called in the server a moment after the last of its runs, when no other one has begun."""

    def close(self) -> None:
        """Called in the server at its end."""


class Child(Protocol):
    """The process of one run, in its server."""

    sock: socket.socket  # its messages come from here
    first_message_seconds: float  # the deadline of its first message

    @property
    def late(self) -> bool:
        """Whether a call has not returned in time, if this can be seen from here."""

    def end(self, hurry: bool) -> int | None:
        """End it and everything that it started. Return how it ended by itself, None if it had to be killed: at once
        (`hurry`), or after a moment."""


class Starter(Protocol):
    """Starts the processes of runs."""

    close_in_fork: Callable[[], None]  # the server sets it

    def start(self, job: Job) -> Child: ...

    def close(self) -> None:
        """End the processes that have no run yet."""
