"""What the grader knows about one submission after it was read (reading.py)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from grader.classroom.intake.file_names import make_safe_name

NoteCallback = Callable[[str], None]  # receives a sentence for the instructor that is not about a single person

UNTRUSTED = "untrusted file dates"  # there are only dates of files, which are not used, so `submitted` is None
LATE_MARK = "late mark"  # Canvas marks the submission as late but gives no time, so `submitted` is None
NO_LATE_MARK = "no late mark"  # Canvas gives no time and does not mark the submission as late, so `submitted` is None


@dataclass(frozen=True)
class ChapterVersion:
    """One of several versions of a chapter in a submission, where the instructor asked for the better one."""

    module: str
    file: str  # its path in the submission
    text: str
    notes: tuple[str, ...] = ()  # sentences for the instructor, if this version counts


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
    # The source of `submitted`: "roster", "Gradescope", "nbgrader", "commit", "file"; or why it is None: UNTRUSTED,
    # LATE_MARK, NO_LATE_MARK.
    time_from: str = ""
    zone_known: bool = True  # False if the time is local time from a zip archive
    ids: dict[str, str] = field(default_factory=dict)  # of the person: "canvas_id", "moodle_id", "email", "number"
    versions: tuple[ChapterVersion, ...] = ()  # of chapters that have several, the newest first, with `--copies better`
    group: str = ""  # the same text for people who handed in one submission together
    mapped: tuple[str, ...] = ()  # the names in `--map` that fit one of its files
    other_code: tuple[str, ...] = ()  # the names of files with code, if it contains no chapter
    people: tuple[str, ...] = ()  # the names of several people whose files these seem to be
    people_in: str = ""  # the folder or archive of the class that contains them

    @property
    def is_marked_late(self) -> bool:
        return self.time_from == LATE_MARK


def add_slugs(submissions: Iterable[Submission]) -> list[Submission]:
    """The submissions sorted by name, each with a unique file name."""
    taken: set[str] = set()
    in_order = sorted(submissions, key=lambda one: (one.name, one.digest, one.notes))
    return [replace(one, slug=make_safe_name(one.name, taken)) for one in in_order]


def hash_content(sources: Mapping[str, str], broken: Mapping[str, str], problem: str) -> str:
    """A hash of the content; owner, place and time make no difference."""
    total = hashlib.sha256()
    for part in ("sources", *_flatten(sources), "broken", *_flatten(broken), "problem", problem):
        data = part.encode("utf-8", "surrogatepass")
        total.update(b"%d:" % len(data) + data)
    return total.hexdigest()


def _flatten(texts: Mapping[str, str]) -> list[str]:
    return [part for name in sorted(texts) for part in (name, texts[name])]
