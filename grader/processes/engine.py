"""The engine's process: `python -m grader.processes.engine [--idle SECONDS] [--spare]`.

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
from collections.abc import Callable, Iterator
from typing import IO, Any

from grader.course.syllabus import EXERCISES
from grader.files import write_whole
from grader.processes.job import encode
from grader.processes.prestarted import COLD, NeverReady, Stock
from grader.processes.server import Child, Server
from grader.system import process_tree
from grader.system.streams import redirect_to_null

HOUR = 3600.0
ADDRESS = EXERCISES / ".headway" / "engine.json"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m grader.processes.engine")
    parser.add_argument("--idle", type=float, default=HOUR)
    parser.add_argument("--spare", action="store_true", help="spare processes, as where forking is not safe")
    options = parser.parse_args()
    with starting() as (out, lifeline):
        if options.spare or not sys.platform.startswith("linux"):
            with_spares(Stock(), out, options.idle, lifeline)
        else:
            with_forks(out, options.idle, lifeline)


@contextlib.contextmanager
def starting() -> Iterator[tuple[IO[bytes], io.RawIOBase]]:
    """Where to say that the engine is ready, and its lifeline; whoever started it is told in a sentence if it does not get so far."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Control-C is for whoever sits at the terminal
    out = os.fdopen(os.dup(1), "wb")
    redirect_to_null(1)
    lifeline = _lifeline()  # before pytest puts something else in its place
    try:
        yield out, lifeline
    except Exception as problem:
        with contextlib.suppress(OSError, ValueError):
            out.write(encode({"trouble": in_a_sentence(problem)}))
            out.flush()
        sys.exit(1)


def in_a_sentence(problem: Exception) -> str:
    """Why there is no engine."""
    if isinstance(problem, NeverReady):
        return str(problem)
    if isinstance(problem, ModuleNotFoundError):
        return f"{problem.name} is not installed for this Python; `headway doctor` says what to do"
    return f"the engine that runs the tests did not start ({type(problem).__name__}: {problem}); `headway doctor` may know why"


def with_forks(
    out: IO[bytes], idle: float, lifeline: io.RawIOBase, kind: type[Server] = Server,
    start: Callable | None = None, begin: Callable | None = None, public: bool = True,
) -> None:  # fmt: skip
    """Runs are forked from this very process. Other kinds of runs have their own questions, and their own way to start and to begin."""
    from grader.processes import forks, picture_run, preloaded_session

    server: Server | None = None

    def begin_run(job: Any) -> Child:
        assert server is not None, "it is the one that asks for this"
        return (start or forks.start)(job, server.forget)

    def wait():
        nonlocal server
        server = kind(begin_run, secrets.token_hex(16), idle, lifeline)
        try:
            serve(server, out, public)
        except forks.InRun as run:  # in the new process
            return run.job, run.sock

    preloaded_session.hold(wait, begin or picture_run.begin)
    if server is None:
        raise NeverReady(COLD)


def with_spares(stock: Stock, out: IO[bytes], idle: float, lifeline: io.RawIOBase, kind: type[Server] = Server, public: bool = True) -> None:
    """Runs are processes that wait in stock."""
    with stock:
        serve(kind(stock.start, secrets.token_hex(16), idle, lifeline), out, public)


def serve(server: Server, out: IO[bytes], public: bool = True) -> None:
    """Until it is no longer wanted; then nothing of it is left. `public`: may others of this user's use it?"""
    engine = os.getpid()
    process_tree.adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        announce(out, server.port, server.token, public)
        server.serve()
    except SystemExit:
        pass
    finally:
        if os.getpid() == engine:  # and not a run that has just been forked off
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            withdraw(server.token)
            server.close()
            process_tree.kill_orphans()


def announce(out: IO[bytes], port: int, token: str, public: bool) -> None:
    """Tell whoever started the engine and, where it is public, anyone of this user's who looks in the file."""
    address = encode({"port": port, "token": token, "pid": os.getpid()})
    mask = os.umask(0o077)
    with contextlib.suppress(OSError):  # where nothing can be written, only its starter finds it
        if public:
            write_whole(ADDRESS, address)
    os.umask(mask)
    with contextlib.suppress(OSError):  # its starter has gone already: the lifeline tells
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
