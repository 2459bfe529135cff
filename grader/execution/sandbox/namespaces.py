"""A view of the file system for one worker: every mount is read-only, and /proc is empty.

Reading a file through a read-only mount does not change its access time, which another worker could read. Landlock does
not allow opening files of /proc, but it allows reading their sizes: the size of /proc/PID/fd is the number of files
which that process has open.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

from grader.system.kernel import machine, system_call

_UNSHARE, _MOUNT, _MOUNT_SETATTR = (272, 97), (165, 40), (442, 442)
_NEW_MOUNTS, _NEW_USERS = 0x00020000, 0x10000000  # CLONE_NEWNS, CLONE_NEWUSER
# AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY and MS_RDONLY, MS_PRIVATE
_HERE, _RECURSIVE, _READ_ONLY, _PRIVATE = -100, 0x8000, 1, 1 << 18


class _Attributes(ctypes.Structure):
    _fields_ = [
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("users", ctypes.c_uint64),
    ]


def isolate_mounts() -> bool:
    """Set up this view for this process and its children; returns whether its threads are counted separately from its
    user's. OSError if that is impossible."""
    column = machine()
    if column is None:
        raise OSError("the system calls of this processor are not known")
    try:
        system_call(_UNSHARE[column], _NEW_MOUNTS)
        counted_separately = False
    except PermissionError:  # not root: in a new user namespace, the process may mount
        system_call(_UNSHARE[column], _NEW_USERS | _NEW_MOUNTS)
        counted_separately = True
    system_call(
        _MOUNT_SETATTR[column],
        _HERE,
        b"/",
        _RECURSIVE,
        _Attributes(set=_READ_ONLY, propagation=_PRIVATE),
        ctypes.sizeof(_Attributes),
    )
    system_call(_MOUNT[column], b"none", b"/proc", b"tmpfs", _READ_ONLY, None)
    return counted_separately


@cache
def available() -> bool:
    """Does this system allow it? Tries it in a forked process. Call it only in a process with one thread."""
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1] == 0
    try:
        isolate_mounts()
        os._exit(0)
    finally:
        os._exit(1)
