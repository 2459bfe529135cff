"""The state of the watch; `page.py` turns it into lines."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from grader.course.source import SourceProblem
from grader.course.syllabus import Exercise
from grader.teaching.show.panels import Picture
from grader.verdict.summary import Verdict
from rich.text import Text


@dataclass
class State:
    exercise: Exercise
    keys: bool  # whether keys can be pressed
    pinned: bool = False  # whether saves of other functions leave the exercise as it is
    verdict: Verdict | None = None  # the last one of this exercise
    seconds: float = 0.0  # from the save (or the key) to the verdict
    finished_at: str = ""  # the time of day of the verdict
    follow_note: str = ""  # what the last save changed, and what is tested therefore
    waiting: Exercise | None = None  # changed while the watch was pinned to another
    file_problem: str = ""  # why no run was started: a file that does not parse
    file_name: str = ""  # that file
    file_reason: str = ""  # the problem without its place
    file_excerpt: list[str] = field(default_factory=list)  # the problem's line, with a caret
    run_problem: str = ""  # why a run gave no verdict
    running: bool = False
    starting: bool = False  # the server is starting
    test: str = ""  # the one that is running
    first_failure: str = ""  # the message of the first test that failed in this run
    started_at: float = 0.0
    retry_reason: str = ""  # why the run was started a second time
    save_notice: str = ""  # how saves are detected, if that is slower than usual; shown until the end
    note: str = ""  # the reply to a key, until the next key
    hint_lines: list[Text] = field(default_factory=list)  # shown below the verdict
    diff_lines: list[Text] | None = None  # shown instead of the verdict
    picture: Picture | None = None  # shown instead of the verdict

    @property
    def failed_tests(self) -> tuple[str, ...]:
        """The tests that failed in the last verdict."""
        result = self.verdict.result(self.exercise.name) if self.verdict else None
        return tuple(test.name for test in result.failures) if result else ()

    def start_run(self) -> None:
        self.running, self.starting, self.test, self.started_at = True, False, "", time.monotonic()
        self._clear_messages()
        self.diff_lines = self.picture = None

    def end_run(self, verdict: Verdict | None) -> None:
        if verdict is not None:
            self.verdict = verdict
        self.running = self.starting = False
        self.seconds, self.finished_at = time.monotonic() - self.started_at, time.strftime("%H:%M:%S")

    def switch_to(self, exercise: Exercise, verdict: Verdict | None) -> None:
        """Watch another exercise; `verdict` is its last one in this session, if there is one."""
        self.exercise, self.verdict = exercise, verdict
        self.seconds, self.finished_at = 0.0, ""
        self._clear_messages()
        self.follow_note, self.waiting = "", None
        self.hint_lines, self.diff_lines, self.picture = [], None, None

    def wait_for_save(self, problem: SourceProblem, excerpt: list[str]) -> None:
        """Show why the file cannot be tested, and nothing of the time before."""
        self.running, self.starting = False, False
        self.file_problem = f"{problem.file}, line {problem.line}: {problem.reason}" if excerpt else str(problem)
        self.file_name, self.file_reason, self.file_excerpt = problem.file, problem.reason, excerpt
        self.follow_note, self.hint_lines, self.diff_lines, self.picture = "", [], None, None

    def _clear_messages(self) -> None:
        self.file_problem = self.run_problem = self.retry_reason = self.note = self.first_failure = ""
