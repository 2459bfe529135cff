"""How a process ended, in words."""

from __future__ import annotations

import signal

CUT_OFF = 97  # with this status a process of ours ends that finds its connection closed by the code it ran
UNUSABLE = 98  # and with this one where that code has broken other things that it needs
NOT_SANDBOXED = 99  # and with this one, before any code ran, where a wall around it could not be raised
SANDBOXED = b"w"  # what a new worker says first, before any code that could say it in its place

_SIGNALS = {
    "SIGSEGV": "a crash inside native code (segmentation fault)",
    "SIGBUS": "a crash inside native code (bus error)",
    "SIGABRT": "it aborted (SIGABRT)",
    "SIGSYS": "it asked the kernel for what no exercise needs (SIGSYS)",
    "SIGXCPU": "it used up its processor time (SIGXCPU)",
    "SIGKILL": "it was killed (SIGKILL), perhaps for want of memory",
}


def describe_exit(status: int | None) -> str:
    """An exit status as subprocess tells it, negative for a signal; None for one that only hung up, and had to be ended."""
    if status is None or status == CUT_OFF:
        return "it closed file descriptors that were not its own, and with them the way back to the tests"
    if status == UNUSABLE:
        return "it broke what the tests themselves need, or left them no memory"
    if status == NOT_SANDBOXED:
        return "it could not be isolated as was asked, and so ran nothing; `headway doctor` says what this machine can do"
    if status >= 0:
        return f"it exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return _SIGNALS.get(name, f"it was ended by {name}")
