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

from grader.classroom.intake.archives import HEAD, kind_of
from grader.classroom.intake.class_layout import Class, Layout, Place, class_in_archive, class_in_folder, layout_of
from grader.classroom.intake.commits import head_time
from grader.classroom.intake.entries import Found, described, files_below
from grader.classroom.intake.file_names import chapter_file, printable, safe_name
from grader.classroom.intake.problems import GradingProblem, Unreadable, unexpected
from grader.classroom.intake.roster import Row, read_roster
from grader.classroom.intake.submission_files import Gathered, Pile, finished
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


Tell = Callable[[str], None]  # a sentence for the instructor, about the class and nobody in particular


NAMES = "\0names"  # the key while it is found out whose files lie where
HEARTBEAT = 1.0  # seconds between two reports while a long archive or folder is walked through


@dataclass(frozen=True)
class Progress:
    """What an earlier process has read, and how this one reports what it is about to read."""

    done: frozenset[str] = frozenset()  # keys of submissions that are not read again
    refused: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # key → chapter, or "" for all of it → why it is not read
    at: Callable[[str, str], None] = lambda key, chapter: None  # called before a submission ("" for the chapter), and each of its chapters, is read

    def walk(self, founds: Iterable[Found], key: str) -> Iterator[Found]:
        """The same, with a report now and then: a large class takes long, but each file comes soon after the one before."""
        last = time.monotonic()
        for found in founds:
            if time.monotonic() - last > HEARTBEAT:
                self.at(key, "")
                last = time.monotonic()
            yield found


def read_submissions(path: Path, tell: Tell = lambda sentence: None) -> list[Submission]:
    """Everybody's submission, sorted by name. GradingProblem, one sentence, where the whole input makes no sense."""
    return with_slugs(submission for _, found in each_submission(path, tell, Progress()) for submission in found)


def with_slugs(submissions: Iterable[Submission]) -> list[Submission]:
    """Sorted by name, and each with a file name unlike the others."""
    taken: set[str] = set()
    return [replace(s, slug=safe_name(s.name, taken)) for s in sorted(submissions, key=lambda s: (s.name, s.digest, s.notes))]


def each_submission(path: Path, tell: Tell, progress: Progress) -> Iterator[tuple[str, list[Submission]]]:
    """Each key with its submission (a group's is one for each of its people)."""
    path = Path(path).expanduser()
    if path.is_dir():
        yield from _of_class(class_in_folder(path), tell, progress)
    elif not path.exists():
        raise GradingProblem(f"there is no file or folder {path}")
    elif not path.is_file():
        raise GradingProblem(f"{path} is neither a file nor a folder")
    else:
        yield from _of_file(path, tell, progress)


def _of_file(path: Path, tell: Tell, progress: Progress) -> Iterator[tuple[str, list[Submission]]]:
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
    except OSError as error:
        raise GradingProblem(f"{path.name} cannot be read: {(error.strerror or type(error).__name__).lower()}") from None
    if kind_of(head):
        yield from _of_class(class_in_archive(path), tell, progress)
    elif path.suffix.lower() == ".csv":
        for row in read_roster(path):
            yield from _guarded(f"line {row.line}", [row.name], progress, partial(_of_row, row, progress))
    elif chapter := chapter_file(path.name):
        name = chapter.person or path.stem
        yield from _guarded("", [name], progress, lambda: [_submission(name, *_at_path(path, "", progress))])
    else:
        raise GradingProblem(f"{path.name} is neither a folder, an archive, a table (.csv) nor a chapter called like ch03_attention.py")


def _guarded(key: str, names: Sequence[str], progress: Progress, read: Callable[[], list[Submission]]) -> Iterator[tuple[str, list[Submission]]]:
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
        problem = f"it cannot be read: {unexpected(error)}"
    yield key, [_submission(name, finished(Pile(problem=problem)), "file") for name in names]


def _of_row(row: Row, progress: Progress) -> list[Submission]:
    pile = Pile()
    if row.path is None:
        pile.problem = f"line {row.line} of the table gives no path: nothing was handed in"
    elif not row.path.exists():
        pile.problem = f"line {row.line} of the table gives a path that does not lead anywhere"
    else:
        gathered, time_from = _at_path(row.path.resolve(), f"line {row.line}", progress)
        return [_submission(row.name, gathered, "roster" if row.submitted else time_from, row.submitted)]
    return [_submission(row.name, finished(pile), "roster", row.submitted)]


def _at_path(path: Path, key: str, progress: Progress) -> tuple[Gathered, str]:
    """One person's folder, archive or file."""
    pile = Pile()
    if path.is_dir():
        pile.add_all(files_below(path))
        return _with_commit(pile, path, key, progress)
    pile.add(described(path, (path.name,)))
    return _with_commit(pile, None, key, progress)


def _of_class(handed_in: Class, tell: Tell, progress: Progress) -> Iterator[tuple[str, list[Submission]]]:
    progress.at(NAMES, "")
    try:
        layout = layout_of(replace(handed_in, walk=lambda: progress.walk(handed_in.walk(), NAMES)))
    except Unreadable as trouble:
        raise GradingProblem(f"{handed_in.name}: {trouble}") from None
    places = [layout.single] if layout.single else list(dict.fromkeys(layout.places.values()))
    if not places:
        raise GradingProblem(f"{handed_in.name} holds no submissions: there is no folder, no archive and no file called like NAME_ch03_attention.py in it")
    _tell_of_the_rest(layout, tell)
    piles = {} if handed_in.folder else _piles_of_archive(handed_in, layout, progress)

    def read(place: Place) -> list[Submission]:
        pile = piles.pop(place, None) or Pile(problem=place.problem)
        if handed_in.folder and not pile.problem:
            pile.add_all(progress.walk(layout.walk_place(place, handed_in.folder), _key(place)), path_of=lambda found: layout.place_of(found.path)[1])
        return _of_place(handed_in, place, pile, progress)

    for place in places:
        yield from _guarded(_key(place), place.names, progress, partial(read, place))


def _piles_of_archive(handed_in: Class, layout: Layout, progress: Progress) -> dict[Place, Pile]:
    """An archive is read once, from its beginning to its end, and the files of one submission may lie anywhere in it."""
    piles: dict[Place, Pile] = {}
    last, reported = None, time.monotonic()
    try:
        for found in handed_in.walk():
            place, path = layout.place_of(found.path)
            if place is None:
                continue
            pile = piles.setdefault(place, Pile(problem=place.problem or progress.refused.get(_key(place), {}).get("", "")))
            if not pile.problem and _key(place) not in progress.done:
                if place is not last or time.monotonic() - reported > HEARTBEAT:
                    progress.at(_key(place), "")
                    last, reported = place, time.monotonic()
                pile.add(found, path)
    except Unreadable as trouble:
        raise GradingProblem(f"{handed_in.name}: {trouble}") from None
    return piles


def _key(place: Place) -> str:
    return "/".join(place.folder)


def _tell_of_the_rest(layout: Layout, tell: Tell) -> None:
    """What in a class's folder or archive is no submission."""
    if layout.nobodys:
        tell(f"passed over as nobody's: {_listed(layout.nobodys)}; if one is a submission, put it into a folder with the person's name")
    if layout.escaped:
        tell(f"passed over because the path leads out of the archive: {_listed(layout.escaped)}")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(shown(name) for name in names[:3]) + more


def _of_place(handed_in: Class, place: Place, pile: Pile, progress: Progress) -> list[Submission]:
    """A submission for each person of a group (mostly one)."""
    folder = handed_in.folder.joinpath(*place.folder) if handed_in.folder and place.is_folder else None
    gathered, time_from = _with_commit(pile, folder, _key(place), progress)
    when = place.submitted
    return [_submission(name, gathered, place.time_from if when else time_from, when) for name in place.names]


def _with_commit(pile: Pile, folder: Path | None, key: str, progress: Progress) -> tuple[Gathered, str]:
    """What a pile came to; in a git clone on disk the last commit says when, for the files' own times are those of cloning."""
    gathered = finished(pile, progress.refused.get(key, {}), partial(progress.at, key))
    if folder is None:
        return gathered, "file"
    clones = {copy.path[:depth] for copy in pile.best.values() for depth in range(len(copy.path))}
    times = [time for clone in clones if (time := head_time(folder.joinpath(*clone)))]
    if times:
        return replace(gathered, submitted=max(times), zone_known=True), "commit"
    return gathered, "file"


def _submission(name: str, gathered: Gathered, time_from: str, when: datetime | None = None) -> Submission:
    submitted = when or gathered.submitted
    return Submission(
        name=printable(name),
        sources=gathered.sources,
        problem=gathered.problem,
        notes=gathered.notes,
        submitted=submitted,
        digest=gathered.digest,
        broken=gathered.broken,
        time_from=time_from if submitted else "",
        zone_known=gathered.zone_known if when is None else True,
    )
