"""Reads one submitted Python file or notebook, and finds the chapters in it.

A file whose name says a chapter is this chapter. Any other file is the chapters whose exercises it defines.
"""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace

from grader.classroom.intake.loose_code import Cell, find_defined, read_code, write_chapter
from grader.classroom.intake.problems import UnreadableSubmission, describe_error
from grader.classroom.sanitize import shorten
from grader.course.source import MAX_FILE_BYTES, SourceProblem, TooComplex, decode_source, is_written, parse, too_large
from grader.course.syllabus import load_syllabus

MAX_SENTENCES = 4  # about one notebook
MAX_NOTEBOOK_BYTES = 20_000_000  # most of them are pictures in outputs
MAX_CELLS = 5_000
MAX_REPAIRS = 100  # lines of IPython in one cell
PYTHON_MAGICS = ("time", "timeit", "capture", "prun", "memit", "writefile", "file")  # the rest of the cell is Python
_IPYTHON_LINE = re.compile(r"\s*(?:[%!?]|\w[\w.]*\s*=\s*[%!]\s*\w|[\w.]+\?{1,2}\s*$)")


@dataclass(frozen=True)
class CodeFile:
    """A Python file or notebook of a submission."""

    path: tuple[str, ...]
    data: bytes
    rank: tuple  # of several versions of a chapter, the one with the smallest rank counts
    module: str  # the chapter that its name says; "" for none

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
    is_begun: bool = True  # False if it implements no exercise
    notes: tuple[str, ...] = ()  # sentences for the instructor, if this version counts
    defined: int = 0  # exercises

    @property
    def is_named(self) -> bool:
        return bool(self.file.module)


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
        text = decode_source(file.data, name)
    except SourceProblem as problem:
        return Version(file.module, file, "", str(problem))
    renamed = (f"{shorten(own_name)} was used as {name}",) if own_name.lower() != name else ()
    return _checked(Version(file.module, file, text, notes=renamed))


def _read_unnamed(file: CodeFile, name: str) -> Iterator[Version]:
    """The chapters of a Python file. If it has several and is not valid Python, each gets all of its text."""
    text = decode_source(file.data, name)
    chapters = find_defined(text)
    code = read_code([Cell(1, text)], name) if len(chapters) > 1 else None
    for module, exercises in chapters.items():
        used = f"the file {name} was used as {module}.py, because it defines {_list(exercises)}"
        if code is None or code.problems:
            chapter = text
        else:
            chapter = write_chapter(code, module).text
            used += "; only the code that they use was read"
        yield Version(module, file, chapter, notes=(used,), defined=len(exercises))


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
    name, text, problem, is_begun = f"{version.module}.py", version.text, "", True
    try:
        if len(text.encode("utf-8", "replace")) > 4 * MAX_FILE_BYTES:
            raise too_large(name)
        if not any(map(_does_something, parse(text, name).body)):
            what = "has only comments and imports" if text.strip() else "is empty"
            problem = f"{name} {what}; submit the file with your code"
        is_begun = any(is_written(text, one.name) for one in load_syllabus().chapter(version.module).exercises)
    except TooComplex as error:
        problem = str(error)
    except SourceProblem:
        pass
    return replace(version, problem=problem, is_begun=is_begun)


def _does_something(statement: ast.stmt) -> bool:
    """False for an import and for a docstring."""
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return not is_text and not isinstance(statement, ast.Import | ast.ImportFrom | ast.Pass)


def _list(names: list[str]) -> str:
    return " and ".join(names) if len(names) < 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"


def describe_others(chosen: Version, others: list[Version]) -> list[str]:
    if not others:
        return []
    more = f" and {len(others) - 2} more" if len(others) > 2 else ""
    names = " and ".join(other.file.name for other in others[:2])
    return [f"there are several versions of {chosen.module}.py; {chosen.file.name} was graded, not {names}{more}"]


# ---- notebooks: plain JSON of format 4. Outputs are not read, and magics and shell lines are left out.


def read_cells(data: bytes, file: str) -> list[Cell]:
    """The code cells that contain Python. UnreadableSubmission if this is not a notebook."""
    try:
        notebook = json.loads(data.decode(json.detect_encoding(data)))
    except (ValueError, RecursionError):
        raise UnreadableSubmission(f"{file} is not a valid notebook; save it again in Jupyter") from None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        raise UnreadableSubmission(f"{file} is not a notebook: it has no cells; save it again in Jupyter")
    if len(cells) > MAX_CELLS:
        raise UnreadableSubmission(f"{file} has more than {MAX_CELLS} cells; keep only the cells of the exercises")
    found = []
    for number, cell in enumerate(cells, start=1):
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            source = cell.get("source")
            lines = [source] if isinstance(source, str) else source if isinstance(source, list) else []
            text = "".join(line for line in lines if isinstance(line, str))
            if len(text) > MAX_FILE_BYTES:
                large = f"cell {number} of {file} is larger than {MAX_FILE_BYTES // 1000} KB"
                raise UnreadableSubmission(f"{large}; keep only the code of the exercises")
            if (python := _keep_python(text)).strip():
                found.append(Cell(number, python))
    return found


def _keep_python(text: str) -> str:
    """The cell's code without IPython's own lines; "" if a magic says that the cell is in another language."""
    text = textwrap.dedent(text.replace("\r\n", "\n").replace("\r", "\n"))
    first, _, rest = text.lstrip().partition("\n")
    if first.startswith("%%"):
        magic, *words = first[2:].split() or [""]
        is_other_file = magic in ("writefile", "file") and not (words and words[-1].endswith(".py"))
        if magic not in PYTHON_MAGICS or is_other_file:
            return ""
        return "\n" + _keep_python(rest)  # so that lines keep their numbers
    for _ in range(MAX_REPAIRS):
        try:
            parse(text)
            return text
        except SourceProblem as problem:  # perhaps because of a magic
            repaired = _leave_out_line(text, problem.line or 0)
            if repaired == text:
                break
            text = repaired
    return text


def _leave_out_line(text: str, number: int) -> str:
    """The text with `pass` for this line and those that continue it, if it is IPython's.

    So the other lines keep their numbers, and no block is empty.
    """
    lines = text.split("\n")
    place = number - 1
    if not 0 <= place < len(lines) or not _IPYTHON_LINE.match(lines[place]):
        return text
    continues = True
    while continues and place < len(lines):
        continues = lines[place].endswith("\\")
        lines[place] = lines[place][: len(lines[place]) - len(lines[place].lstrip())] + "pass"
        place += 1
    return "\n".join(lines)
