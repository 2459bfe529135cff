"""The filter of system calls: compiles the list of system_calls.py to a small program that the kernel runs at each
call."""

from __future__ import annotations

import ctypes
import errno
import struct

from grader.execution.sandbox.system_calls import (
    ANY,
    CHECKED,
    LATEST,
    NOT_IMPLEMENTED,
    NUMBERS,
    OWN_PID,
    REFUSALS,
    ArgumentTest,
)
from grader.system.kernel import machine, system_call

_CALL = (317, 277)
_AUDIT = (0xC000003E, 0xC00000B7)
_SET_FILTER, _IS_AVAILABLE = 1, 2
# the second keeps speculation on: kernels before 5.16 turn it off otherwise, which slows the process down
_ALL_THREADS, _KEEP_SPEED = 1, 4

_LOAD, _EQUAL, _ABOVE, _AND, _RETURN = 0x20, 0x15, 0x25, 0x54, 0x06
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_STEP = struct.Struct("=HBBI")


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]


def available() -> bool:
    """Can this kernel filter calls, and are the call numbers of this processor known?"""
    column = machine()
    if column is None:
        return False
    try:
        system_call(_CALL[column], _IS_AVAILABLE, 0, _Action(_ERROR))
    except OSError:
        return False
    return True


class _Action(ctypes.Structure):
    _fields_ = [("value", ctypes.c_uint32)]


def program(column: int, pid: int) -> bytes:
    """The filter for this kind of processor and for the process with this id."""
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUAL, 1, 0, _AUDIT[column]),
        (_RETURN, 0, 0, _KILL),  # a 32-bit call from a 64-bit process: its numbers have other meanings
        (_LOAD, 0, 0, _NUMBER_AT),
        (_ABOVE, 0, 1, LATEST),  # also x32 calls, whose numbers are above a thousand million
        (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
    ]
    for name, numbers in NUMBERS.items():
        number = numbers[column]
        if number is not None:
            answer = (
                _checks(CHECKED[name], pid, REFUSALS.get(name, errno.EPERM))
                if name in CHECKED
                else [(_RETURN, 0, 0, _ALLOW)]
            )
            steps += [(_EQUAL, 0, len(answer), number), *answer]
    for missing in NOT_IMPLEMENTED:
        steps += [(_EQUAL, 0, 1, missing[column]), (_RETURN, 0, 0, _ERROR | errno.ENOSYS)]
    steps.append((_RETURN, 0, 0, _ERROR | errno.EPERM))
    return b"".join(_STEP.pack(*step) for step in steps)


def _checks(tests: tuple[ArgumentTest, ...], pid: int, error: int) -> list[tuple[int, int, int, int]]:
    """Steps that allow the call if every test passes, and refuse it with this error otherwise."""
    # the last step; the one before it allows
    refuse = sum(1 + (test.mask != ANY) + len(test.values) for test in tests) + 1
    steps: list[tuple[int, int, int, int]] = []
    for test in tests:
        steps.append((_LOAD, 0, 0, _ARGUMENTS_AT + 8 * test.argument + 4 * test.upper))
        if test.mask != ANY:
            steps.append((_AND, 0, 0, test.mask))
        for left, value in zip(range(len(test.values) - 1, -1, -1), test.values):
            steps.append((_EQUAL, left, 0 if left else refuse - len(steps) - 1, pid if value == OWN_PID else value))
    return [*steps, (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERROR | error)]


def apply(column: int, steps: bytes) -> None:
    """Apply the filter to all threads of this process, permanently."""
    call, filters = _CALL[column], _Program(len(steps) // _STEP.size, steps)
    try:
        system_call(call, _SET_FILTER, _ALL_THREADS | _KEEP_SPEED, filters)
    except OSError as problem:
        if problem.errno != errno.EINVAL:
            raise
        system_call(call, _SET_FILTER, _ALL_THREADS, filters)
