"""How a lesson's Markdown becomes HTML where the book differs from the usual: formulas, links, code, folded answers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from typing import Any

from grader.course.source import SourceProblem, definition, parse
from grader.course.stubs import reference_stub
from grader.course.syllabus import Exercise
from grader.teaching.book.formulas import mathml, mathml_of_code, typeset_within
from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonConsoleLexer, PythonLexer

_QUESTION = re.compile(r"<details>\n<summary>(.*?)</summary>", re.DOTALL)
_CHAPTERS = r"\b(?P<chapters>chapter \d+|chapters \d+(?:(?:, | and |, and | or | to )\d+\b)*)\b"
_PAGE = re.compile(r"^(?:\.\./)*(?:exercises/|grader/teaching/book/pages/)?(\w+)\.md(?=#|$)")


@dataclass
class Links:
    """Link targets: `code` for `inline code`, `words` for terms in prose (the first one on a page), chapters by number.

    A term in `near` is a link only in a paragraph with one of these words: a head is a part of attention only near
    "attention" or "heads".
    """

    code: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    chapters: Mapping[int, str] = field(default_factory=dict)
    near: Mapping[str, Collection[str]] = field(default_factory=dict)
    pages: Collection[str] | None = None  # of this book; a link to another page stays text. None: all pages are here


class Rules:
    """Rules that differ from the usual renderer. Each method is one rule: (tokens, index, options, env) -> HTML."""

    NAMES = (
        "text", "code_inline", "code_block", "fence", "heading_close", "table_open", "table_close", "image",
        "link_open", "html_block", "html_inline", "html",
    )  # fmt: skip

    def __init__(self, links: Links) -> None:
        self._links = links
        self._linked: set[str] = set()  # the addresses of terms that are links already
        words = "|".join(map(re.escape, sorted(links.words, key=len, reverse=True)))
        term = rf"|(?<![\w-])(?P<term>{words})(?![\w-])" if words else "|(?P<term>(?!))"
        self._linkable = re.compile(_CHAPTERS + term, re.IGNORECASE)

    def text(self, tokens: Sequence[Token], at: int, *_: Any) -> str:
        paragraph = "".join(token.content for token in tokens).lower()

        def write(said: str) -> str:
            said = escape(said, quote=False)
            if not tokens[at].meta.get("quiet"):
                said = self._linkable.sub(lambda match: self._link(match, paragraph), said)
            return said

        return typeset_within(tokens[at].content, write)

    def _link(self, match: re.Match, paragraph: str) -> str:
        if match["chapters"]:
            return re.sub(r"(?:[Cc]hapters? )?(\d+)", self._chapter_link, match[0])
        form = match["term"].lower()
        address, near = self._links.words[form], self._links.near.get(form, ())
        if address in self._linked or (near and not re.search(rf"\b({'|'.join(map(re.escape, near))})\b", paragraph)):
            return match[0]
        self._linked.add(address)
        return f'<a class="term" href="{address}">{match[0]}</a>'

    def _chapter_link(self, number: re.Match) -> str:
        address = self._links.chapters.get(int(number[1]))
        return f'<a href="{address}">{number[0]}</a>' if address else number[0]

    def code_inline(self, tokens: Sequence[Token], at: int, *_: Any) -> str:
        token = tokens[at]
        if formula := mathml_of_code(token.content):
            return formula
        address = self._links.code.get(re.split(r"[(.]", token.content)[0])
        said = f"<code>{escape(token.content, quote=False)}</code>"
        return f'<a class="code" href="{address}">{said}</a>' if address and not token.meta.get("quiet") else said

    def code_block(self, tokens: Sequence[Token], at: int, *_: Any) -> str:
        text = tokens[at].content
        if formula := mathml(text):
            return f'<div class="formula scroll">{formula}</div>\n'
        if is_python(text):
            return highlight_python(text) + "\n"
        return f"<pre><code>{escape(text, quote=False)}</code></pre>\n"

    def fence(self, tokens: Sequence[Token], at: int, *_: Any) -> str:
        """Python, what was printed ("text", with nothing to copy), or commands to copy."""
        text, kind = tokens[at].content, tokens[at].info.partition(" ")[0]
        if kind == "python":
            return highlight_python(text) + "\n"
        opening = "<pre>" if kind == "text" else '<pre class="copied">'
        return f"{opening}<code>{escape(text, quote=False)}</code></pre>\n"

    def heading_close(self, tokens: Sequence[Token], at: int, *_: Any) -> str:
        anchor = tokens[at - 2].attrs["id"]
        return f' <a class="here" href="#{anchor}" aria-label="Link to this part">#</a></{tokens[at].tag}>\n'

    def html_block(self, tokens: Sequence[Token], at: int, *_: Any) -> str:
        """The beginning of a folded answer with its question, or its end. Any other HTML is shown as text."""
        text = tokens[at].content.strip()
        if question := _QUESTION.fullmatch(text):
            said = MarkdownIt("commonmark", {"html": False}).renderInline(question[1])
            return f'<details class="hint"><summary>{said}</summary>\n'
        return "</details>\n" if text == "</details>" else f"<p>{escape(text, quote=False)}</p>\n"

    def html_inline(self, tokens: Sequence[Token], at: int, *_: Any) -> str:
        return escape(tokens[at].content, quote=False)

    def html(self, tokens: Sequence[Token], at: int, *_: Any) -> str:
        return tokens[at].content

    def table_open(self, tokens: Sequence[Token], at: int, *_: Any) -> str:
        return '<div class="scroll"><table>\n'

    def table_close(self, *_: Any) -> str:
        return "</table></div>\n"

    def image(self, tokens: Sequence[Token], at: int, *_: Any) -> str:
        source, alt = escape(str(tokens[at].attrs["src"])), escape(tokens[at].content)
        return f'<span class="picture scroll"><img src="{source}" alt="{alt}"></span>'

    def link_open(self, tokens: Sequence[Token], at: int, *_: Any) -> str:
        """A link, or only its text if this book does not have the page: a handout may have a part of the course."""
        address = _PAGE.sub(r"\1.html", str(tokens[at].attrs["href"]))
        known, is_page = self._links.pages, re.match(r"\w+\.html", address)
        is_here = known is None or not is_page or address.partition("#")[0] in known
        return f'<a href="{escape(address)}">' if is_here else "<a>"


def highlight_python(text: str) -> str:
    lexer = PythonConsoleLexer() if text.startswith(">>>") else PythonLexer()
    coloured = highlight(text.strip("\n"), lexer, HtmlFormatter(nowrap=True))
    return f'<pre class="code copied"><code>{coloured}</code></pre>'


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
