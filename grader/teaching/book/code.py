"""Python on a page: coloured once, when the book is built."""

from __future__ import annotations

import re
from functools import cache

from grader.course.source import SourceProblem, definition, parse
from grader.course.stubs import reference_stub
from grader.course.syllabus import Exercise
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer


def coloured(text: str) -> str:
    """Python as HTML, a class for each kind of word; book.css has their colours. Each line stands by itself, so that a long one wraps in its place."""
    marked = highlight(text.strip("\n"), PythonLexer(), HtmlFormatter(nowrap=True))
    lines = "".join(f'<span class="line{_depth(line)}">{line}\n</span>' for line in marked.rstrip("\n").split("\n"))
    return f'<pre class="code"><code>{lines}</code></pre>'


def _depth(line: str) -> str:
    """How far it is indented, of what book.css knows: 4, 8 or 12."""
    bare = re.sub(r"<[^>]*>", "", line)
    depth = min((len(bare) - len(bare.lstrip())) // 4 * 4, 12)
    return f" in{depth}" if depth else ""


def is_python(text: str) -> bool:
    """Is this code, and not a table of numbers?"""
    try:
        return any(character.isalpha() for character in text) and bool(parse(text).body)
    except SourceProblem:
        return False


@cache
def stub_of(exercise: Exercise) -> str:
    """What a learner begins with: signature, docstring and TODO steps, whatever stands in exercises/ by now."""
    return definition(reference_stub(exercise.module), exercise.name, f"{exercise.module}.py").text
