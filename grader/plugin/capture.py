"""What the tested code prints, as pytest captures it: all of pytest's private plugin `capturemanager` that the kit
uses."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from grader.runner.printed import Printed


class PrintedToPytest(Printed):
    """Has pytest capture what is printed, so that its options about output and debuggers apply."""

    def __init__(self, config: pytest.Config) -> None:
        self.capture = config.pluginmanager.getplugin("capturemanager")
        self.printed = ""

    @property
    def _is_capturing(self) -> bool:
        return self.capture is not None and self.capture.is_globally_capturing()

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        if not self._is_capturing:
            yield
            return
        self.capture.resume_global_capture()
        try:
            yield
        finally:
            self.capture.suspend_global_capture(in_=False)
            self.printed = self.capture.read_global_capture()[0]

    def drop(self) -> None:
        if self._is_capturing:
            self.capture.read_global_capture()

    @property
    def text(self) -> str:
        return self.printed


def restart_capture(config: pytest.Config) -> None:
    """In a forked process: capture what is printed in new files; the inherited ones are shared with every process
    forked from the same one."""
    capture = config.pluginmanager.get_plugin("capturemanager")
    assert capture is not None
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture(in_=True)
