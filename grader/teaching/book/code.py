"""Python code on a page, coloured when the book is built."""

from __future__ import annotations

import re
from functools import cache

from grader.course.source import SourceProblem, definition, parse
from grader.course.stubs import reference_stub
from grader.course.syllabus import Exercise
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer


def highlight_python(text: str) -> str:
    """Return Python as HTML with a class for each kind of word; book.css has the colours. Each line is an element, so that a long line wraps on its own."""
    marked = highlight(text.strip("\n"), PythonLexer(), HtmlFormatter(nowrap=True))
    lines = "".join(f'<span class="line{_depth(line)}">{line}\n</span>' for line in marked.rstrip("\n").split("\n"))
    return f'<pre class="code"><code>{lines}</code></pre>'


def _depth(line: str) -> str:
    """Return the class for the indent that book.css supports: 4, 8 or 12 columns."""
    bare = re.sub(r"<[^>]*>", "", line)
    depth = min((len(bare) - len(bare.lstrip())) // 4 * 4, 12)
    return f" in{depth}" if depth else ""


def is_python(text: str) -> bool:
    """Return whether this is code, and not a table of numbers."""
    try:
        return any(character.isalpha() for character in text) and bool(parse(text).body)
    except SourceProblem:
        return False


@cache
def find_stub(exercise: Exercise) -> str:
    """Return the stub (signature, docstring and TODO steps), whatever exercises/ contains now."""
    return definition(reference_stub(exercise.module), exercise.name, f"{exercise.module}.py").text
