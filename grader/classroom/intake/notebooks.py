"""Reads the Python code of a Jupyter notebook's cells: plain JSON of format 4, without the package nbformat.

Outputs are not read. Magics and shell lines are left out, because only IPython understands them.
"""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import dataclass

from grader.classroom.intake.problems import UnreadableSubmission
from grader.course.source import LARGEST, SourceProblem, parse

MAX_NOTEBOOK_BYTES = 20_000_000  # most of them are pictures in outputs
MAX_CELLS = 5_000
MAX_REPAIRS = 100  # lines of IPython in one cell
PYTHON_MAGICS = ("time", "timeit", "capture", "prun", "memit", "writefile", "file")  # the rest of the cell is Python
_IPYTHON_LINE = re.compile(r"\s*(?:[%!?]|\w[\w.]*\s*=\s*[%!]\s*\w|[\w.]+\?{1,2}\s*$)")


@dataclass(frozen=True)
class Cell:
    number: int  # counted from the top, from 1, with the cells of text
    text: str


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
            if len(text) > LARGEST:
                large = f"cell {number} of {file} is larger than {LARGEST // 1000} KB"
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
