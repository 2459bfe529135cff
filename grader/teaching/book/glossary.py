"""The words of the course and the letters of its shapes, from glossary.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from grader.teaching.book.lessons import make_slug

PAGE = "glossary.html"


@dataclass(frozen=True)
class Word:
    name: str
    also: tuple[str, ...]
    chapter: str
    says: str
    near: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        return f"{PAGE}#{make_slug(self.name)}"


@cache
def _read() -> dict:
    return tomllib.loads(Path(__file__).with_name("glossary.toml").read_text(encoding="utf-8"))


def load_words() -> list[Word]:
    """Return all words in alphabetical order."""
    found = [Word(entry["name"], tuple(entry.get("also", ())), entry["chapter"], entry["says"], tuple(entry.get("near", ()))) for entry in _read()["word"]]
    return sorted(found, key=lambda word: word.name.lower())


def load_sizes() -> dict[str, str]:
    """Return the meaning of each letter of a shape."""
    return _read()["sizes"]


def word_addresses(until: int) -> dict[str, str]:
    """Return the address of the explanation for every form, in lower case, of every word of the chapters up to number `until`."""
    return {form: word.address for word in load_words() if int(word.chapter.removeprefix("ch")) <= until for form in _forms(word)}


def words_near() -> dict[str, tuple[str, ...]]:
    """Return for each form of a word with other meanings the words that occur beside its meaning here."""
    return {form: word.near for word in load_words() if word.near for form in _forms(word)}


def _forms(word: Word) -> list[str]:
    return [form.lower() for form in (word.name, *word.also)]
