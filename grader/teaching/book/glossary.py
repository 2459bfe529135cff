"""The words of the course and the letters of its shapes, from glossary.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from grader.teaching.book.lessons import slug

PAGE = "glossary.html"


@dataclass(frozen=True)
class Word:
    name: str
    also: tuple[str, ...]
    chapter: str
    says: str

    @property
    def address(self) -> str:
        return f"{PAGE}#{slug(self.name)}"


@cache
def _read() -> dict:
    return tomllib.loads(Path(__file__).with_name("glossary.toml").read_text(encoding="utf-8"))


def words() -> list[Word]:
    """In the order of the alphabet."""
    found = [Word(entry["name"], tuple(entry.get("also", ())), entry["chapter"], entry["says"]) for entry in _read()["word"]]
    return sorted(found, key=lambda word: word.name.lower())


def sizes() -> dict[str, str]:
    """What each letter of a shape stands for."""
    return _read()["sizes"]


def addresses() -> dict[str, str]:
    """Every form of every word, in small letters, with where it is explained."""
    return {form.lower(): word.address for word in words() for form in (word.name, *word.also)}
