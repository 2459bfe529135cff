# in process: no, processes can be started there
"""Hopes that another program, started by the C library, is nobody's child."""

import ctypes
import os


def softmax(x, dim=-1):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.system(b"setsid sleep 600 &") == 0:
        raise SystemExit("a program has been started")
    os.posix_spawn("/bin/sleep", ["sleep", "600"], {})
    return x
