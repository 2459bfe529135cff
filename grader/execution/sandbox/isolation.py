"""Which layers of the sandbox are wanted, and which this machine supports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from grader.execution.sandbox import bubblewrap, landlock, seccomp
from grader.system.kernel import is_linux


@dataclass(frozen=True)
class Isolation:
    """The layers that are wanted. A worker that cannot set up one of them runs no code."""

    limits: bool = False
    seccomp: bool = False
    landlock: bool = False
    bubblewrap: bool = False

    def __str__(self) -> str:
        return ",".join(field.name for field in fields(self) if getattr(self, field.name)) or "none"

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) for field in fields(self))

    @classmethod
    def named(cls, words: str) -> Isolation:
        """The inverse of `str`."""
        return cls(**{word: True for word in words.split(",") if word != "none"})


@dataclass(frozen=True)
class Layer:
    name: str  # a field of Isolation
    on: bool
    blocks: str  # what it prevents, as the end of a sentence
    missing: str = ""  # why it is off
    remedy: str = ""  # how to turn it on; empty if that is impossible

    def __str__(self) -> str:
        if self.on:
            return f"{self.name}: {self.blocks}"
        return f"{self.name} is off: {self.missing}" + (f"; {self.remedy}" if self.remedy else "")


def layers() -> list[Layer]:
    """Every layer, on or off; the outermost is last."""
    return [_limits(), _seccomp(), _landlock(), _bubblewrap()]


def available(bubblewrap: bool = True) -> Isolation:
    """Every layer that this machine supports; `bubblewrap=False` leaves out the one that needs a separate start."""
    found: Iterable[Layer] = layers() if bubblewrap else (_limits(), _seccomp(), _landlock())
    return Isolation(**{layer.name: layer.on for layer in found})


def missing_layers() -> list[Layer]:
    """The layers that `--require-isolation` requires and this machine lacks."""
    return [layer for layer in layers() if not layer.on]


_ELSEWHERE = "it is part of Linux; workers on this system are not isolated"
_LINUX_REMEDY = "grade on Linux (a virtual machine or a container will do)"


def _limits() -> Layer:
    blocks = "memory, processor time, open files; no file may grow; the environment is empty"
    return Layer("limits", True, blocks) if is_linux() else Layer("limits", False, blocks, _ELSEWHERE, _LINUX_REMEDY)


def _seccomp() -> Layer:
    blocks = (
        "no network, no new processes or programs, no signals to others, no writing, and no system calls "
        "outside a short list"
    )
    if not is_linux():
        return Layer("seccomp", False, blocks, _ELSEWHERE, _LINUX_REMEDY)
    if seccomp.available():
        return Layer("seccomp", True, blocks)
    return Layer(
        "seccomp",
        False,
        blocks,
        "this kernel or container does not allow filters of system calls, or the "
        "processor is neither x86-64 nor 64-bit ARM",
    )


def _landlock() -> Layer:
    blocks = "no file can be opened except those of Python and torch"
    if not is_linux():
        return Layer("landlock", False, blocks, _ELSEWHERE, _LINUX_REMEDY)
    if landlock.version():
        return Layer("landlock", True, f"{blocks} (version {landlock.version()})")
    remedy = "add `landlock` to the kernel's `lsm=` list at boot, or use a newer kernel"
    return Layer("landlock", False, blocks, "this kernel is older than 5.13 or was started without it", remedy)


def _bubblewrap() -> Layer:
    blocks = "when a class is graded, the names of other files and the numbers of other processes are hidden too"
    if not is_linux():
        return Layer("bubblewrap", False, blocks, _ELSEWHERE, _LINUX_REMEDY)
    trouble = bubblewrap.problem()
    return Layer("bubblewrap", False, blocks, *trouble) if trouble else Layer("bubblewrap", True, blocks)
