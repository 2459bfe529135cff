"""What a class handed in: a folder, an archive or a table becomes one submission a person."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from .archives import HEAD, kind_of
from .commits import head_time
from .found import described, files_below
from .gathering import Gathered, Pile, finished
from .harmless import shown
from .layout import Class, Place, class_in_archive, class_in_folder, layout_of
from .naming import chapter_file, printable, safe_name
from .problems import GradingProblem, Unreadable
from .roster import Row, read_roster


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


def read_submissions(path: Path, tell: Tell = lambda sentence: None) -> list[Submission]:
    """Everybody's submission, sorted by name. GradingProblem, one sentence, where the whole input makes no sense."""
    path = Path(path).expanduser()
    if path.is_dir():
        found = _of_class(class_in_folder(path), tell)
    elif not path.exists():
        raise GradingProblem(f"there is no file or folder {path}")
    elif not path.is_file():
        raise GradingProblem(f"{path} is neither a file nor a folder")
    else:
        found = _of_file(path, tell)
    taken: set[str] = set()
    return [replace(s, slug=safe_name(s.name, taken)) for s in sorted(found, key=lambda s: (s.name, s.digest, s.notes))]


def _of_file(path: Path, tell: Tell) -> list[Submission]:
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
    except OSError as error:
        raise GradingProblem(f"{path.name} cannot be read: {(error.strerror or type(error).__name__).lower()}") from None
    if kind_of(head):
        return _of_class(class_in_archive(path), tell)
    if path.suffix.lower() == ".csv":
        return [_of_row(row) for row in read_roster(path)]
    chapter = chapter_file(path.name)
    if chapter:
        return [_submission(chapter.person or path.stem, *_at_path(path))]
    raise GradingProblem(f"{path.name} is neither a folder, an archive, a table (.csv) nor a chapter called like ch03_attention.py")


def _of_row(row: Row) -> Submission:
    pile = Pile()
    if row.path is None:
        pile.problem = f"line {row.line} of the table gives no path: nothing was handed in"
    elif not row.path.exists():
        pile.problem = f"line {row.line} of the table gives a path that does not lead anywhere"
    else:
        gathered, time_from = _at_path(row.path.resolve())
        return _submission(row.name, gathered, "roster" if row.submitted else time_from, row.submitted)
    return _submission(row.name, finished(pile), "roster", row.submitted)


def _at_path(path: Path) -> tuple[Gathered, str]:
    """One person's folder, archive or file."""
    pile = Pile()
    if path.is_dir():
        pile.add_all(files_below(path))
        return _with_commit(pile, path)
    pile.add(described(path, (path.name,)))
    return _with_commit(pile, None)


def _of_class(handed_in: Class, tell: Tell) -> list[Submission]:
    try:
        layout = layout_of(handed_in)
        piles = {place: Pile(problem=place.problem) for place in ([layout.single] if layout.single else layout.places.values())}
        for found in handed_in.walk():
            place, path = layout.place_of(found.path)
            if place is not None and not piles[place].problem:
                piles[place].add(found, path)
    except Unreadable as trouble:
        raise GradingProblem(f"{handed_in.name}: {trouble}") from None
    if not piles:
        raise GradingProblem(f"{handed_in.name} holds no submissions: there is no folder, no archive and no file called like NAME_ch03_attention.py in it")
    if layout.nobodys:
        more = f" and {len(layout.nobodys) - 3} more" if len(layout.nobodys) > 3 else ""
        names = ", ".join(shown(name) for name in layout.nobodys[:3])
        tell(f"passed over as nobody's: {names}{more}; if one is a submission, put it into a folder with the person's name")
    return [submission for place, pile in piles.items() for submission in _of_place(handed_in, place, pile)]


def _of_place(handed_in: Class, place: Place, pile: Pile) -> Iterator[Submission]:
    """A submission for each person of a group (mostly one)."""
    folder = handed_in.folder.joinpath(*place.folder) if handed_in.folder and place.is_folder else None
    gathered, time_from = _with_commit(pile, folder)
    when = place.submitted
    for name in place.names:
        yield _submission(name, gathered, place.time_from if when else time_from, when)


def _with_commit(pile: Pile, folder: Path | None) -> tuple[Gathered, str]:
    """What a pile came to; in a git clone on disk the last commit says when, for the files' own times are those of cloning."""
    gathered = finished(pile)
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
