"""Stores what an instructor asked `headway grade` to do next to the gradebook, so that later commands know it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from grader.classroom.intake.options import NEWEST
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.sanitize import line
from grader.classroom.term.deliveries import Delivery
from grader.cli.commands.grading_request import OwnReading, Request, split_names
from grader.files import problem, write_whole

T = TypeVar("T")
ASKED = "asked.json"  # next to the gradebook


def store_request(request: Request) -> None:
    """GradingProblem if the file cannot be written."""
    asked = {
        "submissions": str(request.submissions.resolve()), "chapters": request.chapters, "exercises": request.exercises, "seed": request.seed,
        "points": _absolute(request.points), "require_isolation": request.require_isolation, "course": _absolute(request.course),
        "assignment": request.assignment, "maps": request.maps, "copies": request.copies, "trust_file_dates": request.trust_file_dates,
    }  # fmt: skip
    if request.earlier:
        asked["earlier"] = [vars(one) | {"submissions": str(one.submissions.resolve())} for one in request.earlier]
    if request.own_reading:
        asked["own_reading"] = [vars(one) for one in request.own_reading]
    if request.anonymous:
        asked |= {"anonymous": True, "key": _absolute(request.key)}
    try:
        write_whole(request.out / ASKED, json.dumps(asked, indent=1) + "\n")
    except OSError as trouble:
        raise GradingProblem(problem(trouble, f"write {ASKED} in {request.out}")) from trouble


def last_request(out: Path) -> Request:
    """The arguments of the last run into this folder. GradingProblem if there was none."""
    asked = read_request(out)
    if asked is None:
        raise GradingProblem(f"{line(str(out))} is not a folder that `headway grade` has written to; choose the right one with --out, or with --assignment")
    return asked


def read_request(out: Path) -> Request | None:
    """The arguments of the last run into this folder; None if they are missing or invalid."""
    try:
        return _parse(json.loads((out / ASKED).read_text(encoding="utf-8")), out)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _parse(asked: dict[str, Any], out: Path) -> Request:
    last = _parse_delivery(asked)
    return Request(
        last.submissions,
        out,
        split_names(",".join(_texts(asked["chapters"]))),
        split_names(",".join(_texts(asked["exercises"]))),
        _typed(asked["seed"], int),
        _path(asked["points"]),
        _typed(asked.get("require_isolation", False), bool),
        _path(asked.get("course")),
        _text(asked.get("assignment", "")),
        last.maps,
        last.copies,
        last.trust_file_dates,
        _typed(asked.get("anonymous", False), bool),
        _path(asked.get("key")),
        tuple(map(_parse_delivery, asked.get("earlier", []))),
        tuple(map(_parse_own_reading, asked.get("own_reading", []))),
    )


def _parse_delivery(asked: dict[str, Any]) -> Delivery:
    maps, copies, trusted = _texts(asked.get("maps", [])), _text(asked.get("copies", NEWEST)), _typed(asked.get("trust_file_dates", False), bool)
    return Delivery(Path(_text(asked["submissions"])), maps, copies, trusted)


def _parse_own_reading(asked: dict[str, Any]) -> OwnReading:
    return OwnReading(_texts(asked["names"]), _texts(asked["maps"]), _text(asked["copies"]), _typed(asked["trust_file_dates"], bool))


def _typed(value: object, kind: type[T]) -> T:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not of type {kind.__name__}")
    return value  # type: ignore[return-value]


def _text(value: object) -> str:
    text = _typed(value, str)
    if "\0" in text:
        raise ValueError("a text contains a null character")
    return text


def _texts(values: object) -> tuple[str, ...]:
    return tuple(map(_text, _typed(values, list)))


def _path(value: object) -> Path | None:
    return Path(_text(value)) if value else None


def _absolute(path: Path | None) -> str | None:
    return str(path.resolve()) if path else None
