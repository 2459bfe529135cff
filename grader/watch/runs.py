"""One run at a time (and pictures beside it), by an engine of our own that is started when it is needed and replaced when it is gone or out of date."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

from grader.processes.client import Address, Engine, NoEngine
from grader.processes.job import Job, read

TRIES = 3  # engines for one run: the learner's code may have killed the first, and the second

Tell = Callable[[int, dict[str, Any]], None]


class Runs:
    """Tells what the engine says (warm/job.py lists it), each time with the number of the run; `waking` while an engine starts."""

    def __init__(self, tell: Tell, drawn: Callable[[str, dict[str, Any]], None] = lambda *_: None) -> None:
        self.tell, self.drawn = tell, drawn
        self.number = 0
        self.engine: Engine | None = None
        self.address: Address | None = None
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
        problem, in_worker = "the engine that runs the tests ended three times; `headway doctor` may know why", False
        for _ in range(TRIES):
            try:
                sock = self._ask(number, Job(name, os.getcwd(), in_worker=in_worker))
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
            in_worker = True  # the engine was killed, most likely by the code that it ran
        self.tell(number, {"trouble": f"There is no verdict: {problem}."})

    def _ask(self, number: int, job: Job) -> socket.socket | None:
        """The socket from which answers come; None where a newer run has begun in the meantime."""
        with self.lock:
            if number != self.number:
                return None
            self.sock = self._asked(number, job)
            if number != self.number:
                self.sock.close()
                return None
            return self.sock

    def _asked(self, number: int, job: Job) -> socket.socket:
        """Ask the engine, once it is there."""
        if self.engine is None or not self.engine.alive:
            self.tell(number, {"waking": True})
            self.engine = Engine()
            self.address = None
        try:
            self.address = self.address or self.engine.address()
            return self.address.ask(job)
        except NoEngine:
            self._drop()
            raise

    def draw(self, name: str) -> None:
        """Beside whatever run is going on; `drawn` hears the picture, or a sentence where there is none."""
        threading.Thread(target=self._draw, args=(name,), name="headway picture", daemon=True).start()

    def _draw(self, name: str) -> None:
        job, problem = Job(name, os.getcwd(), picture=True), "the engine that draws it ended; s tries again"
        for _ in range(2):  # the engine of before may be out of date
            try:
                with self.lock:
                    sock = self._asked(self.number, job)
            except NoEngine as refusal:
                if str(refusal):
                    problem = str(refusal)
                    break
                continue
            with sock:
                for message in read(sock):
                    if "picture" in message or "trouble" in message:
                        self.drawn(name, message)
                        return
            break
        self.drawn(name, {"trouble": problem})

    def _drop(self) -> None:
        if self.engine is not None:
            self.engine.end()
        self.engine = self.address = None
