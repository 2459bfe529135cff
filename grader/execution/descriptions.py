"""Describes the exceptions of the learner's code: type, message, and the line of the learner's own files."""

from __future__ import annotations

import dis
import linecache
import re
import traceback
from pathlib import Path
from types import CodeType, FrameType

from grader.execution.chapter_package import ChapterPackage, compiled
from grader.execution.error_notes import frames_of, line_of_recursion, note_of
from grader.execution.errors import Where, builtin_kind, message_of
from grader.execution.replacing import is_replacement
from grader.execution.stuck_line import MOST_FRAMES, Line, loop_or_line

RAISE = dis.opmap["RAISE_VARARGS"]  # the instruction of a `raise`


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
