"""A server's process, from its start to its end.

Its standard input is its lifeline: it closes when the process that started the server has ended. A server that stays
(kept_server.py) lives as long as the session of its terminal. A server's first line of output is its address, or the
reason why it did not start.
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
from functools import partial
from typing import IO

from grader.processes import kept_server
from grader.processes.job import encode
from grader.processes.prestarted import NeverReady, PrestartingStarter, serve_one_job
from grader.processes.server import Server
from grader.processes.service import Service, Starter
from grader.system import process_tree
from grader.system.process_tree import redirect_to_null


def main(module: str, make_service: Callable[[bool, list[str]], Service], arguments: list[str] | None = None) -> None:
    """Run as a server, or as one of its prestarted processes if forking is not safe.

    `module` is the module that calls this function. `make_service` gets whether runs are forked, and the arguments that
    are not listed here.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument("--idle", type=float, metavar="SECONDS", help="end after so long without a run")
    parser.add_argument(
        "--prestarted", action="store_true", help="use prestarted processes, as on systems where forking is not safe"
    )
    parser.add_argument("--once", action="store_true", help="prestart no process but for the first run")
    parser.add_argument(
        "--stay", nargs=2, metavar=("SESSION", "CONDITIONS"), help="outlive the starting process, but not its session"
    )
    parser.add_argument(
        "--one-job", type=int, metavar="PORT", help="run as a prestarted process of the server on this port"
    )
    options, others = parser.parse_known_args(arguments)
    if options.one_job is not None:
        serve_one_job(lambda: make_service(False, others), options.one_job)
        return
    fork = sys.platform.startswith("linux") and not options.prestarted
    with _starting() as (out, lifeline):
        service = make_service(fork, others)
        service.idle_seconds = service.idle_seconds if options.idle is None else options.idle
        try:
            if options.stay:
                session, service.stays_under = options.stay
                lifeline = kept_server.session_end(int(session))
            if fork:
                _serve_by_forks(service, out, lifeline)
            else:
                with contextlib.closing(PrestartingStarter(module, *others, once=options.once)) as reserve:
                    _serve(service, reserve, out, lifeline)
        finally:
            service.close()
    os._exit(0)  # to take torch down takes half a second, for which `headway check` would wait


@contextlib.contextmanager
def _starting() -> Iterator[tuple[IO[bytes], io.RawIOBase]]:
    """Where to write the address, and the lifeline. A server that cannot start writes the reason there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Control-C is for the program at the terminal
    out = os.fdopen(os.dup(1), "wb")
    redirect_to_null(1)
    lifeline = _lifeline()
    try:
        yield out, lifeline
    except Exception as problem:
        with contextlib.suppress(OSError, ValueError):
            out.write(encode({"trouble": _in_a_sentence(problem)}))
            out.flush()
        sys.exit(1)


def _in_a_sentence(problem: Exception) -> str:
    """The reason why the server did not start."""
    if isinstance(problem, NeverReady):
        return str(problem)
    if isinstance(problem, ModuleNotFoundError):
        return f"{problem.name} is not installed for this Python; `headway doctor` says what to do"
    return (
        f"the server that runs the tests did not start ({type(problem).__name__}: {problem}); `headway doctor` "
        "may find the reason"
    )


def _serve_by_forks(service: Service, out: IO[bytes], lifeline: io.RawIOBase) -> None:
    """Fork each run from this process, which loads everything first."""
    from grader.processes.forked import ForkingStarter
    from grader.processes.preloaded import load_kit, run_job

    load_kit()
    service.loaded()
    starter = ForkingStarter(service, partial(run_job, runners=service.runners))
    _serve(service, starter, out, lifeline)


def _serve(service: Service, starter: Starter, out: IO[bytes], lifeline: io.RawIOBase) -> None:
    """Write the address for the process that started the server; serve, and leave no process behind."""
    server = Server(service, starter, secrets.token_hex(16), lifeline)
    process_tree.adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        if service.stays_under:
            kept_server.publish(server.port, server.token, service.stays_under)
        with contextlib.suppress(OSError):  # the starting process has ended already, and the lifeline is closed
            out.write(encode({"port": server.port, "token": server.token}))
            out.close()
        server.serve()
    except SystemExit:  # SIGTERM
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        kept_server.withdraw()
        server.close()
        process_tree.kill_orphans()


def _lifeline() -> io.RawIOBase:
    """Standard input as an object that a selector can watch."""
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
