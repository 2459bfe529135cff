"""How a lesson's Markdown becomes HTML where the book differs from the usual: formulas, links to explanations, folded answers, wide tables."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from html import escape

from grader.teaching.book.code import highlight_python, inline_code, is_python
from grader.teaching.book.formulas import mathml, mathml_of_code, typeset_within
from grader.teaching.book.tables import open_cell, open_table
from markdown_it import MarkdownIt
from markdown_it.token import Token

_QUESTION = re.compile(r"<details>\n<summary>(.*?)</summary>", re.DOTALL)
_CHAPTERS = re.compile(r"\b[Cc]hapter \d+\b|\b[Cc]hapters \d+\b(?:(?:, | and |, and | or | to )\d+\b)*")
_TAIL = re.compile(r"(<[^>]*>)|\b\w+-\w\b(?!-)")  # min-p, top-k: a line must not end before the last letter


@dataclass
class Links:
    """Link targets: `code` for `inline code`, `words` for terms in prose (the first one on a page), `chapters` by number.

    A term in `near` is a link only in a paragraph with one of these words: a head is a part of attention only near "attention" or "heads".
    """

    code: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    chapters: Mapping[int, str] = field(default_factory=dict)
    near: Mapping[str, Collection[str]] = field(default_factory=dict)
    pages: Collection[str] | None = None  # of this book; a link to another page stays text. None: all pages are here


class Rules:
    """Rules that differ from the usual renderer. Each method is one rule: (tokens, index, options, env) -> HTML."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self._linked: set[str] = set()  # terms already linked
        words = sorted(links.words, key=len, reverse=True)
        self._words = re.compile(r"(?<![\w-])(" + "|".join(map(re.escape, words)) + r")(?![\w-])", re.IGNORECASE) if words else None

    def heading_open(self, tokens: list[Token], at: int, *_) -> str:
        anchor = tokens[at].meta["anchor"]
        children = tokens[at + 1].children
        assert children is not None, "the heading's text follows its opening token"
        children.append(_raw_html(f' <a class="here" href="#{anchor}" aria-label="Link to this part">#</a>'))
        for child in children:
            child.meta["quiet"] = True
        return f'<{tokens[at].tag} id="{anchor}">'

    def text(self, tokens: list[Token], at: int, *_) -> str:
        token = tokens[at]
        if token.meta.get("html"):
            return token.content
        quiet = token.meta.get("quiet") or _in_link(tokens, at)
        about = "" if quiet else "".join(each.content for each in tokens).lower()

        def write(said: str) -> str:
            said = escape(said, quote=False)
            return _TAIL.sub(_keep_whole, said if quiet else self._linked_text(said, about))

        return typeset_within(token.content, write)

    def _linked_text(self, said: str, about: str) -> str:
        pieces = re.split(r"(<a .*?</a>)", _CHAPTERS.sub(self._chapter_links, said))
        return "".join(piece if piece.startswith("<a ") else self._terms(piece, about) for piece in pieces)

    def code_inline(self, tokens: list[Token], at: int, *_) -> str:
        token = tokens[at]
        if formula := mathml_of_code(token.content):
            return formula
        said = inline_code(token.content)
        name = token.content.split("(")[0].split(".")[0]
        where = None if token.meta.get("quiet") or _in_link(tokens, at) else self._links.code.get(name)
        return f'<a class="code" href="{where}">{said}</a>' if where else said

    def code_block(self, tokens: list[Token], at: int, *_) -> str:
        text = tokens[at].content
        formula = mathml(text)
        if formula:
            return f'<div class="formula scroll">{formula}</div>\n'
        return (highlight_python(text) if is_python(text) else f"<pre><code>{escape(text, quote=False)}</code></pre>") + "\n"

    def fence(self, tokens: list[Token], at: int, *_) -> str:
        """Python, what was printed ("text", with nothing to copy), or commands to copy."""
        text, kind = tokens[at].content, tokens[at].info.partition(" ")[0]
        if kind == "python":
            return highlight_python(text) + "\n"
        opening = "<pre>" if kind == "text" else '<pre class="copied">'
        return f"{opening}<code>{escape(text, quote=False)}</code></pre>\n"

    def html_block(self, tokens: list[Token], at: int, *_) -> str:
        """The beginning of a folded answer with its question, or its end. Any other HTML is shown as text."""
        text = tokens[at].content.strip()
        if question := _QUESTION.fullmatch(text):
            return f'<details class="hint"><summary>{MarkdownIt("commonmark", {"html": False}).renderInline(question[1])}</summary>\n'
        return "</details>\n" if text == "</details>" else f"<p>{escape(text, quote=False)}</p>\n"

    def html_inline(self, tokens: list[Token], at: int, *_) -> str:
        return escape(tokens[at].content, quote=False)

    def table_open(self, tokens: list[Token], at: int, *_) -> str:
        return open_table(tokens, at)

    def table_close(self, *_) -> str:
        return "</table></div>\n"

    def th_open(self, tokens: list[Token], at: int, *_) -> str:
        return open_cell(tokens, at)

    td_open = th_open

    def image(self, tokens: list[Token], at: int, *_) -> str:
        token = tokens[at]
        return f'<span class="picture scroll"><img src="{escape(str(token.attrs["src"]))}" alt="{escape(token.content)}"></span>'

    def link_open(self, tokens: list[Token], at: int, *_) -> str:
        """A link, or only its text if this book does not have the page: a handout may have a part of the course."""
        address = page_address(str(tokens[at].attrs["href"]))
        is_here = self._links.pages is None or not re.match(r"\w+\.html", address) or address.partition("#")[0] in self._links.pages
        return f'<a href="{escape(address)}">' if is_here else "<a>"

    def _chapter_links(self, match: re.Match) -> str:
        """Link each number of "chapters 3 and 10"; the first link has the word, too."""

        def link(number: re.Match) -> str:
            where = self._links.chapters.get(int(number[1]))
            return f'<a href="{where}">{number[0]}</a>' if where else number[0]

        return re.sub(r"(?:[Cc]hapters? )?(\d+)", link, match[0])

    def _terms(self, said: str, about: str) -> str:
        return self._words.sub(lambda match: self._term(match, about), said) if self._words else said

    def _term(self, match: re.Match, about: str) -> str:
        form = match[0].lower()
        where, near = self._links.words[form], self._links.near.get(form)
        if where in self._linked or (near and not any(re.search(rf"\b{re.escape(word)}\b", about) for word in near)):
            return match[0]
        self._linked.add(where)
        return f'<a class="term" href="{where}">{match[0]}</a>'


def page_address(address: str) -> str:
    """Return the target of a lesson's link in the book: the page of another lesson instead of its file."""
    return re.sub(r"^(?:\.\./)*(?:exercises/|grader/teaching/book/pages/)?(\w+)\.md(?=#|$)", lambda match: f"{match[1]}.html", address)


def _keep_whole(match: re.Match) -> str:
    return match[0] if match[1] else f'<span class="whole">{match[0]}</span>'


def _in_link(tokens: list[Token], at: int) -> bool:
    return sum((token.type == "link_open") - (token.type == "link_close") for token in tokens[:at]) > 0


def _raw_html(markup: str) -> Token:
    return Token("text", "", 0, content=markup, meta={"html": True})
