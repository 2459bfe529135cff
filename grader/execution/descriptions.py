"""Describes the exceptions of the learner's code: type, message, the line of the learner's own files, and a sentence
that needs the running program: which name was meant, what to import, which function calls itself."""

from __future__ import annotations

import builtins
import difflib
import dis
import linecache
import re
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from types import CodeType, FrameType, TracebackType

from grader.execution.chapter_package import ChapterPackage, compiled, is_replacement
from grader.execution.errors import Where, builtin_kind, message_of
from grader.execution.late_calls import MOST_FRAMES, Line, loop_or_line

RAISE = dis.opmap["RAISE_VARARGS"]  # the instruction of a `raise`
LAST_FRAMES = 200  # of an endless recursion that are looked at
IMPORTS = {  # a name that chapters use, and the line that brings it
    "torch": "import torch",
    "nn": "from torch import nn",
    "F": "import torch.nn.functional as F",
    "Tensor": "from torch import Tensor",
    "math": "import math",
    "re": "import re",
    "Counter": "from collections import Counter",
    "defaultdict": "from collections import defaultdict",
}
TOO_DEEP = "without end, or too often: Python allows about 1,000 calls inside each other"


class Descriptions:
    """Describes the exceptions of one chapter's code."""

    def __init__(self, package: ChapterPackage, own_files: set[str]) -> None:
        self.package, self.own_files = package, own_files

    def describe(self, problem: BaseException) -> dict:
        """An exception as data: its type, its message, and the last line of the learner's files in its traceback."""
        kind, where, message = "raised", None, message_of(problem).replace(f"{self.package.name}.", "")
        if isinstance(problem, NotImplementedError) and (raising := self._chapter_code_raising(problem)):
            kind, message = (
                "todo",
                (f"{raising.co_qualname.partition('.')[0]} in {_base(raising.co_filename)} is not implemented yet"),
            )
        if isinstance(problem, SyntaxError) and problem.filename:
            where = [_base(problem.filename), problem.lineno or 0, (problem.text or "").strip()]
            message = problem.msg
        else:
            where = self._last_line(problem)
            if isinstance(problem, RecursionError) and (line := line_of_recursion(problem, self.own_files)):
                where = [_base(line[0]), line[1], linecache.getline(*line).strip()[:160]]
        note = note_of(problem, self.own_files, self._chapter_defining) or self._caller_note(problem)
        if isinstance(problem, ImportError):
            message = self._explain_import_error(message)
        if isinstance(problem, SystemExit):
            message = f"it ended the program ({message or 'sys.exit()'})"
        return {
            "kind": kind,
            "type": type(problem).__name__,
            "builtin": builtin_kind(problem),
            "message": message,
            "where": where,
            "note": note,
        }

    def _last_line(self, problem: BaseException) -> list | None:
        """The last line of the learner's files in the traceback: file, number, code."""
        frames = [
            frame for frame in traceback.extract_tb(problem.__traceback__)[-400:] if frame.filename in self.own_files
        ]
        return (
            [_base(frames[-1].filename), frames[-1].lineno or 0, (frames[-1].line or "").strip()[:160]]
            if frames
            else None
        )

    def _caller_note(self, problem: BaseException) -> str:
        """If the last line is in another definition than the one that was called: the line that called that definition,
        where the fault may be."""
        frames = [
            (frame, line)
            for frame, line in frames_of(problem.__traceback__)
            if frame.f_code.co_filename in self.own_files
        ]
        if not frames:
            return ""
        (last, _), calling = (
            frames[-1],
            [each for each in frames if _definition_of(each[0]) != _definition_of(frames[-1][0])],
        )
        if not calling:
            return ""
        frame, line = calling[-1]
        code = linecache.getline(frame.f_code.co_filename, line).strip()
        return (
            f"`{_definition_of(last)[1]}` was called in {_base(frame.f_code.co_filename)}, line {line}: `{code[:80]}`."
        )

    def _explain_import_error(self, message: str) -> str:
        """The message of an ImportError about another chapter: why the name is missing, without the path, which may be
        the reference's."""
        name = re.match(r"cannot import name '(\w+)' from '(\w+)'", message)
        source = self.package.sources.get(name[2]) if name else None
        if name is None or source is None:
            return message
        is_reference = source.code or Path(source.filename).parent.name in ("solutions", "reference")
        why = (
            (
                ": while this chapter is tested, that one is the reference's. Define helpers in the chapter that uses "
                "them, or test with --whole"
            )
            if is_reference
            else ""
        )
        return f"there is no {name[1]} in {name[2]}.py{why}"

    def _chapter_defining(self, name: str) -> str:
        """The other chapter of the package whose file defines this function or class; "" if there is none."""
        here = [source.name for source in self.package.sources.values() if source.filename in self.own_files]
        for source in self.package.sources.values():
            if source.name not in here and not is_replacement(source.name) and not name.startswith("_"):
                if any(
                    isinstance(constant, CodeType) and constant.co_name == name
                    for constant in compiled(source).co_consts
                ):
                    return source.name
        return ""

    def _chapter_code_raising(self, problem: BaseException) -> CodeType | None:
        """The code of a stub that raised NotImplementedError; None if torch raised it (for an operation that bool
        tensors do not have, for example)."""
        last = problem.__traceback__
        while last is not None and last.tb_next is not None:
            last = last.tb_next
        # torch's functions in C have no frame, so the last one is their caller's
        if last is None or last.tb_frame.f_code.co_code[last.tb_lasti] != RAISE:
            return None
        code = last.tb_frame.f_code
        return code if code.co_filename in {source.filename for source in self.package.sources.values()} else None

    def line_of(self, frame: FrameType | None) -> Where | None:
        """The line of the learner's files that a frame, or the nearest of its callers, is at: of a loop, its head."""
        frames: list[Line] = []
        while frame is not None and len(frames) < MOST_FRAMES:
            file = frame.f_code.co_filename
            if file in self.own_files:
                frames.append(Line(file, "".join(linecache.getlines(file)), frame.f_lineno))
            frame = frame.f_back
        if not frames:
            return None
        line = loop_or_line(frames)
        return Where(_base(line.file), line.number, line.code)


def _definition_of(frame: FrameType) -> tuple[str, str]:
    """The file, and the top-level function or class, that a frame runs."""
    return frame.f_code.co_filename, frame.f_code.co_qualname.partition(".")[0]


def folder_of(filename: str) -> str:
    return filename.replace("\\", "/").rpartition("/")[0]


def _base(filename: str) -> str:
    return filename.replace("\\", "/").rpartition("/")[2]


def note_of(problem: BaseException, own_files: Collection[str], chapter_of: Callable[[str], str]) -> str:
    """The sentence, or "". `chapter_of` returns the earlier chapter that defines a name, or ""."""
    try:
        if isinstance(problem, RecursionError):
            return _note_of_recursion(frames_of(problem.__traceback__), own_files)
        if isinstance(problem, ModuleNotFoundError):
            return _note_of_module(problem)
        if isinstance(problem, NameError) and problem.name in IMPORTS:
            return f"Is `{IMPORTS[problem.name]}` missing at the top of the file?"
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
    return "", ()


def _misspelt_attribute(problem: AttributeError, message: str, frame: FrameType | None) -> tuple[str, Iterable[str]]:
    if problem.name and problem.obj is not None:
        return problem.name, dir(problem.obj)
    # raised by nn.Module, which does not say for which object
    found = re.match(r"'(\w+)' object has no attribute '(\w+)'", message)
    while found and frame is not None:
        owner = frame.f_locals.get("self")
        if type(owner).__name__ == found[1]:
            return found[2], dir(owner)
        frame = frame.f_back
    return "", ()
