"""Convert a lesson from Markdown to an HTML page: anchors of headings, cards of exercises, tables, formulas, links.

`make_page` returns the page and its parts. The caller makes the card of each exercise, which is put around the
paragraph about it. `Rules` has what differs from markdown-it's usual HTML.

How a lesson is written: its sections are those of `exercises/ch00_first_model.md`. Numbers are worked by hand
(`grader/tests/teaching/test_lessons_worked_*.py` recomputes them) or measured (the text names `headway measure NAME`,
and a test compares the table with what it prints). Examples with `>>>` are run. An indented block that is a formula is
typeset as one; `chapter 4` and exercise names become links.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from typing import Any

from grader.course.source import SourceProblem, definition, parse
from grader.course.stubs import reference_stub
from grader.course.syllabus import Exercise
from grader.teaching.book.formulas import mathml, mathml_of_code, typeset_within
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonConsoleLexer, PythonLexer

Card = tuple[str, str]  # the HTML before and after the paragraph about an exercise


@dataclass
class Part:
    """A heading and the text below it, for the search."""

    title: str
    anchor: str
    text: str = ""


@dataclass(frozen=True)
class Heading:
    """A line of the page's own contents."""

    title: str
    anchor: str
    level: int  # 2 or 3
    exercise: bool = False


@dataclass(frozen=True)
class Page:
    title: str
    body: str  # HTML, without the title
    parts: list[Part] = field(default_factory=list)  # the first is the text above the first heading
    outline: list[Heading] = field(default_factory=list)  # headings and exercises, in order


def make_page(
    markdown: str,
    links: Links,
    card: Callable[[str], Card | None] = lambda name: None,
    taken: Collection[str] = (),
) -> Page:
    """Make the page.

    `card(name)` returns the card for the paragraph that begins with **`name`**, or None if that is not an exercise
    here. Headings get no anchor that is in `taken`.
    """
    reader = MarkdownIt("commonmark", {"html": True}).enable("table")  # of HTML, only folded answers are shown as such
    tokens = reader.parse(markdown)
    title = ""
    if tokens and tokens[0].type == "heading_open" and tokens[0].tag == "h1":
        title, tokens = _plain(tokens[1].content), tokens[3:]
    _give_anchors(tokens, set(taken))
    parts = _split_parts(tokens, title)
    _prepare_tables(tokens)
    tokens, outline = _add_cards(tokens, card)
    renderer, rules = reader.renderer, Rules(links)
    assert isinstance(renderer, RendererHTML)
    for name in Rules.NAMES:
        renderer.rules[name] = getattr(rules, name)
    return Page(title, renderer.render(tokens, reader.options, {}), parts, outline)


def nest(outline: list[Heading]) -> list[tuple[Heading, list[Heading]]]:
    """Return each heading of level 2 with those below it; a lower one before the first of them stands alone."""
    nested: list[tuple[Heading, list[Heading]]] = []
    for heading in outline:
        if heading.level > 2 and nested:
            nested[-1][1].append(heading)
        else:
            nested.append((heading, []))
    return nested


def make_slug(title: str) -> str:
    return re.sub(r"[^\w]+", "-", title.lower()).strip("-") or "part"


def _give_anchors(tokens: list[Token], taken: set[str]) -> None:
    """Give each heading an anchor, and mark the text of headings and links, where no further links may be."""
    for before, token in zip([None, *tokens], tokens):
        if token.type != "inline":
            continue
        depth = 0
        if before and before.type == "heading_open":
            slug = make_slug(_plain(token.content))
            numbered = itertools.chain([slug], (f"{slug}-{number}" for number in itertools.count(2)))
            anchor = next(name for name in numbered if name not in taken)
            taken.add(anchor)
            before.attrs["id"], depth = anchor, 1
        for child in token.children or []:
            depth += child.nesting * child.type.startswith("link_")
            child.meta["quiet"] = depth > 0


def _add_cards(tokens: list[Token], card: Callable[[str], Card | None]) -> tuple[list[Token], list[Heading]]:
    """Return the tokens with the cards of the exercises around the paragraphs about them, and the page's contents."""
    out: list[Token] = []
    outline: list[Heading] = []
    after: list[Token] = []  # what follows the paragraph that is being read
    for token, inline in zip(tokens, [*tokens[1:], None]):
        if token.type == "heading_open" and inline and token.tag in ("h2", "h3"):
            outline.append(Heading(_plain(inline.content), str(token.attrs["id"]), int(token.tag[1])))
        if token.type == "paragraph_open" and inline and (match := re.match(r"\*\*`(\w+)`\*\*\s*", inline.content)):
            if (made := card(match[1])) is not None:
                _remove_name(inline.children or [])
                out.append(Token("html", "", 0, content=made[0]))
                after = [Token("html", "", 0, content=made[1])]
                outline.append(Heading(match[1], match[1], 3, exercise=True))
        out.append(token)
        if token.type == "paragraph_close":
            out, after = out + after, []
    return out, outline


def _remove_name(children: list[Token]) -> None:
    """Remove the name at the beginning of a paragraph, because the card's heading has it."""
    while children and children.pop(0).type != "strong_close":
        pass
    if children and children[0].type == "text":
        children[0].content = children[0].content.lstrip()


def _prepare_tables(tokens: list[Token]) -> None:
    """Align numbers by a class, because the page's policy forbids inline styles; an empty corner is a normal cell.

    A screen reader would announce the corner as a heading.
    """
    for at, token in enumerate(tokens):
        if token.type in ("th_open", "td_open"):
            if "right" in str(token.attrs.pop("style", "")):
                token.attrs["class"] = "right"
            if token.tag == "th" and tokens[at + 1].content:
                token.attrs["scope"] = "col"
            elif token.tag == "th":
                token.tag = tokens[at + 2].tag = "td"


def _split_parts(tokens: list[Token], title: str) -> list[Part]:
    parts = [Part(title, "")]
    for before, token in zip([None, *tokens], tokens):
        if before and before.type == "heading_open":
            parts.append(Part(_plain(token.content), str(before.attrs["id"])))
        elif token.type in ("inline", "code_block", "fence"):
            parts[-1].text += f" {_plain(token.content)}"
        elif token.type == "html_block":
            parts[-1].text += " " + _plain(re.sub(r"</?\w+>", "", token.content))
    for part in parts:
        part.text = " ".join(part.text.split())
    return parts


def _plain(markdown: str) -> str:
    """Remove Markdown marks, for titles and for the search."""
    said = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", markdown)
    return " ".join(re.sub(r"`|\*", "", said).split())


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
