"""What each key of the watch does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from grader.console.editor import editor_for
from grader.console.output import wrap_text
from grader.course.hints import reveal_hint
from grader.course.solution_diff import diff_with_reference
from grader.course.source import SourceProblem
from grader.course.status import current_scores, is_passed, locate, next_unpassed, short_path
from grader.course.syllabus import EXERCISES, Exercise
from grader.teaching.show.catalog import has_picture
from grader.watch.chooser import Chooser
from grader.watch.keys import Keyboard
from grader.watch.runs import Runs
from grader.watch.screen import Screen
from grader.watch.state import State
from rich.text import Text


class Watched(Protocol):
    """What the actions need of the watch."""

    state: State
    runs: Runs

    @property
    def keyboard(self) -> Keyboard: ...

    def start_run(self) -> None: ...

    def switch_to(self, exercise: Exercise) -> None: ...

    def on_quit(self) -> None: ...


class KeyActions:
    """Carries out the keys of a watch that has a full screen."""

    def __init__(self, watch: Watched, screen: Screen) -> None:
        self.watch, self.state, self.screen = watch, watch.state, screen
        self.chooser: Chooser | None = None
        self.diff_confirmed = False

    def press(self, key: str) -> None:
        if self.chooser is not None:
            self._press_in_chooser(self.chooser, key)
            return
        rows = self.screen.rows
        moves = {"up": -1, "down": 1, "page up": -rows, "page down": rows, " ": rows, "home": -(10**6), "end": 10**6}
        if key in moves:
            self.screen.scroll(moves[key])
            return
        diff_confirmed, self.diff_confirmed = self.diff_confirmed, False
        self.state.note = ""
        actions: dict[str, Callable[[], None]] = {
            "h": self.show_hint, "n": self.go_to_next, "l": self.open_chooser, "o": self.open_editor, "r": self.watch.start_run,
            "s": self.show_picture, "p": self.toggle_pin, "q": self.watch.on_quit, "escape": self.show_verdict,
        }  # fmt: skip
        if key.lower() == "d":
            self.show_diff(diff_confirmed)
        elif key.lower() in actions:
            actions[key.lower()]()

    def toggle_pin(self) -> None:
        """Stay on this exercise whatever is saved; or follow the saves again, first to what was changed in the meantime."""
        state = self.state
        state.pinned, state.follow_note = not state.pinned, ""
        if state.pinned:
            state.note = f"Pinned to {state.exercise.name}: saves of other functions do not change the exercise."
            return
        if state.waiting is not None:
            self.switch_to(state.waiting)
        state.note = "Not pinned: each save tests the function that you changed."

    def show_hint(self) -> None:
        found = reveal_hint(self.state.exercise)
        if found is None:
            self.state.note = f"{self.state.exercise.name} has no hints."
            return
        self.state.diff_lines = self.state.picture = None
        more = "This is the last hint." if found.is_last else "Press h again for the next hint."
        prose = wrap_text(found.text, min(self.screen.size[0], 80))
        self.state.hint_lines = [Text(found.title, "bold"), *map(Text, prose), Text(more, "dim"), *([Text(found.problem, "red")] if found.problem else [])]
        self.screen.top = 10**6  # draw() limits it to the last line

    def go_to_next(self) -> None:
        following = next_unpassed(self.state.exercise)
        if following is not None:
            self.switch_to(following)
        elif is_passed(self.state.exercise, current_scores()):
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
        self.watch.switch_to(exercise)
        self.watch.start_run()

    def show_verdict(self) -> None:
        self.state.diff_lines, self.state.picture, self.state.hint_lines = None, None, []

    def show_diff(self, diff_confirmed: bool) -> None:
        exercise = self.state.exercise
        if not diff_confirmed and not is_passed(exercise, current_scores()):
            self.state.note, self.diff_confirmed = f"You have not passed {exercise.name} yet; try your own way first. Press d again to see the reference anyway.", True
            return
        try:
            lines = diff_with_reference(exercise)
        except SourceProblem as problem:
            self.state.note = str(problem)
            return
        self.screen.top, self.state.picture = 0, None
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
            with self.watch.keyboard.suspended(), self.screen.suspended():
                problem = editor.open()
            self.state.note = problem or ""

    def show_picture(self) -> None:
        name = self.state.exercise.name
        if has_picture(name):
            self.state.note = f"Drawing what {name} computes ..."
            self.watch.runs.draw(name)
        else:
            back = " esc: back to the verdict." if self.state.diff_lines is not None else ""
            chapter = short_path(EXERCISES / "pictures" / f"{self.state.exercise.module}.svg")
            self.state.note = f"{name} has no picture. Its chapter has one, {chapter}: open it in a browser.{back}"
