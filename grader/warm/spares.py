"""Where forking is not safe: processes that have loaded everything and wait for one run each, always one in stock.

`python -m grader.warm.spares PORT` is such a process: it proves who it is with a token from its standard input, waits for a job, runs it and ends.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys

from .job import Job, decode, encode

START_SECONDS = 120.0
COLD = "the spare process that should have run the tests did not start; `headway doctor` says what is missing"


class Spare:
    """A process with everything loaded, or on the way to it; `sock` is a connection to it once that has come."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(START_SECONDS)
        self.token = secrets.token_hex(16)
        kit = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        path = os.pathsep.join(filter(None, [kit, os.environ.get("PYTHONPATH")]))
        command = [sys.executable, "-P", "-m", "grader.warm.spares", str(self.listener.getsockname()[1])]
        silent = dict(stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path}, start_new_session=True, **silent)
        self.process.stdin.write(self.token.encode())
        self.process.stdin.close()
        self.sock: socket.socket | None = None
        self.status: int | None = None

    def begin(self, job: Job) -> None:
        """Hand it its job; OSError where it never came up."""
        try:
            while self.sock is None:
                sock, _ = self.listener.accept()
                sock.settimeout(START_SECONDS)
                if secrets.compare_digest(sock.recv(len(self.token), socket.MSG_WAITALL), self.token.encode()):
                    self.sock = sock
        except TimeoutError:
            raise OSError(COLD) from None
        finally:
            self.listener.close()
        self.sock.sendall(encode({"job": vars(job)}))

    def end(self) -> int:
        if self.status is None:
            self.listener.close()
            try:
                self.status = self.process.wait(0.2)
            except subprocess.TimeoutExpired:
                pass
            if hasattr(os, "killpg"):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.process.pid, signal.SIGKILL)
            if self.status is None:
                self.process.kill()
                self.status = self.process.wait()
        return self.status


class Stock:
    """One spare process ahead of what is asked for."""

    def __init__(self) -> None:
        self.next = Spare()

    def start(self, job: Job) -> Spare:
        spare, self.next = self.next, Spare()
        try:
            spare.begin(job)
        except OSError:
            spare.end()
            raise
        return spare

    def __enter__(self) -> Stock:
        return self

    def __exit__(self, *_: object) -> None:
        self.next.end()


def main() -> None:
    """Load everything, then be the run that comes."""
    from . import held

    token = sys.stdin.read()
    sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))

    def wait() -> tuple[Job, socket.socket] | None:
        sock.sendall(token.encode())
        line = sock.makefile("rb", buffering=0).readline()
        return (Job(**decode(line)["job"]), sock) if line else None

    held.hold(wait)


if __name__ == "__main__":
    main()
