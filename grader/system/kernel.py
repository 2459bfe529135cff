"""Linux system calls that Python has no function for, called through the C library. Importable everywhere, usable on
Linux only."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import sys
from functools import cache
from pathlib import Path

MACHINES = {"x86_64": 0, "amd64": 0, "aarch64": 1, "arm64": 1}  # the column of the call table

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38

_MADV_COLLAPSE, _HUGE = 25, 2 << 20  # bytes in a huge page

_CAPGET, _CAPSET, _READ_ANY_FILE = (125, 90), (126, 91), 1 << 2  # CAP_DAC_READ_SEARCH


def is_linux() -> bool:
    return sys.platform.startswith("linux")


def machine() -> int | None:
    """Column of this processor in the table of calls; None for a processor that is not in it (or for 32 bits)."""
    return MACHINES.get(platform.machine().lower()) if sys.maxsize > 2**32 else None


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc


def system_call(number: int, *arguments: int | bytes | ctypes.Structure | ctypes.Array | None) -> int:
    """The result of a system call; OSError if it fails."""
    given = [
        ctypes.c_long(a) if isinstance(a, int) else a if a is None or isinstance(a, bytes) else ctypes.byref(a)
        for a in arguments
    ]
    result = _libc().syscall(ctypes.c_long(number), *given)
    if result < 0:
        problem = ctypes.get_errno()
        raise OSError(problem, os.strerror(problem))
    return result


class _CapabilityHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


def drop_capabilities() -> None:
    """Drop an administrator's rights, except for reading any file: a package may be in another user's folder."""
    column = machine()
    if column is None:
        return
    # effective, permitted, inheritable; then the upper halves
    header, words = _CapabilityHeader(0x20080522, 0), (ctypes.c_uint32 * 6)()
    system_call(_CAPGET[column], header, words)
    kept = words[1] & _READ_ANY_FILE
    system_call(_CAPSET[column], header, (ctypes.c_uint32 * 6)(kept, kept))


def prctl(option: int, value: int) -> None:
    if _libc().prctl(option, *[ctypes.c_ulong(n) for n in (value, 0, 0, 0)]):
        problem = ctypes.get_errno()
        raise OSError(problem, os.strerror(problem))


def use_huge_pages() -> None:
    """On Linux since 6.1: put this process's own memory into huge pages, so that its forks begin and end in less than
    half the time. Each fork copies a table with an entry a page."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/maps").read_text().splitlines():
            addresses, rights, _, _, inode, *name = line.split()
            if rights == "rw-p" and inode == "0" and name in ([], ["[heap]"]):
                first, end = (int(address, 16) for address in addresses.split("-"))
                first, end = -(-first // _HUGE) * _HUGE, end // _HUGE * _HUGE
                if first < end:
                    _libc().madvise(ctypes.c_void_p(first), ctypes.c_size_t(end - first), _MADV_COLLAPSE)
