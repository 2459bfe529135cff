"""Convert a lesson from Markdown to an HTML page: headings with anchors, formulas, links from words to their explanations.

`make_page` returns the page and its parts. The caller makes the card of each exercise, which is put around the paragraph about it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from html import escape

from grader.teaching.book.code import highlight_python, is_python
from grader.teaching.book.formulas import mathml
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

_QUESTION = re.compile(r"<details>\n<summary>(.*?)</summary>", re.DOTALL)
_CHAPTER = re.compile(r"\b([Cc]hapters?) (\d+)\b")


@dataclass
class Links:
    """Link targets: `code` for `inline code`, `words` for terms in prose (the first one on a page), `chapters` by number."""

    code: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    chapters: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Card:
    """The HTML before and after the paragraph about an exercise."""

    before: str
    after: str


@dataclass(frozen=True)
class Part:
    """A heading and the text below it, for the search."""

    title: str
    anchor: str
    level: int
    text: str


@dataclass(frozen=True)
class Page:
    title: str
    body: str  # HTML, without the title
    parts: list[Part]  # the first is the text above the first heading

    @property
    def sections(self) -> list[Part]:
        return [part for part in self.parts if part.level == 2]


def make_page(markdown: str, links: Links, card: Callable[[str], Card | None] = lambda name: None, taken: Collection[str] = ()) -> Page:
    """Make the page. `card(name)` returns the card for the paragraph that begins with **`name`**, or None if that is not an exercise here.

    Headings get no anchor that is in `taken`.
    """
    reader = MarkdownIt("commonmark", {"html": True}).enable("table")  # of HTML, only folded answers are shown as such
    tokens = reader.parse(markdown)
    title = ""
    if tokens and tokens[0].type == "heading_open" and tokens[0].tag == "h1":
        title, tokens = tokens[1].content, tokens[3:]
    _give_anchors(tokens, set(taken))
    renderer = reader.renderer
    assert isinstance(renderer, RendererHTML)
    writer = _Writer(links)
    for name in (
        "text", "code_inline", "code_block", "fence", "heading_open", "table_open", "table_close", "th_open", "td_open", "image", "link_open",
        "html_block", "html_inline",
    ):  # fmt: skip
        renderer.rules[name] = getattr(writer, name)
    out, start, parts = [], 0, _split_parts(tokens, title)
    for at, token in enumerate(tokens):
        if token.type == "paragraph_open" and (exercise := _find_exercise(tokens[at + 1])) and (made := card(exercise)) is not None:
            _remove_name(tokens[at + 1])
            paragraph = renderer.render(tokens[at : at + 3], reader.options, {})
            out += [renderer.render(tokens[start:at], reader.options, {}), made.before, paragraph, made.after]
            start = at + 3
    out.append(renderer.render(tokens[start:], reader.options, {}))
    return Page(_plain(title), "".join(out), parts)


def make_slug(title: str) -> str:
    """Return a heading as an anchor name."""
    return re.sub(r"[^\w]+", "-", title.lower()).strip("-") or "part"


def _give_anchors(tokens: list[Token], taken: set[str]) -> None:
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            name = anchor = make_slug(_plain(tokens[at + 1].content))
            number = 1
            while anchor in taken:
                number += 1
                anchor = f"{name}-{number}"
            taken.add(anchor)
            token.meta["anchor"] = anchor


def _find_exercise(inline: Token) -> str | None:
    """Return the exercise that a paragraph begins with, as **`name`**."""
    children = inline.children or []
    while children and children[0].type == "text" and not children[0].content:
        children.pop(0)
    kinds = [child.type for child in children[:3]]
    return children[1].content if kinds == ["strong_open", "code_inline", "strong_close"] else None


def _remove_name(inline: Token) -> None:
    """Remove the name from the paragraph, because the card's heading has it."""
    children = inline.children or []
    while children and children[0].type != "strong_close":
        children.pop(0)
    del children[:1]
    if children and children[0].type == "text":
        children[0].content = children[0].content.lstrip()


def _split_parts(tokens: list[Token], title: str) -> list[Part]:
    parts, level, anchor = [], 1, ""
    text: list[str] = []
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            parts.append(Part(_plain(title), anchor, level, " ".join(filter(None, text))))
            title, level, text = tokens[at + 1].content, int(token.tag[1]), []
            anchor = token.meta["anchor"]
        elif token.type in ("inline", "code_block", "fence") and not (at and tokens[at - 1].type == "heading_open"):
            text.append(_plain(token.content))
        elif token.type == "html_block":
            text.append(_plain(re.sub(r"</?\w+>", "", token.content)))
    return [*parts, Part(_plain(title), anchor, level, " ".join(filter(None, text)))]


def _plain(markdown: str) -> str:
    """Remove Markdown marks, for titles and for the search."""
    return re.sub(r"\s+", " ", re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", markdown).replace("`", "").replace("**", "").replace("*", "")).strip()


class _Writer:
    """Rules that differ from the usual renderer. Each method is one rule: (tokens, index, options, env) -> HTML."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self._inside = 0  # headings, links: no link within them
        self._linked: set[str] = set()  # terms already linked
        words = sorted(links.words, key=len, reverse=True)
        self._words = re.compile(r"\b(" + "|".join(map(re.escape, words)) + r")\b", re.IGNORECASE) if words else None

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
        said = escape(token.content, quote=False)
        if token.meta.get("quiet") or _in_link(tokens, at):
            return said
        linked = _CHAPTER.sub(self._chapter, said)
        pieces = re.split(r"(<a .*?</a>)", linked)
        return "".join(piece if piece.startswith("<a ") else self._terms(piece) for piece in pieces)

    def code_inline(self, tokens: list[Token], at: int, *_) -> str:
        token = tokens[at]
        said = f"<code>{escape(token.content, quote=False)}</code>"
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
        text = tokens[at].content
        return (highlight_python(text) if tokens[at].info == "python" else f"<pre><code>{escape(text, quote=False)}</code></pre>") + "\n"

    def html_block(self, tokens: list[Token], at: int, *_) -> str:
        """The beginning of a folded answer with its question, or its end. Any other HTML is shown as text."""
        text = tokens[at].content.strip()
        if question := _QUESTION.fullmatch(text):
            return f'<details class="hint"><summary>{MarkdownIt("commonmark", {"html": False}).renderInline(question[1])}</summary>\n'
        return "</details>\n" if text == "</details>" else f"<p>{escape(text, quote=False)}</p>\n"

    def html_inline(self, tokens: list[Token], at: int, *_) -> str:
        return escape(tokens[at].content, quote=False)

    def table_open(self, *_) -> str:
        return '<div class="scroll"><table>\n'

    def table_close(self, *_) -> str:
        return "</table></div>\n"

    def th_open(self, tokens: list[Token], at: int, *_) -> str:
        """Make an empty corner cell a normal cell, so that a screen reader does not announce it as a heading."""
        return f'<th scope="col"{_alignment(tokens[at])}>' if tokens[at + 1].content else f"<td{_alignment(tokens[at])}>"

    def td_open(self, tokens: list[Token], at: int, *_) -> str:
        return f"<td{_alignment(tokens[at])}>"

    def image(self, tokens: list[Token], at: int, *_) -> str:
        token = tokens[at]
        return f'<span class="picture scroll"><img src="{escape(str(token.attrs["src"]))}" alt="{escape(token.content)}"></span>'

    def link_open(self, tokens: list[Token], at: int, *_) -> str:
        return f'<a href="{escape(page_address(str(tokens[at].attrs["href"])))}">'

    def _chapter(self, match: re.Match) -> str:
        where = self._links.chapters.get(int(match[2]))
        return f'<a href="{where}">{match[0]}</a>' if where else match[0]

    def _terms(self, said: str) -> str:
        return self._words.sub(self._term, said) if self._words else said

    def _term(self, match: re.Match) -> str:
        where = self._links.words[match[0].lower()]
        if where in self._linked:
            return match[0]
        self._linked.add(where)
        return f'<a class="term" href="{where}">{match[0]}</a>'


def page_address(address: str) -> str:
    """Return the target of a lesson's link in the book: the page of another lesson instead of its file."""
    return re.sub(r"^(?:\.\./)*(?:exercises/)?(\w+)\.md(?=#|$)", lambda match: f"{match[1]}.html", address)


def _alignment(cell: Token) -> str:
    """Align a column of numbers to the right with a class, because the page's policy forbids inline styles."""
    return ' class="right"' if "right" in str(cell.attrs.get("style", "")) else ""


def _in_link(tokens: list[Token], at: int) -> bool:
    return sum((token.type == "link_open") - (token.type == "link_close") for token in tokens[:at]) > 0


def _raw_html(markup: str) -> Token:
    return Token("text", "", 0, content=markup, meta={"html": True})
