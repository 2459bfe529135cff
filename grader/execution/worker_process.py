"""The program of a worker: a host that answers requests until the connection is closed.

The zygote forks it; where forking is not safe it is started with `python -m grader.execution.worker_process PORT
ISOLATION`, and reads a one-time token from its standard input.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from itertools import islice

os.environ.setdefault("OMP_NUM_THREADS", "1")

import grader.execution.simulated_gpu  # noqa: E402, F401  # tests import them where no file of the kit can be read
import grader.execution.simulated_group  # noqa: E402, F401
import torch  # noqa: E402
from grader.course.chapter_source import ChapterSource  # noqa: E402
from grader.course.torch_internals import compile_without_folder, defer_compiler  # noqa: E402
from grader.execution.forbidden.shortcuts import prepare as prepare_watch  # noqa: E402
from grader.execution.host import Host  # noqa: E402
from grader.execution.late_calls import EARLY_SECONDS, cancel_stack, write_stack_after
from grader.execution.sandbox.entering import enter, prepare  # noqa: E402
from grader.execution.sandbox.isolation import Isolation  # noqa: E402
from grader.execution.wire import receive, send  # noqa: E402
from grader.system.handshake import connect, read_token  # noqa: E402
from grader.system.process_tree import (  # noqa: E402
    CONNECTION_CLOSED,
    NOT_SANDBOXED,
    SANDBOXED,
    redirect_to_null,
)

defer_compiler()


def serve(sock: socket.socket) -> None:
    """Answer requests. The first frame has the sources and the name of the chapter; each further frame is a request."""
    torch.set_num_threads(1)
    if not os.environ:  # in the sandbox
        compile_without_folder()
    try:
        (sources, chapter), parts = receive(sock)
        chapters = [
            ChapterSource(name, text, filename, code=code, replaced=tuple(replaced))
            for (name, text, filename, replaced), code in zip(sources, parts, strict=True)
        ]
        del sources, parts
        until = armed = 0.0  # the ends of the limits: of the running request, and of the one that the stack is for

        def notice(name: str) -> None:
            """Send it at once: the learner's code cannot delete what was sent."""
            nonlocal armed
            cancel_stack()
            send(sock, {"shortcut": name}, [])
            if (left := until - time.monotonic()) > 0:
                write_stack_after(sock, left)
            armed = until

        host = Host(chapters, chapter, notice=notice)
        while True:
            (requests, limit), buffers = receive(sock)
            left_buffers = iter(buffers)
            for number, (op, tree, count) in enumerate(requests, 1):
                until = time.monotonic() + limit
                if until - armed > EARLY_SECONDS:
                    write_stack_after(sock, limit)
                    armed = until
                answer, until = host.answer(op, tree, list(islice(left_buffers, count))), 0.0
                if number == len(requests):
                    cancel_stack()
                    armed = 0.0
                send(sock, *answer)
    except (EOFError, ConnectionError):
        return
    except OSError:  # the learner's code closed the socket
        os._exit(CONNECTION_CLOSED)


def warm() -> None:
    """Do once what is slow the first time: autograd, an operation on the device `meta`, the watch on forbidden
    functions."""
    x = torch.ones(2, requires_grad=True)
    (x * x).sum().backward()
    torch.empty(2, device="meta") + torch.empty(2, device="meta")
    prepare_watch(("scaled_dot_product_attention",))


def main(serve_worker: Callable[[socket.socket], None] = serve, warm: Callable[[], None] = warm) -> None:
    """`serve_worker` is what this worker does in its sandbox, and `warm` what it does once before that."""
    token = read_token()
    torch.set_num_threads(1)
    warm()  # before connecting, because the first request has a deadline
    sock = connect(int(sys.argv[1]), token)
    redirect_to_null()
    try:
        enter(prepare(Isolation.named(sys.argv[2])), os.getppid(), sock.fileno())
        sock.sendall(SANDBOXED)
    except Exception:
        os._exit(NOT_SANDBOXED)
    threading.Thread(target=_exit_with_parent, args=[os.getppid()], name="headway parent watch", daemon=True).start()
    serve_worker(sock)


def _exit_with_parent(parent: int) -> None:
    """End this process when its parent ends, also while the learner's code is in an endless loop."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    main()
