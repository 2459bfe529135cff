"""One person's files, gathered one by one: the best copy of each chapter, what was left out, and what is wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from io import BytesIO
from types import MappingProxyType
from typing import BinaryIO, cast

from grader.classroom.intake.archives import HEAD, MB, PERSON, kind_of, members
from grader.classroom.intake.entries import DEEPEST, Found, Opened
from grader.classroom.intake.file_names import KIT_FOLDERS, LONGEST_NAME, ChapterFile, archive_stem, chapter_file, is_too_long
from grader.classroom.intake.problems import Unreadable, unexpected
from grader.classroom.intake.tar import SPARSE
from grader.classroom.sanitize import shown
from grader.course.source import LARGEST, SourceProblem, TooComplex, decode_source, parse, too_large

MAX_TOTAL = 64 * MB  # all copies of all chapters that are read to find the right ones
MAX_FILES = 50_000
MAX_ARCHIVES = 3
MAX_NOTES = 20


@dataclass(frozen=True)
class Copy:
    """A chapter as it was found; the smallest `rank` is the one that counts."""

    path: tuple[str, ...]
    data: bytes
    time: datetime | None
    zone_known: bool
    rank: tuple


@dataclass
class Pile:
    """What is known of one submission so far."""

    best: dict[str, Copy] = field(default_factory=dict)
    others: dict[str, list[Copy]] = field(default_factory=dict)  # with their bytes dropped
    kits: set[tuple[str, ...]] = field(default_factory=set)  # folders that hold `exercises` with chapters
    huge: dict[str, tuple[str, ...]] = field(default_factory=dict)  # chapters too large to be read
    archives: list[tuple[str, Pile]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problem: str = ""
    files: int = 0
    bytes: int = 0
    seen: list[str] = field(default_factory=list)  # the first few names, for the sentence that says no chapter is among them

    def add(self, found: Found, path: tuple[str, ...] | None = None, may_open: bool = True) -> None:
        """Take note of a file; `path` is where it lies in the submission, `may_open` whether an archive may be opened."""
        path = found.path if path is None else path
        try:
            self._add(found, path, may_open)
        except Unreadable as trouble:
            self.problem = self.problem or str(trouble)
        except Exception as error:  # whatever is wrong with one submission is the problem of its owner alone
            self.problem = self.problem or f"{shown('/'.join(path))} cannot be read: {unexpected(error)}"

    def add_all(self, founds: Iterable[Found], may_open: bool = True, path_of: Callable[[Found], tuple[str, ...]] = lambda found: found.path) -> None:
        try:
            for found in founds:
                self.add(found, path_of(found), may_open)
                if self.problem:
                    break
        except Unreadable as trouble:
            self.problem = self.problem or str(trouble)
        except Exception as error:
            self.problem = self.problem or f"it cannot be read: {unexpected(error)}"

    def note(self, sentence: str) -> None:
        if len(self.notes) < MAX_NOTES:
            self.notes.append(sentence)

    def _add(self, found: Found, path: tuple[str, ...], may_open: bool) -> None:
        if self.problem:
            return
        if is_too_long(path):
            name = next((part for part in path if len(part) > LONGEST_NAME), "/".join(path))
            raise Unreadable(f"a name in it is longer than {LONGEST_NAME} characters ({shown(name, 30)}); hand in the chapters alone")
        if found.kind == "sparse":
            raise Unreadable(SPARSE)
        if found.kind == "escape" or ".." in path:
            raise Unreadable(f"a file in the archive points outside of it ({shown('/'.join(path))}); hand in the chapters alone")
        if found.kind == "closed":
            raise Unreadable(f"the folder {shown(found.path[-1])} cannot be opened")
        if found.kind == "folder" and len(found.path) == DEEPEST:
            self.note(f"what lies in more than {DEEPEST} folders below each other was not read")
        if found.kind == "folder" or not path:
            return
        self.files += 1
        if self.files > MAX_FILES:
            raise Unreadable(f"there are more than {MAX_FILES} files; hand in the chapters alone")
        if len(self.seen) < 3:
            self.seen.append(path[-1])
        chapter = chapter_file(path[-1])
        if found.kind in ("link", "special"):
            if chapter or len(path) == 1:
                what = "a link, and links are not followed" if found.kind == "link" else "not a regular file, and was not opened"
                self.note(f"{shown('/'.join(path))} is {what}")
            return
        if chapter:
            self._add_chapter(found, path, chapter)
        elif may_open and (archive_stem(path[-1]) or ("." not in path[-1] and len(path) == 1)):
            self._add_archive(found, path)

    def _add_chapter(self, found: Found, path: tuple[str, ...], chapter: ChapterFile) -> None:
        with found.open() as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            self.huge.setdefault(chapter.module, path)
            return
        self.bytes += len(data)
        if self.bytes > MAX_TOTAL:
            raise Unreadable("there are far too many copies of the chapters; hand in one of each")
        if len(path) > 1 and path[-2] == "exercises":
            self.kits.add(path[:-2])
        newest = -found.time.timestamp() if found.time else 0.0
        of_the_kit = any(part in KIT_FOLDERS for part in path[:-1])
        copy = Copy(path, data, found.time, found.zone_known, (of_the_kit, bool(chapter.person), len(path), newest, -chapter.copy, path))
        known = self.best.get(chapter.module)
        loser: Copy | None = copy
        if known is None or copy.rank < known.rank:
            self.best[chapter.module], loser = copy, known
        if loser is not None and loser.data != self.best[chapter.module].data:
            kept = self.others.setdefault(chapter.module, [])
            if len(kept) < 5:
                kept.append(Copy(loser.path, b"", loser.time, loser.zone_known, loser.rank))

    def _add_archive(self, found: Found, path: tuple[str, ...]) -> None:
        if len(self.archives) >= MAX_ARCHIVES:
            return
        inner = Pile()
        try:
            with found.open() as file:
                if "." not in path[-1]:
                    head = file.read(HEAD)
                    if not kind_of(head):
                        return
                    file = _rewound(file, head)
                inner.add_all(members(_seekable(file, found.size), found.size), may_open=False)
        except Unreadable as trouble:
            inner.problem = str(trouble)
        except Exception as error:
            inner.problem = f"{shown(path[-1])} cannot be read: {unexpected(error)}"
        self.archives.append((path[-1], inner))


@dataclass(frozen=True)
class Gathered:
    """What a pile came to."""

    sources: dict[str, str]
    broken: dict[str, str]
    problem: str
    notes: tuple[str, ...]
    submitted: datetime | None
    zone_known: bool

    @property
    def digest(self) -> str:
        """Names the content: the same wherever and whenever it is read, and whoever handed it in."""
        total = hashlib.sha256()
        for part in ("sources", *_flat(self.sources), "broken", *_flat(self.broken), "problem", self.problem):
            data = part.encode("utf-8", "surrogatepass")
            total.update(b"%d:" % len(data) + data)
        return total.hexdigest()


def finished(pile: Pile, refused: Mapping[str, str] = MappingProxyType({}), at: Callable[[str], None] = lambda module: None) -> Gathered:
    """Choose and decode what was gathered. `refused` says why a chapter is not to be read; `at` is called with each chapter before it is."""
    if pile.problem:
        return Gathered({}, {}, pile.problem, (), None, True)
    _leave_out_the_kit(pile)
    if not pile.best and not pile.huge:
        if len(pile.archives) == 1:
            inner = finished(pile.archives[0][1], refused, at)
            return Gathered(inner.sources, inner.broken, inner.problem, (*pile.notes, *inner.notes), inner.submitted, inner.zone_known)
        return Gathered({}, {}, _nothing(pile), tuple(pile.notes), None, True)
    for name, _ in pile.archives:
        pile.note(f"{shown(name)} was not looked into, because there are chapters beside it")
    sources, broken = {}, {}
    for module in sorted({*pile.best, *pile.huge}):
        copy = pile.best.get(module)
        if copy is None:
            broken[module] = str(too_large(f"{module}.py"))
            continue
        at(module)
        try:
            if module in refused:
                raise Unreadable(refused[module])
            sources[module] = _text(copy.data, f"{module}.py")
        except (SourceProblem, Unreadable) as trouble:
            broken[module] = str(trouble)
        except Exception as error:
            broken[module] = f"{module}.py cannot be read: {unexpected(error)}"
        _tell_of_copies(pile, module, copy)
    times = [(copy.time, copy.zone_known) for copy in pile.best.values() if copy.time]
    submitted, zone_known = max(times, key=lambda one: one[0], default=(None, True))
    problem = "" if sources else next(iter(broken.values()))
    for sentence in broken.values():
        if sentence != problem:
            pile.note(sentence)
    return Gathered(sources, broken, problem, tuple(pile.notes), submitted, zone_known)


def _text(data: bytes, file: str) -> str:
    """A chapter's text, which everybody may parse. What is wrong with its syntax is found where it is graded, which shows more of it."""
    text = decode_source(data, file)
    try:
        parse(text, file)
    except TooComplex:
        raise
    except SourceProblem:
        pass
    return text


def _leave_out_the_kit(pile: Pile) -> None:
    """In a copy of the whole kit, `exercises` is the learner's and `solutions` is not."""
    dropped = set()
    for module, copy in list(pile.best.items()):
        for kit in pile.kits:
            if len(copy.path) > len(kit) + 1 and copy.path[: len(kit)] == kit and copy.path[len(kit)] in KIT_FOLDERS:
                dropped.add(copy.path[len(kit)])
                del pile.best[module]
                break
    for folder in sorted(dropped):
        pile.note(f"the chapters in {folder}/ are the kit's own and were not read")
    for others in pile.others.values():
        others[:] = [o for o in others if not any(o.path[: len(kit)] == kit and o.path[len(kit)] in KIT_FOLDERS for kit in pile.kits if len(o.path) > len(kit) + 1)]


def _tell_of_copies(pile: Pile, module: str, copy: Copy) -> None:
    if copy.path[-1].lower() != f"{module}.py":
        pile.note(f"{shown(copy.path[-1])} was taken for {module}.py")
    others = pile.others.get(module)
    if others:
        paths = " and ".join(shown("/".join(other.path)) for other in others[:2])
        more = f" and {len(others) - 2} more" if len(others) > 2 else ""
        pile.note(f"there are several versions of {module}.py: {shown('/'.join(copy.path))} was taken, not {paths}{more}")


def _nothing(pile: Pile) -> str:
    if len(pile.archives) > 1:
        names = " and ".join(shown(name) for name, _ in pile.archives)
        return f"there are several archives and no chapter beside them ({names}): which one is meant?"
    if pile.notes:
        return f"there is no chapter to read: {pile.notes[0]}"
    if not pile.files:
        return "nothing was handed in: it is empty"
    seen = ", ".join(shown(name, 30) for name in pile.seen)
    return f"there is no chapter in it, only {seen}{' and more' if pile.files > len(pile.seen) else ''}; chapters are called like ch03_attention.py"


def _flat(texts: dict[str, str]) -> list[str]:
    return [part for name in sorted(texts) for part in (name, texts[name])]


def _seekable(file: Opened, size: int) -> BinaryIO:
    """An archive within an archive comes as a stream and is kept in memory; one on disk is read where it lies."""
    if hasattr(file, "seek"):
        return cast(BinaryIO, file)
    if size > PERSON.size:
        return cast(BinaryIO, file)  # refused for its size before it is read
    return BytesIO(file.read(PERSON.size + 1))


def _rewound(file: Opened, head: bytes) -> Opened:
    if hasattr(file, "seek"):
        file.seek(0)
        return file
    return BytesIO(head + file.read(PERSON.size + 1))
