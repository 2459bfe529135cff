"""Collects the files of one submission: the copies of each chapter, notebooks, other Python files, archives, and the problem if there is one.

`submission_content.py` chooses among them and decodes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from io import BytesIO
from typing import BinaryIO, cast

from grader.classroom.intake.archives import HEAD, MB, PERSON, Limits, detect_kind, read_members
from grader.classroom.intake.entries import DEEPEST, FoundFile, ReadableFile
from grader.classroom.intake.file_names import (
    KIT_FOLDERS,
    LONGEST_NAME,
    ChapterName,
    is_too_long,
    parse_chapter_name,
    parse_code_name,
    parse_notebook_name,
    strip_archive_suffix,
)
from grader.classroom.intake.notebooks import LARGEST_NOTEBOOK
from grader.classroom.intake.options import ReadOptions
from grader.classroom.intake.problems import UnreadableSubmission, describe_error
from grader.classroom.intake.tar import SPARSE
from grader.classroom.sanitize import shorten
from grader.course.source import LARGEST

MAX_TOTAL = 64 * MB  # bytes of all copies of all chapters that are read to find the right ones
MAX_FILES = 50_000
MAX_ARCHIVES = 3
MAX_UNNAMED = 60  # notebooks and Python files whose names do not say a chapter
MAX_COPIES = 6
MAX_NOTES = 20
DEEPEST_ARCHIVE = 3  # a zip in a zip in a zip


@dataclass(frozen=True)
class ChapterCopy:
    """One copy of a chapter; the copy with the smallest `rank` is graded."""

    path: tuple[str, ...]
    data: bytes
    time: datetime | None
    zone_known: bool
    rank: tuple
    module: str = ""  # the chapter that its name or the instructor says
    number: int = 0  # of a numbered copy, as in "attention (2).py"


@dataclass
class ArchiveBudget:
    """What all archives of one submission may still contain together: each archive's own limits would allow a bomb of nested archives."""

    unpacked: int = PERSON.unpacked
    members: int = PERSON.members
    archives: int = 20

    def limits(self) -> Limits:
        return replace(PERSON, unpacked=self.unpacked, members=self.members)

    def count(self, founds: Iterable[FoundFile]) -> Iterator[FoundFile]:
        for found in founds:
            if self.unpacked < 0 or self.members < 0:
                raise UnreadableSubmission("its archives are far too large when all of them are unpacked; submit only the chapter files")
            yield found
            self.unpacked, self.members = self.unpacked - found.size, self.members - 1


@dataclass
class SubmissionFiles:
    """The files of one submission that have been read so far."""

    best: dict[str, ChapterCopy] = field(default_factory=dict)
    others: dict[str, list[ChapterCopy]] = field(default_factory=dict)  # other versions of these chapters
    unnamed: list[ChapterCopy] = field(default_factory=list)  # notebooks, and Python files whose names do not say a chapter
    kits: set[tuple[str, ...]] = field(default_factory=set)  # folders that contain `exercises` with chapters
    oversized: dict[str, tuple[str, ...]] = field(default_factory=dict)  # chapters that are too large
    archives: list[tuple[tuple[str, ...], SubmissionFiles]] = field(default_factory=list)
    places: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)  # the paths of all copies of each chapter, outside of the kit's folders
    earliest: dict[tuple[str, bytes], tuple[datetime, bool]] = field(default_factory=dict)  # the first time of equal copies, and whether its zone is known
    mapped: set[str] = field(default_factory=set)  # the names in `--map` that fit a file
    has_stamps: bool = False  # are the times of files nbgrader's?
    notes: list[str] = field(default_factory=list)
    problem: str = ""
    file_count: int = 0
    byte_count: int = 0
    sample_names: list[str] = field(default_factory=list)  # a few names, for the message that no chapter was found
    options: ReadOptions = field(default_factory=ReadOptions)
    depth: int = 0  # number of archives around these files, without the class's own
    budget: ArchiveBudget = field(default_factory=ArchiveBudget)

    def add(self, found: FoundFile, path: tuple[str, ...] | None = None) -> None:
        """Add a file; `path` is its path in the submission."""
        path = found.path if path is None else path
        try:
            self._add(found, path)
        except UnreadableSubmission as trouble:
            self.problem = self.problem or str(trouble)
        except Exception as error:  # a fault in one submission must not affect any other
            self.problem = self.problem or f"{shorten('/'.join(path))} cannot be read: {describe_error(error)}"

    def add_all(
        self,
        founds: Iterable[FoundFile],
        path_of: Callable[[FoundFile], tuple[str, ...]] = lambda found: found.path,
        set_time: Callable[[FoundFile, tuple[str, ...]], FoundFile] = lambda found, path: found,
    ) -> None:
        try:
            for found in founds:
                path = path_of(found)
                self.add(set_time(found, path), path)
                if self.problem:
                    break
        except UnreadableSubmission as trouble:
            self.problem = self.problem or str(trouble)
        except Exception as error:
            self.problem = self.problem or f"it cannot be read: {describe_error(error)}"

    def note(self, sentence: str) -> None:
        if len(self.notes) < MAX_NOTES:
            self.notes.append(sentence)

    def _add(self, found: FoundFile, path: tuple[str, ...]) -> None:
        if self.problem:
            return
        if is_too_long(path):
            name = next((part for part in path if len(part) > LONGEST_NAME), "/".join(path))
            raise UnreadableSubmission(f"it contains a name longer than {LONGEST_NAME} characters ({shorten(name, 30)}); submit only the chapter files")
        if found.kind == "sparse":
            raise UnreadableSubmission(SPARSE)
        if found.kind == "escape" or ".." in path:
            raise UnreadableSubmission(f"a file in the archive has a path outside of it ({shorten('/'.join(path))}); submit only the chapter files")
        if found.kind == "closed":
            raise UnreadableSubmission(f"the folder {shorten(found.path[-1])} cannot be opened")
        if found.kind == "folder" and len(found.path) == DEEPEST:
            self.note(f"files more than {DEEPEST} folders deep were not read")
        if found.kind == "folder" or not path:
            return
        self.file_count += 1
        if self.file_count > MAX_FILES:
            raise UnreadableSubmission(f"it contains more than {MAX_FILES} files; submit only the chapter files")
        if len(self.sample_names) < 3:
            self.sample_names.append(path[-1])
        chapter = self._find_chapter(path[-1])
        if found.kind in ("link", "special"):
            if chapter or len(path) == 1:
                what = "a link, which the grader does not follow" if found.kind == "link" else "not a regular file, so it was not opened"
                self.note(f"{shorten('/'.join(path))} is {what}")
            return
        if chapter:
            self._add_chapter(found, path, chapter)
        elif code := parse_code_name(path[-1]):
            self._add_unnamed(found, path, code.number)
        elif strip_archive_suffix(path[-1]) or ("." not in path[-1] and len(path) == 1):
            self._add_archive(found, path)

    def _find_chapter(self, name: str) -> ChapterName | None:
        """The chapter of a Python file, by `--map` or by its name."""
        module = self.options.find_module(name)
        if module:
            self.mapped.add(self.options.find_mapped(name))
        if module and not name.lower().endswith(".ipynb"):
            code = parse_code_name(name)
            return ChapterName(module, copy=code.number if code else 0)
        return parse_chapter_name(name)

    def _add_unnamed(self, found: FoundFile, path: tuple[str, ...], number: int) -> None:
        """Add a notebook or a Python file of another name, except the kit's own."""
        is_notebook = path[-1].lower().endswith(".ipynb")
        if len(self.unnamed) >= MAX_UNNAMED or any(part in KIT_FOLDERS for part in path[:-1]):
            return
        most = LARGEST_NOTEBOOK if is_notebook else LARGEST
        with found.open() as file:
            data = file.read(most + 1)
        if len(data) > most:
            self.note(f"{shorten('/'.join(path))} is larger than {most // 1000:,} KB and was not read" + ("; delete its outputs" if is_notebook else ""))
            return
        module, named = self.options.find_module(path[-1]), parse_notebook_name(path[-1])
        self._count_bytes(module, data, found)
        chapter = ChapterName(module or named.module, "" if module else named.person, named.copy) if named else ChapterName(module, copy=number)
        rank = self._rank(found, path, data, chapter, len(path) if chapter.module else 0, is_notebook)
        self.unnamed.append(ChapterCopy(path, data, found.time, found.zone_known, rank, module, number))

    def _rank(self, found: FoundFile, path: tuple[str, ...], data: bytes, chapter: ChapterName, depth: int, is_notebook: bool = False) -> tuple:
        """Of several copies of a chapter, the one with the smallest rank comes first: it is not empty, in the assignment's folder, newer than the others."""
        in_kit, is_elsewhere = any(part in KIT_FOLDERS for part in path[:-1]), not self.options.is_in_assignment(path)
        newest = -found.time.timestamp() if found.time else 0.0
        return in_kit, _is_blank(data), is_elsewhere, bool(chapter.person), depth, newest, -chapter.copy, is_notebook, path

    def _count_bytes(self, module: str, data: bytes, found: FoundFile) -> None:
        if found.time:
            time = (found.time, found.zone_known)
            self.earliest[module, data] = min(self.earliest.get((module, data), time), time)
        self.byte_count += len(data)
        if self.byte_count > MAX_TOTAL:
            raise UnreadableSubmission("it contains far too many copies of the chapters; submit one of each")

    def _add_chapter(self, found: FoundFile, path: tuple[str, ...], chapter: ChapterName) -> None:
        with found.open() as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            self.oversized.setdefault(chapter.module, path)
            return
        self._count_bytes(chapter.module, data, found)
        if len(path) > 1 and path[-2] == "exercises":
            self.kits.add(path[:-2])
        if not any(part in KIT_FOLDERS for part in path[:-1]):
            self.places.setdefault(chapter.module, []).append(path)
        rank = self._rank(found, path, data, chapter, len(path))
        copy = ChapterCopy(path, data, found.time, found.zone_known, rank, chapter.module, chapter.copy)
        known = self.best.get(chapter.module)
        loser: ChapterCopy | None = copy
        if known is None or copy.rank < known.rank:
            self.best[chapter.module], loser = copy, known
        if loser is not None and loser.data != self.best[chapter.module].data:
            others_kept = self.others.setdefault(chapter.module, [])
            if len(others_kept) < MAX_COPIES - 1:
                others_kept.append(loser)

    def _add_archive(self, found: FoundFile, path: tuple[str, ...]) -> None:
        if self.depth == DEEPEST_ARCHIVE:
            self.note(f"{shorten(path[-1])} was not opened, because it is in {DEEPEST_ARCHIVE} other archives; submit the chapter files")
            return
        if len(self.archives) >= MAX_ARCHIVES or not self.budget.archives:
            return
        self.budget.archives -= 1
        inner_files = SubmissionFiles(options=self.options, depth=self.depth + 1, budget=self.budget, mapped=self.mapped, has_stamps=self.has_stamps)
        try:
            with found.open() as file:
                head = file.read(HEAD)
                if "." not in path[-1] and not detect_kind(head):
                    return
                members = self.budget.count(read_members(_make_seekable(file, head, found.size), found.size, self.budget.limits()))
                inner_files.add_all(replace(member, time=found.time, zone_known=True) if self.has_stamps else member for member in members)
        except UnreadableSubmission as trouble:
            inner_files.problem = str(trouble)
        except Exception as error:
            inner_files.problem = f"{shorten(path[-1])} cannot be read: {describe_error(error)}"
        self.archives.append((path, inner_files))


def _is_blank(data: bytes) -> bool:
    """Does this file contain only empty lines and comments?"""
    return all(not line.strip() or line.lstrip().startswith(b"#") for line in data.splitlines())


def _make_seekable(file: ReadableFile, head: bytes, size: int) -> BinaryIO:
    """The file from its start, as one that can seek; `head` was read already. An archive inside an archive is a stream, so it is read into memory."""
    if hasattr(file, "seek"):
        file.seek(0)
        return cast(BinaryIO, file)
    if size > PERSON.size:
        return cast(BinaryIO, file)  # `read_members` rejects it for its size
    return BytesIO(head + file.read(PERSON.size + 1 - len(head)))
