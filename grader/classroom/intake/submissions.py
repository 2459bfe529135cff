"""What a class handed in: a folder, an archive or a table becomes one submission a person.

Whatever goes wrong while one submission is read is a sentence about that submission. `headway grade` reads in a process of its own (reader.py),
which may be killed and started again in the middle: each submission has a key, by which the next process leaves out what is done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from grader.classroom.intake.archives import HEAD, detect_kind
from grader.classroom.intake.class_layout import ClassInput, ClassLayout, Location, class_from_archive, class_from_folder, find_layout
from grader.classroom.intake.commits import read_commit_time
from grader.classroom.intake.entries import FoundFile, described, walk_folder
from grader.classroom.intake.file_names import make_safe_name, parse_chapter_name, replace_undecodable
from grader.classroom.intake.problems import GradingProblem, UnreadableSubmission, describe_error
from grader.classroom.intake.roster import RosterRow, read_roster
from grader.classroom.intake.submission_files import SubmissionContent, SubmissionFiles, read_content
from grader.classroom.sanitize import shown


@dataclass(frozen=True)
class Submission:
    name: str  # the person: folder name, file stem, archive stem, or as a table says
    sources: dict[str, str]  # module name ("ch03_attention") → text, for each chapter found
    problem: str = ""  # one sentence, where nothing can be graded
    notes: tuple[str, ...] = ()  # sentences for the instructor
    submitted: datetime | None = None  # when, with a time zone, where it can be known
    digest: str = ""  # names the content: sources, broken chapters and problem, whoever handed them in
    broken: dict[str, str] = field(default_factory=dict)  # module name → why that chapter cannot be read
    slug: str = ""  # a file name for this person, safe on every system and unlike the others of the class
    time_from: str = ""  # who says when: "roster", "Gradescope", "nbgrader", "commit", "file"
    zone_known: bool = True  # False where an archive noted the packer's clock and not its time zone


NoteCallback = Callable[[str], None]  # a sentence for the instructor, about the class and nobody in particular


NAMES = "\0names"  # the key while it is found out whose files lie where
HEARTBEAT = 1.0  # seconds between two reports while a long archive or folder is walked through


@dataclass(frozen=True)
class ReadProgress:
    """What an earlier process has read, and how this one reports what it is about to read."""

    done: frozenset[str] = frozenset()  # keys of submissions that are not read again
    refused: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # key → chapter, or "" for all of it → why it is not read
    at: Callable[[str, str], None] = lambda key, chapter: None  # called before a submission ("" for the chapter), and each of its chapters, is read

    def walk(self, founds: Iterable[FoundFile], key: str) -> Iterator[FoundFile]:
        """The same, with a report now and then: a large class takes long, but each file comes soon after the one before."""
        last = time.monotonic()
        for found in founds:
            if time.monotonic() - last > HEARTBEAT:
                self.at(key, "")
                last = time.monotonic()
            yield found


def read_submissions(path: Path, tell: NoteCallback = lambda sentence: None) -> list[Submission]:
    """Everybody's submission, sorted by name. GradingProblem, one sentence, where the whole input makes no sense."""
    return add_slugs(submission for _, found in iterate_submissions(path, tell, ReadProgress()) for submission in found)


def add_slugs(submissions: Iterable[Submission]) -> list[Submission]:
    """Sorted by name, and each with a file name unlike the others."""
    taken: set[str] = set()
    return [replace(s, slug=make_safe_name(s.name, taken)) for s in sorted(submissions, key=lambda s: (s.name, s.digest, s.notes))]


def iterate_submissions(path: Path, tell: NoteCallback, progress: ReadProgress) -> Iterator[tuple[str, list[Submission]]]:
    """Each key with its submission (a group's is one for each of its people)."""
    path = Path(path).expanduser()
    if path.is_dir():
        yield from _read_class(class_from_folder(path), tell, progress)
    elif not path.exists():
        raise GradingProblem(f"there is no file or folder {path}")
    elif not path.is_file():
        raise GradingProblem(f"{path} is neither a file nor a folder")
    else:
        yield from _read_file(path, tell, progress)


def _read_file(path: Path, tell: NoteCallback, progress: ReadProgress) -> Iterator[tuple[str, list[Submission]]]:
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
    except OSError as error:
        raise GradingProblem(f"{path.name} cannot be read: {(error.strerror or type(error).__name__).lower()}") from None
    if detect_kind(head):
        yield from _read_class(class_from_archive(path), tell, progress)
    elif path.suffix.lower() == ".csv":
        for row in read_roster(path):
            yield from _read_guarded(f"line {row.line}", [row.name], progress, partial(_read_row, row, progress))
    elif chapter := parse_chapter_name(path.name):
        name = chapter.person or path.stem
        yield from _read_guarded("", [name], progress, lambda: [_make_submission(name, *_read_path(path, "", progress))])
    else:
        raise GradingProblem(f"{path.name} is neither a folder, an archive, a table (.csv) nor a chapter called like ch03_attention.py")


def _read_guarded(key: str, names: Sequence[str], progress: ReadProgress, read: Callable[[], list[Submission]]) -> Iterator[tuple[str, list[Submission]]]:
    """The submission that `read` reads, or one with a problem: a fault in it costs no other submission."""
    if key in progress.done:
        return
    try:
        problem = progress.refused.get(key, {}).get("", "")
        if not problem:
            progress.at(key, "")
            yield key, read()
            return
    except Exception as error:
        problem = f"it cannot be read: {describe_error(error)}"
    yield key, [_make_submission(name, read_content(SubmissionFiles(problem=problem)), "file") for name in names]


def _read_row(row: RosterRow, progress: ReadProgress) -> list[Submission]:
    files = SubmissionFiles()
    if row.path is None:
        files.problem = f"line {row.line} of the table gives no path: nothing was handed in"
    elif not row.path.exists():
        files.problem = f"line {row.line} of the table gives a path that does not lead anywhere"
    else:
        gathered, time_from = _read_path(row.path.resolve(), f"line {row.line}", progress)
        return [_make_submission(row.name, gathered, "roster" if row.submitted else time_from, row.submitted)]
    return [_make_submission(row.name, read_content(files), "roster", row.submitted)]


def _read_path(path: Path, key: str, progress: ReadProgress) -> tuple[SubmissionContent, str]:
    """One person's folder, archive or file."""
    files = SubmissionFiles()
    if path.is_dir():
        files.add_all(walk_folder(path))
        return _read_files(files, path, key, progress)
    files.add(described(path, (path.name,)))
    return _read_files(files, None, key, progress)


def _read_class(handed_in: ClassInput, tell: NoteCallback, progress: ReadProgress) -> Iterator[tuple[str, list[Submission]]]:
    progress.at(NAMES, "")
    try:
        layout = find_layout(replace(handed_in, walk=lambda: progress.walk(handed_in.walk(), NAMES)))
    except UnreadableSubmission as trouble:
        raise GradingProblem(f"{handed_in.name}: {trouble}") from None
    locations = [layout.single] if layout.single else list(dict.fromkeys(layout.locations.values()))
    if not locations:
        raise GradingProblem(f"{handed_in.name} holds no submissions: there is no folder, no archive and no file called like NAME_ch03_attention.py in it")
    _report_ignored_files(layout, tell)
    files_by_location = {} if handed_in.folder else _sort_archive_members(handed_in, layout, progress)

    def read(location: Location) -> list[Submission]:
        files = files_by_location.pop(location, None) or SubmissionFiles(problem=location.problem)
        if handed_in.folder and not files.problem:
            files.add_all(progress.walk(layout.walk_location(location, handed_in.folder), _location_key(location)), path_of=lambda found: layout.locate(found.path)[1])
        return _read_location(handed_in, location, files, progress)

    for location in locations:
        yield from _read_guarded(_location_key(location), location.names, progress, partial(read, location))


def _sort_archive_members(handed_in: ClassInput, layout: ClassLayout, progress: ReadProgress) -> dict[Location, SubmissionFiles]:
    """An archive is read once, from its beginning to its end, and the files of one submission may lie anywhere in it."""
    files_by_location: dict[Location, SubmissionFiles] = {}
    last, reported = None, time.monotonic()
    try:
        for found in handed_in.walk():
            location, path = layout.locate(found.path)
            if location is None:
                continue
            files = files_by_location.setdefault(location, SubmissionFiles(problem=location.problem or progress.refused.get(_location_key(location), {}).get("", "")))
            if not files.problem and _location_key(location) not in progress.done:
                if location is not last or time.monotonic() - reported > HEARTBEAT:
                    progress.at(_location_key(location), "")
                    last, reported = location, time.monotonic()
                files.add(found, path)
    except UnreadableSubmission as trouble:
        raise GradingProblem(f"{handed_in.name}: {trouble}") from None
    return files_by_location


def _location_key(location: Location) -> str:
    return "/".join(location.folder)


def _report_ignored_files(layout: ClassLayout, tell: NoteCallback) -> None:
    """What in a class's folder or archive is no submission."""
    if layout.unowned:
        tell(f"passed over as nobody's: {_list_names(layout.unowned)}; if one is a submission, put it into a folder with the person's name")
    if layout.escaped:
        tell(f"passed over because the path leads out of the archive: {_list_names(layout.escaped)}")


def _list_names(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(shown(name) for name in names[:3]) + more


def _read_location(handed_in: ClassInput, location: Location, files: SubmissionFiles, progress: ReadProgress) -> list[Submission]:
    """A submission for each person of a group (mostly one)."""
    folder = handed_in.folder.joinpath(*location.folder) if handed_in.folder and location.is_folder else None
    gathered, time_from = _read_files(files, folder, _location_key(location), progress)
    when = location.submitted
    return [_make_submission(name, gathered, location.time_from if when else time_from, when) for name in location.names]


def _read_files(files: SubmissionFiles, folder: Path | None, key: str, progress: ReadProgress) -> tuple[SubmissionContent, str]:
    """What a pile came to; in a git clone on disk the last commit says when, for the files' own times are those of cloning."""
    gathered = read_content(files, progress.refused.get(key, {}), partial(progress.at, key))
    if folder is None:
        return gathered, "file"
    clones = {copy.path[:depth] for copy in files.best.values() for depth in range(len(copy.path))}
    times = [time for clone in clones if (time := read_commit_time(folder.joinpath(*clone)))]
    if times:
        return replace(gathered, submitted=max(times), zone_known=True), "commit"
    return gathered, "file"


def _make_submission(name: str, gathered: SubmissionContent, time_from: str, when: datetime | None = None) -> Submission:
    submitted = when or gathered.submitted
    return Submission(
        name=replace_undecodable(name),
        sources=gathered.sources,
        problem=gathered.problem,
        notes=gathered.notes,
        submitted=submitted,
        digest=gathered.digest,
        broken=gathered.broken,
        time_from=time_from if submitted else "",
        zone_known=gathered.zone_known if when is None else True,
    )
