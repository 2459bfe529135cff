"""Runs the tests of a plain pytest run in a fork of its process, which can be killed, so that a call that never returns costs its own test only.

The fork writes the deadline of each call into memory that it shares with this process (execution/call_watch.py). This process waits, kills the fork
if a call is late, and continues with that test and all later ones in a worker. It does the same if the fork ends.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import select
import signal
import socket
import sys
from contextlib import suppress
from os import _exit, getpid, kill, waitpid, waitstatus_to_exitcode  # the learner's code may replace them in os

import pytest
from grader.execution.call_watch import SharedDeadline
from grader.execution.exit_reason import PROCESS_BROKEN, describe_exit
from grader.plugin.capture import restart_capture
from grader.plugin.selection import graded_test_of
from grader.runner.attempts import Attempt
from grader.runner.graded_tests import GradedTest
from grader.runner.judging import Judge
from grader.system import process_tree

LOOK_SECONDS = 0.05  # between two looks at the deadline
DEBUGGERS = ("pydevd", "debugpy")


class ForkLost(Exception):
    """The fork was killed because a call was late, or it ended; the message says which."""


class ForkedRunner:
    """Has the tests of one session judged in a fork of this process, where that is possible."""

    def __init__(self, judge: Judge) -> None:
        self.judge_here, self.run = judge, judge.run
        self.deadline = SharedDeadline()
        self.pid = 0
        self.sock: socket.socket | None = None

    def judge(self, item: pytest.Item, test: GradedTest) -> Attempt:
        """The verdict on this test."""
        if not self._needs_fork(item.config):
            return self.judge_here.judge(test)
        try:
            if self.sock is None:
                self._start(item.session)
            return self._ask(item)
        except ForkLost as problem:
            self.close()
            self.run.notes.append(f"{problem}, so the tests from {item.name} on ran your code in a separate process, as with --worker.")
            self.run.trial.move_to_worker(test.exercise)
            return self.judge_here.judge(test)
        except BaseException:  # Control-C
            self.close()
            raise

    def close(self) -> None:
        """End the fork."""
        if self.sock is not None:
            self.sock.close()
            self.sock = None
            if self.pid:
                kill(self.pid, signal.SIGKILL)
                self._status()

    def _needs_fork(self, config: pytest.Config) -> bool:
        """For code that may not return, which is not the reference's and not in a worker: on Linux, where no thread is lost by forking, and no debugger or
        printed output needs this very process.
        """
        if self.run.trial.in_worker or self.run.trial.target.label == "solutions":
            return False
        if self.sock is not None:
            return True
        if not sys.platform.startswith("linux") or sys.gettrace() or any(name in sys.modules for name in DEBUGGERS):
            return False
        option = config.option
        return not option.usepdb and not option.trace and option.capture != "no" and len(os.listdir("/proc/self/task")) == 1

    # ---- this process

    def _start(self, session: pytest.Session) -> None:
        self.sock, theirs = socket.socketpair()
        session.config.get_terminal_writer().flush()
        sys.stdout.flush()
        parent, self.pid = getpid(), os.fork()
        if self.pid:
            theirs.close()
            return
        try:
            process_tree.die_with_parent(parent)
            self.sock.close()
            self._serve(session, theirs)
        finally:
            _exit(PROCESS_BROKEN)

    def _ask(self, item: pytest.Item) -> Attempt:
        assert self.sock is not None
        self.deadline.end()
        with suppress(OSError):  # it has ended: reading says so
            self.sock.sendall(_framed(item.nodeid))
        found, states = self._receive(self.sock)
        self.judge_here.states |= states
        return found

    def _receive(self, sock: socket.socket) -> tuple[Attempt, dict[str, str]]:
        unread = bytearray()
        while len(unread) < 8 or len(unread) < 8 + int.from_bytes(unread[:8], "little"):
            if not select.select([sock], [], [], LOOK_SECONDS)[0]:
                if self.deadline.is_over:
                    raise ForkLost("A call did not return in time")
                continue
            with suppress(OSError):
                if piece := sock.recv(1 << 20):
                    unread += piece
                    continue
            raise ForkLost(f"The process that ran your code ended ({describe_exit(self._status())})")
        return pickle.loads(memoryview(unread)[8:])

    def _status(self) -> int:
        """Wait for the end of the fork: how it ended."""
        pid, self.pid = self.pid, 0
        return waitstatus_to_exitcode(waitpid(pid, 0)[1])

    # ---- the fork

    def _serve(self, session: pytest.Session, sock: socket.socket) -> None:
        """Run each test whose id comes, until the connection is closed. What is accepted here too decides about the tests that follow."""
        self.run.trial.call_watch = self.deadline
        restart_capture(session.config)
        faulthandler.disable()  # a crash is a sentence of the parent's; pytest would print the frames of the kit
        items = {item.nodeid: item for item in session.items}
        while (head := sock.recv(8, socket.MSG_WAITALL)) and len(head) == 8:
            item = items[pickle.loads(sock.recv(int.from_bytes(head, "little"), socket.MSG_WAITALL))]
            test = graded_test_of(item)
            assert test is not None
            found = self.judge_here.judge(test)
            self.judge_here.accept(found)
            self.deadline.end()
            sock.sendall(_framed((found, self.judge_here.states)))
        _exit(0)


def _framed(message: object) -> bytes:
    data = pickle.dumps(message)
    return len(data).to_bytes(8, "little") + data
