"""Tests what a save has changed, one exercise after the other, on the watch's own server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Any

from grader.course.excerpt import find_problem
from grader.course.status import is_stub_now
from grader.course.syllabus import EXERCISES, load_syllabus
from grader.verdict.summary import Verdict
from grader.watch.changes import SavedChapters
from grader.watch.runs import Message, Runs


class Checks:
    """The exercises to test. `on_verdict` gets a name and its verdict, `on_trouble` a sentence that says why there is
    none. Everything happens in the thread of the event loop; a run is started by the first save."""

    def __init__(self, on_verdict: Callable[[str, Verdict], None], on_trouble: Callable[[str], None]) -> None:
        self.on_verdict, self.on_trouble = on_verdict, on_trouble
        self.chapters = SavedChapters(EXERCISES)
        self.runs = Runs(self._from_thread)
        self.loop: asyncio.AbstractEventLoop | None = None
        self.waiting: list[str] = []
        self.running = ""  # an exercise
        self.number = 0  # of its run
        self.has_verdict = False
        self.failed_tests: dict[str, tuple[str, ...]] = {}  # of an exercise, in its last run

    def on_saved(self, module: str) -> None:
        """Test the exercises whose code, or that of a helper, this save has changed; a run that it interrupts is
        repeated afterwards."""
        changes = self.chapters.update([module])
        exercises = [*changes.changed, *(exercise for exercise, _ in changes.using)]
        is_broken = find_problem(EXERCISES / f"{module}.py") is not None
        if is_broken and self.running and load_syllabus().exercise(self.running).module == module:
            self._interrupt()
        self.test(exercise.name for exercise in exercises)

    def test(self, names: Iterable[str]) -> None:
        """Test these exercises now, before those that wait."""
        first = list(dict.fromkeys(names))
        if first:
            self._interrupt()
            self.waiting = list(dict.fromkeys([*first, *self.waiting]))
        if not self.running:
            self._start_next()

    def close(self) -> None:
        self.runs.close()

    def _interrupt(self) -> None:
        if self.running:
            self.runs.stop()
            self.waiting.insert(0, self.running)
            self.running = ""

    def _start_next(self) -> None:
        """Start the first that can be tested: a chapter that is not valid Python waits for its next save."""
        exercises = {name: load_syllabus().exercise(name) for name in self.waiting}
        self.waiting = [name for name in self.waiting if not is_stub_now(exercises[name])]
        valid = (name for name in self.waiting if find_problem(EXERCISES / f"{exercises[name].module}.py") is None)
        self.running = next(valid, "")
        if self.running:
            self.waiting.remove(self.running)
            self.loop = asyncio.get_running_loop()
            self.has_verdict = False
            self.number = self.runs.start(self.running, self.failed_tests.get(self.running, ()))

    def _from_thread(self, number: int, message: Message) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            assert self.loop is not None
            self.loop.call_soon_threadsafe(self._on_message, number, message)

    def _on_message(self, number: int, message: dict[str, Any]) -> None:
        if number != self.number or not self.running:
            return
        name = self.running
        match message:
            case {"verdict": data}:
                verdict, self.has_verdict = Verdict.from_data(data), True
                result = verdict.result(name)
                self.failed_tests[name] = tuple(test.name for test in result.failures) if result else ()
                self.on_verdict(name, verdict)
            case {"done": _}:
                if not self.has_verdict:
                    self.on_trouble(f"No verdict on {name}: the tests ended without one. See `headway check {name}`.")
                self.running = ""
                self._start_next()
            case {"trouble": sentence}:  # no server starts, or the code has ended three of them
                self.running, self.waiting = "", []
                self.on_trouble(sentence)
