"""Python code on a page, coloured when the book is built."""

from __future__ import annotations

import re
from functools import cache
from html import escape, unescape

from grader.course.source import SourceProblem, definition, parse
from grader.course.stubs import reference_stub
from grader.course.syllabus import Exercise
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonConsoleLexer, PythonLexer

FULL_LINE = 85  # columns; a docstring's line of at least this length ended because it was full
NEWLINE = "\n"
SHORT = 24  # characters; a line never ends within a shorter word of code


def inline_code(text: str) -> str:
    """Return code in a sentence as HTML. A line may end at its spaces and slashes, not within `--pace`, nor after the dot of `. .venv`."""
    words = re.sub(r"^([^\w\s]) ", "\\1\0", text).split(" ")
    return f"<code>{' '.join(map(_word, words))}</code>"


def _word(word: str) -> str:
    said = escape(word.replace("\0", " "), quote=False)
    if len(word) > SHORT:
        return re.sub(r"/(?=.)", "/<wbr>", said)
    return f'<span class="whole">{said}</span>' if len(word) > 2 and re.search(r"[^\w.,()\[\]]", word) else said


def highlight_python(text: str) -> str:
    """Return Python as HTML with a class for each kind of word; book.css has the colours.

    Each line is an element, so that a long line wraps on its own. The lines of one sentence of a docstring are one element.
    """
    lexer = PythonConsoleLexer() if text.startswith(">>>") else PythonLexer()
    lines = highlight(text.strip("\n"), lexer, HtmlFormatter(nowrap=True)).rstrip("\n").split("\n")
    blocks: list[list[str]] = []
    for line in lines:
        if blocks and _continues(blocks[-1][-1], line):
            blocks[-1].append(line)
        else:
            blocks.append([line])
    marked = "".join(f'<span class="line{_depth(block)}">{"".join(f"{line}{NEWLINE}" for line in block)}</span>' for block in blocks)
    return f'<pre class="code copied"><code>{marked}</code></pre>'


def _continues(before: str, line: str) -> bool:
    """Return whether a docstring's sentence goes on in this line, which then fills up the line before it: no word is left alone on a narrow page."""
    if not all(re.match(r'\s*<span class="sd">', each) for each in (before, line)):
        return False
    first, second = _bare(before), _bare(line)
    same = len(first) - len(first.lstrip()) == len(second) - len(second.lstrip())
    return same and len(first) >= FULL_LINE and not re.match(r"\s*(?:- |\d+\. |\"\"\"|$)", second)


def _depth(lines: list[str]) -> str:
    """Return the class for the indent that book.css supports (4, 8 or 12 columns), and the class of joined lines."""
    bare = _bare(lines[0])
    depth = min((len(bare) - len(bare.lstrip())) // 4 * 4, 12)
    return (f" in{depth}" if depth else "") + (" joined" if len(lines) > 1 else "")


def _bare(line: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", line))


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
