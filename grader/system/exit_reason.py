"""Exit statuses of the kit's processes, and descriptions of how a process ended."""

from __future__ import annotations

import signal

CONNECTION_CLOSED = 97  # exit status: the code that ran in the process closed the process's socket
PROCESS_BROKEN = 98  # exit status: that code broke something else that the process needs
NOT_SANDBOXED = 99  # exit status: a layer of the sandbox could not be set up, and no code ran
SANDBOXED = b"w"  # the first byte from a new worker: it is in its sandbox, and no code of the learner's has run

_SIGNALS = {
    "SIGSEGV": "a crash inside native code (segmentation fault)",
    "SIGBUS": "a crash inside native code (bus error)",
    "SIGABRT": "it aborted (SIGABRT)",
    "SIGSYS": "it made a system call that no exercise needs (SIGSYS)",
    "SIGXCPU": "it used up its processor time (SIGXCPU)",
    "SIGKILL": "it was killed (SIGKILL), perhaps because memory ran out",
}


def describe_exit(status: int | None) -> str:
    """Describe an exit status of `subprocess` (negative: a signal); None for a process that closed its connection and
    had to be killed."""
    if status is None or status == CONNECTION_CLOSED:
        return "it closed file descriptors that it did not open, among them the connection to the tests"
    if status == PROCESS_BROKEN:
        return "it broke something that the tests need, or used up the memory"
    if status == NOT_SANDBOXED:
        return "the sandbox could not be set up, so nothing ran; `headway doctor` says what this machine supports"
    if status >= 0:
        return f"it exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return _SIGNALS.get(name, f"it was ended by {name}")
