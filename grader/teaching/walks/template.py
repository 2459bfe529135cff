"""The text of a walk, exercises/walks/chNN_name.md: Markdown with places for the numbers of a run.

# A title               says what the walk shows
## A heading | a note   a numbered step; the note is printed at the right
a paragraph             is wrapped; {loss:.2f}, {losses[-1]:.2f} and {model.size} are numbers, as in str.format
{noise_table}           alone in a paragraph: what walk_page.py's functions made, such as a table
[if same] a paragraph   is printed if `same` is true; [if not same] if it is false
    an indented line    is not wrapped; between ** it is bold
## Next                 (the last heading) what to try next
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from grader.course.source import read_source
from grader.teaching.walks.walk_page import WalkPage, line

_CONDITION = re.compile(r"\[if (not )?(\w+)\] ")


def read_template(path: Path) -> SimpleNamespace:
    """Return the title, the paragraphs of the introduction, each step as (heading, paragraphs), and the next step."""
    head, *steps = re.split(r"^## ", read_source(path), flags=re.MULTILINE)
    title, *introduction = _paragraphs(head)
    *parts, (_, next_step) = ((heading, paragraphs) for heading, *paragraphs in map(_paragraphs, steps))
    texts = {"title": title.removeprefix("# "), "introduction": introduction, "next_step": " ".join(next_step)}
    return SimpleNamespace(steps=parts, **texts)


def _paragraphs(text: str) -> list[str]:
    """Return the paragraphs; each is one line, but indented lines stay."""
    found = [paragraph for paragraph in re.split(r"\n\s*\n", text.rstrip()) if paragraph]
    return [paragraph if paragraph.startswith(" ") else " ".join(paragraph.split("\n")) for paragraph in found]


def print_template(page: WalkPage, template: SimpleNamespace, numbers: Mapping[str, Any]) -> None:
    for paragraph in template.introduction:
        _print(page, paragraph, numbers)
    for heading, paragraphs in template.steps:
        page.step(*fill(heading, numbers).split(" | "))
        for paragraph in paragraphs:
            _print(page, paragraph, numbers)


def _print(page: WalkPage, paragraph: str, numbers: Mapping[str, Any]) -> None:
    if condition := _CONDITION.match(paragraph):
        if bool(numbers[condition[2]]) == bool(condition[1]):
            return
        paragraph = paragraph[condition.end() :]
    field = re.fullmatch(r"\{([\w\[\]]+)\}", paragraph)
    if field and isinstance(block := _Formatter().get_field(field[1], (), numbers)[0], list):
        page.show(block)
    elif paragraph.startswith(" "):
        for text in fill(paragraph, numbers).split("\n"):
            bare = text.strip().removeprefix("**").removesuffix("**")
            page.show(line(bare, style="bold" if bare != text.strip() else ""))
    else:
        page.say(fill(paragraph, numbers))


def fill(text: str, numbers: Mapping[str, Any]) -> str:
    """Return the text with the numbers in their places."""
    return _Formatter().vformat(text, (), numbers)


class _Formatter(string.Formatter):
    """str.format, but `{losses[-1]}` is the last loss."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        name, *keys = re.findall(r"[^.\[\]]+", field_name)
        value = kwargs[name]
        for key in keys:
            if re.fullmatch(r"-?\d+", key):
                value = value[int(key)]
            else:
                value = value[key] if isinstance(value, Mapping) else getattr(value, key)
        return value, name
