"""What the watch knows at one moment; `page.py` makes lines of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from grader.course.syllabus import Exercise
from grader.teaching.show.panels import Picture
from grader.verdict.summary import Verdict
from rich.text import Text


@dataclass
class State:
    exercise: Exercise
    keys: bool  # can keys be pressed?
    verdict: Verdict | None = None  # of this exercise, the last one
    took: float = 0.0  # seconds from the save (or the key) to the verdict
    at: str = ""  # when, by the clock on the wall
    waiting: str = ""  # why there is no run: a file that does not parse
    trouble: str = ""  # why a run gave no verdict
    running: bool = False
    waking: bool = False  # the server is starting
    test: str = ""  # the one that is running
    began: float = 0.0
    again: str = ""  # why the run was begun anew
    word: str = ""  # something to know about saves, until the end
    note: str = ""  # the answer to a key, until the next one
    below: list[Text] = field(default_factory=list)  # a hint, under the verdict
    over: list[Text] | None = None  # a diff, in the verdict's place
    picture: Picture | None = None  # what the exercise computes, in the verdict's place

    def begin(self) -> None:
        self.running, self.waking, self.test, self.began = True, False, "", time.monotonic()
        self.waiting = self.trouble = self.again = self.note = ""
        self.over = self.picture = None

    def end(self, verdict: Verdict | None) -> None:
        if verdict is not None:
            self.verdict = verdict
        self.running = self.waking = False
        self.took, self.at = time.monotonic() - self.began, time.strftime("%H:%M:%S")

    def turn_to(self, exercise: Exercise, verdict: Verdict | None) -> None:
        """Another exercise; its last verdict, if it had one while this watch was open."""
        self.exercise, self.verdict = exercise, verdict
        self.took, self.at = 0.0, ""
        self.waiting = self.trouble = self.again = self.note = ""
        self.below, self.over, self.picture = [], None, None
