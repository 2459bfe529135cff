"""What the pages have from the course's data: the glossary, the letters of shapes, chapter 0, the walks."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from grader.course.source import read_source
from grader.course.syllabus import EXERCISES, Exercise
from grader.teaching.book.lessons import make_slug

# ---- glossary.toml


@dataclass(frozen=True)
class Word:
    name: str
    chapter: str
    says: str
    also: list[str] = field(default_factory=list)
    near: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"glossary.html#{make_slug(self.name)}"

    @property
    def forms(self) -> list[str]:
        return [form.lower() for form in (self.name, *self.also)]


@cache
def _read_glossary() -> dict:
    return tomllib.loads(Path(__file__).with_name("glossary.toml").read_text(encoding="utf-8"))


@cache
def load_words() -> list[Word]:
    return sorted((Word(**entry) for entry in _read_glossary()["word"]), key=lambda word: word.name.lower())


def load_sizes() -> dict[str, str]:
    return _read_glossary()["sizes"]


def word_addresses(until: int) -> dict[str, str]:
    """Return the address of the explanation for every form of every word of the chapters up to number `until`."""
    known = [word for word in load_words() if int(word.chapter.removeprefix("ch")) <= until]
    return {form: word.address for word in known for form in word.forms}


def words_near() -> dict[str, list[str]]:
    """Return for each form of a word with other meanings the words that occur beside its meaning here."""
    return {form: word.near for word in load_words() if word.near for form in word.forms}


# ---- chapter 0


def read_introduction() -> tuple[str, str]:
    """Return chapter 0's diagram and what a reader needs, as Markdown; empty where the lesson is missing."""
    path = EXERCISES / "ch00_big_picture.md"
    text = read_source(path) if path.is_file() else ""
    diagram = re.search(r"^!\[[^\]]*\]\(pictures/ch00_\w+\.svg\)$", text, re.MULTILINE)
    needs = re.search(r"^## What you need\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return diagram[0] if diagram else "", needs[1].strip() if needs else ""


# ---- walks


@dataclass(frozen=True)
class Walk:
    name: str
    title: str
    needs: tuple[Exercise, ...]  # in the order of the course

    @property
    def chapter(self) -> str:
        """The last chapter that it needs: after it, the whole walk can run on the reader's code."""
        return self.needs[-1].chapter


def find_walks(exercises: Mapping[str, Exercise]) -> list[Walk]:
    """Return the walks whose exercises are all available: a handout may leave some out."""
    from grader.teaching.walks import list_walks, load  # takes torch, which a book that is there already can do without

    found = []
    for name, title in list_walks().items():
        try:
            needed = set(load(name).REQUIRED_EXERCISES)
        except ModuleNotFoundError:  # of a chapter that is not in this handout
            continue
        if needed <= exercises.keys():
            found.append(Walk(name, title, tuple(exercises[each] for each in exercises if each in needed)))
    return found
