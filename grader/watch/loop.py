"""The loop of the watch: it takes saves, keys and messages of runs from one queue, and handles one at a time. Only a key changes the exercise."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any

from grader.console.editor import editor_for
from grader.console.output import wrap_text
from grader.course.hints import reveal_hint
from grader.course.progress import load_scores
from grader.course.solution_diff import diff_with_reference
from grader.course.source import SourceProblem, parse, read_source
from grader.course.status import is_passed, locate, next_unpassed
from grader.course.syllabus import EXERCISES, Exercise
from grader.processes.job import retry_sentence
from grader.teaching.show.catalog import has_picture
from grader.teaching.show.panels import Picture
from grader.verdict.summary import Verdict
from grader.watch.chooser import Chooser
from grader.watch.keys import Keyboard
from grader.watch.page import result_line
from grader.watch.plain import Plain
from grader.watch.runs import Runs
from grader.watch.saves import SaveWatcher
from grader.watch.screen import Screen
from grader.watch.signals import forward_signals
from grader.watch.state import State
from grader.watch.viewer import open_chapter_picture
from rich.text import Text


class Watch:
    def __init__(self, exercise: Exercise, screen: Screen | Plain) -> None:
        self.state = State(exercise, keys=isinstance(screen, Screen))
        self.screen = screen
        self.events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()  # calls of the methods on_...
        self.verdicts: dict[str, Verdict] = {}
        self.chooser: Chooser | None = None
        self.diff_confirmed = False
        self.is_open = True
        self.run_number = 0
        self.runs = Runs(self._queued(self.on_run_message), self._queued(self.on_picture))
        self.saves = SaveWatcher(EXERCISES, self._queued(self.on_saved), self._queued(self.on_save_notice))

    @cached_property
    def keyboard(self) -> Keyboard:
        """Created at its first use, which needs a screen."""
        return Keyboard(self._queued(self.on_key))

    @property
    def full_screen(self) -> Screen:
        """The screen, for actions of keys: without a screen no key can be pressed."""
        assert isinstance(self.screen, Screen)
        return self.screen

    # ---- the loop

    def run_until_quit(self) -> None:
        """Handle events until the learner quits or the terminal is closed."""
        with contextlib.ExitStack() as stack:
            stack.callback(self.runs.close)
            stack.callback(self.saves.close)
            stack.enter_context(forward_signals(self._signal_handlers()))
            if isinstance(self.screen, Screen):
                stack.enter_context(self.screen.fullscreen())
                self.keyboard.open()
                stack.callback(self.keyboard.close)
            else:
                self.screen.print_heading(self.state)
            self.start_run()
            while self.is_open:
                self.draw()
                for handle_event in self._next_events():
                    handle_event()

    def _queued(self, handler: Callable[..., None]) -> Callable[..., None]:
        """A function for other threads and for signals: it puts a call of `handler` into the queue, and the loop makes that call."""
        return lambda *arguments: self.events.put(partial(handler, *arguments))

    def _signal_handlers(self) -> dict[str, Callable[[], None]]:
        ending = dict.fromkeys(("SIGTERM", "SIGHUP", "SIGINT"), self._queued(self.on_quit))
        return ending | ({"SIGWINCH": self._queued(self.on_resized), "SIGTSTP": self._queued(self.on_suspended)} if isinstance(self.screen, Screen) else {})

    def _next_events(self) -> Iterator[Callable[[], None]]:
        """Wait for the next event, then yield it and all that have arrived by then; nothing when the wait times out."""
        with contextlib.suppress(queue.Empty):
            yield self.events.get(timeout=0.5 if self.state.running else 3600)
            while self.is_open:
                yield self.events.get_nowait()

    def draw(self) -> None:
        if isinstance(self.screen, Screen):
            self.screen.draw(self.state, *(self.chooser.lines() if self.chooser else ()))

    # ---- runs

    def start_run(self) -> None:
        """Start a run, unless the file is not valid Python at the moment."""
        problem = _parse_problem(f"{self.state.exercise.module}.py")
        if problem:
            self.wait_for_save(problem)
            return
        self.state.start_run()
        self.run_number = self.runs.start(self.state.exercise.name)

    def wait_for_save(self, problem: str) -> None:
        self.runs.stop()
        self.state.running, self.state.file_problem = False, problem
        if isinstance(self.screen, Plain):
            self.screen.print_message(f"{problem}. Waiting for the next save.")

    def on_saved(self, names: set[str]) -> None:
        broken = next((problem for name in sorted(names) if (problem := _parse_problem(name))), "")
        if broken:
            self.wait_for_save(broken)
        else:
            self.start_run()

    def on_run_message(self, number: int, message: dict[str, Any]) -> None:
        state = self.state
        if number != self.run_number or not state.running:
            return
        match message:
            case {"waking": _}:
                state.starting = True
                if isinstance(self.screen, Plain):
                    self.screen.print_message("Loading the tests; this takes a few seconds, once.")
            case {"begun": test}:
                state.starting, state.test = False, test
            case {"again": why}:
                state.retry_reason, state.test = why, ""
                if isinstance(self.screen, Plain):
                    self.screen.print_message(retry_sentence(why))
            case {"verdict": data}:
                verdict = Verdict.from_data(data)
                self.verdicts[state.exercise.name] = verdict
                state.hint_lines = [] if (result := verdict.result(state.exercise.name)) and result.outcome == "passed" else state.hint_lines
                state.end_run(verdict)
                if isinstance(self.screen, Plain):
                    self.screen.print_verdict(state)
            case {"done": status}:
                state.end_run(None)
                state.run_problem = f"No verdict: the tests ended with status {status}. To see why, run: headway check {state.exercise.name}"
            case {"trouble": sentence}:
                state.end_run(None)
                state.run_problem = sentence
                if isinstance(self.screen, Plain):
                    self.screen.print_message(sentence)

    def on_picture(self, name: str, message: dict[str, Any]) -> None:
        if name != self.state.exercise.name:
            return
        if "picture" in message:
            self.state.picture, self.state.diff_lines, self.full_screen.top = Picture.from_data(message["picture"]), None, 0
            self.state.note = f"esc: back to the verdict. To save the picture: headway show {name} --out {name}.png"
        else:
            self.state.note = f"No picture: {message['trouble']}."

    def on_save_notice(self, notice: str) -> None:
        self.state.save_notice = notice
        if isinstance(self.screen, Plain):
            self.screen.print_message(notice)

    # ---- keys

    def on_key(self, key: str | None) -> None:
        if key is None:  # the terminal was closed
            self.is_open = False
            return
        if key == "interrupt":
            self.on_quit()
            return
        if self.chooser is not None:
            self._press_in_chooser(self.chooser, key)
            return
        rows = self.full_screen.rows
        moves = {"up": -1, "down": 1, "page up": -rows, "page down": rows, " ": rows, "home": -10**6, "end": 10**6}
        if key in moves:
            self.full_screen.scroll(moves[key])
            return
        diff_confirmed, self.diff_confirmed = self.diff_confirmed, False
        self.state.note = ""
        actions = {
            "h": self.show_hint, "n": self.go_to_next, "l": self.open_chooser, "o": self.open_editor, "r": self.start_run,
            "s": self.show_picture, "q": self.on_quit, "escape": self.show_verdict,
        }  # fmt: skip
        if key.lower() == "d":
            self.show_diff(diff_confirmed)
        elif key.lower() in actions:
            actions[key.lower()]()

    def on_quit(self) -> None:
        self.is_open = False

    def on_resized(self) -> None:
        pass  # the next draw reads the size of the terminal

    def on_suspended(self) -> None:
        """Control-Z: restore the terminal, stop this process, and continue when the shell resumes it."""
        with self.keyboard.suspended(), self.full_screen.suspended():
            handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTSTP)
            signal.signal(signal.SIGTSTP, handler)

    def show_hint(self) -> None:
        found = reveal_hint(self.state.exercise)
        if found is None:
            self.state.note = f"{self.state.exercise.name} has no hints."
            return
        self.state.diff_lines = self.state.picture = None
        more = "This is the last hint." if found.is_last else "Press h again for the next hint."
        prose = wrap_text(found.text, min(self.full_screen.size[0], 80))
        self.state.hint_lines = [Text(found.title, "bold"), *map(Text, prose), Text(more, "dim"), *([Text(found.problem, "red")] if found.problem else [])]
        self.full_screen.top = 10**6  # draw() limits it to the last line

    def go_to_next(self) -> None:
        following = next_unpassed(self.state.exercise)
        if following is not None:
            self.switch_to(following)
        elif is_passed(self.state.exercise, load_scores()):
            self.state.note = "You have passed every exercise. l lists them all."
        else:
            self.state.note = "This is the only exercise that you have not passed yet."

    def open_chooser(self) -> None:
        self.chooser = Chooser(self.state.exercise)

    def _press_in_chooser(self, chooser: Chooser, key: str) -> None:
        if key == "enter" and chooser.chosen:
            self.switch_to(chooser.chosen)
        if key in ("enter", "escape"):
            self.chooser = None
        else:
            chooser.press(key)

    def switch_to(self, exercise: Exercise) -> None:
        self.full_screen.top = 0
        self.state.switch_to(exercise, self.verdicts.get(exercise.name))
        self.start_run()

    def show_verdict(self) -> None:
        self.state.diff_lines, self.state.picture, self.state.hint_lines = None, None, []

    def show_diff(self, diff_confirmed: bool) -> None:
        exercise = self.state.exercise
        if not diff_confirmed and not is_passed(exercise, load_scores()):
            self.state.note, self.diff_confirmed = f"You have not passed {exercise.name} yet; try your own way first. Press d again to see the reference anyway.", True
            return
        try:
            lines = diff_with_reference(exercise)
        except SourceProblem as problem:
            self.state.note = str(problem)
            return
        self.full_screen.top, self.state.picture = 0, None
        self.state.diff_lines = lines or [Text(f"Your {exercise.name} is identical to the reference.")]
        self.state.note = "Your code (-) and the reference (+). esc: back to the verdict."

    def open_editor(self) -> None:
        location = locate(self.state.exercise)
        editor = editor_for(location)
        if editor is None:
            self.state.note = f"{location}. Set $EDITOR to your editor, and o opens the file there."
        elif editor.windowed:
            self.state.note = editor.open(wait=False) or f"Opened {location}."
        else:
            with self.keyboard.suspended(), self.full_screen.suspended():
                problem = editor.open()
            self.state.note = problem or ""

    def show_picture(self) -> None:
        """Draw what the exercise computes; if it has no picture, open the chapter's picture in a window."""
        name = self.state.exercise.name
        if has_picture(name):
            self.state.note = f"Drawing what {name} computes ..."
            self.runs.draw(name)
        else:
            self.state.note = open_chapter_picture(self.state.exercise)


def watch(exercise: Exercise, interactive: bool) -> int:
    """Watch until the learner quits, then print the last verdict in one line."""
    session = Watch(exercise, Screen() if interactive else Plain())
    with contextlib.suppress(BrokenPipeError):
        session.run_until_quit()
        print(result_line(session.state))
    return 0


def _parse_problem(name: str) -> str:
    """Why this chapter is not valid Python at the moment; "" if it is valid."""
    path = EXERCISES / name
    try:
        text = read_source(path)
        if not text.strip():
            return f"{name} is empty"
        parse(text, name)
    except SourceProblem as problem:
        return str(problem)
    return ""
