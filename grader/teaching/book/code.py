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

FULL_LINE_COLUMNS = 85  # a docstring's line of at least this length ended because it was full
LONG_WORD_CHARACTERS = 24  # a line never ends within a shorter word of code


def inline_code(text: str) -> str:
    """Return code in a sentence as HTML.

    A line may end at its spaces and slashes, not within `--pace`, nor after the dot of `. .venv`.
    """
    words = re.sub(r"^([^\w\s]) ", "\\1\0", text).split(" ")
    return f"<code>{' '.join(_mark_word(word.replace(chr(0), ' ')) for word in words)}</code>"


def _mark_word(word: str) -> str:
    said = escape(word, quote=False)
    if len(word) > LONG_WORD_CHARACTERS:
        return re.sub(r"/(?=.)", "/<wbr>", said)
    return f'<span class="whole">{said}</span>' if len(word) > 2 and re.search(r"[^\w.,()\[\]]", word) else said


def highlight_python(text: str) -> str:
    """Return Python as HTML with a class for each kind of word; book.css has the colours.

    Each line is an element, so that a long line wraps on its own. The lines of a docstring's sentence are one element.
    """
    lexer = PythonConsoleLexer() if text.startswith(">>>") else PythonLexer()
    lines = highlight(text.strip("\n"), lexer, HtmlFormatter(nowrap=True)).rstrip("\n").split("\n")
    blocks: list[list[str]] = []
    for line in lines:
        if blocks and _continues_sentence(blocks[-1][-1], line):
            blocks[-1].append(f"{line}\n")
        else:
            blocks.append([f"{line}\n"])
    marked = "".join(f'<span class="{_line_classes(block)}">{"".join(block)}</span>' for block in blocks)
    return f'<pre class="code copied"><code>{marked}</code></pre>'


def _continues_sentence(before: str, line: str) -> bool:
    """Return whether this line goes on with a docstring's sentence that filled the line before it."""
    first, second = (unescape(re.sub(r"<[^>]*>|\n", "", each)) for each in (before, line))
    is_docstring = all(re.match(r'\s*<span class="sd">', each) for each in (before, line))
    begins_item = re.match(r"\s*(?:- |\d+\. |\"\"\"|$)", second)
    return is_docstring and len(first) >= FULL_LINE_COLUMNS and _indent(first) == _indent(second) and not begins_item


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _line_classes(block: list[str]) -> str:
    """Return the classes of a line: book.css has an indent of 4, 8 and 12 columns."""
    depth = min(_indent(unescape(re.sub(r"<[^>]*>", "", block[0]))) // 4 * 4, 12)
    return "line" + f" in{depth}" * bool(depth) + " joined" * (len(block) > 1)


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
