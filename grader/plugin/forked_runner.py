"""Runs the tests of a plain pytest run in a fork of its process, which can be killed, so that a call that never returns
costs its own test only.

The fork writes the deadline of each call into memory that it shares with this process (execution/call_watch.py). This
process waits, kills the fork if a call is late, and continues with that test and all later ones in a worker. It does
the same if the fork ends.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from contextlib import suppress

import pytest
from grader.execution.call_watch import SharedDeadline
from grader.plugin.pytest_internals import restart_capture
from grader.plugin.selection import graded_test_of
from grader.runner.attempts import Attempt
from grader.runner.graded_tests import GradedTest
from grader.runner.judging import Judge
from grader.system.exit_reason import describe_exit
from grader.system.forks import Fork
from grader.system.process_tree import ENDING_SECONDS

LOOK_SECONDS = 0.05  # between two looks at the deadline
DEBUGGERS = ("pydevd", "debugpy")


class ForkLost(Exception):
    """The fork was killed because a call was late, or it ended; the message says which."""


class ForkedRunner:
    """Has the tests of one session judged in a fork of this process, where that is possible."""

    def __init__(self, judge: Judge) -> None:
        self.judge_here, self.run = judge, judge.run
        self.deadline = SharedDeadline()
        self.fork: Fork | None = None

    def judge(self, item: pytest.Item, test: GradedTest) -> Attempt:
        """The verdict on this test."""
        if not self._needs_fork(item.config):
            return self.judge_here.judge(test)
        try:
            if self.fork is None:
                self.fork = self._start(item.session)
            return self._ask(self.fork, item)
        except ForkLost as problem:
            self.close()
            self.run.notes.append(
                f"{problem}, so the tests from {item.name} on ran your code in a separate process, as with --worker."
            )
            self.run.trial.move_to_worker(test.exercise)
            return self.judge_here.judge(test)
        except BaseException:  # Control-C
            self.close()
            raise

    def close(self) -> None:
        """End the fork."""
        if self.fork is not None:
            self.fork.end()
            self.fork = None

    def _needs_fork(self, config: pytest.Config) -> bool:
        """Whether the code may not return and forking is possible: on Linux, with one thread, without a debugger or
        output that needs this very process."""
        if self.run.trial.in_worker or self.run.trial.target.label == "solutions":
            return False
        if self.fork is not None:
            return True
        if not sys.platform.startswith("linux") or sys.gettrace() or any(name in sys.modules for name in DEBUGGERS):
            return False
        option = config.option
        return not option.usepdb and option.capture != "no" and len(os.listdir("/proc/self/task")) == 1

    def _start(self, session: pytest.Session) -> Fork:
        session.config.get_terminal_writer().flush()
        sys.stdout.flush()
        return Fork(lambda line: self._serve(session, line))

    def _ask(self, fork: Fork, item: pytest.Item) -> Attempt:
        self.deadline.end()
        with suppress(OSError):  # it has ended: receiving says so
            fork.send(item.nodeid)
        while not fork.has_message(LOOK_SECONDS):
            if self.deadline.is_over:
                raise ForkLost("A call did not return in time")
        try:
            found, states = fork.receive()
        except EOFError:
            status, self.fork = fork.end(ENDING_SECONDS), None
            raise ForkLost(f"The process that ran your code ended ({describe_exit(status)})") from None
        self.judge_here.states |= states
        return found

    def _serve(self, session: pytest.Session, line: Fork) -> None:
        """In the fork: judge each test whose id comes, until the connection is closed. What is accepted here too
        decides about the tests that follow."""
        self.run.trial.call_watch = self.deadline
        restart_capture(session.config)
        faulthandler.disable()  # a crash is a sentence of the parent's; pytest would print the frames of the kit
        tests = {item.nodeid: graded_test_of(item) for item in session.items}
        with suppress(EOFError):
            while test := tests[line.receive()]:
                found = self.judge_here.judge(test)
                self.judge_here.accept(found)
                self.deadline.end()
                line.send((found, self.judge_here.states))
