"""Reads the Python code of a Jupyter notebook's cells: plain JSON, of the formats 2 to 4, without the package nbformat.

Outputs are not read. Magics and shell lines are left out, because only IPython understands them.
"""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import dataclass

from grader.classroom.intake.problems import UnreadableSubmission
from grader.course.source import LARGEST, SourceProblem, parse

LARGEST_NOTEBOOK = 20_000_000  # bytes; most of them are pictures in outputs
MOST_CELLS = 5_000
MOST_REPAIRS = 100  # lines of IPython in one cell
PYTHON_MAGICS = ("time", "timeit", "capture", "prun", "memit", "writefile", "file")  # `%%time`: the rest of the cell is Python code
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
    if not isinstance(notebook, dict) or not any(isinstance(notebook.get(key), list) for key in ("cells", "worksheets")):
        raise UnreadableSubmission(f"{file} is not a notebook: it has no cells; save it again in Jupyter")
    if (language := _find_language(notebook)) != "python":
        raise UnreadableSubmission(f"{file} is a notebook in {language[:30]}, and exercises are written in Python")
    cells = [cell for sheet in _as_list(notebook.get("worksheets")) or [notebook] if isinstance(sheet, dict) for cell in _as_list(sheet.get("cells"))]
    if len(cells) > MOST_CELLS:
        raise UnreadableSubmission(f"{file} has more than {MOST_CELLS} cells; keep only the cells of the exercises")
    found = []
    for number, cell in enumerate(cells, start=1):
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            source = cell.get("source", cell.get("input", ""))  # format 4; formats 2 and 3
            text = source if isinstance(source, str) else "".join(line for line in _as_list(source) if isinstance(line, str))
            if len(text) > LARGEST:
                raise UnreadableSubmission(f"cell {number} of {file} is larger than {LARGEST // 1000} KB; keep only the code of the exercises")
            if (python := _keep_python(text)).strip():
                found.append(Cell(number, python))
    return found


def _keep_python(text: str) -> str:
    """The cell's code without IPython's own lines; "" if nothing is left, or if a magic says that the cell is in another language."""
    text = textwrap.dedent(text.replace("\r\n", "\n").replace("\r", "\n"))
    first, _, rest = text.lstrip().partition("\n")
    if first.startswith("%%"):
        words = first[2:].split()
        if not words or words[0] not in PYTHON_MAGICS or (words[0] in ("writefile", "file") and not words[-1].endswith(".py")):
            return ""
        return "\n" + _keep_python(rest)  # so that lines keep their numbers
    for _ in range(MOST_REPAIRS):
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
    """The text with `pass` for this line if it is IPython's (with the lines that continue it): so others keep their numbers, and no block is empty."""
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


def _find_language(notebook: dict) -> str:
    """The language in small letters; "python" if the notebook does not say."""
    facts = notebook.get("metadata")
    facts = facts if isinstance(facts, dict) else {}
    for key, entry in (("language_info", "name"), ("kernelspec", "language")):
        about = facts.get(key)
        if isinstance(about, dict) and isinstance(about.get(entry), str) and about[entry]:
            name = about[entry].lower()
            return "python" if name in ("python", "python3", "ipython", "sage") else name
    return "python"


def _as_list(value: object) -> list:
    return value if isinstance(value, list) else []
