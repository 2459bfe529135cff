"""Tables that can also be read on a phone: each gets the classes that its columns ask for, and its cells the heading of their column.

A table with long texts beside each other is shown as one block per row there ("stacked"); a table of numbers scrolls.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from grader.teaching.book.code import SHORT
from markdown_it.token import Token

LONG = 30  # characters; a cell with more text is not made narrow on a phone
MANY, WIDE = 7, 90  # columns, and characters in a row with the space between columns; a table with more of both has its columns closer together


def open_table(tokens: Sequence[Token], at: int) -> str:
    """Return the beginning of the table at `at`, after noting in its cells what `open_cell` needs."""
    headings, rows = _read(tokens, at)
    long = {column for row in rows for column, cell in enumerate(row) if len(cell.content) > LONG}
    stacked = len(headings) > 2 and max(long, default=0) > 0
    for row in rows:
        for column, cell in enumerate(row):
            cell.meta["heading"] = headings[column] if stacked and column else ""
    code = [child.content for row in rows for cell in row for child in cell.children or [] if child.type == "code_inline"]
    longest = [max(map(len, heading.split()), default=0) for heading in headings]  # headings may wrap
    widths = [max(lengths) for lengths in zip(longest, *([len(cell.content) for cell in row] for row in rows))]
    wide = not stacked and len(headings) >= MANY and sum(widths) + 3 * len(widths) > WIDE
    short = bool(code) and max(map(len, code)) <= SHORT
    names = ["stacked"] * stacked + ["pairs"] * (len(headings) == 2) + ["dense"] * wide + ["short-code"] * short
    names += ["headless"] * (not any(headings))
    return f'<div class="scroll"><table{_classes(names)}>\n'


def open_cell(tokens: Sequence[Token], at: int) -> str:
    """Return the beginning of a cell; an empty corner becomes a normal cell, so that a screen reader does not announce it as a heading."""
    cell, inside = tokens[at], tokens[at + 1]
    names = ["right"] * ("right" in str(cell.attrs.get("style", "")))  # a class, because the page's policy forbids inline styles
    if cell.tag == "th":
        return f'<th scope="col"{_classes(names)}>' if inside.content else f"<td{_classes(names)}>"
    heading = inside.meta.get("heading")
    return f"<td{_classes(['long'] * (len(inside.content) > LONG) + names)}" + (f' data-is="{escape(heading)}">' if heading else ">")


def _read(tokens: Sequence[Token], at: int) -> tuple[list[str], list[list[Token]]]:
    """Return the headings as text, and the contents of the cells by row."""
    headings: list[str] = []
    rows: list[list[Token]] = []
    for place in range(at, len(tokens)):
        token = tokens[place]
        if token.type == "table_close":
            break
        if token.type == "th_open":
            headings.append("".join(child.content for child in tokens[place + 1].children or []))
        elif token.type == "tr_open" and headings:
            rows.append([])
        elif token.type == "td_open":
            rows[-1].append(tokens[place + 1])
    return headings, rows


def _classes(names: Sequence[str]) -> str:
    return f' class="{" ".join(names)}"' if names else ""
