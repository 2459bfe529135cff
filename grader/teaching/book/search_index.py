"""The index of the search: an entry for each part of a page, each exercise and each word, in a script that a page loads on demand."""

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


def write_script(entries: list[Entry]) -> str:
    """Write the index as a script and not as JSON: a page that was opened from a folder may load a script only."""
    lines = ",\n".join(json.dumps([entry.title, entry.where, entry.address, entry.text], ensure_ascii=False) for entry in entries)
    return f"window.headwayIndex = [\n{lines}\n];\n".replace("\u2028", " ").replace("\u2029", " ")
