"""A sentence beside the learner's exception that needs the running program: which name was meant, what to import, which
function calls itself."""

from __future__ import annotations

import builtins
import difflib
import inspect
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from types import FrameType, TracebackType
from typing import Any

import torch

LAST_FRAMES = 200  # of an endless recursion that are looked at
TOO_DEEP = "without end, or too often: Python allows about 1,000 calls inside each other"
_TORCH = (torch, torch.nn, torch.nn.functional, torch.Tensor)


def note_of(problem: BaseException, own_files: Collection[str], chapter_of: Callable[[str], str]) -> str:
    """The sentence, or "". `chapter_of` returns the earlier chapter that defines a name, or ""."""
    try:
        if isinstance(problem, RecursionError):
            return _note_of_recursion(frames_of(problem.__traceback__), own_files)
        if isinstance(problem, ModuleNotFoundError):
            return _note_of_module(problem)
        if isinstance(problem, NameError) and (chapter := chapter_of(problem.name or "")):
            return (
                f"`{problem.name}` is in chapter {int(chapter[2:4])}. To use it here, write `from .{chapter} "
                f"import {problem.name}` at the top of the file."
            )
        name, candidates = _misspelt(problem, str(problem), frames_of(problem.__traceback__))
        near = nearest(name, candidates) if name else ""
        return f"Did you mean `{near}`?" if near else ""
    except BaseException:  # looking at the learner's objects may run the learner's code
        return ""


def nearest(name: str, candidates: Iterable[str]) -> str:
    """The candidate that this name is most likely a misspelling of, or ""."""
    known = sorted(
        {
            str(each)
            for each in candidates
            if isinstance(each, str) and (not each.startswith("_") or name.startswith("_"))
        }
        - {name}
    )
    same = [each for each in known if each.lower() == name.lower()]
    return next(iter(same or difflib.get_close_matches(name, known, 1, 0.7)), "")


def line_of_recursion(problem: RecursionError, own_files: Collection[str]) -> tuple[str, int] | None:
    """The file and line of the learner's call that repeats most."""
    counts = Counter(
        (frame.f_code.co_filename, line) for frame, line in _own(frames_of(problem.__traceback__), own_files)
    )
    return counts.most_common(1)[0][0] if counts else None


def frames_of(traceback: TracebackType | None) -> list[tuple[FrameType, int]]:
    found = []
    while traceback is not None:
        found.append((traceback.tb_frame, traceback.tb_lineno))
        traceback = traceback.tb_next
    return found


def _own(frames: list[tuple[FrameType, int]], own_files: Collection[str]) -> list[tuple[FrameType, int]]:
    return [(frame, line) for frame, line in frames if frame.f_code.co_filename in own_files][-LAST_FRAMES:]


def _note_of_recursion(frames: list[tuple[FrameType, int]], own_files: Collection[str]) -> str:
    counts = Counter(frame.f_code.co_qualname for frame, _ in _own(frames, own_files))
    many = [name for name, count in counts.items() if count >= 10]
    if len(many) == 1:
        return f"`{many[0]}` calls itself {TOO_DEEP}."
    return f"`{'`, `'.join(many[:-1])}` and `{many[-1]}` call each other {TOO_DEEP}." if 1 < len(many) <= 4 else ""


def _note_of_module(problem: ModuleNotFoundError) -> str:
    """About a package that is not installed; the chapters' importer explains its own errors."""
    name = problem.name or ""
    if "." in name or not str(problem).startswith("No module named"):
        return ""
    near = nearest(name, [*sys.stdlib_module_names, "torch"])
    return f"Did you mean `{near}`?" if near else "An exercise needs only Python and torch; delete this import."


def _misspelt(problem: BaseException, message: str, frames: list[tuple[FrameType, int]]) -> tuple[str, Iterable[str]]:
    """The name that does not exist, and the names that do exist in its place."""
    frame = frames[-1][0] if frames else None
    if isinstance(problem, NameError) and not isinstance(problem, UnboundLocalError) and frame is not None:
        return str(problem.name or ""), [*frame.f_locals, *frame.f_globals, *dir(builtins)]
    if isinstance(problem, AttributeError):
        return _misspelt_attribute(problem, message, frame)
    if isinstance(problem, ImportError) and (name := re.match(r"cannot import name '(\w+)' from '([\w.]+)'", message)):
        return name[1], dir(sys.modules[name[2]])
    if isinstance(problem, TypeError) and (
        call := re.match(
            r"([\w.<>]+)\(\) got an unexpected keyword argument "
            r"'(\w+)'",
            message,
        )
    ):
        return call[2], _parameters_of(call[1].rpartition(".")[2], call[1].split(".")[0], frame)
    return "", ()


def _misspelt_attribute(problem: AttributeError, message: str, frame: FrameType | None) -> tuple[str, Iterable[str]]:
    if problem.name and problem.obj is not None:
        return problem.name, dir(problem.obj)
    found = re.match(
        r"'(\w+)' object has no attribute "
        r"'(\w+)'",
        message,
    )  # raised by nn.Module, which does not say for which object
    while found and frame is not None:
        owner = frame.f_locals.get("self")
        if type(owner).__name__ == found[1]:
            return found[2], dir(owner)
        frame = frame.f_back
    return "", ()


def _parameters_of(name: str, owner: str, frame: FrameType | None) -> list[str]:
    """The parameters of the function with this name that the frame could have called."""
    space: dict[str, Any] = {**frame.f_globals, **frame.f_locals} if frame is not None else {}
    homes = [space.get(owner), *_TORCH]
    found = [
        space.get(name),
        *(getattr(home, name, None) for home in homes),
        space.get(owner) if name == "__init__" else None,
    ]
    function = next((each for each in found if callable(each)), None)
    return list(inspect.signature(function).parameters) if function else []
