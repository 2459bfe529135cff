"""All uses of pytest's private interfaces. Nothing else in the kit imports from `_pytest` or uses a
private attribute of its objects.

Tried with pytest 8.0.0 and 9.2.0; `pyproject.toml` excludes pytest 10 until it has been tried. Each function says what
it relies on.

PYTEST_DONT_REWRITE: it may be imported before pytest's second start (early.py), which would warn that it is too late to
rewrite it.
"""

from __future__ import annotations

import ast
import contextlib
import shutil
import sys
from collections.abc import Iterator
from types import CodeType, ModuleType

import pytest
from _pytest.assertion.rewrite import rewrite_asserts
from grader.runner.printed import Printed


def remove_import_hooks() -> None:
    """Remove what pytest's start has added to `sys.meta_path`: `_pytest.assertion.rewrite.AssertionRewritingHook`."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("_pytest.")]


def width_of(reporter: pytest.TerminalReporter) -> int:
    """The number of columns that the reporter writes: `TerminalReporter._tw`."""
    return reporter._tw.fullwidth


def height_of(reporter: pytest.TerminalReporter) -> int:
    """The number of lines of the terminal; 0 if the reporter writes to a pipe or a file: `TerminalReporter.isatty`."""
    return shutil.get_terminal_size().lines if reporter.isatty else 0


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


def compile_tests(text: str, file: str) -> CodeType:
    """The code of a module of tests whose assertions say what they compared: `_pytest.assertion.rewrite`."""
    tree = ast.parse(text, file)
    rewrite_asserts(tree, text.encode())
    return compile(tree, file, "exec", dont_inherit=True)


class ModuleOfTests(pytest.Module):
    """A module that is imported already, from no file: `Module._getobj`."""

    imported: ModuleType

    def _getobj(self) -> ModuleType:
        return self.imported
