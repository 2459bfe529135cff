"""One graded run in this process: pytest without output, with the notebook's object instead of the definition in the chapter's file."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from grader.course.source import SourceProblem, parse, read_source
from grader.course.stubs import reference_stub
from grader.course.syllabus import EXERCISES, ROOT, TESTS, Chapter, Exercise
from grader.execution.overrides import DefinitionOverride
from grader.notebook.process_state import restore_state
from grader.verdict.summary import Verdict

if TYPE_CHECKING:
    import pytest
    from grader.execution.target import Target
    from grader.runner.graded_run import GradedRun

PLUGINS_LEFT_OUT = ("cacheprovider", "faulthandler", "unraisableexception", "threadexception")  # they change the process, or search all its memory
QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")  # the kit is already imported when pytest starts here
_INTERNAL_ERROR, _USAGE_ERROR = 3, 4

_one_at_a_time = threading.Lock()


class NotRun(Exception):
    """There is no verdict; the message says why, in one sentence."""


class Stopped(KeyboardInterrupt):
    """The learner pressed the stop button; a notebook shows one line instead of a traceback."""

    def _render_traceback_(self) -> list[str]:
        return ["The check was stopped."]


def run(found: Exercise | Chapter, override: DefinitionOverride | None) -> Verdict:
    """The verdict of the graded tests of an exercise or a chapter; NotRun if there is no verdict."""
    if not _one_at_a_time.acquire(blocking=False):
        raise NotRun("Another check is still running. Wait until it has finished, then run this one again.")
    try:
        with restore_state():
            verdict = _run(found, override)
    finally:
        _one_at_a_time.release()
    if verdict is None:
        raise Stopped
    return verdict


def _run(found: Exercise | Chapter, override: DefinitionOverride | None) -> Verdict | None:
    import pytest

    chapter, chosen = (found.id, ["--chapter", found.id]) if isinstance(found, Chapter) else (found.chapter, ["--exercise", found.name])
    suites = [str(path) for path in sorted(TESTS.glob(f"test_{chapter}_*.py"))]
    if not suites:
        raise NotRun(f"There are no tests for {found.name} yet.")
    notes: list[str] = []
    hooks = _Hooks(target_of(override, notes) if override else None)
    left_out = [word for plugin in PLUGINS_LEFT_OUT for word in ("-p", f"no:{plugin}")]
    settings = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "--capture=sys", *left_out, *QUIET]
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = pytest.main([*settings, *chosen, *suites], plugins=[hooks])
    if hooks.interrupted:
        return None
    if hooks.run is None or status in (_INTERNAL_ERROR, _USAGE_ERROR) or not hooks.run.results:
        raise NotRun(f"{found.name} could not be tested. pytest said:\n{_last_words(said.getvalue())}")
    verdict = hooks.run.verdict()
    verdict.notes.extend(notes)
    if "IPython" in sys.modules:
        for result in verdict.results:  # in a cell, a command begins with an exclamation mark
            result.script = re.sub("^headway ", "!headway ", result.script)
    return verdict


def target_of(override: DefinitionOverride, notes: list[str]) -> Target:
    """The learner's folder with the given object; if its chapter cannot be read, the stub provides the chapter's other names."""
    from grader.execution.target import Target

    path, texts = EXERCISES / f"{override.module}.py", {}
    try:
        parse(read_source(path), f"exercises/{path.name}")
    except SourceProblem as problem:
        texts[override.module] = reference_stub(override.module)
        if path.exists():
            notes.append(f"{problem}. So your notebook was tested without this file.")
    return Target("exercises", EXERCISES, texts, override=override)


class _Hooks:
    """Hooks for this run: they set its target and note an interruption."""

    def __init__(self, target: Target | None) -> None:
        self.target = target
        self.run: GradedRun | None = None
        self.interrupted = False

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo) -> None:
        self.interrupted = issubclass(excinfo.type, KeyboardInterrupt)

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        from grader.plugin.hooks import RUN

        self.run = session.config.stash[RUN]
        if self.target:
            self.run.trial.target = self.target


def _last_words(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(lines[-12:]).replace(str(Path.home()), "~")
