"""What the names of files and folders say: which chapter, whose it is; and names that are safe for files of our own."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache

from ..syllabus import load_syllabus

ARCHIVE_SUFFIXES = (".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tgz", ".tbz2", ".tbz", ".txz", ".zip", ".tar", ".gz", ".bz2", ".xz", ".zst", ".7z", ".rar")
SKIPPED = frozenset({"__macosx", "__pycache__", "node_modules", "venv", "env", "site-packages"})
KIT_FOLDERS = frozenset({"solutions", "grader", "tests"})  # beside an `exercises` folder they are the kit's own
LONGEST_SAFE = 120  # bytes: with a suffix and an extension well below the 255 that file systems allow

_MOODLE = re.compile(r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)_?(?P<rest>.*)", re.DOTALL)
_CANVAS = re.compile(r"(?P<name>.+?)_(?:LATE_)?(?P<id>\d+)_\d+_(?P<rest>.+)", re.DOTALL)
_COPY = re.compile(r"[ _-]*\((\d{1,3})\)|-(\d{1,3})")  # a browser's "ch03_attention (1).py", Canvas' "ch03_attention-1.py"
_RESERVED = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9]|lpt[0-9])", re.IGNORECASE)


@dataclass(frozen=True)
class ChapterFile:
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


def chapter_file(name: str) -> ChapterFile | None:
    """The chapter that a file of this name is, or None."""
    found = _chapter_pattern().fullmatch(name)
    if not found:
        return None
    module = found["chapter"].lower()
    before, after = (found["before"] or "").strip(" _-"), found["after"] or ""
    copy = _COPY.search(after)
    number = 0
    if copy and copy.end() == len(after):
        number, after = int(copy[1] or copy[2]), after[: copy.start()]
    after = after.strip(" _-")
    if before.lower() == "test":
        return None
    return ChapterFile(module, before or after, number)


def owner_of(name: str, is_folder: bool) -> Owner | None:
    """Whose a top entry of a class is; None for a file that is nobody's (a README, a table)."""
    moodle = _MOODLE.fullmatch(name)
    if moodle:
        return Owner(moodle["name"], moodle["id"], moodle["rest"])
    if is_folder:
        return Owner(name)
    canvas = _CANVAS.fullmatch(name)
    if canvas:
        return Owner(canvas["name"], canvas["id"], canvas["rest"])
    chapter = chapter_file(name)
    if chapter:
        return Owner(chapter.person, rest=f"{chapter.module}.py" if not chapter.copy else f"{chapter.module}-{chapter.copy}.py")
    stem = archive_stem(name)
    if stem:
        return Owner(stem, rest=name)
    if name.lower().endswith((".py", ".ipynb")):
        return Owner(name.rpartition(".")[0], rest=name)
    return None


def archive_stem(name: str) -> str:
    """"alpha" for "alpha.tar.gz"; "" where the name is not an archive's."""
    for suffix in ARCHIVE_SUFFIXES:
        if name.lower().endswith(suffix) and len(name) > len(suffix):
            return name[: -len(suffix)]
    return ""


def parts_of(name: str) -> tuple[str, ...]:
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


def printable(name: str) -> str:
    """A name as text that can be written anywhere: bytes that are not UTF-8 become a replacement character."""
    return name.encode("utf-8", "surrogateescape" if _escaped(name) else "replace").decode("utf-8", "replace")


def safe_name(name: str, taken: set[str]) -> str:
    """A file name for this person on every system, unlike those in `taken` (to which it is added) even where case and accents do not count."""
    text = unicodedata.normalize("NFKC", printable(name)).replace("\ufffd", "_")
    text = "".join(c if unicodedata.category(c)[0] in "LMN" or c in "-." else "_" for c in text)
    text = re.sub(r"_+", "_", re.sub(r"\.{2,}", ".", text)).strip("._-")
    text = _shortened(text, LONGEST_SAFE) or "submission"
    stem, dot, rest = text.partition(".")
    if _RESERVED.fullmatch(stem):  # to Windows a device, whatever stands behind a dot
        text = f"{stem}_{dot}{rest}"
    candidate, number = text, 2
    while _folded(candidate) in taken:
        candidate = f"{text}-{number}"
        number += 1
    taken.add(_folded(candidate))
    return candidate


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())


def _shortened(text: str, longest: int) -> str:
    return text.encode()[:longest].decode(errors="ignore").rstrip("._-")


def _escaped(name: str) -> bool:
    return all(not "\ud800" <= c <= "\udfff" or "\udc80" <= c <= "\udcff" for c in name)


@cache
def _chapter_pattern() -> re.Pattern[str]:
    names = "|".join(re.escape(chapter.name) for chapter in load_syllabus().chapters)
    return re.compile(rf"(?:(?P<before>.+?)[ _-]+)?(?P<chapter>{names})(?P<after>(?:[ _-].*|\(.*)?)\.py", re.IGNORECASE | re.DOTALL)
