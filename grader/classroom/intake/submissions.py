"""Reads a class's folder, archive or table into one Submission per person.

Every fault in one submission becomes the `problem` of that submission only. `headway grade` reads in a separate process (reader.py), which may be
killed and started again. So each submission has a key, and the next process skips the keys that are done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from grader.classroom.intake.archives import HEAD, detect_kind
from grader.classroom.intake.chapter_versions import ChapterVersion
from grader.classroom.intake.class_layout import ClassInput, ClassLayout, Location, class_from_archive, class_from_folder, find_layout
from grader.classroom.intake.commits import read_commit_time
from grader.classroom.intake.entries import FoundFile, describe_entry, walk_folder
from grader.classroom.intake.file_names import make_safe_name, parse_chapter_name, parse_code_name, parse_notebook_name, replace_undecodable
from grader.classroom.intake.nbgrader import find_submitted
from grader.classroom.intake.options import DEFAULTS, ReadOptions
from grader.classroom.intake.problems import GradingProblem, UnreadableSubmission, describe_error
from grader.classroom.intake.roster import RosterRow, read_roster
from grader.classroom.intake.several_people import NO_PEOPLE, refuse_classes
from grader.classroom.intake.submission_content import SubmissionContent, read_content
from grader.classroom.intake.submission_files import SubmissionFiles
from grader.classroom.sanitize import shorten
from grader.course.syllabus import EXERCISES, ROOT, SOLUTIONS, TESTS


@dataclass(frozen=True)
class Submission:
    name: str  # the person's name: of the folder, file or archive, or from a table
    sources: dict[str, str]  # module name ("ch03_attention") → text, for each chapter found
    problem: str = ""  # one sentence, if nothing can be graded
    notes: tuple[str, ...] = ()  # sentences for the instructor
    submitted: datetime | None = None  # with a time zone; None if unknown
    digest: str = ""  # a hash of the content (sources, broken chapters and problem), without the owner
    broken: dict[str, str] = field(default_factory=dict)  # module name → why that chapter cannot be read
    slug: str = ""  # a file name for this person, valid on every system and unique in the class
    time_from: str = ""  # the source of `submitted`: "roster", "Gradescope", "nbgrader", "commit", "file"; or why it is None: UNTRUSTED, LATE_MARK, NO_LATE_MARK
    zone_known: bool = True  # False if the time is local time from a zip archive
    ids: dict[str, str] = field(default_factory=dict)  # what the learning platform calls the person: "canvas_id", "moodle_id", "email", "number"
    versions: tuple[ChapterVersion, ...] = ()  # all versions of the chapters that have several, if the one with most points counts
    group: str = ""  # the same text for people who handed in one submission together
    mapped: tuple[str, ...] = ()  # the names in `--map` that fit one of its files
    other_code: tuple[str, ...] = ()  # the names of files with code, if it contains no chapter
    people: tuple[str, ...] = ()  # the names of several people whose files these seem to be
    people_in: str = ""  # the folder or archive of the class that contains them

    @property
    def is_marked_late(self) -> bool:
        return self.time_from == LATE_MARK


NoteCallback = Callable[[str], None]  # receives a sentence for the instructor that is not about a single person


NAMES = "\0names"  # the key while the class's layout is determined
UNTRUSTED = "untrusted file dates"  # there are only dates of files, which are not used, so `submitted` is None
LATE_MARK = "late mark"  # Canvas marks the submission as late but gives no time, so `submitted` is None
NO_LATE_MARK = "no late mark"  # Canvas gives no time and does not mark the submission as late, so `submitted` is None
HEARTBEAT = 1.0  # seconds between two progress reports while a long archive or folder is read


@dataclass(frozen=True)
class ReadProgress:
    """What an earlier process has read, the callback for progress reports, and the instructor's options."""

    done: frozenset[str] = frozenset()  # keys of submissions that are not read again
    refused: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # key → chapter, or "" for the whole submission → why it is not read
    report: Callable[[str, str], None] = lambda key, chapter: None  # called before a submission (chapter "") and before each of its chapters
    options: ReadOptions = field(default_factory=ReadOptions)

    def report_while_reading(self, founds: Iterable[FoundFile], key: str) -> Iterator[FoundFile]:
        """The same entries, with a progress report every second: a large class takes long, but the next entry never does."""
        last = time.monotonic()
        for found in founds:
            if time.monotonic() - last > HEARTBEAT:
                self.report(key, "")
                last = time.monotonic()
            yield found


def read_submissions(path: Path, add_note: NoteCallback = lambda sentence: None, options: ReadOptions = DEFAULTS) -> list[Submission]:
    """All submissions, sorted by name. GradingProblem, one sentence, if the input as a whole cannot be used."""
    submissions = [submission for _, found in iterate_submissions(path, add_note, ReadProgress(options=options)) for submission in found]
    refuse_classes(Path(path), submissions, add_note)
    return add_slugs(submissions)


def add_slugs(submissions: Iterable[Submission]) -> list[Submission]:
    """The submissions sorted by name, each with a unique file name."""
    taken: set[str] = set()
    return [replace(s, slug=make_safe_name(s.name, taken)) for s in sorted(submissions, key=lambda s: (s.name, s.digest, s.notes))]


def iterate_submissions(path: Path, add_note: NoteCallback, progress: ReadProgress) -> Iterator[tuple[str, list[Submission]]]:
    """Each key with its submission (for a group, one per person)."""
    path = Path(path).expanduser()
    if path.is_dir():
        if path.resolve() in (ROOT, EXERCISES, SOLUTIONS, TESTS):
            raise GradingProblem(f"{path} belongs to the kit itself; name the folder with the submissions")
        if submitted := find_submitted(path):
            add_note(f"{path.resolve().name} is the folder of an nbgrader course, so its folder {submitted.name} was read")
        yield from _read_class(class_from_folder(submitted or path), add_note, progress)
    elif not path.exists():
        raise GradingProblem(f"{path} does not exist")
    elif not path.is_file():
        raise GradingProblem(f"{path} is neither a file nor a folder")
    else:
        yield from _read_file(path, add_note, progress)


def _read_file(path: Path, add_note: NoteCallback, progress: ReadProgress) -> Iterator[tuple[str, list[Submission]]]:
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
    except OSError as error:
        raise GradingProblem(f"{path.name} cannot be read: {(error.strerror or type(error).__name__).lower()}") from None
    if detect_kind(head):
        yield from _read_class(class_from_archive(path), add_note, progress)
    elif path.suffix.lower() == ".csv":
        for row in read_roster(path):
            yield from _read_guarded(f"line {row.line}", [row.name], progress, partial(_read_row, row, progress))
    elif parse_code_name(path.name):
        chapter = parse_chapter_name(path.name) or parse_notebook_name(path.name)
        name = chapter.person if chapter and chapter.person else path.stem
        yield from _read_guarded("", [name], progress, lambda: [_make_submission(name, *_read_path(path, "", progress))])
    else:
        raise GradingProblem(f"{path.name} is not a folder, an archive, a table (.csv), a Python file or a notebook")


def _read_guarded(key: str, names: Sequence[str], progress: ReadProgress, read: Callable[[], list[Submission]]) -> Iterator[tuple[str, list[Submission]]]:
    """The result of `read`, or a submission with a problem if it fails, so that no other submission is affected."""
    if key in progress.done:
        return
    try:
        problem = progress.refused.get(key, {}).get("", "")
        if not problem:
            progress.report(key, "")
            yield key, read()
            return
    except Exception as error:
        problem = f"it cannot be read: {describe_error(error)}"
    yield key, [_make_submission(name, read_content(SubmissionFiles(problem=problem)), "") for name in names]


def _read_row(row: RosterRow, progress: ReadProgress) -> list[Submission]:
    files = SubmissionFiles()
    if row.path is None:
        files.problem = f"nothing was submitted: line {row.line} of the table has no path"
    elif not row.path.exists():
        files.problem = f"the path in line {row.line} of the table does not exist"
    else:
        content, time_from = _read_path(row.path.resolve(), f"line {row.line}", progress)
        return [_make_submission(row.name, content, "roster" if row.submitted else time_from, row.submitted)]
    return [_make_submission(row.name, read_content(files), "roster", row.submitted)]


def _read_path(path: Path, key: str, progress: ReadProgress) -> tuple[SubmissionContent, str]:
    """One person's folder, archive or file."""
    files = SubmissionFiles(options=progress.options)
    if path.is_dir():
        files.add_all(walk_folder(path))
        return _read_files(files, path, key, progress)
    files.add(describe_entry(path, (path.name,)))
    return _read_files(files, None, key, progress)


def _read_class(class_input: ClassInput, add_note: NoteCallback, progress: ReadProgress) -> Iterator[tuple[str, list[Submission]]]:
    progress.report(NAMES, "")
    try:
        layout = find_layout(replace(class_input, options=progress.options, walk=lambda: progress.report_while_reading(class_input.walk(), NAMES)))
    except UnreadableSubmission as trouble:
        raise GradingProblem(f"{class_input.name}: {trouble}") from None
    locations = [layout.single] if layout.single else list(dict.fromkeys(layout.locations.values()))
    if class_input.folder and (kit := [one for one in locations if class_input.folder.joinpath(*one.folder).resolve() == ROOT]):
        add_note(f"ignored because it is the kit itself: {shorten(kit[0].names[0])}")
        locations.remove(kit[0])
    if not locations:
        raise GradingProblem(f"{class_input.name} contains no submissions: it has no folder, no archive and no file with a name like NAME_ch03_attention.py")
    _report_ignored_files(layout, add_note)
    files_by_location = {} if class_input.folder else _sort_archive_members(class_input, layout, progress)

    def read_location(location: Location) -> list[Submission]:
        """One submission for each person of a group (usually one person)."""
        files = files_by_location.pop(location, None) or _new_files(location, progress)
        if class_input.folder and not files.problem:
            entries = layout.walk_location(location, class_input.folder)
            files.add_all(progress.report_while_reading(entries, _location_key(location)), lambda found: layout.locate(found.path)[1], location.set_time)
        folder = class_input.folder.joinpath(*location.folder) if class_input.folder and location.is_folder and not location.stamps else None
        content, time_from = _read_files(files, folder, _location_key(location), progress)
        when = location.submitted
        if location.late:
            time_from = LATE_MARK
        elif location.is_from_canvas and time_from == UNTRUSTED:
            time_from = NO_LATE_MARK
        if location.stamps:
            content = _note_several_stamps(content, location)
        if layout.single:
            content = replace(content, people=NO_PEOPLE)
        elif content.people.problem:
            content = replace(content, sources={}, broken={}, versions=(), problem=content.people.problem)
        time_from = location.time_from if when or location.stamps else time_from
        found = [_make_submission(name, content, time_from, when) for name in location.names]
        group = _location_key(location) if len(found) > 1 else ""
        people_in = "/".join([*location.folder, *(content.people.folder if location.is_folder else ())]) if content.people.names else ""
        return [replace(one, ids=ids, group=group, people_in=people_in) for one, ids in zip(found, location.ids or [{}] * len(found), strict=True)]

    for location in locations:
        yield from _read_guarded(_location_key(location), location.names, progress, partial(read_location, location))


def _sort_archive_members(class_input: ClassInput, layout: ClassLayout, progress: ReadProgress) -> dict[Location, SubmissionFiles]:
    """Read a class's archive in one pass, since the files of a submission can be anywhere in it."""
    files_by_location: dict[Location, SubmissionFiles] = {}
    last, reported = None, time.monotonic()
    try:
        for found in class_input.walk():
            location, path = layout.locate(found.path)
            if location is None:
                continue
            files = files_by_location.setdefault(location, _new_files(location, progress))
            if not files.problem and _location_key(location) not in progress.done:
                if location is not last or time.monotonic() - reported > HEARTBEAT:
                    progress.report(_location_key(location), "")
                    last, reported = location, time.monotonic()
                files.add(location.set_time(found, path), path)
    except UnreadableSubmission as trouble:
        raise GradingProblem(f"{class_input.name}: {trouble}") from None
    return files_by_location


def _new_files(location: Location, progress: ReadProgress) -> SubmissionFiles:
    problem = location.problem or progress.refused.get(_location_key(location), {}).get("", "")
    return SubmissionFiles(problem=problem, options=progress.options, has_stamps=bool(location.stamps))


def _note_several_stamps(content: SubmissionContent, location: Location) -> SubmissionContent:
    """The content with a note, if its chapters are from folders with different time stamps."""
    stamps = dict(location.stamps)
    folders = sorted({path[0] for path in content.paths if path[0] in stamps}, key=lambda folder: stamps[folder])
    if len({stamps[folder] for folder in folders}) < 2:
        return content
    sentence = f"the chapters are from several assignments of nbgrader ({' and '.join(map(shorten, folders))}), so the newest time stamp counts"
    return replace(content, notes=(*content.notes, sentence))


def _location_key(location: Location) -> str:
    return "/".join(location.folder)


def _report_ignored_files(layout: ClassLayout, add_note: NoteCallback) -> None:
    """Add notes on the files of a class that belong to no submission."""
    if layout.unowned:
        add_note(f"ignored because they have no owner: {_list_names(layout.unowned)}; put each submission into a folder with the person's name")
    if layout.escaped:
        add_note(f"ignored because the path leads out of the archive: {_list_names(layout.escaped)}")


def _list_names(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(shorten(name) for name in names[:3]) + more


def _read_files(files: SubmissionFiles, folder: Path | None, key: str, progress: ReadProgress) -> tuple[SubmissionContent, str]:
    """The content and the source of its time. For a git clone on disk that is the last commit: the files' own times are those of cloning.

    The times of files count only if the instructor says so, because copying and unpacking change them.
    """
    content = replace(read_content(files, progress.refused.get(key, {}), partial(progress.report, key)), mapped=tuple(sorted(files.mapped)))
    by_file = "file" if progress.options.trust_file_dates else UNTRUSTED
    if folder is None:
        return content, by_file
    clones = {path[:depth] for path in content.paths for depth in range(len(path))}
    times = [time for clone in clones if (time := read_commit_time(folder.joinpath(*clone)))]
    if times:
        return replace(content, submitted=max(times), zone_known=True), "commit"
    return content, by_file


def _make_submission(name: str, content: SubmissionContent, time_from: str, when: datetime | None = None) -> Submission:
    marks = (LATE_MARK, NO_LATE_MARK)
    is_known = bool(when) or time_from not in (UNTRUSTED, *marks)
    submitted = (when or content.submitted) if is_known else None
    return Submission(
        name=replace_undecodable(name),
        sources=content.sources,
        problem=content.problem,
        notes=content.notes,
        submitted=submitted,
        digest=content.digest,
        broken=content.broken,
        time_from=time_from if submitted or time_from in marks or (time_from == UNTRUSTED and content.submitted) else "",
        zone_known=content.zone_known if when is None else True,
        versions=content.versions,
        mapped=content.mapped,
        other_code=content.other_code,
        people=content.people.names,
    )
