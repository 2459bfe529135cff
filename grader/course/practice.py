"""Practice that lasts: a passed exercise is written once more, from its stub, after 3, 10, 30 and 90 days.

`exercises/.headway/again/` has a folder for each exercise that is being written, with a chapter that contains only its
stub; and practice.json, which says when each exercise is due. The learner's own chapters are not touched.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import time
from dataclasses import asdict, dataclass, field
from datetime import date, timedelta
from pathlib import Path

from grader.course.progress import Score
from grader.course.source import SourceProblem, definition, read_bytes, read_source, replace_definition, write_source
from grader.course.stubs import is_stub, keep, reference_stub
from grader.course.syllabus import EXERCISES, Exercise, load_syllabus
from grader.files import problem, write_whole

FOLDER = EXERCISES / ".headway" / "again"
INTERVALS = (3, 10, 30, 90)  # days; the last one repeats
MOST_A_DAY = 2


@dataclass
class Practice:
    """What is known of one exercise."""

    due: str  # a date, such as 2026-11-30
    times: int = 0  # that it was written again
    last: str = ""  # the date of the last time
    begun: float = 0.0  # when the scratch file was made, in seconds; 0 if there is none
    tests: int = 0  # since then
    timed: bool = False
    rows: list[list] = field(default_factory=list)  # of the timed ones: date, seconds, tests


class Practices:
    """All exercises that were passed, with the date on which each is due."""

    def __init__(self, scores: dict[str, Score], today: date | None = None) -> None:
        self.today = today or date.today()
        self.passed = [each for each in load_syllabus().exercises if each.name in scores and scores[each.name].passed]
        self.by_name = _load()
        new = {each.name: Practice(self._after(INTERVALS[0])) for each in self.passed if each.name not in self.by_name}
        self.by_name |= new
        if new:
            with contextlib.suppress(SourceProblem):  # the dates count from the next time on
                self.save()

    def due(self) -> list[Exercise]:
        """The exercises for today, those first that have waited longest; a few a day."""
        done_today = sum(each.last == self.today.isoformat() for each in self.by_name.values())
        waiting = [each for each in self.passed if self.by_name[each.name].due <= self.today.isoformat()]
        return sorted(waiting, key=lambda each: self.by_name[each.name].due)[: max(0, MOST_A_DAY - done_today)]

    def begun(self) -> list[Exercise]:
        """The exercises that are being written again, the newest first."""
        begun = [each for each in self.passed if self.by_name[each.name].begun and scratch_file(each).is_file()]
        return sorted(begun, key=lambda each: -self.by_name[each.name].begun)

    def begin(self, exercise: Exercise, timed: bool) -> None:
        """Write the scratch file. SourceProblem if that is not possible."""
        practice = self.by_name[exercise.name]
        practice.begun, practice.tests, practice.timed = time.time(), 0, timed
        self.save()
        write_source(scratch_file(exercise), stub_alone(exercise))

    def tested(self, exercise: Exercise, passed: bool) -> None:
        """Count a test; what passed is kept as replaced code is, and is due again later. SourceProblem if that cannot
        be saved."""
        practice = self.by_name[exercise.name]
        practice.tests += 1
        if passed:
            if practice.timed:
                seconds = round(time.time() - practice.begun)
                practice.rows.append([self.today.isoformat(), seconds, practice.tests])
            practice.times += 1
            practice.last = self.today.isoformat()
            practice.due = self._after(INTERVALS[min(practice.times, len(INTERVALS) - 1)])
            practice.begun = 0.0
            keep(f"{exercise.module}.{exercise.name}.again", read_bytes(scratch_file(exercise)))
        self.save()
        if passed:
            shutil.rmtree(scratch_file(exercise).parent, ignore_errors=True)

    def save(self) -> None:
        """Save all dates. SourceProblem if they cannot be saved."""
        data = {name: asdict(practice) for name, practice in sorted(self.by_name.items())}
        try:
            write_whole(FOLDER / "practice.json", json.dumps(data, indent=0) + "\n")
        except OSError as error:
            raise SourceProblem("your practice was not saved: " + problem(error, "write practice.json")) from error

    def _after(self, days: int) -> str:
        return (self.today + timedelta(days=days)).isoformat()


def scratch_file(exercise: Exercise) -> Path:
    return FOLDER / exercise.name / f"{exercise.module}.py"


def has_waiting_first_try(exercise: Exercise) -> bool:
    """Whether the exercise is being written again and was not tested yet."""
    practice = _load().get(exercise.name)
    return practice is not None and bool(practice.begun) and not practice.tests and scratch_file(exercise).is_file()


def is_unwritten(exercise: Exercise) -> bool:
    return is_stub(exercise, read_source(scratch_file(exercise)))


def scratch_line(exercise: Exercise) -> int:
    """The line of the exercise in the scratch file; 1 if it is not there any more."""
    try:
        return definition(read_source(scratch_file(exercise)), exercise.name).line
    except SourceProblem:
        return 1


def stub_alone(exercise: Exercise) -> str:
    """The chapter's stub with only this exercise. Its annotations may name the others, so Python does not read them."""
    text = reference_stub(exercise.module)
    for other in load_syllabus().chapter(exercise.chapter).exercises:
        if other.name != exercise.name:
            text = replace_definition(text, other.name, "")
    head, end, rest = text.partition('"""\n\n')
    text = f"{head}{end}from __future__ import annotations\n\n{rest}"
    return re.sub(r"\n{4,}", "\n\n\n", text).rstrip() + "\n"


def _load() -> dict[str, Practice]:
    """What was saved; empty if the file is missing or damaged."""
    try:
        data = json.loads((FOLDER / "practice.json").read_text(encoding="utf-8"))
        return {name: _practice(**entry) for name, entry in data.items()}
    except (OSError, ValueError, RecursionError, TypeError, AttributeError):
        return {}


def _practice(due: str, times: int, last: str, begun: float, tests: int, timed: bool, rows: list) -> Practice:
    """TypeError or ValueError for values of another kind."""
    done = [[date.fromisoformat(day).isoformat(), int(seconds), int(tests)] for day, seconds, tests in rows]
    day = date.fromisoformat(due).isoformat()
    return Practice(day, abs(int(times)), str(last), float(begun), int(tests), bool(timed), done)
