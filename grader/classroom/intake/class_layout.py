"""Finds each person's files in a class's folder or archive: one folder or archive a person, or names as learning platforms write them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from grader.classroom.intake.archives import CLASS, HEAD, detect_kind, read_members
from grader.classroom.intake.entries import FoundFile, describe_entry, open_regular_file, walk_folder
from grader.classroom.intake.file_names import (
    KIT_FOLDERS,
    LONGEST_NAME,
    is_too_long,
    parse_chapter_name,
    parse_code_name,
    parse_notebook_name,
    parse_owner,
    strip_archive_suffix,
)
from grader.classroom.intake.nbgrader import find_assignment, parse_stamp
from grader.classroom.intake.options import ReadOptions
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.intake.roster import GradescopeRecord, read_gradescope
from grader.classroom.sanitize import shorten

METADATA = ("submission_metadata.yml", "submission_metadata.yaml")
_EXPORT = re.compile(r"assignment_[0-9]{1,20}_export")  # the top folder of a Gradescope export
LARGEST_METADATA = 50_000_000


@dataclass(frozen=True)
class ClassInput:
    """The folder or archive with a whole class, whose entries can be listed repeatedly."""

    name: str  # as messages show it
    stem: str  # the name without its ending
    walk: Callable[[], Iterator[FoundFile]]
    folder: Path | None = None  # None for an archive
    options: ReadOptions = field(default_factory=ReadOptions)


@dataclass(frozen=True)
class Location:
    """The place of one submission, and its owners (a group has several)."""

    names: tuple[str, ...]
    folder: tuple[str, ...] = ()
    is_folder: bool = False
    id: str = ""
    ids: tuple[dict[str, str], ...] = field(default=(), compare=False)  # of the people in `names`: "canvas_id", "moodle_id", "email", "number"
    submitted: datetime | None = None
    time_from: str = ""
    problem: str = ""
    late: bool = False  # marked as late in a file name of the learning platform
    stamps: tuple[tuple[str, datetime], ...] = ()  # nbgrader's time of each folder in it

    @property
    def is_from_canvas(self) -> bool:
        return any("canvas_id" in ids for ids in self.ids)

    def set_time(self, found: FoundFile, path: tuple[str, ...]) -> FoundFile:
        """The file with the time stamp of its folder, if nbgrader wrote stamps: copying changes the dates of files. `path` is the path in the submission."""
        return replace(found, time=dict(self.stamps).get(path[0]), zone_known=True) if self.stamps and path else found


@dataclass
class ClassLayout:
    locations: dict[str, Location] = field(default_factory=dict)  # top-level entry → location
    rests: dict[str, tuple[str, ...]] = field(default_factory=dict)  # top-level file → its name without the person's name
    wrapper: int = 0  # number of folders around everything
    single: Location | None = None
    unowned: list[str] = field(default_factory=list)  # files at the top level without an owner
    escaped: list[str] = field(default_factory=list)  # paths that lead out of the archive

    def locate(self, path: tuple[str, ...]) -> tuple[Location | None, tuple[str, ...]]:
        """The submission that a file belongs to, and the file's path in it."""
        path = path[self.wrapper :]
        if self.single is not None:
            return self.single, path
        if not path or path[0] not in self.locations:
            return None, ()
        return self.locations[path[0]], self.rests.get(path[0], ()) + path[1:]

    def walk_location(self, location: Location, folder: Path) -> Iterator[FoundFile]:
        """The files of one submission in a class's folder, with paths relative to that folder."""
        if self.single is not None:
            yield from walk_folder(folder)
            return
        around = location.folder[: self.wrapper]
        for top in [top for top, other in self.locations.items() if other is location]:
            path = (*around, top)
            found = describe_entry(folder.joinpath(*path), path)
            yield found
            if found.kind == "folder":
                yield from walk_folder(folder.joinpath(*path), path)


@dataclass
class _NamesFound:
    """What the names of files and folders show."""

    entries: dict[tuple[str, ...], FoundFile] = field(default_factory=dict)  # of the two top levels
    packed: set[tuple[str, ...]] = field(default_factory=set)  # files of these levels that are archives, by content
    chapters: set[tuple[str, ...]] = field(default_factory=set)  # folders with a file named exactly like a chapter, or named in `--map`
    mapped: set[tuple[str, ...]] = field(default_factory=set)  # the files named in `--map`
    above: set[tuple[str, ...]] = field(default_factory=set)  # those folders and their parents, of the two top levels
    records: dict[tuple[str, ...], dict[str, GradescopeRecord]] = field(default_factory=dict)  # Gradescope's, by the folder that contains them
    stamps: dict[str, dict[str, datetime]] = field(default_factory=dict)  # nbgrader's times, by person and assignment
    escaped: list[str] = field(default_factory=list)  # paths that lead out of the archive

    def below(self, prefix: tuple[str, ...]) -> list[FoundFile]:
        return [found for path, found in self.entries.items() if len(path) == len(prefix) + 1 and path[:-1] == prefix]

    def is_one_submission(self, prefix: tuple[str, ...]) -> bool:
        """Is this folder one person's: does it contain chapters directly, or is it a copy of the kit?"""
        return prefix in self.chapters or self.is_kit(prefix)

    def is_kit(self, prefix: tuple[str, ...]) -> bool:
        return (*prefix, "exercises") in self.chapters and any((*prefix, name) in self.entries for name in KIT_FOLDERS)

    def may_be_submission(self, found: FoundFile) -> bool:
        """Does this entry contain chapters, or does its name say so?"""
        if found.kind == "folder":
            return found.path in self.above
        owner = None if found.path in self.mapped else parse_owner(found.path[-1], False)
        return bool(found.path in self.packed or (owner and owner.name))


def class_from_folder(folder: Path) -> ClassInput:
    return ClassInput(str(folder), folder.resolve().name, lambda: walk_folder(folder), folder)


def class_from_archive(path: Path) -> ClassInput:
    def walk() -> Iterator[FoundFile]:
        with open_regular_file(path.resolve()) as file:
            yield from read_members(file, path.stat().st_size, CLASS)

    return ClassInput(path.name, strip_archive_suffix(path.name) or path.name, walk)


def find_layout(class_input: ClassInput) -> ClassLayout:
    """Find each person's files by names alone. GradingProblem if the names are ambiguous."""
    names = _read_names(class_input)
    if _is_single(class_input, names):
        return ClassLayout(single=Location((class_input.stem,), is_folder=True))
    prefix = _find_wrapper(class_input, names)
    records = names.records.get(prefix, {})
    layout = ClassLayout(wrapper=len(prefix), escaped=names.escaped)
    groups: dict[tuple[str, str, str], list[FoundFile]] = {}
    late: set[tuple[str, str]] = set()
    for found in names.below(prefix):
        top = found.path[-1]
        owner = parse_owner(top, found.kind == "folder" or found.path in names.packed or (found.kind != "file" and "." not in top))
        if owner is None or not owner.name:
            if found.kind == "file" and top not in METADATA:
                layout.unowned.append(top)
            continue
        if found.kind == "file":
            layout.rests[top] = (owner.rest or top,)
        groups.setdefault((owner.name, owner.id, owner.platform), []).append(found)
        if owner.late:
            late.add((owner.name, owner.id))
    doubled = Counter(name for name, _, _ in groups)
    for (name, number, platform), entries in groups.items():
        display = f"{name} ({number})" if number and doubled[name] > 1 else name
        ids = {f"{platform}_id": number} if number else {}
        problem, is_late = _describe_problem(entries, number), (name, number) in late
        location = Location((display,), entries[0].path, entries[0].kind == "folder", number, (ids,), problem=problem, late=is_late)
        if len(entries) == 1 and entries[0].path[-1] in records:
            record = records[entries[0].path[-1]]
            location = replace(location, names=record.names, ids=record.ids, submitted=record.submitted, time_from="Gradescope")
        elif stamps := names.stamps.get(name):
            location = replace(location, stamps=tuple(sorted(stamps.items())), time_from="nbgrader")
        layout.locations.update({found.path[-1]: location for found in entries})
    return layout


def _read_names(class_input: ClassInput) -> _NamesFound:
    names = _NamesFound()
    with_code: set[tuple[str, ...]] = set()  # folders with notebooks or Python files of any name, and their parents, of the two top levels
    for found in class_input.walk():
        path = found.path
        if not path:
            continue
        if path[0] == "..":
            names.escaped.append("/".join(path[:20]))
            continue
        if found.kind == "closed" and len(path) == 1:
            raise GradingProblem(f"{class_input.name} cannot be opened")
        for depth in range(1, min(len(path), 3)):
            names.entries.setdefault(path[:depth], FoundFile(path[:depth], "folder"))
        if len(path) <= 2:
            names.entries.setdefault(path, found)
        if found.kind == "file" and len(path) > 1 and parse_code_name(path[-1]):
            with_code.update(path[:depth] for depth in range(min(len(path), 3)))
        if found.kind == "file" and not is_too_long(path):
            with suppress(Exception):  # an unreadable file does not show its owner; the problem is reported when the submission is read
                _read_name(class_input, names, found)
    if not names.chapters:  # names alone show no chapter, so any code may be somebody's chapter
        names.above |= with_code
    if names.escaped and not names.entries:
        raise GradingProblem(f"{class_input.name} is not safe to read: a file in it has a path outside of it ({shorten(names.escaped[0])})")
    return names


def _read_name(class_input: ClassInput, names: _NamesFound, found: FoundFile) -> None:
    path = found.path
    chapter = parse_chapter_name(path[-1])
    if class_input.options.find_module(path[-1]):
        names.mapped.add(path)
    if chapter or class_input.options.find_module(path[-1]):
        if not (chapter and chapter.person):
            names.chapters.add(path[:-1])
            names.above.update(path[:depth] for depth in range(min(len(path), 3)))
    elif path[-1] in METADATA and (len(path) == 1 or (len(path) == 2 and _EXPORT.fullmatch(path[0]))):
        names.records[path[:-1]] = read_gradescope(_read_text(found, LARGEST_METADATA))
    elif handed_in := find_assignment(path, class_input.stem):
        if stamp := parse_stamp(_read_text(found, 100)):
            names.stamps.setdefault(handed_in[0], {})[handed_in[1]] = stamp
    elif len(path) <= 2 and "." not in path[-1]:
        with found.open() as file:
            if detect_kind(file.read(HEAD)):
                names.packed.add(path)


def _read_text(found: FoundFile, longest: int) -> str:
    with found.open() as file:
        return file.read(longest).decode("utf-8", "replace")


def _is_single(class_input: ClassInput, names: _NamesFound) -> bool:
    """Is all of this one person's submission?"""
    others = [found for found in names.below(()) if names.may_be_submission(found)]
    is_clone = class_input.folder is not None and (class_input.folder / ".git").is_dir()
    if names.is_kit(()) or (is_clone and (len(others) <= 1 or () in names.chapters)):
        return bool(names.above)
    if () in names.chapters and others:
        raise GradingProblem(
            f"{class_input.name} contains chapter files and also {shorten(others[0].path[-1])}, so it is unclear whether it is one submission or a class. "
            "Put each person's files into a separate folder"
        )
    return () in names.chapters


def _find_wrapper(class_input: ClassInput, names: _NamesFound) -> tuple[str, ...]:
    """The path of a folder around everything, which most archives have; else ()."""
    tops = names.below(())
    if len(tops) != 1 or tops[0].kind != "folder":
        return ()
    only = tops[0].path
    if only in names.records and not names.is_one_submission(only):
        return only
    if class_input.folder is not None or names.is_one_submission(only):
        return ()
    people = [found for found in names.below(only) if names.may_be_submission(found)]
    return only if len(people) > 1 or (people and only[0] == class_input.stem) else ()


def _describe_problem(entries: list[FoundFile], number: str) -> str:
    """What is wrong with the entries of one owner, judged by their names; "" if nothing is."""
    for found in entries:
        if is_too_long(found.path):
            return f"the submitted file or folder has a name longer than {LONGEST_NAME} characters"
        if found.kind == "link":
            return "the submission is a link, and the grader does not follow links; submit the files themselves"
        if found.kind == "special":
            return "the submission is not a regular file, so the grader did not open it; submit chapter files or an archive"
    if len(entries) > 1 and not number and not all(found.kind == "file" and _names_chapter(found.path[-1]) for found in entries):
        kinds = sorted("a folder" if found.kind == "folder" else shorten(found.path[-1]) for found in entries)
        return f"several submissions have this name ({' and '.join(kinds)}); keep one of them"
    return ""


def _names_chapter(name: str) -> bool:
    return bool(parse_chapter_name(name) or parse_notebook_name(name))
