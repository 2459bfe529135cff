"""All uses of pytest's private interfaces. Nothing else in the kit imports from `_pytest` or uses a private attribute of its objects.

Tried with pytest 8.0.0 and 9.2.0; `pyproject.toml` excludes pytest 10 until it has been tried. Each function says what it relies on.

PYTEST_DONT_REWRITE: it may be imported before pytest's second start (early.py), which would warn that it is too late to rewrite it.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest
from _pytest import terminal
from _pytest.runner import runtestprotocol


def run_test(item: pytest.Item, following: pytest.Item | None) -> list[pytest.TestReport]:
    """Set up, run and tear down one test, without reporting it: `_pytest.runner.runtestprotocol`."""
    return runtestprotocol(item, log=False, nextitem=following)


def remove_import_hooks() -> None:
    """Remove what pytest's start has added to `sys.meta_path`: `_pytest.assertion.rewrite.AssertionRewritingHook`."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("_pytest.")]


def reset_fixtures(item: pytest.Function) -> None:
    """Make a test that has run ready to run again, with new fixtures: `Function._initrequest`."""
    item._initrequest()


def fixtures_of(item: pytest.Function) -> dict[str, Any]:
    """The values of the fixtures that the test function names as parameters: `Function._fixtureinfo`."""
    return {name: item.funcargs[name] for name in item._fixtureinfo.argnames}


def drop_output(config: pytest.Config) -> None:
    """Forget what the running test has printed so far: pytest's plugin `capturemanager`."""
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None and capture.is_globally_capturing():
        capture.read_global_capture()


def width_of(reporter: pytest.TerminalReporter) -> int:
    """The number of columns that the reporter writes: `TerminalReporter._tw`."""
    return reporter._tw.fullwidth


def set_page(reporter: pytest.TerminalReporter, columns: int, colour: bool) -> None:
    """Have the reporter write for a terminal other than this process's: `TerminalReporter._tw`, `_screen_width`."""
    reporter._tw.hasmarkup = reporter.hasmarkup = colour
    reporter._tw.fullwidth = reporter._screen_width = columns


def freeze_plugin_names(config: pytest.Config) -> None:
    """Read the names and versions of the installed plugins once, for all headers to come: `_pytest.terminal._plugin_nameversions`."""
    names = terminal._plugin_nameversions(config.pluginmanager.list_plugin_distinfo())
    terminal._plugin_nameversions = lambda plugininfo: names
