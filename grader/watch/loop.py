"""The watch itself: hears of saves, keys and answers, one at a time, and decides what to do. It never goes on to another exercise by itself."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from grader.console.editor import editor_for
from grader.console.output import wrap_text
from grader.course.hints import reveal_hint
from grader.course.progress import load_scores
from grader.course.solution_diff import diff_with_reference
from grader.course.source import SourceProblem, parse, read_source
from grader.course.status import is_passed, locate, next_unpassed
from grader.course.syllabus import EXERCISES, Exercise
from grader.processes.job import again
from grader.teaching.show.catalog import has_picture
from grader.teaching.show.panels import Picture
from grader.verdict.summary import Verdict
from grader.watch.chooser import Chooser
from grader.watch.keys import Keyboard
from grader.watch.page import result_line
from grader.watch.plain import Plain
from grader.watch.runs import Runs
from grader.watch.saves import Saves
from grader.watch.screen import Screen
from grader.watch.signals import signals
from grader.watch.state import State
from grader.watch.viewer import show_chapter
from rich.text import Text


class Watch:
    def __init__(self, exercise: Exercise, screen: Screen | Plain) -> None:
        self.state = State(exercise, keys=isinstance(screen, Screen))
        self.screen = screen
        self.events: queue.SimpleQueue[tuple] = queue.SimpleQueue()
        self.verdicts: dict[str, Verdict] = {}
        self.chooser: Chooser | None = None
        self.peeking = False
        self.open = True
        self.run = 0
        self.runs = Runs(lambda number, message: self.events.put(("said", number, message)), lambda name, message: self.events.put(("drawn", name, message)))
        self.saves = Saves(EXERCISES, lambda names: self.events.put(("saved", names)), lambda word: self.events.put(("word", word)))

    @cached_property
    def keyboard(self) -> Keyboard:
        """Asked for only where there is a screen."""
        return Keyboard(lambda key: self.events.put(("key", key)))

    @property
    def full(self) -> Screen:
        """The screen, for what a key does: without a screen, none can be pressed."""
        assert isinstance(self.screen, Screen)
        return self.screen

    # ---- the loop

    def live(self) -> None:
        """Until somebody quits, or the terminal is gone."""
        with contextlib.ExitStack() as stack:
            stack.callback(self.runs.close)
            stack.callback(self.saves.close)
            stack.enter_context(signals(self.events, isinstance(self.screen, Screen)))
            if isinstance(self.screen, Screen):
                stack.enter_context(self.screen.taken())
                self.keyboard.open()
                stack.callback(self.keyboard.close)
            else:
                self.screen.start(self.state)
            self.test()
            while self.open:
                self.draw()
                for what, *about in self._next():
                    getattr(self, f"on_{what}")(*about)

    def _next(self) -> Iterator[tuple]:
        """What has happened since: one thing at least, unless nothing does for a while."""
        with contextlib.suppress(queue.Empty):
            yield self.events.get(timeout=0.5 if self.state.running else 3600)
            while self.open:
                yield self.events.get_nowait()

    def draw(self) -> None:
        if isinstance(self.screen, Screen):
            self.screen.draw(self.state, *(self.chooser.lines() if self.chooser else ()))

    # ---- runs

    def test(self) -> None:
        """Begin a run, unless the file cannot be Python yet."""
        problem = _unreadable(f"{self.state.exercise.module}.py")
        if problem:
            self.wait_for(problem)
            return
        self.state.begin()
        self.run = self.runs.start(self.state.exercise.name)

    def wait_for(self, problem: str) -> None:
        self.runs.stop()
        self.state.running, self.state.waiting = False, problem
        if isinstance(self.screen, Plain):
            self.screen.say(f"{problem}. Waiting for the next save.")

    def on_saved(self, names: set[str]) -> None:
        broken = next((problem for name in sorted(names) if (problem := _unreadable(name))), "")
        if broken:
            self.wait_for(broken)
        else:
            self.test()

    def on_said(self, number: int, message: dict[str, Any]) -> None:
        state = self.state
        if number != self.run or not state.running:
            return
        match message:
            case {"waking": _}:
                state.waking = True
                if isinstance(self.screen, Plain):
                    self.screen.say("Loading the tests, once and for some seconds.")
            case {"begun": test}:
                state.waking, state.test = False, test
            case {"again": why}:
                state.again, state.test = why, ""
                if isinstance(self.screen, Plain):
                    self.screen.say(again(why))
            case {"verdict": data}:
                verdict = Verdict.from_data(data)
                self.verdicts[state.exercise.name] = verdict
                state.below = [] if (result := verdict.result(state.exercise.name)) and result.outcome == "passed" else state.below
                state.end(verdict)
                if isinstance(self.screen, Plain):
                    self.screen.verdict(state)
            case {"done": status}:
                state.end(None)
                state.trouble = f"There is no verdict: the tests ended with status {status}. Run headway check {state.exercise.name} to see why."
            case {"trouble": sentence}:
                state.end(None)
                state.trouble = sentence
                if isinstance(self.screen, Plain):
                    self.screen.say(sentence)

    def on_drawn(self, name: str, message: dict[str, Any]) -> None:
        if name != self.state.exercise.name:
            return
        if "picture" in message:
            self.state.picture, self.state.over, self.full.top = Picture.from_data(message["picture"]), None, 0
            self.state.note = f"esc: back to the verdict. In a file: headway show {name} --out {name}.png"
        else:
            self.state.note = f"There is no picture: {message['trouble']}."

    def on_word(self, word: str) -> None:
        self.state.word = word
        if isinstance(self.screen, Plain):
            self.screen.say(word)

    # ---- keys

    def on_key(self, key: str | None) -> None:
        if key is None:  # the terminal is gone
            self.open = False
            return
        if key == "interrupt":
            self.on_stop()
            return
        if self.chooser is not None:
            self._choose(self.chooser, key)
            return
        rows = self.full.rows
        moves = {"up": -1, "down": 1, "page up": -rows, "page down": rows, " ": rows, "home": -10**6, "end": 10**6}
        if key in moves:
            self.full.scroll(moves[key])
            return
        peeking, self.peeking = self.peeking, False
        self.state.note = ""
        act = {"h": self.hint, "n": self.next, "l": self.list, "o": self.edit, "r": self.test, "s": self.picture, "q": self.on_stop, "escape": self.back}
        if key.lower() == "d":
            self.diff(peeking)
        elif key.lower() in act:
            act[key.lower()]()

    def on_stop(self) -> None:
        self.open = False

    def on_resized(self) -> None:
        pass  # the next drawing asks how large the terminal is

    def on_suspended(self) -> None:
        """Control-Z: give the terminal back, stop here, and go on when we are called again."""
        with self.keyboard.lent(), self.full.lent():
            handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTSTP)
            signal.signal(signal.SIGTSTP, handler)

    def hint(self) -> None:
        found = reveal_hint(self.state.exercise)
        if found is None:
            self.state.note = f"{self.state.exercise.name} has no hints."
            return
        self.state.over = self.state.picture = None
        more = "That is the last one." if found.is_last else "h again says more."
        prose = wrap_text(found.text, min(self.full.size[0], 80))
        self.state.below = [Text(found.title, "bold"), *map(Text, prose), Text(more, "dim"), *([Text(found.problem, "red")] if found.problem else [])]
        self.full.top = 10**6  # the drawing knows where the end is

    def next(self) -> None:
        following = next_unpassed(self.state.exercise)
        if following is not None:
            self.turn_to(following)
        elif is_passed(self.state.exercise, load_scores()):
            self.state.note = "Everything has been passed. l lists all exercises."
        else:
            self.state.note = "This is the last one that has not been passed."

    def list(self) -> None:
        self.chooser = Chooser(self.state.exercise)

    def _choose(self, chooser: Chooser, key: str) -> None:
        if key == "enter" and chooser.chosen:
            self.turn_to(chooser.chosen)
        if key in ("enter", "escape"):
            self.chooser = None
        else:
            chooser.press(key)

    def turn_to(self, exercise: Exercise) -> None:
        self.full.top = 0
        self.state.turn_to(exercise, self.verdicts.get(exercise.name))
        self.test()

    def back(self) -> None:
        self.state.over, self.state.picture, self.state.below = None, None, []

    def diff(self, peeking: bool) -> None:
        exercise = self.state.exercise
        if not peeking and not is_passed(exercise, load_scores()):
            self.state.note, self.peeking = f"{exercise.name} has not passed yet, and finding your own way is what it is for. d again: look all the same.", True
            return
        try:
            lines = diff_with_reference(exercise)
        except SourceProblem as problem:
            self.state.note = str(problem)
            return
        self.full.top, self.state.picture = 0, None
        self.state.over = lines or [Text(f"Your {exercise.name} and the reference are the same, line for line.")]
        self.state.note = "Yours (-) and the reference (+). esc: back to the verdict."

    def edit(self) -> None:
        place = locate(self.state.exercise)
        editor = editor_for(place)
        if editor is None:
            self.state.note = f"{place}. Name your editor in $EDITOR, and o opens it there."
        elif editor.windowed:
            self.state.note = editor.open(wait=False) or f"opened {place}"
        else:
            with self.keyboard.lent(), self.full.lent():
                problem = editor.open()
            self.state.note = problem or ""

    def picture(self) -> None:
        """What this exercise computes; the chapter's picture, in a window, where the exercise has none."""
        name = self.state.exercise.name
        if has_picture(name):
            self.state.note = f"Drawing what {name} computes."
            self.runs.draw(name)
        else:
            self.state.note = show_chapter(self.state.exercise)


def watch(exercise: Exercise, interactive: bool) -> int:
    """Watch until somebody quits; the last verdict stays behind in one line."""
    session = Watch(exercise, Screen() if interactive else Plain())
    with contextlib.suppress(BrokenPipeError):
        session.live()
        print(result_line(session.state))
    return 0


def _unreadable(name: str) -> str:
    """Why this chapter is no Python at the moment; "" where it is."""
    path = EXERCISES / name
    try:
        text = read_source(path)
        if not text.strip():
            return f"{name} is empty"
        parse(text, name)
    except SourceProblem as problem:
        return str(problem)
    return ""
