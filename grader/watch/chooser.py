"""The list of all exercises, to choose one from: letters narrow it, arrows move."""

from __future__ import annotations

from dataclasses import dataclass

from grader.course.status import current_scores
from grader.course.syllabus import Exercise, load_syllabus
from rich.text import Text


@dataclass
class Chooser:
    current: Exercise
    typed: str = ""
    at: int = 0

    def __post_init__(self) -> None:
        self.at = self.found.index(self.current)

    @property
    def found(self) -> list[Exercise]:
        typed = self.typed.lower()
        return [exercise for exercise in load_syllabus().exercises if typed in exercise.name.lower() or exercise.chapter == typed]

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
            passed = exercise.name in scores and scores[exercise.name].passed
            score = str(scores.get(exercise.name, f"0/{exercise.points:g}"))
            line = Text.assemble(" > " if number == self.at else "   ", ("x " if passed else "  ", "green"), (f"{score:>9}  ", "dim"), exercise.name)
            if number == self.at:
                at = len(lines)
                line.stylize("reverse")
            lines.append(line)
        if not self.found:
            lines.append(Text("No exercise has that in its name; backspace takes letters away.", "yellow"))
        return lines, at
