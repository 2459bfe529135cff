"""What the grader knows about one submission after it was read (reader.py)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from grader.classroom.intake.file_names import make_safe_name

NoteCallback = Callable[[str], None]  # receives a sentence for the instructor that is not about a single person


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
    ids: dict[str, str] = field(default_factory=dict)  # of the person: "canvas_id", "moodle_id", "email", "number"
    group: str = ""  # the same text for people who handed in one submission together


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


def describe_unknown_times(submissions: Sequence[Submission]) -> list[str]:
    """A sentence on submissions whose time is unknown, if there are any."""
    many = sum(one.submitted is None and not one.problem for one in submissions)
    if not many:
        return []
    start = f"the time of {many} of {len(submissions)} submissions is unknown, so it counts as on time"
    return [f"{start}; to give times, grade a table with the columns name,path,submitted"]
