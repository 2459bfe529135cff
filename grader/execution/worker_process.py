"""What runs inside a worker: a host that answers frames until the judge hangs up.

Started by the zygote (a fork), or alone where forking is not safe: `python -m grader.execution.worker_process PORT WALLS`, with a
one-time token on its standard input.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
from grader.course.chapter_source import ChapterSource  # noqa: E402
from grader.execution.exit_reason import CUT_OFF, NOT_SANDBOXED, SANDBOXED  # noqa: E402
from grader.execution.forbidden.shortcuts import prepare as prepare_watch  # noqa: E402
from grader.execution.host import Host  # noqa: E402
from grader.execution.sandbox.entering import enter, prepare  # noqa: E402
from grader.execution.sandbox.isolation import Isolation  # noqa: E402
from grader.execution.wire import receive, send  # noqa: E402
from grader.system.handshake import connect, read_token  # noqa: E402
from grader.system.streams import redirect_to_null  # noqa: E402


def serve(sock: socket.socket) -> None:
    """First frame: the sources and the chapter. Then one answer a question."""
    torch.set_num_threads(1)
    try:
        (sources, chapter), parts = receive(sock)
        chapters = [ChapterSource(name, text, filename, *codes) for (name, text, filename), *codes in zip(sources, parts[::2], parts[1::2])]
        del sources, parts
        host = Host(chapters, chapter, notice=lambda name: send(sock, {"shortcut": name}, []))  # at once: what has left here cannot be wiped out
        while True:
            (op, tree), buffers = receive(sock)
            send(sock, *host.answer(op, tree, buffers))
    except (EOFError, ConnectionError):
        return
    except OSError:  # the learner's code has closed the socket
        os._exit(CUT_OFF)


def warm() -> None:
    """Do once what costs time when the learner's code does it first: autograd, an operation without data (it imports half of torch), the watch."""
    x = torch.ones(2, requires_grad=True)
    (x * x).sum().backward()
    torch.empty(2, device="meta") + torch.empty(2, device="meta")
    prepare_watch(("scaled_dot_product_attention",))


def main() -> None:
    token = read_token()
    torch.set_num_threads(1)
    warm()  # before the call, for which a clock runs
    sock = connect(int(sys.argv[1]), token)
    redirect_to_null()
    try:
        enter(prepare(Isolation.named(sys.argv[2])), os.getppid(), sock.fileno())
        sock.sendall(SANDBOXED)
    except Exception:
        os._exit(NOT_SANDBOXED)
    threading.Thread(target=_leave_with, args=[os.getppid()], name="headway parent watch", daemon=True).start()
    serve(sock)


def _leave_with(judge: int) -> None:
    """A loop that never ends shall not outlive the judge that waited for it."""
    while os.getppid() == judge:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    main()
