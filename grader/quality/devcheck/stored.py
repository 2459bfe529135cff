"""Stores results of an exercise under .headway/ by the content that they depend on, so that a second run repeats only what has changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from grader.course.syllabus import ROOT, load_syllabus
from grader.files import write_whole
from grader.quality.devcheck.fingerprint import fingerprint

T = TypeVar("T")


def stored_file(kind: str, exercise: str, *parts: object) -> Path:
    """The file of the results that depend on these parts, on the exercise and on all that decides about its tests."""
    content = repr((fingerprint(load_syllabus().exercise(exercise)), *parts))
    return ROOT / ".headway" / kind / f"{exercise}-{hashlib.sha256(content.encode()).hexdigest()[:32]}.json"


def load(file: Path, make: Callable[[Any], T]) -> T | None:
    """What `make` makes of the stored data; None if nothing is stored, or it is damaged."""
    try:
        return make(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def store(file: Path, data: Any) -> None:
    with suppress(OSError):  # without stored results the next run only takes longer
        write_whole(file, json.dumps(data))
