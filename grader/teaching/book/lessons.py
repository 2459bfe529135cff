"""Convert a lesson from Markdown to an HTML page: headings with anchors, formulas, links from words to their explanations.

`make_page` returns the page and its parts. The caller makes the card of each exercise, which is put around the paragraph about it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from grader.teaching.book.rules import Links, Rules
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token


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
    parts: list[Part]  # the first is the text above the first heading
    outline: list[Heading] = field(default_factory=list)  # headings and exercises, in order


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
    rules = Rules(links)
    for name in (
        "text", "code_inline", "code_block", "fence", "heading_open", "table_open", "table_close", "th_open", "td_open", "image", "link_open",
        "html_block", "html_inline",
    ):  # fmt: skip
        renderer.rules[name] = getattr(rules, name)
    out, start, parts = [], 0, _split_parts(tokens, title)
    outline: list[Heading] = []
    for at, token in enumerate(tokens):
        if token.type == "heading_open" and token.tag in ("h2", "h3"):
            outline.append(Heading(_plain(tokens[at + 1].content), token.meta["anchor"], int(token.tag[1])))
        if token.type == "paragraph_open" and (exercise := _find_exercise(tokens[at + 1])) and (made := card(exercise)) is not None:
            _remove_name(tokens[at + 1])
            paragraph = renderer.render(tokens[at : at + 3], reader.options, {})
            out += [renderer.render(tokens[start:at], reader.options, {}), made.before, paragraph, made.after]
            outline.append(Heading(exercise, exercise, 3, exercise=True))
            start = at + 3
    out.append(renderer.render(tokens[start:], reader.options, {}))
    return Page(_plain(title), "".join(out), parts, outline)


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
