"""Reads the chapter and the owner from the names of files and folders, and hides such names.

One rule says whose a submission is: its owner is the name of its folder, archive or file at the top level of the class,
without what a learning platform, the chapter or the format adds to it. `parse_owner` has all these additions. Two
sources name the owner instead, where they exist: the column `name` of a table, and Gradescope's metadata (tables.py).
With a course, `find_owner` in term/deliveries.py then finds the person of the roster by this name or id.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache

from grader.classroom.intake.files import FoundFile
from grader.course.syllabus import load_syllabus

KIT_FOLDERS = frozenset({"solutions", "grader", "tests"})  # next to an `exercises` folder they belong to the kit
MAX_NAME_LENGTH = 255  # characters, the most that file systems allow; also the most levels of folders
_PACKAGING = frozenset({"__init__", "__main__", "conftest", "setup"})
_FLAGS = re.ASCII | re.IGNORECASE | re.DOTALL
_COPY = r"(?: *\((?P<first>\d{1,3})\)|-(?P<second>\d{1,3}))?"  # a browser's "hw (1).py", and Canvas' "hw-1.py"
_CODE = re.compile(rf"(?P<stem>.+?){_COPY}(?P<ending>\.ipynb|\.py|\.py\.txt)", _FLAGS)  # some mail programs append .txt
_ARCHIVE = re.compile(r"(?P<name>.+?)\.(?:(?:tar\.)?(?:gz|bz2|xz|zst)|tgz|tbz2?|txz|tar|zip|7z|rar)", _FLAGS)
_MOODLE = re.compile(r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)_?(?P<rest>.*)", _FLAGS)
_CANVAS = re.compile(r"(?P<name>.+?)(?:_LATE)?_(?P<id>\d+)_\d+_(?P<rest>.+)", re.ASCII | re.DOTALL)


@dataclass(frozen=True)
class CodeName:
    """What the name of a Python file or a notebook says."""

    module: str = ""  # the chapter, or the tests of an exercise, as in test_softmax.py; "" if it says none
    person: str = ""  # beside the chapter, as in NAME_ch03_attention.py
    copy: int = 0  # the number in ch03_attention (1).py or ch03_attention-1.py
    is_notebook: bool = False

    @property
    def is_of_tests(self) -> bool:
        return self.module.startswith("test_")


@dataclass(frozen=True)
class Owner:
    """The owner of a file or folder at the top level of a class, and the rest of its name."""

    name: str
    id: str = ""  # a learning platform's number, which distinguishes two people with the same name
    rest: str = ""
    platform: str = ""  # "canvas" or "moodle", whose number it is


def is_too_long(path: tuple[str, ...]) -> bool:
    """Is a name in this path longer than a file system allows, or is the path nested too deeply?"""
    return len(path) > MAX_NAME_LENGTH or any(len(part) > MAX_NAME_LENGTH for part in path)


def parse_code_name(name: str) -> CodeName | None:
    """What the name says; None for other files, tests of anything but an exercise, and files that only make a
    package."""
    found = _CODE.fullmatch(name) if len(name) <= MAX_NAME_LENGTH else None
    if not found or found["stem"].lower() in _PACKAGING:
        return None
    copy, is_notebook = int(found["first"] or found["second"] or 0), found["ending"].lower() == ".ipynb"
    if not is_notebook and (tests := _tests_pattern().fullmatch(found["stem"])):
        exercise = next(one.name for one in load_syllabus().exercises if one.name.lower() == tests["name"].lower())
        return CodeName(f"test_{exercise}", (tests["before"] or "").strip(" _-"), copy)
    if found["stem"].lower().startswith("test_"):
        return None
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
        return Owner(canvas["name"], canvas["id"], canvas["rest"], platform="canvas")
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


@cache
def _chapter_pattern() -> re.Pattern[str]:
    """A chapter's name, alone or as a separate word after or before a person's name."""
    names = "|".join(sorted((chapter.name for chapter in load_syllabus().chapters), key=len, reverse=True))
    return re.compile(rf"(?:(?P<before>.+?)[ _-]+)?(?P<module>{names})(?:[ _-]+(?P<after>.+))?", _FLAGS)


@cache
def _tests_pattern() -> re.Pattern[str]:
    """The name of a file with a learner's own tests of an exercise, alone or after a person's name."""
    names = "|".join(re.escape(exercise.name) for exercise in load_syllabus().exercises)
    return re.compile(rf"(?:(?P<before>.+?)[ _-]+)?test_(?P<name>{names})", _FLAGS)


# ---- neutral names: no sentence of an anonymous grading can show a name that a person chose
# A name is replaced before the file is read, unless it only says a chapter. The new one says as much as the grader must
# know: `ada_homework.py` becomes `FILE1.py`, `ada_ch03_attention.py` becomes `NAME1_ch03_attention.py`.


KEPT_FOLDERS = KIT_FOLDERS | {"exercises", ".."}
KEPT_ENDINGS = frozenset("csv doc docx heic html jpeg jpg json md odt pdf png rtf toml txt yaml yml".split())


class NeutralNames:
    """The neutral names of one submission, or of the entries of one class; different names stay different."""

    def __init__(self) -> None:
        self._new: dict[tuple[str, bool], str] = {}
        self._counts = Counter[str]()

    def hide(self, founds: Iterable[FoundFile]) -> Iterator[FoundFile]:
        """The same files with neutral paths, in their old order."""
        for found in founds:
            folders = [self.name(part, is_folder=True) for part in found.path[:-1]]
            path = (*folders, self.name(found.path[-1], found.kind in ("folder", "deep", "closed")))
            yield replace(found, path=path, order=found.path)

    def name(self, name: str, is_folder: bool) -> str:
        code = None if is_folder else parse_code_name(name)
        if name in KEPT_FOLDERS or (code and code.module and not code.person):
            return name
        if (name, is_folder) not in self._new:
            word, rest = _describe(name, is_folder)
            self._counts[word] += 1
            self._new[name, is_folder] = f"{word}{self._counts[word]}{rest}"
        return self._new[name, is_folder]


def _describe(name: str, is_folder: bool) -> tuple[str, str]:
    """What stands before the number in the neutral name, and what follows it."""
    if len(name) > MAX_NAME_LENGTH:
        return "FILE", "_" * len(name)
    if is_folder:
        return "FOLDER", ""
    if code := parse_code_name(name):
        module, copy = f"_{code.module}" if code.module else "", f"-{code.copy}" if code.copy else ""
        return "NAME" if module else "FILE", f"{module}{copy}{'.ipynb' if code.is_notebook else '.py'}"
    if archive := strip_archive_suffix(name):
        return "ARCHIVE", name[len(archive) :]
    _, dot, ending = name.lower().rpartition(".")
    if ending in ("py", "ipynb"):
        return "test_FILE", f".{ending}"
    return "FILE", f".{ending if ending in KEPT_ENDINGS else 'other'}" if dot else ""
