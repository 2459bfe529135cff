"""Reads the chapter and the owner from the names of files and folders, and makes safe names for the files that the grader writes."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache

from grader.course.syllabus import load_syllabus

ARCHIVE_SUFFIXES = (".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tgz", ".tbz2", ".tbz", ".txz", ".zip", ".tar", ".gz", ".bz2", ".xz", ".zst", ".7z", ".rar")
SKIPPED = frozenset({"__macosx", "__pycache__", "node_modules", "venv", "env", "site-packages"})
KIT_FOLDERS = frozenset({"solutions", "grader", "tests"})  # next to an `exercises` folder they belong to the kit
LONGEST_NAME = 255  # characters of a file or folder name, the most that file systems allow; also the most levels of folders
LONGEST_SAFE = 120  # bytes: with a suffix and an extension this is well below the 255 that file systems allow

_PACKAGING = frozenset({"__init__", "__main__", "conftest", "setup"})
_RESERVED = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9]|lpt[0-9])", re.IGNORECASE)


@dataclass(frozen=True)
class ChapterName:
    """What the name of a chapter file says."""

    module: str
    person: str = ""  # the rest of the name, as in NAME_ch03_attention.py
    copy: int = 0  # the number in ch03_attention (1).py or ch03_attention-1.py


@dataclass(frozen=True)
class Owner:
    """The owner of a file or folder at the top level of a class, and the rest of its name."""

    name: str
    id: str = ""  # a learning platform's number, which distinguishes two people with the same name
    rest: str = ""
    late: bool = False  # marked as late by the learning platform
    platform: str = ""  # "canvas" or "moodle", whose number it is


def is_too_long(path: tuple[str, ...]) -> bool:
    """Is a name in this path longer than a file system allows, or is the path nested too deeply?"""
    return len(path) > LONGEST_NAME or any(len(part) > LONGEST_NAME for part in path)


@dataclass(frozen=True)
class CodeName:
    """The name of a notebook or of a Python file, which need not say a chapter."""

    stem: str
    number: int = 0  # of a copy, as in "attention (2).py"


def parse_code_name(name: str) -> CodeName | None:
    """The parts of the name of a notebook or Python file; None for other files, tests, and files that only make a package."""
    stem, _, ending = _drop_text_ending(name).rpartition(".")
    if len(name) > LONGEST_NAME or ending.lower() not in ("py", "ipynb") or not stem or stem.lower().startswith("test_") or stem.lower() in _PACKAGING:
        return None
    return CodeName(*_strip_copy_number(stem))


def parse_notebook_name(name: str) -> ChapterName | None:
    """The chapter in the name of a notebook, as in NAME_ch03_attention.ipynb, or None."""
    return parse_chapter_name(f"{name[:-6]}.py") if name.lower().endswith(".ipynb") else None


def _drop_text_ending(name: str) -> str:
    """"ch03_attention.py" for "ch03_attention.py.txt", as some mail programs and editors rename it."""
    return name[:-4] if name.lower().endswith(".py.txt") else name


def parse_chapter_name(name: str) -> ChapterName | None:
    """The chapter in this file name, or None."""
    name = _drop_text_ending(name)
    stem = name[:-3]
    small = stem.translate(_ASCII_LOWER)  # ASCII only, so that positions stay the same
    if len(name) > LONGEST_NAME or name[-3:].translate(_ASCII_LOWER) != ".py":
        return None
    found = [(place, module) for module in _chapter_names() if (place := _find_chapter(small, module)) >= 0]
    if not found:
        return None
    place, module = min(found, key=lambda one: (one[0] == 0, one[0]))
    before, after = stem[:place].strip(" _-"), stem[place + len(module) :]
    after, number = _strip_copy_number(after)
    after = after.strip(" _-")
    return None if before.lower() == "test" else ChapterName(module, before or after, number)


def parse_owner(name: str, is_folder: bool) -> Owner | None:
    """The owner of an entry at the top level of a class; None for a file without an owner (a README, a table)."""
    if len(name) > LONGEST_NAME:
        return Owner(name, rest=name)
    if moodle := _parse_moodle(name):
        return moodle
    if is_folder:
        return Owner(name)
    if canvas := _parse_canvas(name):
        return canvas
    if chapter := parse_notebook_name(name) or parse_chapter_name(name):
        number, ending = f"-{chapter.copy}" if chapter.copy else "", ".ipynb" if name.lower().endswith(".ipynb") else ".py"
        return Owner(chapter.person, rest=f"{chapter.module}{number}{ending}")
    stem = strip_archive_suffix(name)
    if stem:
        return Owner(stem, rest=name)
    if name.lower().endswith((".py", ".ipynb")):
        return Owner(name.rpartition(".")[0], rest=name)
    return None


def strip_archive_suffix(name: str) -> str:
    """"alpha" for "alpha.tar.gz"; "" if the name does not end like an archive's."""
    for suffix in ARCHIVE_SUFFIXES:
        if name.lower().endswith(suffix) and len(name) > len(suffix):
            return name[: -len(suffix)]
    return ""


def split_member_path(name: str) -> tuple[str, ...]:
    """The folders and file of a member's name, with either kind of slash; it starts with ".." if the path leads out of the archive."""
    name = name.replace("\\", "/")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or re.match(r"[A-Za-z]:(/|$)", name) or "\0" in name:
        return ("..", *parts)
    return tuple(parts)


def is_skipped(part: str) -> bool:
    """Is this a hidden file or folder, or one that tools create?"""
    return part.startswith(".") or part.casefold() in SKIPPED


def is_wanted(path: tuple[str, ...]) -> bool:
    """Should this path be read? Paths that lead out of their archive are included, so that they are reported."""
    return ".." in path or not any(is_skipped(part) for part in path)


def replace_undecodable(name: str) -> str:
    """The name with a replacement character for each byte that is not UTF-8, so that it can be written anywhere."""
    return name.encode("utf-8", "surrogateescape" if _is_undecoded(name) else "replace").decode("utf-8", "replace")


def make_safe_name(name: str, taken: set[str]) -> str:
    """A file name for this person that is valid on every system. Adds it to `taken`, whose names differ from it also without case and accents."""
    text = unicodedata.normalize("NFKC", replace_undecodable(name)).replace("\ufffd", "_")
    text = "".join(c if unicodedata.category(c)[0] in "LMN" or c in "-." else "_" for c in text)
    text = re.sub(r"_+", "_", re.sub(r"\.{2,}", ".", text)).strip("._-")
    text = _truncate(text, LONGEST_SAFE) or "submission"
    stem, dot, rest = text.partition(".")
    if _RESERVED.fullmatch(stem):  # a device name on Windows, with any extension
        text = f"{stem}_{dot}{rest}"
    candidate, number = text, 2
    while _fold(candidate) in taken:
        candidate = f"{text}-{number}"
        number += 1
    taken.add(_fold(candidate))
    return candidate


def _parse_moodle(name: str) -> Owner | None:
    """NAME_123_assignsubmission_file_REST."""
    person, marker, rest = name.partition("_assignsubmission_")
    kind = next((kind for kind in ("file", "onlinetext") if rest.startswith(kind)), "")
    person, _, number = person.rpartition("_")
    return Owner(person, number, rest[len(kind) :].removeprefix("_"), platform="moodle") if kind and person and number.isdecimal() else None


def _parse_canvas(name: str) -> Owner | None:
    """NAME_123_4567_REST or NAME_LATE_123_4567_REST; the first two consecutive numbers count."""
    parts = name.split("_")
    for place in range(1, len(parts) - 2):
        if parts[place].isdecimal() and parts[place + 1].isdecimal():
            late = place > 1 and parts[place - 1] == "LATE"
            person, rest = "_".join(parts[: place - late]), "_".join(parts[place + 2 :])
            if person and rest:
                return Owner(person, parts[place], rest, late, "canvas")
    return None


def _find_chapter(stem: str, module: str) -> int:
    """The position of a chapter's name in a file name, as a separate word: after a person's name, or at the start; -1 if it is absent."""
    places, place = [], stem.find(module)
    while place >= 0:
        end = place + len(module)
        if (place == 0 or (place > 1 and stem[place - 1] in " _-")) and (end == len(stem) or stem[end] in " _-("):
            places.append(place)
        place = stem.find(module, place + 1)
    return next((place for place in places if place), places[0] if places else -1)


def _strip_copy_number(after: str) -> tuple[str, int]:
    """Split off the number of a copy, as in a browser's "ch03_attention (1).py" or Canvas' "ch03_attention-1.py"; 0 for a name without such a number."""
    if after.endswith(")"):
        rest, _, number = after[:-1].rpartition("(")
        rest = rest.rstrip(" _-")
    else:
        rest, _, number = after.rpartition("-")
    return (rest, int(number)) if number.isascii() and number.isdecimal() and len(number) <= 3 else (after, 0)


def _fold(text: str) -> str:
    return unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())


def _truncate(text: str, longest: int) -> str:
    return text.encode()[:longest].decode(errors="ignore").rstrip("._-")


def _is_undecoded(name: str) -> bool:
    return all(not "\ud800" <= c <= "\udfff" or "\udc80" <= c <= "\udcff" for c in name)


@cache
def _chapter_names() -> tuple[str, ...]:
    return tuple(chapter.name for chapter in load_syllabus().chapters)


_ASCII_LOWER = str.maketrans({letter: letter.lower() for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"})
