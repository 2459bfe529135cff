"""One person's files, gathered one by one: the best copy of each chapter, what was left out, and what is wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from io import BytesIO
from types import MappingProxyType
from typing import BinaryIO, cast

from grader.classroom.intake.archives import HEAD, MB, PERSON, detect_kind, read_members
from grader.classroom.intake.entries import DEEPEST, FoundFile, ReadableFile
from grader.classroom.intake.file_names import KIT_FOLDERS, LONGEST_NAME, ChapterName, is_too_long, parse_chapter_name, strip_archive_suffix
from grader.classroom.intake.problems import UnreadableSubmission, describe_error
from grader.classroom.intake.tar import SPARSE
from grader.classroom.sanitize import shown
from grader.course.source import LARGEST, SourceProblem, TooComplex, decode_source, parse, too_large

MAX_TOTAL = 64 * MB  # all copies of all chapters that are read to find the right ones
MAX_FILES = 50_000
MAX_ARCHIVES = 3
MAX_NOTES = 20


@dataclass(frozen=True)
class ChapterCopy:
    """A chapter as it was found; the smallest `rank` is the one that counts."""

    path: tuple[str, ...]
    data: bytes
    time: datetime | None
    zone_known: bool
    rank: tuple


@dataclass
class SubmissionFiles:
    """What is known of one submission so far."""

    best: dict[str, ChapterCopy] = field(default_factory=dict)
    others: dict[str, list[ChapterCopy]] = field(default_factory=dict)  # with their bytes dropped
    kits: set[tuple[str, ...]] = field(default_factory=set)  # folders that hold `exercises` with chapters
    oversized: dict[str, tuple[str, ...]] = field(default_factory=dict)  # chapters too large to be read
    archives: list[tuple[str, SubmissionFiles]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problem: str = ""
    file_count: int = 0
    byte_count: int = 0
    sample_names: list[str] = field(default_factory=list)  # the first few names, for the sentence that says no chapter is among them

    def add(self, found: FoundFile, path: tuple[str, ...] | None = None, may_open: bool = True) -> None:
        """Take note of a file; `path` is where it lies in the submission, `may_open` whether an archive may be opened."""
        path = found.path if path is None else path
        try:
            self._add(found, path, may_open)
        except UnreadableSubmission as trouble:
            self.problem = self.problem or str(trouble)
        except Exception as error:  # whatever is wrong with one submission is the problem of its owner alone
            self.problem = self.problem or f"{shown('/'.join(path))} cannot be read: {describe_error(error)}"

    def add_all(self, founds: Iterable[FoundFile], may_open: bool = True, path_of: Callable[[FoundFile], tuple[str, ...]] = lambda found: found.path) -> None:
        try:
            for found in founds:
                self.add(found, path_of(found), may_open)
                if self.problem:
                    break
        except UnreadableSubmission as trouble:
            self.problem = self.problem or str(trouble)
        except Exception as error:
            self.problem = self.problem or f"it cannot be read: {describe_error(error)}"

    def note(self, sentence: str) -> None:
        if len(self.notes) < MAX_NOTES:
            self.notes.append(sentence)

    def _add(self, found: FoundFile, path: tuple[str, ...], may_open: bool) -> None:
        if self.problem:
            return
        if is_too_long(path):
            name = next((part for part in path if len(part) > LONGEST_NAME), "/".join(path))
            raise UnreadableSubmission(f"a name in it is longer than {LONGEST_NAME} characters ({shown(name, 30)}); hand in the chapters alone")
        if found.kind == "sparse":
            raise UnreadableSubmission(SPARSE)
        if found.kind == "escape" or ".." in path:
            raise UnreadableSubmission(f"a file in the archive points outside of it ({shown('/'.join(path))}); hand in the chapters alone")
        if found.kind == "closed":
            raise UnreadableSubmission(f"the folder {shown(found.path[-1])} cannot be opened")
        if found.kind == "folder" and len(found.path) == DEEPEST:
            self.note(f"what lies in more than {DEEPEST} folders below each other was not read")
        if found.kind == "folder" or not path:
            return
        self.file_count += 1
        if self.file_count > MAX_FILES:
            raise UnreadableSubmission(f"there are more than {MAX_FILES} files; hand in the chapters alone")
        if len(self.sample_names) < 3:
            self.sample_names.append(path[-1])
        chapter = parse_chapter_name(path[-1])
        if found.kind in ("link", "special"):
            if chapter or len(path) == 1:
                what = "a link, and links are not followed" if found.kind == "link" else "not a regular file, and was not opened"
                self.note(f"{shown('/'.join(path))} is {what}")
            return
        if chapter:
            self._add_chapter(found, path, chapter)
        elif may_open and (strip_archive_suffix(path[-1]) or ("." not in path[-1] and len(path) == 1)):
            self._add_archive(found, path)

    def _add_chapter(self, found: FoundFile, path: tuple[str, ...], chapter: ChapterName) -> None:
        with found.open() as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            self.oversized.setdefault(chapter.module, path)
            return
        self.byte_count += len(data)
        if self.byte_count > MAX_TOTAL:
            raise UnreadableSubmission("there are far too many copies of the chapters; hand in one of each")
        if len(path) > 1 and path[-2] == "exercises":
            self.kits.add(path[:-2])
        newest = -found.time.timestamp() if found.time else 0.0
        in_kit = any(part in KIT_FOLDERS for part in path[:-1])
        copy = ChapterCopy(path, data, found.time, found.zone_known, (in_kit, bool(chapter.person), len(path), newest, -chapter.copy, path))
        known = self.best.get(chapter.module)
        loser: ChapterCopy | None = copy
        if known is None or copy.rank < known.rank:
            self.best[chapter.module], loser = copy, known
        if loser is not None and loser.data != self.best[chapter.module].data:
            others_kept = self.others.setdefault(chapter.module, [])
            if len(others_kept) < 5:
                others_kept.append(ChapterCopy(loser.path, b"", loser.time, loser.zone_known, loser.rank))

    def _add_archive(self, found: FoundFile, path: tuple[str, ...]) -> None:
        if len(self.archives) >= MAX_ARCHIVES:
            return
        inner_files = SubmissionFiles()
        try:
            with found.open() as file:
                if "." not in path[-1]:
                    head = file.read(HEAD)
                    if not detect_kind(head):
                        return
                    file = _rewind(file, head)
                inner_files.add_all(read_members(_make_seekable(file, found.size), found.size), may_open=False)
        except UnreadableSubmission as trouble:
            inner_files.problem = str(trouble)
        except Exception as error:
            inner_files.problem = f"{shown(path[-1])} cannot be read: {describe_error(error)}"
        self.archives.append((path[-1], inner_files))


@dataclass(frozen=True)
class SubmissionContent:
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
        for part in ("sources", *_flatten(self.sources), "broken", *_flatten(self.broken), "problem", self.problem):
            data = part.encode("utf-8", "surrogatepass")
            total.update(b"%d:" % len(data) + data)
        return total.hexdigest()


def read_content(files: SubmissionFiles, refused: Mapping[str, str] = MappingProxyType({}), at: Callable[[str], None] = lambda module: None) -> SubmissionContent:
    """Choose and decode what was gathered. `refused` says why a chapter is not to be read; `at` is called with each chapter before it is."""
    if files.problem:
        return SubmissionContent({}, {}, files.problem, (), None, True)
    _drop_kit_copies(files)
    if not files.best and not files.oversized:
        if len(files.archives) == 1:
            inner = read_content(files.archives[0][1], refused, at)
            return replace(inner, notes=(*files.notes, *inner.notes))
        return SubmissionContent({}, {}, _explain_no_chapter(files), tuple(files.notes), None, True)
    for name, _ in files.archives:
        files.note(f"{shown(name)} was not looked into, because there are chapters beside it")
    sources, broken = {}, {}
    for module in sorted({*files.best, *files.oversized}):
        copy = files.best.get(module)
        if copy is None:
            broken[module] = str(too_large(f"{module}.py"))
            continue
        at(module)
        try:
            if module in refused:
                raise UnreadableSubmission(refused[module])
            sources[module] = _decode_chapter(copy.data, f"{module}.py")
        except (SourceProblem, UnreadableSubmission) as trouble:
            broken[module] = str(trouble)
        except Exception as error:
            broken[module] = f"{module}.py cannot be read: {describe_error(error)}"
        _note_other_copies(files, module, copy)
    times = [(copy.time, copy.zone_known) for copy in files.best.values() if copy.time]
    submitted, zone_known = max(times, key=lambda one: one[0], default=(None, True))
    problem = "" if sources else next(iter(broken.values()))
    for sentence in broken.values():
        if sentence != problem:
            files.note(sentence)
    return SubmissionContent(sources, broken, problem, tuple(files.notes), submitted, zone_known)


def _decode_chapter(data: bytes, file: str) -> str:
    """A chapter's text, which everybody may parse. What is wrong with its syntax is found where it is graded, which shows more of it."""
    text = decode_source(data, file)
    try:
        parse(text, file)
    except TooComplex:
        raise
    except SourceProblem:
        pass
    return text


def _drop_kit_copies(files: SubmissionFiles) -> None:
    """In a copy of the whole kit, `exercises` is the learner's and `solutions` is not."""
    dropped = set()
    for module, copy in list(files.best.items()):
        for kit in files.kits:
            if len(copy.path) > len(kit) + 1 and copy.path[: len(kit)] == kit and copy.path[len(kit)] in KIT_FOLDERS:
                dropped.add(copy.path[len(kit)])
                del files.best[module]
                break
    for folder in sorted(dropped):
        files.note(f"the chapters in {folder}/ are the kit's own and were not read")
    for others in files.others.values():
        others[:] = [o for o in others if not any(o.path[: len(kit)] == kit and o.path[len(kit)] in KIT_FOLDERS for kit in files.kits if len(o.path) > len(kit) + 1)]


def _note_other_copies(files: SubmissionFiles, module: str, copy: ChapterCopy) -> None:
    if copy.path[-1].lower() != f"{module}.py":
        files.note(f"{shown(copy.path[-1])} was taken for {module}.py")
    others = files.others.get(module)
    if others:
        paths = " and ".join(shown("/".join(other.path)) for other in others[:2])
        more = f" and {len(others) - 2} more" if len(others) > 2 else ""
        files.note(f"there are several versions of {module}.py: {shown('/'.join(copy.path))} was taken, not {paths}{more}")


def _explain_no_chapter(files: SubmissionFiles) -> str:
    if len(files.archives) > 1:
        names = " and ".join(shown(name) for name, _ in files.archives)
        return f"there are several archives and no chapter beside them ({names}): which one is meant?"
    if files.notes:
        return f"there is no chapter to read: {files.notes[0]}"
    if not files.file_count:
        return "nothing was handed in: it is empty"
    names = ", ".join(shown(name, 30) for name in files.sample_names)
    more = " and more" if files.file_count > len(files.sample_names) else ""
    return f"it contains no chapter, only {names}{more}; name the chapter files like ch03_attention.py"


def _flatten(texts: dict[str, str]) -> list[str]:
    return [part for name in sorted(texts) for part in (name, texts[name])]


def _make_seekable(file: ReadableFile, size: int) -> BinaryIO:
    """An archive within an archive comes as a stream and is kept in memory; one on disk is read where it lies."""
    if hasattr(file, "seek"):
        return cast(BinaryIO, file)
    if size > PERSON.size:
        return cast(BinaryIO, file)  # refused for its size before it is read
    return BytesIO(file.read(PERSON.size + 1))


def _rewind(file: ReadableFile, head: bytes) -> ReadableFile:
    if hasattr(file, "seek"):
        file.seek(0)
        return file
    return BytesIO(head + file.read(PERSON.size + 1))
