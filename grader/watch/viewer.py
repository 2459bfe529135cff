"""Opens the chapter's picture, for an exercise without its own, in the system's picture viewer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from grader.course.status import short_path
from grader.course.syllabus import EXERCISES, Exercise

PICTURES = EXERCISES / "pictures"


def open_chapter_picture(exercise: Exercise) -> str:
    """Open the picture if there is a graphical screen; returns a sentence that says where it is."""
    path = PICTURES / f"{exercise.module}.svg"
    if not path.exists():
        return f"{exercise.name} has no picture."
    where = f"{exercise.name} has no picture; the picture of its chapter is {short_path(path)}"
    return f"{where}." if _opened(path) else f"{where}. Open it in a browser."


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
