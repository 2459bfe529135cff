"""What the reader has done, for the pages that `headway book` serves: points, and the present verdict on each exercise, as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from grader.course.progress import FILE as SCORES
from grader.course.progress import Score, format_earned, format_points
from grader.course.source import SourceProblem
from grader.course.status import current_scores, is_complete, is_passed, is_stub_now, next_step, points_earned, read_course
from grader.course.syllabus import EXERCISES, Exercise
from grader.verdict import last_verdicts
from grader.verdict.last_verdicts import LastVerdict, current_fingerprint, last_asked, load_verdicts

Seen = tuple[tuple[str, int, int], ...]


class Progress:
    """Makes the answer again only if one of its files has changed."""

    def __init__(self) -> None:
        self._seen: Seen | None = None
        self._answer = b""

    def read(self) -> bytes:
        """Return the progress as JSON; `{}` while the course cannot be read."""
        if (seen := _look()) != self._seen:
            try:
                self._answer = json.dumps(progress(), ensure_ascii=False).encode()
            except (SourceProblem, OSError):
                self._answer = b"{}"
            self._seen = seen
        return self._answer


def _look() -> Seen:
    files = [*sorted(EXERCISES.glob("*.py")), EXERCISES / SCORES, EXERCISES / "syllabus.toml", last_verdicts.FILE]
    return tuple((str(path), stat.st_mtime_ns, stat.st_size) for path in files if (stat := _stat(path)))


def _stat(path: Path):  # noqa: ANN202 - os.stat_result or None
    try:
        return path.stat()
    except OSError:
        return None


def progress() -> dict[str, Any]:
    """Return the points of the course and of each chapter, the state of each exercise, and the next one."""
    course, scores, verdicts = read_course(), current_scores(), load_verdicts()
    chapters = {
        chapter.id: {
            "earned": format_earned(points_earned(chapter, scores), chapter.points),
            "points": format_points(chapter.points),
            "passed": sum(is_passed(exercise, scores) for exercise in chapter.exercises),
            "exercises": len(chapter.exercises),
            "complete": is_complete(chapter, scores),
        }
        for chapter in course.chapters
        if chapter.exercises
    }
    mine, points = sum(points_earned(chapter, scores) for chapter in course.chapters), sum(chapter.points for chapter in course.chapters)
    step = next_step(scores)
    return {
        "earned": format_earned(mine, points),
        "points": format_points(points),
        "share": mine / points if points else 0.0,
        "begun": bool(scores),
        "chapters": chapters,
        "exercises": {exercise.name: _state(exercise, scores, last_asked(verdicts, exercise.name)) for exercise in course.exercises},
        "next": {"name": step.exercise.name, "address": f"{step.chapter.name}.html#{step.exercise.name}", "promise": step.exercise.promise} if step else None,
    }


def _state(exercise: Exercise, scores: dict[str, Score], verdict: LastVerdict | None) -> dict[str, str]:
    """Return "passed", "failed", "changed" (since the verdict `was`) or "untried", and what the verdict says."""
    if is_stub_now(exercise):
        return {"state": "untried", "says": ""}
    if verdict is None:
        return {"state": "passed" if is_passed(exercise, scores) else "untried", "says": ""}
    outcome = verdict.state if verdict.state in ("passed", "todo") else "failed"
    if verdict.code != current_fingerprint(exercise):
        return {"state": "changed", "says": "", "was": outcome}
    return {"state": {"todo": "untried"}.get(outcome, outcome), "says": verdict.says}
