"""What each key of the watch does, and the list of all exercises to choose one from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from grader.console.editor import editor_for
from grader.console.output import wrap_text
from grader.course.progress import reveal_hint
from grader.course.solution_diff import diff_with_reference
from grader.course.source import SourceProblem
from grader.course.status import current_scores, is_passed, locate, next_unpassed, short_path
from grader.course.syllabus import EXERCISES, Exercise, load_syllabus
from grader.teaching.show.catalog import has_picture
from grader.watch.keys import Keyboard
from grader.watch.page import State
from grader.watch.runs import Runs
from grader.watch.screen import Screen
from rich.text import Text

FAR = 10**6  # lines: beyond the end of any page


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
        moves = {"up": -1, "down": 1, "page up": -rows, "page down": rows, " ": rows, "home": -FAR, "end": FAR}
        if key in moves:
            self.screen.scroll(moves[key])
            return
        diff_confirmed, self.diff_confirmed = self.diff_confirmed, False
        self.state.note = ""
        actions: dict[str, Callable[[], None]] = {
            "h": self.show_hint, "n": self.go_to_next, "l": self.open_chooser, "o": self.open_editor,
            "r": self.watch.start_run, "s": self.show_picture, "p": self.toggle_pin, "q": self.watch.on_quit,
            "escape": self.show_verdict,
        }  # fmt: skip
        if key.lower() == "d":
            self.show_diff(diff_confirmed)
        elif key.lower() in actions:
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
        state.note = "Not pinned: each save tests the function that you changed."

    def show_hint(self) -> None:
        found = reveal_hint(self.state.exercise)
        if found is None:
            self.state.note = f"{self.state.exercise.name} has no hints."
            return
        self.state.diff_lines = self.state.picture = None
        more = "This is the last hint." if found.is_last else "Press h again for the next hint."
        prose = wrap_text(found.text, min(self.screen.size[0], 80))
        self.state.hint_lines = [Text(found.title, "bold"), *map(Text, prose), Text(more, "dim")]
        if found.problem:
            self.state.hint_lines.append(Text(found.problem, "red"))
        self.screen.top = FAR  # draw() limits it to the last line

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
            advice = "try your own way first. Press d again to see the reference anyway."
            self.state.note, self.diff_confirmed = f"You have not passed {exercise.name} yet; {advice}", True
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


@dataclass
class Chooser:
    """A list of all exercises: letters narrow it, arrows move."""

    current: Exercise
    typed: str = ""
    at: int = 0

    def __post_init__(self) -> None:
        self.at = self.found.index(self.current)

    @property
    def found(self) -> list[Exercise]:
        typed, exercises = self.typed.lower(), load_syllabus().exercises
        return [exercise for exercise in exercises if typed in exercise.name.lower() or exercise.chapter == typed]

    @property
    def chosen(self) -> Exercise | None:
        found = self.found
        return found[self.at] if found else None

    def press(self, key: str) -> None:
        moves = {"up": -1, "down": 1, "page up": -10, "page down": 10, "home": -1000, "end": 1000}
        if key in moves:
            self.at = max(0, min(self.at + moves[key], len(self.found) - 1))
        elif key == "backspace":
            self.typed, self.at = self.typed[:-1], 0
        elif len(key) == 1 and (key.isalnum() or key == "_"):
            self.typed, self.at = self.typed + key, 0

    def lines(self) -> tuple[list[Text], int]:
        """The list, and which line the chosen one is on."""
        scores = current_scores()
        lines, at, chapter = [Text(f"Which one? {self.typed}_", "bold")], 0, ""
        for number, exercise in enumerate(self.found):
            if exercise.chapter != chapter:
                chapter = exercise.chapter
                lines.append(Text(f"{chapter} {load_syllabus().chapter(chapter).title}", "bold"))
            passed = is_passed(exercise, scores)
            score = str(scores.get(exercise.name, f"0/{exercise.points:g}"))
            mark = " > " if number == self.at else "   "
            line = Text.assemble(mark, ("x " if passed else "  ", "green"), (f"{score:>9}  ", "dim"), exercise.name)
            if number == self.at:
                at = len(lines)
                line.stylize("reverse")
            lines.append(line)
        if not self.found:
            lines.append(Text("No exercise has that in its name; backspace takes letters away.", "yellow"))
        return lines, at
