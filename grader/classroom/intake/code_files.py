"""Reads one submitted Python file or notebook, and finds the chapters in it.

A file whose name, or the instructor, says a chapter is this chapter. Any other file is the chapters whose exercises it
defines.
"""

from __future__ import annotations

import ast
import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from grader.classroom.intake.loose_code import find_defined, read_code, write_chapter
from grader.classroom.intake.notebooks import Cell, read_cells
from grader.classroom.intake.problems import UnreadableSubmission, describe_error
from grader.classroom.sanitize import shorten
from grader.course.source import (
    LARGEST,
    SourceProblem,
    TooComplex,
    decode_source,
    is_written,
    parse,
    too_large,
)
from grader.course.syllabus import load_syllabus

MAX_SENTENCES = 4  # about one notebook
_DECLARED = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*[-\w.]+", re.MULTILINE)


@dataclass(frozen=True)
class CodeFile:
    """A Python file or notebook of a submission."""

    path: tuple[str, ...]
    data: bytes
    time: datetime | None
    zone_known: bool
    rank: tuple  # of several versions of a chapter, the one with the smallest rank counts
    module: str  # the chapter that its name or the instructor says; "" for none

    @property
    def name(self) -> str:
        return shorten("/".join(self.path))


@dataclass(frozen=True)
class Version:
    """A chapter that a file contains."""

    module: str
    file: CodeFile
    text: str
    problem: str = ""  # why it cannot be graded
    is_text: bool = True  # False if its bytes could not be decoded
    notes: tuple[str, ...] = ()  # sentences for the instructor, if this version counts
    defined: int = 0  # exercises

    @property
    def is_named(self) -> bool:
        return bool(self.file.module)

    @cached_property
    def written(self) -> int:
        """The number of exercises that it implements; -1 if it is not valid Python."""
        if not self.is_text:
            return -1
        try:
            return sum(is_written(self.text, one.name) for one in load_syllabus().chapter(self.module).exercises)
        except SourceProblem:
            return -1


def read_chapters(file: CodeFile, notes: list[str]) -> list[Version]:
    """The chapters in this file. Problems of a file that says no chapter become notes."""
    name = shorten(file.path[-1])
    is_notebook = name.lower().endswith(".ipynb")
    try:
        if file.module and not is_notebook:
            return [_read_named(file)]
        return list(map(_checked, _read_notebook(file, name, notes) if is_notebook else _read_unnamed(file, name)))
    except (SourceProblem, UnreadableSubmission) as problem:
        notes.append(str(problem))
    except Exception as error:
        notes.append(f"{file.name} cannot be read: {describe_error(error)}")
    return []


def _read_named(file: CodeFile) -> Version:
    name, own_name = f"{file.module}.py", file.path[-1]
    try:
        text, note = decode_chapter(file.data, name)
    except SourceProblem as problem:
        return Version(file.module, file, "", str(problem), is_text=False)
    renamed = [f"{shorten(own_name)} was used as {name}"] if own_name.lower() != name else []
    return _checked(Version(file.module, file, text, notes=(*renamed, *filter(None, [note]))))


def _read_unnamed(file: CodeFile, name: str) -> Iterator[Version]:
    """The chapters of a Python file. If it has several and is not valid Python, each gets all of its text."""
    text, note = decode_chapter(file.data, name)
    chapters = find_defined(text)
    code = read_code([Cell(1, text)], name) if len(chapters) > 1 else None
    for module, exercises in chapters.items():
        used = f"the file {name} was used as {module}.py, because it defines {_list(exercises)}"
        if code is None or code.problems:
            chapter = text
        else:
            chapter = write_chapter(code, module, mark=False).text
            used += "; only the code that they use was read"
        yield Version(module, file, chapter, notes=(used, *filter(None, [note])), defined=len(exercises))


def _read_notebook(file: CodeFile, name: str, notes: list[str]) -> Iterator[Version]:
    code = read_code(read_cells(file.data, name), name)
    notes += code.problems[:MAX_SENTENCES]
    chapters = {module: exercises for module, exercises in code.exercises().items() if file.module in ("", module)}
    if not chapters:
        where = f" of {file.module}" if file.module else ""
        advice = "its cells must define functions or classes with the names of the exercises"
        raise UnreadableSubmission(f"{name} defines no exercise{where}; {advice}")
    for module, exercises in chapters.items():
        written = write_chapter(code, module)
        cells = f"{written.describe_cells()} (cells are counted from the top)"
        used = [f"the notebook {name} was used as {module}.py: {cells}"]
        for missing, cell in list(written.missing.items())[:MAX_SENTENCES]:
            used.append(
                f"cell {cell} of {name} sets {shorten(missing)}, which the exercises use, by running code; "
                "the grader runs no cells, so move it into a function"
            )
        yield Version(module, file, written.text, notes=tuple(used), defined=len(exercises))


def _checked(version: Version) -> Version:
    """The version, with a problem if later steps cannot parse it without risk. Grading reports syntax errors."""
    name, text, problem = f"{version.module}.py", version.text, ""
    try:
        if len(text.encode("utf-8", "replace")) > 4 * LARGEST:
            raise too_large(name)
        if not any(map(_does_something, parse(text, name).body)):
            what = "has only comments and imports" if text.strip() else "is empty"
            problem = f"{name} {what}; submit the file with your code"
    except TooComplex as error:
        problem = str(error)
    except SourceProblem:
        pass
    return replace(version, problem=problem)


def _does_something(statement: ast.stmt) -> bool:
    """False for an import and for a docstring."""
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return not is_text and not isinstance(statement, ast.Import | ast.ImportFrom | ast.Pass)


def _list(names: list[str]) -> str:
    return " and ".join(names) if len(names) < 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"


# ---- encodings


def decode_chapter(data: bytes, file: str) -> tuple[str, str]:
    """The text, and a sentence about the encoding if it was guessed, else "". SourceProblem if no guess is possible.

    Python reads a file as UTF-8, or in the encoding that its first lines declare. Editors on Windows also save UTF-16
    and Windows-1252 without declaring it. Such a file is still readable: its code is ASCII, and only letters in
    comments and texts may come out wrong.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        if len(data) > 2 * LARGEST:
            raise too_large(file)
        try:
            text = data.decode("utf-16")
        except UnicodeDecodeError:
            raise SourceProblem(f"{file} is damaged UTF-16 text; save the file as UTF-8", file=file) from None
        return text, f"{file} was read as UTF-16; Python cannot run such a file, so save it as UTF-8"
    try:
        return decode_source(data, file), ""
    except SourceProblem:
        if len(data) > LARGEST or b"\0" in data or _DECLARED.search(b"\n".join(data.split(b"\n")[:2])):
            raise
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:  # five bytes have no meaning in Windows-1252
        text = data.decode("latin-1")
    guess = f"{file} is not UTF-8 and was read as Latin-1, so letters with accents may be wrong"
    return text, f"{guess}; save the file as UTF-8"


def describe_others(chosen: Version, others: list[Version]) -> list[str]:
    if not others:
        return []
    more = f" and {len(others) - 2} more" if len(others) > 2 else ""
    names = " and ".join(other.file.name for other in others[:2])
    return [f"there are several versions of {chosen.module}.py; {chosen.file.name} was graded, not {names}{more}"]


def describe_fuller(chosen: Version, versions: list[Version]) -> list[str]:
    """Notes on files of other names that implement more exercises than the file that is used because of its name."""
    others = [one.file.name for one in versions if not one.is_named and one.written > chosen.written]
    why = f"was not used, because {chosen.file.name} has the chapter's name"
    return [f"{other} implements more exercises of {chosen.module} and {why}" for other in others if chosen.is_named]
