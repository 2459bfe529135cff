"""The engine's process: `python -m grader.warm.engine [--idle SECONDS] [--spare]`.

Its standard input is its lifeline: when that closes, whoever wanted it is gone. Its first line of output says where it is to be found.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import secrets
import signal
import socket
import sys
import threading
from typing import IO

from ..files import write_whole
from ..syllabus import EXERCISES
from .job import encode
from .server import Server

HOUR = 3600.0
ADDRESS = EXERCISES / ".headway" / "engine.json"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m grader.warm.engine")
    parser.add_argument("--idle", type=float, default=HOUR)
    parser.add_argument("--spare", action="store_true", help="spare processes, as where forking is not safe")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Control-C is for whoever sits at the terminal
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    out = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    lifeline = _lifeline()  # before pytest puts something else in its place
    token = secrets.token_hex(16)
    try:
        if options.spare or not sys.platform.startswith("linux"):
            with_spares(out, token, options.idle, lifeline)
        else:
            with_forks(out, token, options.idle, lifeline)
    except Exception as problem:
        with contextlib.suppress(OSError):
            out.write(encode({"trouble": f"{type(problem).__name__}: {problem}"}))
            out.flush()
        sys.exit(1)


def with_forks(out: IO[bytes], token: str, idle: float, lifeline: io.RawIOBase) -> None:
    from . import forks, held

    server: Server | None = None

    def wait():
        nonlocal server
        server = Server(lambda job: forks.start(job, server.forget), token, idle, lifeline)
        announce(out, server.port, token)
        try:
            server.serve()
        except forks.InRun as run:  # in the new process
            return run.job, run.sock
        except SystemExit:
            pass
        server.close()
        withdraw(token)
        return None

    status = held.hold(wait)
    if server is None:
        raise RuntimeError(f"the graded suites could not be collected (pytest's status {status}); run `pytest --collect-only` to see why")


def with_spares(out: IO[bytes], token: str, idle: float, lifeline: io.RawIOBase) -> None:
    from .spares import Stock

    with Stock() as stock:
        server = Server(stock.start, token, idle, lifeline)
        announce(out, server.port, token)
        with contextlib.suppress(SystemExit):
            server.serve()
        server.close()
        withdraw(token)


def announce(out: IO[bytes], port: int, token: str) -> None:
    """Tell whoever started the engine, and anyone of this user's who looks in the file."""
    address = encode({"port": port, "token": token, "pid": os.getpid()})
    with contextlib.suppress(OSError):  # where nothing can be written, only its starter finds it
        write_whole(ADDRESS, address)
        ADDRESS.chmod(0o600)
    out.write(address)
    out.close()


def withdraw(token: str) -> None:
    """Take the file away, if it is still ours."""
    with contextlib.suppress(OSError):
        if token in ADDRESS.read_text(encoding="utf-8"):
            ADDRESS.unlink()


def _lifeline() -> io.RawIOBase:
    """Standard input as something a selector can watch."""
    if os.name == "posix":
        return os.fdopen(os.dup(0), "rb", buffering=0)
    ours, theirs = socket.socketpair()

    def wait() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 1 << 12):
                pass
        theirs.close()

    threading.Thread(target=wait, name="headway lifeline", daemon=True).start()
    return ours.makefile("rb", buffering=0)


if __name__ == "__main__":
    main()
