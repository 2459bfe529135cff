"""A group of real processes, joined by `torch.distributed` with its backend gloo: the contract of the simulated group.

Chapter 18 describes the contract; the simulated group is grader/execution/simulated_group.py, and tests run it against
both. Whether the ranks' calls fit together is not checked here; calls that do not fit end with an error or at the time
limit.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as distributed
from grader.execution.simulated_group import GroupProblem
from torch import Tensor

PATIENCE = timedelta(minutes=10)  # that a rank waits for another one, which may be writing a checkpoint
DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16,
    torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool,
)  # fmt: skip
MOST_AXES = 8  # of a tensor that is sent
MOST_UNFINISHED_SENDS = 256  # before one more, the oldest must be finished
STARTED_BY_TORCHRUN = "env://"  # torch's name for: rank, size and address are in the variables that torchrun sets


class ProcessGroup:
    """The group as this process sees it. After a problem, every call is a problem."""

    def __init__(self) -> None:
        self.rank, self.size = distributed.get_rank(), distributed.get_world_size()
        self._calls, self._problem = 0, ""
        self._unfinished: deque[tuple[distributed.Work, Tensor]] = deque()

    def all_reduce(self, t: Tensor) -> Tensor:
        result = _copy(t)
        with self._call("all_reduce"):
            distributed.all_reduce(result)
        return result

    def all_gather(self, t: Tensor) -> list[Tensor]:
        own = _copy(t)
        every = [torch.empty_like(own) for _ in range(self.size)]
        with self._call("all_gather"):
            distributed.all_gather(every, own)
        return every

    def reduce_scatter(self, t: Tensor) -> Tensor:
        """As an all_reduce: gloo has no reduce_scatter in every version, and it has several names."""
        if t.dim() == 0 or t.size(0) % self.size:
            raise GroupProblem(f"reduce_scatter cuts the first axis of {tuple(t.shape)} into {self.size} equal parts")
        return self.all_reduce(t).chunk(self.size)[self.rank].clone()

    def broadcast(self, t: Tensor, source: int) -> Tensor:
        self._check_rank(source, "broadcast")
        result = _copy(t)
        with self._call(f"broadcast from {source}"):
            distributed.broadcast(result, source)
        return result

    def send(self, t: Tensor, to: int) -> None:
        self._check_rank(to, "send")
        if t.dtype not in DTYPES or t.dim() > MOST_AXES:
            raise GroupProblem(f"send has no form for a tensor of {t.dtype} with {t.dim()} axes")
        head = torch.zeros(2 + MOST_AXES, dtype=torch.int64)
        head[: 2 + t.dim()] = torch.tensor([DTYPES.index(t.dtype), t.dim(), *t.shape])
        with self._call(f"send to {to}"):
            for message in (head, _copy(t)):
                work = distributed.isend(message, to)
                assert work is not None
                self._unfinished.append((work, message))
            while len(self._unfinished) > MOST_UNFINISHED_SENDS:
                self._finish_oldest_send()

    def receive(self, shape: Sequence[int], source: int) -> Tensor:
        self._check_rank(source, "receive")
        head = torch.zeros(2 + MOST_AXES, dtype=torch.int64)
        with self._call(f"receive from {source}"):
            distributed.recv(head, source)
            dtype, axes, *sizes = head.tolist()
            t = torch.empty(sizes[:axes], dtype=DTYPES[dtype])
            distributed.recv(t, source)
        if t.shape != tuple(shape):
            raise GroupProblem(
                f"rank {self.rank} receives {tuple(shape)} from rank {source}, which sent {tuple(t.shape)}"
            )
        return t

    def close(self) -> None:
        """Wait until what was sent has been received, and leave the group."""
        with self._call("close"):
            while self._unfinished:
                self._finish_oldest_send()
        self.leave()

    def leave(self) -> None:
        """Leave the group at once. Another rank that waits for this one gets a problem."""
        if distributed.is_initialized():
            self._problem = self._problem or "this rank has left the group"
            self._unfinished.clear()
            distributed.destroy_process_group()

    def _finish_oldest_send(self) -> None:
        work, _ = self._unfinished.popleft()
        work.wait()

    def _check_rank(self, other: int, name: str) -> None:
        if not 0 <= other < self.size:
            raise GroupProblem(f"rank {self.rank} calls {name} with rank {other}; there are ranks 0 to {self.size - 1}")

    @contextmanager
    def _call(self, name: str) -> Iterator[None]:
        """Turn an error of gloo into a GroupProblem."""
        if self._problem:
            raise GroupProblem(self._problem)
        self._calls += 1
        try:
            yield
        except RuntimeError as error:
            where = f"rank {self.rank} in {name} (call {self._calls})"
            self._problem = f"{where}: {_what_happened(error)}"
            raise GroupProblem(self._problem) from error


def join_group(method: str, rank: int = -1, size: int = -1) -> ProcessGroup:
    """Join the group and wait for its other ranks. `method` is STARTED_BY_TORCHRUN, or the address of a file that all
    ranks can write."""
    if problem := missing_gloo():
        raise GroupProblem(problem)
    # gloo looks for an address by the machine's name, which leads nowhere on many machines; a file means one machine
    if method != STARTED_BY_TORCHRUN and (loopback := _loopback()):
        os.environ["GLOO_SOCKET_IFNAME"] = loopback
    try:
        distributed.init_process_group("gloo", init_method=method, rank=rank, world_size=size, timeout=PATIENCE)
    except (RuntimeError, ValueError) as error:
        raise GroupProblem(f"the processes could not be joined: {_what_happened(error)}") from error
    return ProcessGroup()


def missing_gloo() -> str | None:
    """What to say if this torch cannot join processes."""
    has_gloo: Callable[[], bool] = getattr(distributed, "is_gloo_available", lambda: True)
    if distributed.is_available() and has_gloo():
        return None
    return "this torch was built without gloo, by which processes exchange tensors; train with one process"


def _loopback() -> str | None:
    """The name of the network interface that stays on this machine."""
    import socket

    try:
        return next((name for _, name in socket.if_nameindex() if name in ("lo", "lo0")), None)
    except (OSError, AttributeError):  # not on every system
        return None


def _copy(t: Tensor) -> Tensor:
    return t.detach().clone(memory_format=torch.contiguous_format)


def _what_happened(error: Exception) -> str:
    """What an error of gloo means; its own text is about sockets."""
    text = str(error)
    if "EADDRINUSE" in text:
        port = os.environ.get("MASTER_PORT", "")
        return f"port {port} of this machine is in use; choose another one with --master-port"
    if any(sign in text.lower() for sign in ("timed out", "timeout")):
        return "another rank did not answer in time"
    if any(sign in text for sign in ("Connection", "Broken pipe", "closed", "Socket")):
        return "another rank has ended"
    return text.strip().split("\n")[0][:200]
