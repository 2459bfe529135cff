"""What the names of files and folders say: which chapter, whose it is; and names that are safe for files of our own."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache

from grader.course.syllabus import load_syllabus

ARCHIVE_SUFFIXES = (".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tgz", ".tbz2", ".tbz", ".txz", ".zip", ".tar", ".gz", ".bz2", ".xz", ".zst", ".7z", ".rar")
SKIPPED = frozenset({"__macosx", "__pycache__", "node_modules", "venv", "env", "site-packages"})
KIT_FOLDERS = frozenset({"solutions", "grader", "tests"})  # beside an `exercises` folder they are the kit's own
LONGEST_NAME = 255  # characters of a file's or folder's name (file systems allow no more), and folders below each other
LONGEST_SAFE = 120  # bytes: with a suffix and an extension well below the 255 that file systems allow

_RESERVED = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9]|lpt[0-9])", re.IGNORECASE)


@dataclass(frozen=True)
class ChapterName:
    """A file that is called like a chapter."""

    module: str
    person: str = ""  # what else stands in its name: NAME_ch03_attention.py
    copy: int = 0  # ch03_attention (1).py, ch03_attention-1.py


@dataclass(frozen=True)
class Owner:
    """Whose a file or folder at the top of a class is, and what it is called without that."""

    name: str
    id: str = ""  # the number a learning platform puts into the name, which tells two people of one name apart
    rest: str = ""


def is_too_long(path: tuple[str, ...]) -> bool:
    """Is a name in this path longer than a file system allows, or does the path have more folders than anybody makes?"""
    return len(path) > LONGEST_NAME or any(len(part) > LONGEST_NAME for part in path)


def parse_chapter_name(name: str) -> ChapterName | None:
    """The chapter that a file of this name is, or None."""
    stem = name[:-3]
    small = stem.translate(_ASCII_LOWER)  # letter by letter, so that places stay the same
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
    """Whose a top entry of a class is; None for a file that is nobody's (a README, a table)."""
    if len(name) > LONGEST_NAME:
        return Owner(name, rest=name)
    if moodle := _parse_moodle(name):
        return moodle
    if is_folder:
        return Owner(name)
    if canvas := _parse_canvas(name):
        return canvas
    chapter = parse_chapter_name(name)
    if chapter:
        return Owner(chapter.person, rest=f"{chapter.module}.py" if not chapter.copy else f"{chapter.module}-{chapter.copy}.py")
    stem = strip_archive_suffix(name)
    if stem:
        return Owner(stem, rest=name)
    if name.lower().endswith((".py", ".ipynb")):
        return Owner(name.rpartition(".")[0], rest=name)
    return None


def strip_archive_suffix(name: str) -> str:
    """"alpha" for "alpha.tar.gz"; "" where the name is not an archive's."""
    for suffix in ARCHIVE_SUFFIXES:
        if name.lower().endswith(suffix) and len(name) > len(suffix):
            return name[: -len(suffix)]
    return ""


def split_member_path(name: str) -> tuple[str, ...]:
    """The folders and file of a member's name, whichever slashes it uses; ".." stands for whatever would leave the archive."""
    name = name.replace("\\", "/")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or re.match(r"[A-Za-z]:(/|$)", name) or "\0" in name:
        return ("..", *parts)
    return tuple(parts)


def is_skipped(part: str) -> bool:
    """A hidden folder or file, or one that tools make and nobody writes by hand."""
    return part.startswith(".") or part.casefold() in SKIPPED


def is_wanted(path: tuple[str, ...]) -> bool:
    """Nothing on the way to it is skipped; what would leave its archive is never passed over in silence."""
    return ".." in path or not any(is_skipped(part) for part in path)


def replace_undecodable(name: str) -> str:
    """A name as text that can be written anywhere: bytes that are not UTF-8 become a replacement character."""
    return name.encode("utf-8", "surrogateescape" if _is_undecoded(name) else "replace").decode("utf-8", "replace")


def make_safe_name(name: str, taken: set[str]) -> str:
    """A file name for this person on every system, unlike those in `taken` (to which it is added) even where case and accents do not count."""
    text = unicodedata.normalize("NFKC", replace_undecodable(name)).replace("\ufffd", "_")
    text = "".join(c if unicodedata.category(c)[0] in "LMN" or c in "-." else "_" for c in text)
    text = re.sub(r"_+", "_", re.sub(r"\.{2,}", ".", text)).strip("._-")
    text = _truncate(text, LONGEST_SAFE) or "submission"
    stem, dot, rest = text.partition(".")
    if _RESERVED.fullmatch(stem):  # to Windows a device, whatever stands behind a dot
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
    return Owner(person, number, rest[len(kind) :].removeprefix("_")) if kind and person and number.isdecimal() else None


def _parse_canvas(name: str) -> Owner | None:
    """NAME_123_4567_REST or NAME_LATE_123_4567_REST; the first two numbers that follow each other count."""
    parts = name.split("_")
    for place in range(1, len(parts) - 2):
        if parts[place].isdecimal() and parts[place + 1].isdecimal():
            late = place > 1 and parts[place - 1] == "LATE"
            person, rest = "_".join(parts[: place - late]), "_".join(parts[place + 2 :])
            if person and rest:
                return Owner(person, parts[place], rest)
    return None


def _find_chapter(stem: str, module: str) -> int:
    """Where a chapter's name is in a file's name, as a word of its own: behind a person's name, or at the start; -1 where it is not."""
    places, place = [], stem.find(module)
    while place >= 0:
        end = place + len(module)
        if (place == 0 or (place > 1 and stem[place - 1] in " _-")) and (end == len(stem) or stem[end] in " _-("):
            places.append(place)
        place = stem.find(module, place + 1)
    return next((place for place in places if place), places[0] if places else -1)


def _strip_copy_number(after: str) -> tuple[str, int]:
    """The number of a copy, as in a browser's "ch03_attention (1).py" or Canvas' "ch03_attention-1.py", taken off; 0 where there is none."""
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
