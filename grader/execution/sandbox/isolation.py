"""Which layers of the sandbox are wanted, and which this machine supports."""

from __future__ import annotations

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


_BLOCKS = {
    "limits": "memory, processor time, open files; no file may grow; the environment is empty",
    "seccomp": "no network, no new processes or programs, no signals to others, no writing, and no system calls "
    "outside a short list",
    "landlock": "no file can be opened except those of Python and torch",
    "bubblewrap": "when a class is graded, the names of other files and the numbers of other processes are hidden too",
}


def layers() -> list[Layer]:
    """Every layer, on or off; the outermost is last."""
    return [_layer(name) for name in _BLOCKS]


def available(bubblewrap: bool = True) -> Isolation:
    """Every layer that this machine supports; `bubblewrap=False` leaves out the one that needs a separate start."""
    return Isolation(**{name: _layer(name).on for name in _BLOCKS if bubblewrap or name != "bubblewrap"})


def missing_layers() -> list[Layer]:
    """The layers that `--require-isolation` requires and this machine lacks."""
    return [layer for layer in layers() if not layer.on]


def _layer(name: str) -> Layer:
    why = _why_missing(name)
    return Layer(name, False, _BLOCKS[name], *why) if why else Layer(name, True, _BLOCKS[name])


def _why_missing(name: str) -> tuple[str, str] | None:
    """Why this machine does not support a layer, and what to do about it; None if it does."""
    if not is_linux():
        return (
            "it is part of Linux; workers on this system are not isolated",
            "grade on Linux (a virtual machine or a container will do)",
        )
    if name == "seccomp" and not seccomp.available():
        return (
            "this kernel or container does not allow filters of system calls, or the processor is neither x86-64 nor "
            "64-bit ARM",
            "",
        )
    if name == "landlock" and not landlock.version():
        return (
            "this kernel is older than 5.13 or was started without it",
            "add `landlock` to the kernel's `lsm=` list at boot, or use a newer kernel",
        )
    return bubblewrap.problem() if name == "bubblewrap" else None
