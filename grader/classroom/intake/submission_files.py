"""Collects the files of one submission: the best copy of each chapter, notes on what was ignored, and the problem if there is one."""

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
from grader.classroom.sanitize import shorten
from grader.course.source import LARGEST, SourceProblem, TooComplex, decode_source, parse, too_large

MAX_TOTAL = 64 * MB  # bytes of all copies of all chapters that are read to find the right ones
MAX_FILES = 50_000
MAX_ARCHIVES = 3
MAX_NOTES = 20


@dataclass(frozen=True)
class ChapterCopy:
    """One copy of a chapter; the copy with the smallest `rank` is graded."""

    path: tuple[str, ...]
    data: bytes
    time: datetime | None
    zone_known: bool
    rank: tuple


@dataclass
class SubmissionFiles:
    """The files of one submission that have been read so far."""

    best: dict[str, ChapterCopy] = field(default_factory=dict)
    others: dict[str, list[ChapterCopy]] = field(default_factory=dict)  # without their bytes
    kits: set[tuple[str, ...]] = field(default_factory=set)  # folders that contain `exercises` with chapters
    oversized: dict[str, tuple[str, ...]] = field(default_factory=dict)  # chapters that are too large
    archives: list[tuple[str, SubmissionFiles]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problem: str = ""
    file_count: int = 0
    byte_count: int = 0
    sample_names: list[str] = field(default_factory=list)  # a few names, for the message that no chapter was found

    def add(self, found: FoundFile, path: tuple[str, ...] | None = None, may_open: bool = True) -> None:
        """Add a file; `path` is its path in the submission, `may_open` says whether an archive may be opened."""
        path = found.path if path is None else path
        try:
            self._add(found, path, may_open)
        except UnreadableSubmission as trouble:
            self.problem = self.problem or str(trouble)
        except Exception as error:  # a fault in one submission must not affect any other
            self.problem = self.problem or f"{shorten('/'.join(path))} cannot be read: {describe_error(error)}"

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
        chapter = parse_chapter_name(path[-1])
        if found.kind in ("link", "special"):
            if chapter or len(path) == 1:
                what = "a link, which the grader does not follow" if found.kind == "link" else "not a regular file, so it was not opened"
                self.note(f"{shorten('/'.join(path))} is {what}")
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
            raise UnreadableSubmission("it contains far too many copies of the chapters; submit one of each")
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
                head = file.read(HEAD)
                if "." not in path[-1] and not detect_kind(head):
                    return
                inner_files.add_all(read_members(_make_seekable(file, head, found.size), found.size), may_open=False)
        except UnreadableSubmission as trouble:
            inner_files.problem = str(trouble)
        except Exception as error:
            inner_files.problem = f"{shorten(path[-1])} cannot be read: {describe_error(error)}"
        self.archives.append((path[-1], inner_files))


@dataclass(frozen=True)
class SubmissionContent:
    """The chapters of a submission, chosen and decoded."""

    sources: dict[str, str]
    broken: dict[str, str]
    problem: str
    notes: tuple[str, ...]
    submitted: datetime | None
    zone_known: bool

    @property
    def digest(self) -> str:
        """A hash of the content; owner, place and time make no difference."""
        total = hashlib.sha256()
        for part in ("sources", *_flatten(self.sources), "broken", *_flatten(self.broken), "problem", self.problem):
            data = part.encode("utf-8", "surrogatepass")
            total.update(b"%d:" % len(data) + data)
        return total.hexdigest()


def read_content(
    files: SubmissionFiles, refused: Mapping[str, str] = MappingProxyType({}), before_chapter: Callable[[str], None] = lambda module: None
) -> SubmissionContent:
    """Choose and decode the chapters. `refused` says why a chapter must not be read; `before_chapter` is called with each chapter before it is read."""
    if files.problem:
        return SubmissionContent({}, {}, files.problem, (), None, True)
    _drop_kit_copies(files)
    if not files.best and not files.oversized:
        if len(files.archives) == 1:
            inner = read_content(files.archives[0][1], refused, before_chapter)
            return replace(inner, notes=(*files.notes, *inner.notes))
        return SubmissionContent({}, {}, _explain_no_chapter(files), tuple(files.notes), None, True)
    for name, _ in files.archives:
        files.note(f"{shorten(name)} was not opened, because there are chapter files next to it")
    sources, broken = {}, {}
    for module in sorted({*files.best, *files.oversized}):
        copy = files.best.get(module)
        if copy is None:
            broken[module] = str(too_large(f"{module}.py"))
            continue
        before_chapter(module)
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
    """A chapter's text, which later steps can parse without risk. Syntax errors are reported by grading, which shows more of them."""
    text = decode_source(data, file)
    try:
        parse(text, file)
    except TooComplex:
        raise
    except SourceProblem:
        pass
    return text


def _drop_kit_copies(files: SubmissionFiles) -> None:
    """Remove the chapters of a copy of the kit that are not in its `exercises` folder."""
    dropped = set()
    for module, copy in list(files.best.items()):
        for kit in files.kits:
            if len(copy.path) > len(kit) + 1 and copy.path[: len(kit)] == kit and copy.path[len(kit)] in KIT_FOLDERS:
                dropped.add(copy.path[len(kit)])
                del files.best[module]
                break
    for folder in sorted(dropped):
        files.note(f"the chapters in {folder}/ belong to the kit and were not read")
    for others in files.others.values():
        others[:] = [o for o in others if not any(o.path[: len(kit)] == kit and o.path[len(kit)] in KIT_FOLDERS for kit in files.kits if len(o.path) > len(kit) + 1)]


def _note_other_copies(files: SubmissionFiles, module: str, copy: ChapterCopy) -> None:
    if copy.path[-1].lower() != f"{module}.py":
        files.note(f"{shorten(copy.path[-1])} was used as {module}.py")
    others = files.others.get(module)
    if others:
        paths = " and ".join(shorten("/".join(other.path)) for other in others[:2])
        more = f" and {len(others) - 2} more" if len(others) > 2 else ""
        files.note(f"there are several versions of {module}.py; {shorten('/'.join(copy.path))} was graded, not {paths}{more}")


def _explain_no_chapter(files: SubmissionFiles) -> str:
    if len(files.archives) > 1:
        names = " and ".join(shorten(name) for name, _ in files.archives)
        return f"it contains several archives ({names}) and no chapter file; submit one archive"
    if files.notes:
        return f"it contains no readable chapter: {files.notes[0]}"
    if not files.file_count:
        return "nothing was submitted: it is empty"
    names = ", ".join(shorten(name, 30) for name in files.sample_names)
    more = " and more" if files.file_count > len(files.sample_names) else ""
    return f"it contains no chapter, only {names}{more}; name the chapter files like ch03_attention.py"


def _flatten(texts: dict[str, str]) -> list[str]:
    return [part for name in sorted(texts) for part in (name, texts[name])]


def _make_seekable(file: ReadableFile, head: bytes, size: int) -> BinaryIO:
    """The file from its start, as one that can seek; `head` was read already. An archive inside an archive is a stream, so it is read into memory."""
    if hasattr(file, "seek"):
        file.seek(0)
        return cast(BinaryIO, file)
    if size > PERSON.size:
        return cast(BinaryIO, file)  # `read_members` rejects it for its size
    return BytesIO(head + file.read(PERSON.size + 1 - len(head)))
