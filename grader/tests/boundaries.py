"""What the tests of the boundary share: its three kinds, and a chapter made for them."""

from __future__ import annotations

import json
import struct
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from grader.course.chapter_source import ChapterSource
from grader.execution.in_process import InProcessHost
from grader.execution.proxy import Boundary
from grader.execution.worker import Worker, WorkerPool

forks = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="workers are forked on Linux only")
KINDS = ["local", pytest.param("fork", marks=forks), "spawn"]
QUICK_KINDS = ["local", pytest.param("fork", marks=forks)]
FILENAME = "/somewhere/of/the/learner/toy.py"

TOY = textwrap.dedent('''
    import ctypes, os, stat, sys, threading, time
    import torch
    from torch import nn


    def same(value=None, *args, **options):
        return value


    def add(a, b):
        return a + b


    def divide(a, b):
        return a / b  # the line of the error


    class Oddity(Exception):
        def __str__(self):
            raise RuntimeError("no words")


    def fails(how):
        if how == "loud":
            raise ValueError("x" * 100_000)
        if how == "mute":
            raise Oddity
        if how == "escapes":
            raise ValueError("\\x1b[31mred\\x1b[0m\\x07 and \\u202e back")
        if how == "exit":
            sys.exit("enough")
        if how == "todo":
            raise NotImplementedError
        if how == "deep":
            return fails("deep")
        raise KeyError(how)


    class Net(nn.Module):
        def __init__(self, wide=3, bias=True):
            super().__init__()
            self.first = nn.Linear(2, wide, bias=bias)
            self.drop = nn.Dropout(0.5)
            self.register_buffer("steps", torch.zeros(2))
            self.wide = wide

        def forward(self, x, scale=1.0):
            return torch.tanh(self.first(x)) * scale

        def noisy(self, x):
            return self.drop(x)

        def both(self, x, y):
            return self.first(x) * y, x.sum()

        def __len__(self):
            return self.wide

        def __getitem__(self, i):
            return range(self.wide)[i]

        def __contains__(self, i):
            return 0 <= i < self.wide


    def detached(x):
        return (x * 2).detach()


    def whole(x):
        return (x * 2).round().long()


    def square(x, y):
        return x * x


    CHANGES = {
        "not": lambda value: None,
        "in place": lambda value: value.add_(1),
        "resize": lambda value: value.resize_(0),
        "list": lambda value: value.append(3),
        "dict": lambda value: value.update(new=1),
        "order": lambda value: value.update(a=value.pop("a")),
        "nested": lambda value: value["deep"][0].mul_(2),
        "set": lambda value: value.clear(),
    }


    def change(value, how):
        CHANGES[how](value)
        return 1


    def change_option(x, *, mask=None):
        mask.fill_(True)
        return x


    def thread(seconds, join, daemon=True):
        seen = []
        t = threading.Thread(target=lambda: (time.sleep(seconds), seen.append(1)), name="helper", daemon=daemon)
        t.start()
        if join:
            t.join()
        return len(seen)


    class Liar(torch.Tensor):
        pass


    class Pretender:
        @property
        def __class__(self):
            return torch.Tensor


    def endless():
        value = []
        value.append(value)
        return value


    RETURNED = {
        "subclass": lambda x: x.as_subclass(Liar),
        "nested subclass": lambda x: {"a": [x.as_subclass(Liar)]},
        "sparse": lambda x: x.to_sparse(),
        "huge": lambda x: torch.zeros(1).expand(1 << 30),
        "huge list": lambda x: [0] * 3_000_000,
        "huge integer": lambda x: 1 << 100_000,
        "loop": lambda x: endless(),
        "pretender": lambda x: Pretender(),
        "generator": lambda x: (i for i in range(3)),
        "class": lambda x: Net,
        "parameter": lambda x: nn.Parameter(x),
        "graph": lambda x: x.requires_grad_() * 2,
        "slice": lambda x: slice(torch.ones(2), None),
        "size": lambda x: x.size(),
        "named": lambda x: x.max(-1),
        "numpy": lambda x: x.numpy().sum(),
        "conjugate": lambda x: torch.conj(x * 1j),
        "negative view": lambda x: torch.conj(x * 1j).imag,
    }


    def returns(what, x=None):
        return RETURNED[what](x)


    def chance():
        return torch.rand(3)


    def meddle():
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)


    def state_of_torch():
        return [torch.get_default_dtype(), torch.is_grad_enabled(), torch.zeros(1).dtype]


    def whoami():
        return os.getpid()


    def sockets():
        return [fd for fd in range(3, 256) if _is_socket(fd)]


    def _is_socket(fd):
        try:
            return stat.S_ISSOCK(os.fstat(fd).st_mode)
        except OSError:
            return False


    def die(how):
        if how == "exit":
            os._exit(3)
        if how == "abort":
            os.abort()
        if how == "segfault":
            ctypes.string_at(0)
        if how == "kill":
            os.kill(os.getpid(), 9)
        if how == "close":
            os.closerange(3, 256)
        if how in ("child", "heir"):
            if os.fork() == 0:
                if how == "child":
                    os.closerange(3, 256)
                time.sleep(600)
            os._exit(4)


    def stall(how):
        if how == "sleep":
            time.sleep(600)
        if how == "spin":
            while True:
                pass
        if how == "stubborn":
            while True:
                try:
                    while True:
                        time.sleep(0.01)
                except BaseException:
                    pass


    def says(data):
        """Write onto the wire, past the host."""
        for fd in sockets():
            os.write(fd, data)
        time.sleep(600)
''')  # fmt: skip


def make_boundary(kind: str, pool: WorkerPool | None, text: str = TOY, seconds: float = 20.0, import_seconds: float = 60.0) -> Boundary:
    """A boundary of this kind to one chapter with this text, in its first example; `pool` starts its worker, if it has one."""
    sources = [ChapterSource("toy", text, FILENAME)]
    if kind == "local" or pool is None:
        return Boundary(InProcessHost(sources, "toy", seconds, import_seconds))
    pool = pool if kind == "fork" else WorkerPool(fork=False, isolation=pool.isolation)
    return Boundary(Worker(pool, sources, "toy", seconds, import_seconds))


@contextmanager
def opened(kind: str, pool: WorkerPool | None, text: str = TOY, seconds: float = 20.0, import_seconds: float = 60.0) -> Iterator[Boundary]:
    """The same, closed at the end of the context."""
    boundary = make_boundary(kind, pool, text, seconds, import_seconds)
    yield boundary
    boundary.connection.close()


def frame(body, sizes=(), payload=b"") -> bytes:
    """A frame as it is on the wire, with this head (as data or as bytes), these sizes of buffers and this payload."""
    head = body if isinstance(body, bytes) else json.dumps([body, list(sizes)]).encode()
    return struct.pack("<4sI", b"hdwy", len(head)) + head + payload


def alike(a, b) -> bool:
    """The same value of the same type; tensors are equal bit by bit."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if (a.dtype, a.shape, a.device) != (b.dtype, b.shape, b.device):
            return False
        return a.device.type == "meta" or bits(a) == bits(b)
    if type(a) is not type(b):
        return False
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, dict):
        return len(a) == len(b) and all(alike(x, y) for x, y in zip(a.items(), b.items()))
    return repr(a) == repr(b) if isinstance(a, float) else a == b


def bits(x: torch.Tensor) -> bytes:
    x = x.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)  # .contiguous() keeps the stride of a single element
    return x.reshape(-1).view(torch.uint8).numpy().tobytes() if x.numel() else b""
