"""Reads the chapter and the owner from the names of files and folders, and makes safe names for the files that the
grader writes.

One rule says whose a submission is: its owner is the name of its folder, archive or file at the top level of the class,
without what a learning platform, the chapter or the format adds to it. `parse_owner` has all these additions. Two
sources name the owner instead, where they exist: the column `name` of a table, and Gradescope's metadata (roster.py).
With a course, `find_owner` in term/deliveries.py then finds the person of the roster by this name or id.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache

from grader.course.syllabus import load_syllabus

SKIPPED = frozenset({"__macosx", "__pycache__", "node_modules", "venv", "env", "site-packages"})
KIT_FOLDERS = frozenset({"solutions", "grader", "tests"})  # next to an `exercises` folder they belong to the kit
MAX_NAME_LENGTH = 255  # characters, the most that file systems allow; also the most levels of folders
MAX_SAFE_BYTES = 120  # with a suffix and an ending, a safe name is well below 255 bytes
_PACKAGING = frozenset({"__init__", "__main__", "conftest", "setup"})
_RESERVED = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9]|lpt[0-9])", re.IGNORECASE)
_FLAGS = re.ASCII | re.IGNORECASE | re.DOTALL
_COPY = r"(?: *\((?P<first>\d{1,3})\)|-(?P<second>\d{1,3}))?"  # a browser's "hw (1).py", and Canvas' "hw-1.py"
_CODE = re.compile(rf"(?P<stem>.+?){_COPY}(?P<ending>\.ipynb|\.py|\.py\.txt)", _FLAGS)  # some mail programs append .txt
_ARCHIVE = re.compile(r"(?P<name>.+?)\.(?:(?:tar\.)?(?:gz|bz2|xz|zst)|tgz|tbz2?|txz|tar|zip|7z|rar)", _FLAGS)
_MOODLE = re.compile(r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)_?(?P<rest>.*)", _FLAGS)
_CANVAS = re.compile(r"(?P<name>.+?)(?P<late>_LATE)?_(?P<id>\d+)_\d+_(?P<rest>.+)", re.ASCII | re.DOTALL)


@dataclass(frozen=True)
class CodeName:
    """What the name of a Python file or a notebook says."""

    module: str = ""  # the chapter; "" if it says none
    person: str = ""  # beside the chapter, as in NAME_ch03_attention.py
    copy: int = 0  # the number in ch03_attention (1).py or ch03_attention-1.py
    is_notebook: bool = False


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
    return len(path) > MAX_NAME_LENGTH or any(len(part) > MAX_NAME_LENGTH for part in path)


def strip_copy_number(name: str) -> str:
    """ "hw.py" for "hw (1).py" and "hw-1.py"; any other name unchanged."""
    found = _CODE.fullmatch(name) if len(name) <= MAX_NAME_LENGTH else None
    return f"{found['stem']}{found['ending']}" if found else name


def parse_code_name(name: str) -> CodeName | None:
    """What the name says; None for other files, tests, and files that only make a package."""
    found = _CODE.fullmatch(name) if len(name) <= MAX_NAME_LENGTH else None
    if not found or found["stem"].lower().startswith("test_") or found["stem"].lower() in _PACKAGING:
        return None
    copy, is_notebook = int(found["first"] or found["second"] or 0), found["ending"].lower() == ".ipynb"
    if chapter := _chapter_pattern().fullmatch(found["stem"]):
        person = (chapter["before"] or chapter["after"] or "").strip(" _-")
        return CodeName(chapter["module"].lower(), person, copy, is_notebook)
    return CodeName(copy=copy, is_notebook=is_notebook)


def parse_owner(name: str, is_folder: bool) -> Owner | None:
    """The owner of an entry at the top level of a class; None for a file without an owner (a README, a table).

    The name of a chapter file without a person, as in ch03_attention.py, gives an owner without a name.
    """
    if len(name) > MAX_NAME_LENGTH:
        return Owner(name, rest=name)
    if moodle := _MOODLE.fullmatch(name):  # NAME_123_assignsubmission_file_REST
        return Owner(moodle["name"], moodle["id"], moodle["rest"], platform="moodle")
    if is_folder:
        return Owner(name)
    if canvas := _CANVAS.fullmatch(name):  # NAME_123_4567_REST or NAME_LATE_123_4567_REST
        return Owner(canvas["name"], canvas["id"], canvas["rest"], bool(canvas["late"]), "canvas")
    code = parse_code_name(name)
    if code and code.module:  # NAME_ch03_attention.py
        copy, ending = f"-{code.copy}" if code.copy else "", ".ipynb" if code.is_notebook else ".py"
        return Owner(code.person, rest=f"{code.module}{copy}{ending}")
    if stem := strip_archive_suffix(name):  # NAME.zip
        return Owner(stem, rest=name)
    return Owner(name.rpartition(".")[0], rest=name) if name.lower().endswith((".py", ".ipynb")) else None


def strip_archive_suffix(name: str) -> str:
    """ "alpha" for "alpha.tar.gz"; "" if the name does not end like an archive's."""
    found = _ARCHIVE.fullmatch(name) if len(name) <= MAX_NAME_LENGTH else None
    return found["name"] if found else ""


def split_member_path(name: str) -> tuple[str, ...]:
    """The folders and file of a member's name, with either kind of slash; it starts with ".." if it leads out."""
    name = name.replace("\\", "/")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return ("..", *parts) if name.startswith("/") or re.match(r"[A-Za-z]:(/|$)", name) else tuple(parts)


def is_skipped(part: str) -> bool:
    """Is this a hidden file or folder, or one that tools create?"""
    return part.startswith(".") or part.casefold() in SKIPPED


def is_wanted(path: tuple[str, ...]) -> bool:
    """Should this path be read? Paths that lead out of their archive are included, so that they are reported.

    The path is empty for the entry "./" that `tar` writes for the whole folder.
    """
    return ".." in path or (bool(path) and not any(is_skipped(part) for part in path))


def replace_undecodable(name: str) -> str:
    """The name with a replacement character for each byte that is not UTF-8, so that it can be written anywhere."""
    return re.sub("[\ud800-\udfff]", "\ufffd", name)


def make_safe_name(name: str, taken: set[str]) -> str:
    """A file name for this person that is valid on every system.

    It differs from all names in `taken` also without case and accents, and is added to them.
    """
    text = unicodedata.normalize("NFKC", replace_undecodable(name)).replace("\ufffd", "_")
    text = "".join(c if unicodedata.category(c)[0] in "LMN" or c in "-." else "_" for c in text)
    text = re.sub(r"_+", "_", re.sub(r"\.{2,}", ".", text)).strip("._-")
    text = text.encode()[:MAX_SAFE_BYTES].decode(errors="ignore").rstrip("._-") or "submission"
    stem, dot, rest = text.partition(".")
    if _RESERVED.fullmatch(stem):  # a device name on Windows, with any extension
        text = f"{stem}_{dot}{rest}"
    candidate, number = text, 2
    while _fold(candidate) in taken:
        candidate = f"{text}-{number}"
        number += 1
    taken.add(_fold(candidate))
    return candidate


def _fold(text: str) -> str:
    return unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())


@cache
def _chapter_pattern() -> re.Pattern[str]:
    """A chapter's name, alone or as a separate word after or before a person's name."""
    names = "|".join(sorted((chapter.name for chapter in load_syllabus().chapters), key=len, reverse=True))
    return re.compile(rf"(?:(?P<before>.+?)[ _-]+)?(?P<module>{names})(?:[ _-]+(?P<after>.+))?", _FLAGS)
