"""The chapter's picture, for an exercise that has none of its own: shown by whatever shows pictures on this system."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from grader.course.status import short_path
from grader.course.syllabus import EXERCISES, Exercise

PICTURES = EXERCISES / "pictures"


def show_chapter(exercise: Exercise) -> str:
    """Open it, if there is a screen to open it on; a sentence that says where it is."""
    path = PICTURES / f"{exercise.module}.svg"
    if not path.exists():
        return f"There is no picture of {exercise.name}."
    where = f"{exercise.name} has no picture of its own; its chapter's is {short_path(path)}"
    return f"{where}." if _opened(path) else f"{where}, which a browser shows."


def _opened(path: Path) -> bool:
    if sys.platform == "darwin":
        command = ["open", str(path)]
    elif sys.platform == "win32":
        os.startfile(path)
        return True
    elif os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        command = ["xdg-open", str(path)]
    else:
        return False
    try:
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    except OSError:
        return False
    return True
