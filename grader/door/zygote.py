"""The parent of workers: imports torch once, then forks a worker in milliseconds whenever the judge asks.

Run as `python -m grader.door.zygote FD`. Over that socket come the commands "fork" (with the worker's own socket as a file
descriptor) and "status PID SECONDS"; when it closes, every worker still alive is killed and the zygote ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import time
import warnings

os.environ["OMP_NUM_THREADS"] = "1"

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")

import torch  # noqa: E402

torch.set_num_threads(1)

from .worker_process import serve  # noqa: E402


def warm() -> None:
    """Do once what costs a second when a worker does it first: autograd, and an operation without data, which imports half of torch."""
    x = torch.ones(2, requires_grad=True)
    (x * x).sum().backward()
    torch.empty(2, device="meta") + torch.empty(2, device="meta")


def fork_zygote(control: socket.socket) -> int:
    """A zygote forked from this very process, which is warm."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()  # whoever kills the judge and its group leaves this one alive, to kill the workers
        own = control.fileno()
        os.closerange(3, own)
        os.closerange(own + 1, 1 << 16)
        raise_children(socket.socket(fileno=own))
    finally:
        os._exit(0)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    warm()
    control.sendall(b"ready\n")
    raise_children(control)


def raise_children(control: socket.socket) -> None:
    """Do as the judge says until it hangs up."""
    workers: set[int] = set()
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, 4096, 1)
        if not data:
            break
        command, *arguments = data.decode().split()
        if command == "fork":
            pid = os.fork()
            if pid == 0:
                control.close()
                _become_worker(descriptors[0])
            os.close(descriptors[0])
            workers.add(pid)
            answer: object = pid
        else:
            answer = _ended(int(arguments[0]), float(arguments[1]))
            workers.discard(int(arguments[0]))
        control.sendall(json.dumps(answer).encode() + b"\n")
    for pid in workers:
        _kill(pid)


def _become_worker(descriptor: int) -> None:
    """In the child: a group of its own, nothing on standard streams, then serve until the judge hangs up."""
    status = 1
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        serve(socket.socket(fileno=descriptor))
        status = 0
    finally:
        os._exit(status)


def _ended(pid: int, patience: float) -> int | None:
    """Kill what is left of this worker and its group, and tell how the worker ended (as subprocess does: -9 for signal 9).

    Its socket closes a moment before it has ended, so it is given that long; None where it has to be killed even then.
    """
    deadline = time.monotonic() + patience
    while True:
        finished, status = os.waitpid(pid, os.WNOHANG)
        if finished:
            _kill_group(pid)
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            return _kill(pid)
        time.sleep(0.002)


def _kill(pid: int) -> None:
    _kill_group(pid)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _kill_group(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass


if __name__ == "__main__":
    main()
