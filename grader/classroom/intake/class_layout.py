"""Where in a class's folder or archive each person's files lie: by folder, by archive, or by what learning platforms write into names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from grader.classroom.intake.archives import CLASS, HEAD, kind_of, members
from grader.classroom.intake.entries import Found, described, files_below, open_regular
from grader.classroom.intake.file_names import KIT_FOLDERS, LONGEST_NAME, archive_stem, chapter_file, is_too_long, owner_of
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.intake.roster import Recorded, read_gradescope
from grader.classroom.sanitize import shown

METADATA = ("submission_metadata.yml", "submission_metadata.yaml")
_EXPORT = re.compile(r"assignment_[0-9]{1,20}_export")  # the folder that Gradescope puts around everything
LARGEST_METADATA = 50_000_000


@dataclass(frozen=True)
class Class:
    """What a whole class handed in, ready to be walked through as often as needed."""

    name: str  # what it is called, for sentences
    stem: str  # and without the ending
    walk: Callable[[], Iterator[Found]]
    folder: Path | None = None  # where it lies, if it is no archive


@dataclass(frozen=True)
class Place:
    """Where one submission lies and whose it is (a group's is several people's)."""

    names: tuple[str, ...]
    folder: tuple[str, ...] = ()
    is_folder: bool = False
    id: str = ""
    submitted: datetime | None = None
    time_from: str = ""
    problem: str = ""


@dataclass
class Layout:
    places: dict[str, Place] = field(default_factory=dict)  # top entry → place
    rests: dict[str, tuple[str, ...]] = field(default_factory=dict)  # top entry that is a file → its name without the person's
    wrapper: int = 0  # folders around everything
    single: Place | None = None
    nobodys: list[str] = field(default_factory=list)  # files at the top that are nobody's submission
    escaped: list[str] = field(default_factory=list)  # paths that lead out of the archive

    def place_of(self, path: tuple[str, ...]) -> tuple[Place | None, tuple[str, ...]]:
        """The submission that a file belongs to, and its path in there."""
        path = path[self.wrapper :]
        if self.single is not None:
            return self.single, path
        if not path or path[0] not in self.places:
            return None, ()
        return self.places[path[0]], self.rests.get(path[0], ()) + path[1:]

    def walk_place(self, place: Place, folder: Path) -> Iterator[Found]:
        """The files of one submission in a class's folder; their paths begin there."""
        if self.single is not None:
            yield from files_below(folder)
            return
        around = place.folder[: self.wrapper]
        for top in [top for top, other in self.places.items() if other is place]:
            path = (*around, top)
            found = described(folder.joinpath(*path), path)
            yield found
            if found.kind == "folder":
                yield from files_below(folder.joinpath(*path), path)


@dataclass
class _Names:
    """What the names alone say."""

    entries: dict[tuple[str, ...], Found] = field(default_factory=dict)  # the two uppermost levels
    packed: set[tuple[str, ...]] = field(default_factory=set)  # files there that are archives, whatever they are called
    chapters: set[tuple[str, ...]] = field(default_factory=set)  # folders that hold a file called exactly like a chapter
    above: set[tuple[str, ...]] = field(default_factory=set)  # those, and the folders they lie in, of the two uppermost levels
    records: dict[tuple[str, ...], dict[str, Recorded]] = field(default_factory=dict)  # Gradescope's, by the folder they lie in
    stamps: dict[str, str] = field(default_factory=dict)  # nbgrader's timestamp.txt, by person
    escaped: list[str] = field(default_factory=list)  # paths that lead out of the archive

    def below(self, prefix: tuple[str, ...]) -> list[Found]:
        return [found for path, found in self.entries.items() if len(path) == len(prefix) + 1 and path[:-1] == prefix]

    def is_ones(self, prefix: tuple[str, ...]) -> bool:
        """Is this folder a person's own: are there chapters right in it, or is it a copy of the kit?"""
        return prefix in self.chapters or self.is_kit(prefix)

    def is_kit(self, prefix: tuple[str, ...]) -> bool:
        return (*prefix, "exercises") in self.chapters and any((*prefix, name) in self.entries for name in KIT_FOLDERS)

    def is_somebodys(self, found: Found) -> bool:
        """Does this entry hold, or claim to hold, chapters?"""
        if found.kind == "folder":
            return found.path in self.above
        owner = owner_of(found.path[-1], False)
        return bool(found.path in self.packed or (owner and owner.name))


def class_in_folder(folder: Path) -> Class:
    return Class(str(folder), folder.resolve().name, lambda: files_below(folder), folder)


def class_in_archive(path: Path) -> Class:
    def walk() -> Iterator[Found]:
        with open_regular(path.resolve()) as file:
            yield from members(file, path.stat().st_size, CLASS)

    return Class(path.name, archive_stem(path.name) or path.name, walk)


def layout_of(handed_in: Class) -> Layout:
    """Find out whose files lie where, by names alone. GradingProblem where they may be read in two ways."""
    names = _read_names(handed_in)
    if _is_single(handed_in, names):
        return Layout(single=Place((handed_in.stem,), is_folder=True))
    prefix = _wrapper(handed_in, names)
    records = names.records.get(prefix, {})
    layout = Layout(wrapper=len(prefix), escaped=names.escaped)
    groups: dict[tuple[str, str], list[Found]] = {}
    for found in names.below(prefix):
        top = found.path[-1]
        owner = owner_of(top, found.kind == "folder" or found.path in names.packed or (found.kind != "file" and "." not in top))
        if owner is None or not owner.name:
            if found.kind == "file" and top not in METADATA:
                layout.nobodys.append(top)
            continue
        if found.kind == "file":
            layout.rests[top] = (owner.rest or top,)
        groups.setdefault((owner.name, owner.id), []).append(found)
    doubled = Counter(name for name, _ in groups)
    for (name, number), entries in groups.items():
        display = f"{name} ({number})" if number and doubled[name] > 1 else name
        place = Place((display,), entries[0].path, entries[0].kind == "folder", number, problem=_trouble(entries, number))
        if len(entries) == 1 and entries[0].path[-1] in records:
            record = records[entries[0].path[-1]]
            place = replace(place, names=record.names, submitted=record.submitted, time_from="Gradescope")
        elif name in names.stamps and _stamp(names.stamps[name]):
            place = replace(place, submitted=_stamp(names.stamps[name]), time_from="nbgrader")
        layout.places.update({found.path[-1]: place for found in entries})
    return layout


def _read_names(handed_in: Class) -> _Names:
    names = _Names()
    for found in handed_in.walk():
        path = found.path
        if not path:
            continue
        if path[0] == "..":
            names.escaped.append("/".join(path[:20]))
            continue
        if found.kind == "closed" and len(path) == 1:
            raise GradingProblem(f"{handed_in.name} cannot be opened")
        for depth in range(1, min(len(path), 3)):
            names.entries.setdefault(path[:depth], Found(path[:depth], "folder"))
        if len(path) <= 2:
            names.entries.setdefault(path, found)
        if found.kind == "file" and not is_too_long(path):
            with suppress(Exception):  # what cannot be read says nothing about whose it is; its owner's problem is found when all of it is read
                _read_name(handed_in, names, found)
    if names.escaped and not names.entries:
        raise GradingProblem(f"{handed_in.name} is not safe to read: a file in it points outside of it ({shown(names.escaped[0])})")
    return names


def _read_name(handed_in: Class, names: _Names, found: Found) -> None:
    path = found.path
    chapter = chapter_file(path[-1])
    if chapter:
        if not chapter.person:
            names.chapters.add(path[:-1])
            names.above.update(path[:depth] for depth in range(min(len(path), 3)))
    elif path[-1] in METADATA and (len(path) == 1 or (len(path) == 2 and _EXPORT.fullmatch(path[0]))):
        names.records[path[:-1]] = read_gradescope(_text(found, LARGEST_METADATA))
    elif path[-1] == "timestamp.txt" and len(path) == 3 and handed_in.stem == "submitted":
        names.stamps[path[0]] = max(names.stamps.get(path[0], ""), _text(found, 100).strip())
    elif len(path) <= 2 and "." not in path[-1]:
        with found.open() as file:
            if kind_of(file.read(HEAD)):
                names.packed.add(path)


def _text(found: Found, longest: int) -> str:
    with found.open() as file:
        return file.read(longest).decode("utf-8", "replace")


def _is_single(handed_in: Class, names: _Names) -> bool:
    """Is all of this one person's?"""
    others = [found for found in names.below(()) if names.is_somebodys(found)]
    is_clone = handed_in.folder is not None and (handed_in.folder / ".git").is_dir()
    if names.is_kit(()) or (is_clone and (len(others) <= 1 or () in names.chapters)):
        return bool(names.above)
    if () in names.chapters and others:
        raise GradingProblem(
            f"{handed_in.name} holds chapters itself and also {shown(others[0].path[-1])}: is it one person's or a class's? "
            "Put each person's files in a folder of their own"
        )
    return () in names.chapters


def _wrapper(handed_in: Class, names: _Names) -> tuple[str, ...]:
    """The folder around everything, which archives mostly have."""
    tops = names.below(())
    if len(tops) != 1 or tops[0].kind != "folder":
        return ()
    only = tops[0].path
    if only in names.records and not names.is_ones(only):
        return only
    if handed_in.folder is not None or names.is_ones(only):
        return ()
    people = [found for found in names.below(only) if names.is_somebodys(found)]
    return only if len(people) > 1 or (people and only[0] == handed_in.stem) else ()


def _trouble(entries: list[Found], number: str) -> str:
    """What is wrong with the entries of one name, by their names alone."""
    for found in entries:
        if is_too_long(found.path):
            return f"the name of what was handed in is longer than {LONGEST_NAME} characters"
        if found.kind == "link":
            return "what was handed in is a link, and links are not followed"
        if found.kind == "special":
            return "what was handed in is not a regular file, and was not opened"
    if len(entries) > 1 and not number and not all(found.kind == "file" and chapter_file(found.path[-1]) for found in entries):
        kinds = sorted("a folder" if found.kind == "folder" else shown(found.path[-1]) for found in entries)
        return f"there are several submissions under this name ({' and '.join(kinds)}): keep one"
    return ""


def _stamp(text: str) -> datetime | None:
    """nbgrader's "2026-12-01 10:30:47.524219 UTC"."""
    clock, _, zone = text.rpartition(" ")
    try:
        return datetime.fromisoformat(clock).replace(tzinfo=UTC if zone in ("UTC", "GMT") else ZoneInfo(zone))
    except (ValueError, OSError, KeyError):
        return None
