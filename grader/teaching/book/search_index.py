"""What the search looks through: a line for each part of a page, each exercise and each word, as a script that a page loads when asked."""

from __future__ import annotations

import json
from dataclasses import dataclass

NAME = "search-index.js"


@dataclass(frozen=True)
class Entry:
    title: str
    where: str  # what it belongs to: "3 Attention"
    address: str
    text: str


def script(entries: list[Entry]) -> str:
    """A script and no JSON, because a page that was opened from a folder may load the one and not the other."""
    lines = ",\n".join(json.dumps([entry.title, entry.where, entry.address, entry.text], ensure_ascii=False) for entry in entries)
    return f"window.headwayIndex = [\n{lines}\n];\n".replace("\u2028", " ").replace("\u2029", " ")
