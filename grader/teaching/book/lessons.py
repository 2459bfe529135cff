"""Convert a lesson from Markdown to an HTML page: anchors of headings, cards of exercises, tables.

`make_page` returns the page and its parts. The caller makes the card of each exercise, which is put around the
paragraph about it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from grader.teaching.book.rules import Links, Rules
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

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
