"""The scripts of the learner's failures: exercises/.headway/repro/NAME.py, and next to it the larger tensors and the facts about the failure."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from grader.course.syllabus import EXERCISES
from grader.files import write_whole
from grader.reproduction.script import Script

FOLDER = EXERCISES / ".headway" / "repro"
OTHERS = "others"  # the folder in that one with the scripts of code in other folders (pytest --target)


@dataclass(frozen=True)
class StoredScript:
    path: Path
    facts: dict[str, Any]


def store_script(script: Script, name: str, folder: Path = FOLDER) -> bool:
    """Write the script of this exercise; False if it could not be written."""
    path = folder / f"{name}.py"
    try:
        if script.saved:
            stream = io.BytesIO()
            torch.save(script.saved, stream)
            write_whole(path.with_suffix(".pt"), stream.getvalue())
        write_whole(path.with_suffix(".json"), json.dumps(script.facts) + "\n")
        write_whole(path, script.text)
    except (OSError, TypeError, ValueError, RuntimeError):
        remove_script(name, folder)
        return False
    return True


def remove_script(name: str, folder: Path = FOLDER) -> None:
    """Remove the script of this exercise, if there is one."""
    for suffix in (".py", ".json", ".pt"):
        with contextlib.suppress(OSError):
            (folder / f"{name}{suffix}").unlink(missing_ok=True)


def stored_script(name: str, folder: Path = FOLDER) -> StoredScript | None:
    """The script of this exercise, if there is one."""
    path = folder / f"{name}.py"
    if not path.is_file():
        return None
    try:
        facts = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        facts = {}
    return StoredScript(path, facts if isinstance(facts, dict) else {})


def last_script(folder: Path = FOLDER) -> StoredScript | None:
    """The newest script."""
    paths = sorted(folder.glob("*.py"), key=lambda path: path.stat().st_mtime) if folder.is_dir() else []
    return stored_script(paths[-1].stem, folder) if paths else None
