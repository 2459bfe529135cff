"""The filter of system calls: compiles the list at the end of this file to a small program that the kernel runs at each
call.

This is a list of allowed calls, not of forbidden ones, so that a call which a later kernel adds is not allowed by
accident. The numbers are those of x86_64 and aarch64; None if a processor has no such call.

Calls that would let two workers exchange messages are not on the list: those that show which pages of a file are in
memory (mincore, cachestat, preadv2, readahead; getrusage counts page faults), those that remove such pages from memory
(posix_fadvise, some advice to madvise), those whose effects another process can see or wait for (shared memory, locks
on files, futexes in a file, System V objects), and those that show the state of another process or of the machine
(sysinfo, clocks and priorities of others).
"""

from __future__ import annotations

import ctypes
import errno
import struct
from dataclasses import dataclass

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


ANY = 0xFFFFFFFF
OWN_PID = -1  # replaced by the worker's own process id when the filter is made

_WRITING = 0o3 | 0o100 | 0o1000 | 0o10000000 | 0o20000000  # O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_PATH, O_TMPFILE
_THREAD, _NEW_NAMESPACES = 0x00010000, 0x7E020000  # CLONE_THREAD; CLONE_NEWNS and the other namespaces
# F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC: no owner, no signals
_DESCRIPTOR_COMMANDS = (0, 1, 2, 3, 4, 1030)
# TCGETS, TCGETS2, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
_TERMINAL_QUESTIONS = (0x5401, 0x802C542A, 0x541B, 0x5421, 0x5450, 0x5451)
# MAP_FIXED, ANONYMOUS, 32BIT, DENYWRITE, EXECUTABLE, NORESERVE, STACK, FIXED_NOREPLACE. The others: shared memory and
# GROWSDOWN, which RLIMIT_DATA does not count; LOCKED and HUGETLB, which take memory from all processes; POPULATE, which
# nothing here needs
_MAPPING_FLAGS = 0x10 | 0x20 | 0x40 | 0x800 | 0x1000 | 0x4000 | 0x20000 | 0x100000
_PRIVATE = 2  # MAP_PRIVATE
# MADV_NORMAL, DONTNEED, FREE, DONTFORK, DOFORK, HUGEPAGE, NOHUGEPAGE, DONTDUMP, DODUMP, WIPEONFORK, KEEPONFORK,
# GUARD_INSTALL, GUARD_REMOVE: what allocators and thread stacks need. Each changes this process alone. The others reach
# the page cache (WILLNEED, COLD, PAGEOUT, POPULATE_*, RANDOM, SEQUENTIAL, COLLAPSE, REMOVE) or memory shared with
# others (MERGEABLE)
_ADVICE = (0, 4, 8, 10, 11, 14, 15, 16, 17, 18, 19, 102, 103)
# without it, a futex in a page of a file (of torch, for example) is shared by all processes that map that file
_FUTEX_PRIVATE = 128
_CLOCKS = ANY ^ 0xF  # the clocks of the machine and its own; larger numbers are those of other processes
# PR_GET_DUMPABLE, PR_SET_NAME, PR_GET_NAME, PR_GET_SECCOMP, PR_GET_NO_NEW_PRIVS, PR_SET_VMA
_NAMES = (3, 15, 16, 21, 39, 0x53564D41)


@dataclass(frozen=True)
class ArgumentTest:
    """The lower (or upper) half of an argument, masked, must be one of these."""

    argument: int
    values: tuple[int, ...]
    mask: int = ANY
    upper: bool = False


NUMBERS: dict[str, tuple[int | None, int | None]] = {
    # its own files and its socket to the test process
    "read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66), "pread64": (17, 67), "recvfrom": (45,
    207), "sendto": (44, 206),
    "lseek": (8, 62), "close": (3, 57), "close_range": (436, 436), "dup": (32, 23), "dup2": (33, None), "dup3": (292,
    24),
    "pipe": (22, None), "pipe2": (293, 59), "eventfd2": (290, 19), "getdents64": (217, 61), "fcntl": (72, 25),
    "ioctl": (16, 29),
    "poll": (7, None), "ppoll": (271, 73), "select": (23, None), "pselect6": (270, 72),
    "epoll_create1": (291, 20), "epoll_ctl": (233, 21), "epoll_wait": (232, None), "epoll_pwait": (281, 22),
    # paths, to read: Landlock decides which
    "open": (2, None), "openat": (257, 56), "stat": (4, None), "lstat": (6, None), "fstat": (5, 80),
    "newfstatat": (262, 79), "statx": (332, 291),
    "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439), "readlink": (89, None),
    "readlinkat": (267, 78), "getcwd": (79, 17),
    # memory
    "mmap": (9, 222), "munmap": (11, 215), "mprotect": (10, 226), "mremap": (25, 216), "madvise": (28, 233),
    "brk": (12, 214),
    # threads, and waiting
    "clone": (56, 220), "set_robust_list": (273, 99), "rseq": (334, 293),
    "membarrier": (324, 283), "futex": (202, 98), "arch_prctl": (158, None), "prctl": (157, 167),
    "sched_yield": (24, 124), "sched_getaffinity": (204, 123), "sched_getparam": (143, 121),
    "sched_getscheduler": (145, 120),
    "getpriority": (140, 141), "getcpu": (309, 168), "nanosleep": (35, 101), "clock_nanosleep": (230, 115),
    "pause": (34, None),
    "wait4": (61, 260), "waitid": (247, 95), "exit": (60, 93), "exit_group": (231, 94), "restart_syscall": (219, 128),
    # signals, to itself
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "rt_sigpending": (127, 136),
    "rt_sigsuspend": (130, 133),
    "rt_sigtimedwait": (128, 137), "sigaltstack": (131, 132), "alarm": (37, None), "setitimer": (38, 103),
    "getitimer": (36, 102),
    "kill": (62, 129), "tgkill": (234, 131),
    # identity and time
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "gettimeofday": (96, 169), "time": (201, None),
    "times": (100, 153),
    "getpid": (39, 172), "gettid": (186, 178), "getppid": (110, 173), "getuid": (102, 174), "geteuid": (107, 175),
    "getgid": (104, 176),
    "getegid": (108, 177), "getpgrp": (111, None), "getpgid": (121, 155), "getsid": (124, 156), "getgroups": (115, 158),
    "getresuid": (118, 148), "getresgid": (120, 150), "uname": (63, 160),
    "getrlimit": (97, 163), "prlimit64": (302, 261), "getrandom": (318, 278),
}  # fmt: skip

CHECKED: dict[str, tuple[ArgumentTest, ...]] = {
    "open": (ArgumentTest(1, (0,), _WRITING),),
    "openat": (ArgumentTest(2, (0,), _WRITING),),
    "clone": (ArgumentTest(0, (_THREAD,), _THREAD | _NEW_NAMESPACES),),
    "fcntl": (ArgumentTest(1, _DESCRIPTOR_COMMANDS),),
    "ioctl": (ArgumentTest(1, _TERMINAL_QUESTIONS),),
    "prctl": (ArgumentTest(0, _NAMES),),
    "mmap": (ArgumentTest(3, (_PRIVATE,), ANY ^ _MAPPING_FLAGS),),
    "madvise": (ArgumentTest(2, _ADVICE),),
    "futex": (ArgumentTest(1, (_FUTEX_PRIVATE,), _FUTEX_PRIVATE),),
    "clock_gettime": (ArgumentTest(0, (0,), _CLOCKS),),
    "clock_getres": (ArgumentTest(0, (0,), _CLOCKS),),
    "clock_nanosleep": (ArgumentTest(0, (0,), _CLOCKS),),
    "sched_getaffinity": (ArgumentTest(0, (0, OWN_PID)),),
    "sched_getparam": (ArgumentTest(0, (0, OWN_PID)),),
    "sched_getscheduler": (ArgumentTest(0, (0, OWN_PID)),),
    "getpriority": (ArgumentTest(0, (0,)), ArgumentTest(1, (0, OWN_PID))),  # PRIO_PROCESS
    "getpgid": (ArgumentTest(0, (0, OWN_PID)),),
    "getsid": (ArgumentTest(0, (0, OWN_PID)),),
    "kill": (ArgumentTest(0, (OWN_PID,)),),
    "tgkill": (ArgumentTest(0, (OWN_PID,)),),
    # to read its own limits, not to change them
    "prlimit64": (ArgumentTest(0, (0,)), ArgumentTest(2, (0,)), ArgumentTest(2, (0,), upper=True)),
}

REFUSALS: dict[str, int] = {
    "futex": 11,  # EAGAIN: the C library tries again until a thread that it joins has ended
    "sched_getaffinity": 38,  # ENOSYS: the C library then continues without it when it inspects a thread
}
"""The error when a check of CHECKED fails; EPERM for calls that are not listed here."""

# clone3, openat2: "no such call", and the C library takes the older one, whose arguments can be seen
NOT_IMPLEMENTED = ((435, 435), (437, 437))
LATEST = 462  # calls with larger numbers are newer than this list and get the same answer
