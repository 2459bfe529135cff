"""The loop of the watch: it takes saves, keys and messages of runs from one queue, and handles one at a time.

The exercise changes by a key, or, unless the watch is pinned, by a save that changed another function (`changes.py`).
Saves are detected by looking at the files a hundred times a second, which works on every drive.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from grader.console.editor import editor_for
from grader.console.output import wrap_text
from grader.course.progress import reveal_hint
from grader.course.source import SourceProblem, excerpt_of, find_problem
from grader.course.status import all_passed, current_scores, is_passed, locate, next_unpassed
from grader.course.syllabus import EXERCISES, Exercise, load_syllabus
from grader.processes.job import retry_sentence
from grader.verdict.results import Verdict
from grader.watch.changes import SavedChapters, decide
from grader.watch.page import State, result_line
from grader.watch.runs import Runs
from grader.watch.terminal import Display, Keyboard, PlainDisplay, Screen
from rich.text import Text

POLL_SECONDS = 0.01
_CHAPTER = re.compile(r"ch\d\d_.*\.py")


class SaveWatcher:
    """Calls `on_save` with the names of the files that changed."""

    def __init__(self, folder: Path, on_save: Callable[[set[str]], None]) -> None:
        self.folder, self.on_save = folder, on_save
        self.stop = threading.Event()
        self.state = self._read_times()
        self.thread = threading.Thread(target=self._run, name="headway saves", daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.stop.set()
        self.thread.join(2)

    def _run(self) -> None:
        """Report each save of a chapter until the watch stops: its time or size has changed."""
        while not self.stop.wait(POLL_SECONDS):
            before, self.state = self.state, self._read_times()
            names = {name for name in before.keys() | self.state.keys() if before.get(name) != self.state.get(name)}
            if names:
                self.on_save(names)

    def _read_times(self) -> dict[str, tuple[int, int, int]]:
        found = {}
        with contextlib.suppress(OSError):
            for name in filter(_CHAPTER.fullmatch, os.listdir(self.folder)):
                with contextlib.suppress(OSError):
                    status = os.stat(os.path.join(self.folder, name))
                    found[name] = (status.st_mtime_ns, status.st_size, status.st_ino)
        return found


FAR = 10**6  # lines: beyond the end of any page


class Watch:
    def __init__(self, exercise: Exercise, screen: Display, pinned: bool = False) -> None:
        self.state = State(exercise, keys=isinstance(screen, Screen), pinned=pinned)
        self.screen = screen
        self.events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()  # calls of the methods on_...
        self.verdicts: dict[str, Verdict] = {}
        self.chapters = SavedChapters(EXERCISES)
        self.unread: set[str] = set()  # saved chapters that were not compared yet
        self.is_open = True
        self.run_number = 0
        self.runs = Runs(self._queued(self.on_run_message))
        self.saves = SaveWatcher(EXERCISES, self._queued(self.on_saved))

    @cached_property
    def keyboard(self) -> Keyboard:
        """Created at its first use, which needs a screen."""
        return Keyboard(self._queued(self.on_key))

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
            self.screen.print_heading(self.state)
            self.start_run()
            while self.is_open:
                self.draw()
                for handle_event in self._next_events():
                    handle_event()

    def _queued(self, handler: Callable[..., None]) -> Callable[..., None]:
        """A function for other threads and for signals: it puts a call of `handler` into the queue of the loop."""
        return lambda *arguments: self.events.put(partial(handler, *arguments))

    def _signal_handlers(self) -> dict[str, Callable[[], None]]:
        handlers = dict.fromkeys(("SIGTERM", "SIGHUP", "SIGINT"), self._queued(self.on_quit))
        if isinstance(self.screen, Screen):
            handlers["SIGWINCH"] = self._queued(lambda: None)  # the next draw reads the size of the terminal
            handlers["SIGTSTP"] = self._queued(partial(self.on_suspended, self.screen))
        return handlers

    def _next_events(self) -> Iterator[Callable[[], None]]:
        """Wait for the next event, then yield it and all that have arrived by then; nothing when the wait times out."""
        with contextlib.suppress(queue.Empty):
            yield self.events.get(timeout=0.5 if self.state.running else 3600)
            while self.is_open:
                yield self.events.get_nowait()

    def draw(self) -> None:
        if isinstance(self.screen, Screen):
            self.screen.draw(self.state)

    # ---- runs

    def start_run(self) -> None:
        """Start a run, unless the file is not valid Python at the moment."""
        problem = find_problem(EXERCISES / f"{self.state.exercise.module}.py")
        if problem is not None:
            self.wait_for_save(problem)
            return
        self.state.start_run()
        self.run_number = self.runs.start(self.state.exercise.name, self.state.failed_tests)

    def wait_for_save(self, problem: SourceProblem) -> None:
        """Show at once what is wrong with the file; only a save can help."""
        self.runs.stop()
        self.run_number = 0  # what the run has said meanwhile is ignored
        self.state.wait_for_save(problem, excerpt_of(EXERCISES / problem.file, problem))
        self.screen.print_file_problem(self.state)
        self.screen.top = 0

    def on_saved(self, names: set[str]) -> None:
        """Start a run for the saved chapters, unless a file is not valid Python."""
        self.unread |= {name.removesuffix(".py") for name in names}
        own = f"{self.state.exercise.module}.py"
        # another chapter that was deleted stops nothing
        there = [name for name in sorted(names) if name == own or (EXERCISES / name).exists()]
        broken = next((problem for name in there if (problem := find_problem(EXERCISES / name)) is not None), None)
        if broken is not None:
            self.wait_for_save(broken)
            return
        self.follow_changes()
        self.start_run()

    def follow_changes(self) -> None:
        """Switch to the function that the last saves changed, unless the watch is pinned."""
        changes, self.unread = self.chapters.update(self.unread), set()
        if not (changes.changed or changes.using or changes.removed):
            return  # many editors write a file in two steps, and the first event read all of it
        scores = current_scores()
        passed = {exercise.name for exercise in load_syllabus().exercises if is_passed(exercise, scores)}
        chosen = decide(self.state.exercise, changes, passed, self.state.pinned)
        if chosen.exercise != self.state.exercise:
            self.switch_to(chosen.exercise)
        self.state.follow_note, self.state.waiting = chosen.sentence, chosen.waiting or self.state.waiting
        if chosen.sentence:
            self.screen.print_message(chosen.sentence)

    def switch_to(self, exercise: Exercise) -> None:
        """Watch another exercise, and show its last verdict until there is a new one."""
        self.screen.top = 0
        self.state.switch_to(exercise, self.verdicts.get(exercise.name))

    def on_run_message(self, number: int, message: dict[str, Any]) -> None:
        """Put what a run says into the state; what comes from an older run is ignored."""
        state = self.state
        if number != self.run_number:
            return
        match message:
            case {"waking": _}:
                state.starting = True
                self.screen.print_message("Loading the tests; this takes a few seconds, once.")
            case {"begun": test}:
                state.starting, state.test = False, test
            case {"failed": sentence}:
                state.first_failure = sentence
            case {"done": _} | {"trouble": _} | {"again": _} if not state.running:  # after the verdict
                state.searching = False
            case {"again": why}:
                state.retry_reason, state.test, state.first_failure = why, "", ""
                self.screen.print_message(retry_sentence(why))
            case {"searching": _}:
                state.searching = True
                self.screen.print_message("Still looking for a known mistake that explains this.")
            case {"verdict": data} if not state.running:
                state.searching, before = False, state.verdict
                self.verdicts[state.exercise.name] = state.verdict = Verdict.from_data(data)
                if state.verdict != before:  # it has the name now
                    self.screen.print_verdict(state)
            case {"verdict": data}:
                verdict = Verdict.from_data(data)
                self.verdicts[state.exercise.name] = verdict
                if (result := verdict.result(state.exercise.name)) and result.outcome == "passed":
                    state.hint_lines = []
                state.end_run(verdict)
                self.screen.print_verdict(state)
            case {"done": status}:
                state.end_run(None)
                advice = f"To see why, run: headway check {state.exercise.name}"
                state.run_problem = f"No verdict: the tests ended with status {status}. {advice}"
            case {"trouble": sentence}:
                state.end_run(None)
                state.run_problem = sentence
                self.screen.print_message(sentence)

    # ---- keys and signals

    def on_key(self, key: str | None) -> None:
        if key is None or key == "interrupt":  # None: the terminal was closed
            self.on_quit()
        elif isinstance(self.screen, Screen):
            self.press(key, self.screen)

    def press(self, key: str, screen: Screen) -> None:
        rows = screen.rows
        moves = {"up": -1, "down": 1, "page up": -rows, "page down": rows, " ": rows, "home": -FAR, "end": FAR}
        if key in moves:
            screen.scroll(moves[key])
            return
        self.state.note = ""
        actions: dict[str, Callable[[], None]] = {
            "h": partial(self.show_hint, screen), "n": self.go_to_next, "p": self.toggle_pin,
            "o": partial(self.open_editor, screen), "r": self.start_run, "q": self.on_quit,
        }  # fmt: skip
        if key.lower() in actions:
            actions[key.lower()]()

    def toggle_pin(self) -> None:
        """Stay on this exercise whatever is saved; or follow the saves again, first to what was changed meanwhile."""
        state = self.state
        state.pinned, state.follow_note = not state.pinned, ""
        if state.pinned:
            state.note = f"Pinned to {state.exercise.name}: saves of other functions do not change the exercise."
            return
        if state.waiting is not None:
            self.switch_to(state.waiting)
            self.start_run()
        state.note = "Not pinned: each save tests the function that you changed."

    def show_hint(self, screen: Screen) -> None:
        found = reveal_hint(self.state.exercise)
        if found is None:
            self.state.note = f"{self.state.exercise.name} has no hints."
            return
        more = "This is the last hint." if found.is_last else "Press h again for the next hint."
        prose = wrap_text(found.text, min(screen.size[0], 80))
        self.state.hint_lines = [Text(found.title, "bold"), *map(Text, prose), Text(more, "dim")]
        if found.problem:
            self.state.hint_lines.append(Text(found.problem, "red"))
        screen.top = FAR  # draw() limits it to the last line

    def go_to_next(self) -> None:
        following = next_unpassed(self.state.exercise)
        if following is not None:
            self.switch_to(following)
            self.start_run()
        elif is_passed(self.state.exercise, current_scores()):
            self.state.note = f"{all_passed()} `headway list` lists them all."
        else:
            self.state.note = "This is the only exercise that you have not passed yet."

    def open_editor(self, screen: Screen) -> None:
        location = locate(self.state.exercise)
        editor = editor_for(location)
        if editor is None:
            self.state.note = f"{location}. Set $EDITOR to your editor, and o opens the file there."
        elif editor.windowed:
            self.state.note = editor.open(wait=False) or f"Opened {location}."
        else:
            with self.keyboard.suspended(), screen.suspended():
                problem = editor.open()
            self.state.note = problem or ""

    def on_quit(self) -> None:
        self.is_open = False

    def on_suspended(self, screen: Screen) -> None:
        """Control-Z: restore the terminal, stop this process, and continue when the shell resumes it."""
        with self.keyboard.suspended(), screen.suspended():
            handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTSTP)
            signal.signal(signal.SIGTSTP, handler)


@contextlib.contextmanager
def forward_signals(handlers: Mapping[str, Callable[[], None]]) -> Iterator[None]:
    """Call the handler of each named signal that this system has, until the context ends."""
    before = {}
    for name, handler in handlers.items():
        number = getattr(signal, name, None)
        if number is not None:
            before[number] = signal.signal(number, lambda *_, handler=handler: handler())
    try:
        yield
    finally:
        for number, earlier_handler in before.items():
            signal.signal(number, earlier_handler)


def watch(exercise: Exercise, interactive: bool, pinned: bool) -> int:
    """Watch until the learner quits, then print the last verdict. `pinned`: stay on this exercise whatever is saved."""
    session = Watch(exercise, Screen() if interactive else PlainDisplay(), pinned)
    with contextlib.suppress(BrokenPipeError):
        session.run_until_quit()
        print(result_line(session.state))
    return 0
