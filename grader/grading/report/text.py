"""Other people's text, made harmless for a page: nothing in it can command, hide or turn what stands around it."""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal

LONGEST = 4000  # characters of one piece of text
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])?")
_JOINERS = "\u200c\u200d"  # Persian and emoji need them; they turn nothing around


def shown(text: str) -> str:
    """The text without terminal escapes, and with every other invisible command spelt out, like ⟨U+202E⟩.

    Those are control characters, marks that reverse the direction of writing, halves of surrogate pairs, and characters nobody has assigned.
    """
    text = text if len(text) <= LONGEST else text[:LONGEST] + " …"
    if text.isprintable():
        return text
    text = _ESCAPES.sub("", text).replace("\r\n", "\n")
    return "".join(character if _plain(character) else f"⟨U+{ord(character):04X}⟩" for character in text)


def _plain(character: str) -> bool:
    return character.isprintable() or character in "\n\t" or character in _JOINERS or unicodedata.category(character) == "Zs"


def number(value: Decimal) -> str:
    """12.50 as 12.5 and 12.00 as 12."""
    text = f"{value:.2f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def count(many: int, one: str, more: str = "") -> str:
    """1 person, 2 people; 1 test, 2 tests."""
    return f"{many:,} {one if many == 1 else more or one + 's'}"
