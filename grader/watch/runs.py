"""One run at a time, on the watch's own server.

The server is started when it is needed, and replaced when it ends or is out of date.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

from grader.processes.client import NoServer, ServerProcess
from grader.processes.job import CheckJob, read

MAX_SERVERS = 3  # for one run: the learner's code may have killed the first, and the second
Message = dict[str, Any]


class Runs:
    """Calls `on_message` with a run's number and each of its messages: those of processes/job.py, and `waking`."""

    def __init__(self, on_message: Callable[[int, Message], None]) -> None:
        self.on_message = on_message
        self.number = 0
        self.server: ServerProcess | None = None
        self.sock: socket.socket | None = None
        self.lock = threading.Lock()  # for the server: one thread at a time starts or uses it

    def start(self, name: str, first: tuple[str, ...] = ()) -> int:
        """Stop the present run, and start another; the tests `first` run before the others. Returns its number."""
        self.stop()
        threading.Thread(target=self._run, args=(self.number, name, first), name="headway run", daemon=True).start()
        return self.number

    def stop(self) -> None:
        """Close the connection: the server ends the run, and its remaining messages are ignored."""
        self.number += 1
        if self.sock is not None:
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.stop()
        if self.server is not None:
            self.server.end()

    def _run(self, number: int, name: str, first: tuple[str, ...]) -> None:
        """Send the job to the server, and put its messages into the queue; after a crash, try again."""
        problem = "the server that runs the tests ended three times; `headway doctor` may find the reason"
        in_worker = False
        for _ in range(MAX_SERVERS):
            try:
                sock = self._start_run(number, CheckJob(name, os.getcwd(), in_worker=in_worker, first=first))
            except NoServer as refusal:
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
                    self.on_message(number, message)
                    if "done" in message or "trouble" in message:
                        return
            if number != self.number:
                return
            with self.lock:
                self._end_server()
            in_worker = True  # the server was killed, most likely by the code that it ran
        self.on_message(number, {"trouble": f"There is no verdict: {problem}."})

    def _start_run(self, number: int, job: CheckJob) -> socket.socket | None:
        """The socket from which messages come; None if a newer run has started in the meantime."""
        with self.lock:
            if number != self.number:
                return None
            self.sock = self._send_job(number, job)
            if number != self.number:
                self.sock.close()
                return None
            return self.sock

    def _send_job(self, number: int, job: CheckJob) -> socket.socket:
        """Send the job to the server, when it is ready."""
        if self.server is None or not self.server.alive:
            self.on_message(number, {"waking": True})
            self.server = ServerProcess()
        try:
            return self.server.address().ask(job)
        except NoServer:
            self._end_server()
            raise

    def _end_server(self) -> None:
        if self.server is not None:
            self.server.end()
        self.server = None
