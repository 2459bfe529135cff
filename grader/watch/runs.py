"""One run at a time, by an engine of our own that is started when it is needed and replaced when it is gone or out of date."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

from ..warm.client import Engine, NoEngine
from ..warm.job import Job, read

TRIES = 3  # engines for one run: the learner's code may have killed the first, and the second

Tell = Callable[[int, dict[str, Any]], None]


class Runs:
    """Tells what the engine says (warm/job.py lists it), each time with the number of the run; `waking` while an engine starts."""

    def __init__(self, tell: Tell) -> None:
        self.tell = tell
        self.number = 0
        self.engine: Engine | None = None
        self.address = None
        self.sock: socket.socket | None = None
        self.lock = threading.Lock()  # of the engine: one thread at a time starts or asks it

    def start(self, name: str) -> int:
        """Stop the run that is going on, if one is, and begin another."""
        self.stop()
        threading.Thread(target=self._run, args=(self.number, name), name="headway run", daemon=True).start()
        return self.number

    def stop(self) -> None:
        """Hang up: the engine ends the run, and whatever it still says is no longer heard."""
        self.number += 1
        if self.sock is not None:
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.stop()
        if self.engine is not None:
            self.engine.end()

    def _run(self, number: int, name: str) -> None:
        problem, door = "the engine that runs the tests ended three times; `headway doctor` may know why", "local"
        for _ in range(TRIES):
            try:
                sock = self._ask(number, Job(name, os.getcwd(), door=door))
            except NoEngine as refusal:
                if str(refusal):  # it cannot start, and would not the next time
                    problem = str(refusal)
                    break
                continue
            if sock is None:
                return
            with sock:
                for message in read(sock):
                    if number != self.number:
                        return
                    self.tell(number, message)
                    if "done" in message or "trouble" in message:
                        return
            if number != self.number:
                return
            with self.lock:
                self._drop()
            door = "worker"  # the engine was killed, most likely by the code that it ran
        self.tell(number, {"trouble": f"There is no verdict: {problem}."})

    def _ask(self, number: int, job: Job) -> socket.socket | None:
        """The socket from which answers come; None where a newer run has begun in the meantime."""
        with self.lock:
            if number != self.number:
                return None
            if self.engine is None or not self.engine.alive:
                self.tell(number, {"waking": True})
                self.engine = Engine()
                self.address = None
            try:
                self.address = self.address or self.engine.address()
                self.sock = self.address.ask(job)
            except NoEngine:
                self._drop()
                raise
            if number != self.number:
                self.sock.close()
                return None
            return self.sock

    def _drop(self) -> None:
        if self.engine is not None:
            self.engine.end()
        self.engine = self.address = None
