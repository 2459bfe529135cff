"""Linux system calls that Python has no function for, asked through the C library. Importable everywhere, usable on Linux only."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from functools import cache

MACHINES = {"x86_64": 0, "amd64": 0, "aarch64": 1, "arm64": 1}  # which column of the call table holds

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38


def is_linux() -> bool:
    return sys.platform.startswith("linux")


def machine() -> int | None:
    """Column of this processor in the table of calls; None for one that it does not know (or for 32 bits)."""
    return MACHINES.get(platform.machine().lower()) if sys.maxsize > 2**32 else None


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc


def system_call(number: int, *arguments: int | ctypes.Structure | None) -> int:
    """The result of a system call; OSError where it fails."""
    given = [ctypes.byref(a) if isinstance(a, ctypes.Structure) else ctypes.c_void_p(a) if a is None else ctypes.c_long(a) for a in arguments]
    result = _libc().syscall(ctypes.c_long(number), *given)
    if result < 0:
        problem = ctypes.get_errno()
        raise OSError(problem, os.strerror(problem))
    return result


def prctl(option: int, value: int) -> None:
    if _libc().prctl(option, *[ctypes.c_ulong(n) for n in (value, 0, 0, 0)]):
        problem = ctypes.get_errno()
        raise OSError(problem, os.strerror(problem))
