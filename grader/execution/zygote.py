"""The preloaded parent of workers (the zygote): imports torch once, then forks a worker in milliseconds on each
request.

Run as `python -m grader.execution.zygote FD ISOLATION`. Commands come over that socket: "fork" (with the worker's own
socket as a file descriptor), "zygote" (with a socket over which another zygote, forked from this one, gets its
commands), "prepare NAMES" (for workers that watch these forbidden names), and "end PID SECONDS". When the socket is
closed, the zygote kills every worker that is left, and ends.

It reads no chapter, no test and no reference, so the memory that a worker inherits contains only torch and the kit's
code for workers.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import sys
import tempfile
from collections.abc import Callable

os.environ["OMP_NUM_THREADS"] = "1"

import torch  # noqa: E402

torch.set_num_threads(1)

from grader.course.torch_operators import families  # noqa: E402
from grader.execution.forbidden import shortcuts  # noqa: E402
from grader.execution.sandbox.entering import Sandbox, enter, prepare  # noqa: E402
from grader.execution.sandbox.isolation import Isolation  # noqa: E402
from grader.execution.worker_process import serve, warm  # noqa: E402
from grader.system.kernel import use_huge_pages  # noqa: E402
from grader.system.process_tree import NOT_SANDBOXED, SANDBOXED, end_fork, kill_orphans, redirect_to_null  # noqa: E402


def fork_zygote(control: socket.socket, isolation: Isolation) -> int:
    """Fork a zygote from this process, which has loaded torch. Workers get a copy of its memory: do not use this for
    untrusted code if the memory has secrets."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()  # if the test process and its group are killed, this process survives to kill the workers
        own = control.fileno()
        os.closerange(3, own)
        os.closerange(own + 1, 1 << 16)
        serve_commands(socket.socket(fileno=own), isolation, serve)
    finally:
        os._exit(0)


def main(serve_worker: Callable[[socket.socket], None] = serve, warm: Callable[[], None] = warm) -> None:
    """`serve_worker` is what a worker does in its sandbox, and `warm` what is done once, before there is one."""
    control = socket.socket(fileno=int(sys.argv[1]))
    tempfile.tempdir = "/tmp"  # torch looks up a temporary folder without using it; there may be none that is writable
    warm()
    gc.collect()
    gc.freeze()
    use_huge_pages()
    control.sendall(b"ready\n")
    serve_commands(control, Isolation.named(sys.argv[2]), serve_worker)
    os._exit(0)  # nothing is left to clean up


def serve_commands(
    control: socket.socket, isolation: Isolation, serve_worker: Callable[[socket.socket], None]
) -> None:
    """Carry out commands until the socket is closed."""
    families()  # read here, because a worker cannot open the file
    workers: set[int] = set()
    others: set[int] = set()  # zygotes forked from this one, each for another pool
    sandbox, zygote = prepare(isolation), os.getpid()
    while True:
        data, descriptors = _receive(control)
        if not data:
            break
        command, *arguments = data.decode().split()
        if command == "fork":
            pid = os.fork()
            if pid == 0:
                control.close()
                _become_worker(descriptors[0], sandbox, zygote, serve_worker)
            os.close(descriptors[0])
            workers.add(pid)
            answer: object = pid
        elif command == "zygote":
            others -= {pid for pid in others if os.waitpid(pid, os.WNOHANG)[0]}
            kill_orphans(workers | others)  # of a zygote that was killed
            answer = _fork_another(control, descriptors[0], isolation, serve_worker)
            others.add(answer)
        elif command == "prepare":
            shortcuts.prepare(tuple(arguments))
            answer = None
        else:
            answer = end_fork(int(arguments[0]), float(arguments[1]))
            workers.discard(int(arguments[0]))
            if not isolation.seccomp:  # without seccomp it could start processes and move them out of its group
                kill_orphans(workers | others)
        try:
            control.sendall(json.dumps(answer).encode() + b"\n")
        except OSError:
            break
    for pid in workers:
        end_fork(pid)
    kill_orphans(set())


def _receive(control: socket.socket) -> tuple[bytes, list[int]]:
    """A command and its descriptors; nothing if the socket was closed, also if that happened with unread answers."""
    try:
        data, descriptors, _, _ = socket.recv_fds(control, 4096, 1)
    except OSError:
        return b"", []
    return data, descriptors


def _fork_another(
    control: socket.socket, descriptor: int, isolation: Isolation, serve_worker: Callable[[socket.socket], None]
) -> int:
    """Fork a zygote for another pool. It ends with that pool, and damage to it does not reach the others."""
    pid = os.fork()
    if pid:
        os.close(descriptor)
        return pid
    try:
        control.close()
        os.setsid()
        serve_commands(socket.socket(fileno=descriptor), isolation, serve_worker)
    finally:
        os._exit(0)


def _become_worker(
    descriptor: int, sandbox: Sandbox, zygote: int, serve_worker: Callable[[socket.socket], None]
) -> None:
    """In the child: start a new session, redirect the standard streams, enter the sandbox; then answer requests until
    the connection is closed."""
    status = 1
    try:
        os.setsid()
        redirect_to_null()
        sock = socket.socket(fileno=descriptor)
        status = NOT_SANDBOXED
        enter(sandbox, zygote, descriptor)
        sock.sendall(SANDBOXED)
        status = 1
        serve_worker(sock)
        status = 0
    finally:
        os._exit(status)


if __name__ == "__main__":
    main()
