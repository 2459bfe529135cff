"""Serve the built book on this machine only, until Control-C, with the reader's progress beside it.

The built book has an empty live.js. The server answers with served/live.js for it, and that script reads progress.json.
"""

from __future__ import annotations

import json
import os
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any

from grader.console.local_server import HOST, POLICY, LocalServer, is_own_host
from grader.course.progress import Score, format_earned, format_points
from grader.course.source import SourceProblem
from grader.course.status import (
    current_scores,
    is_complete,
    is_passed,
    is_stub_now,
    next_step,
    points_earned,
    read_course,
)
from grader.course.syllabus import Exercise
from grader.verdict.last_verdicts import LastVerdict, current_fingerprint, last_asked, load_verdicts

LIVE_SCRIPT = Path(__file__).parent / "served" / "live.js"


class _Handler(SimpleHTTPRequestHandler):
    """Serves the book's files and the progress, and nothing else: no folder listings, and no line for each request."""

    protocol_version = "HTTP/1.1"

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def list_directory(self, path: str | os.PathLike[str]) -> None:
        self.send_error(404, "No such page")

    def send_head(self):  # noqa: ANN201 - a file or None, as the class it comes from says
        """Answer with the progress, the script that shows it, or a file of the book."""
        if not is_own_host(self.headers.get("Host")):
            self.send_error(403, "This book is read at 127.0.0.1")
            return None
        match self.path.partition("?")[0]:
            case "/progress.json":
                return self._send(progress_json(), "application/json")
            case "/live.js":
                return self._send(LIVE_SCRIPT.read_bytes(), "text/javascript")
        return super().send_head()

    def _send(self, body: bytes, kind: str) -> BytesIO:
        self.send_response(200)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return BytesIO(body)

    def log_message(self, *_: object) -> None:
        pass


def make_server(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """Make a server of `folder`, bound to the port, or to any free one. OSError if the port is in use."""
    return LocalServer((HOST, port), partial(_Handler, directory=str(folder)))


def book_address(serving: ThreadingHTTPServer, page: str = "") -> str:
    return f"http://{HOST}:{serving.server_address[1]}/{page}"


def progress_json() -> bytes:
    """Return the reader's progress; `{}` while the course cannot be read."""
    try:
        return json.dumps(progress(), ensure_ascii=False).encode()
    except (SourceProblem, OSError):
        return b"{}"


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
    earned = sum(points_earned(chapter, scores) for chapter in course.chapters)
    points = sum(chapter.points for chapter in course.chapters)
    found: dict[str, Any] = {
        "earned": format_earned(earned, points),
        "points": format_points(points),
        "share": earned / points if points else 0.0,
        "begun": bool(scores),
        "chapters": chapters,
        "exercises": {one.name: _state(one, scores, last_asked(verdicts, one.name)) for one in course.exercises},
        "next": None,
    }
    if step := next_step(scores):
        address = f"{step.chapter.name}.html#{step.exercise.name}"
        found["next"] = {"name": step.exercise.name, "address": address, "promise": step.exercise.promise}
    return found


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
