"""What the grader knows about one submission after it was read (reader.py), and the errors of reading."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from grader.classroom.sanitize import list_names
from grader.files import UserProblem


class GradingProblem(UserProblem, ValueError):
    """Grading cannot start or go on; the message is one sentence for the instructor."""


class UnreadableSubmission(ValueError):
    """One submission cannot be read; the message is one sentence, without the person's name."""


def describe_error(error: Exception) -> str:
    """The end of the sentence "it cannot be read: ..." for an unexpected error."""
    if isinstance(error, MemoryError):
        return "reading it takes more memory than the grader allows"
    if isinstance(error, OSError):
        return (error.strerror or type(error).__name__).lower()
    return f"reading it failed ({type(error).__name__})"


MAX_SAFE_BYTES = 120  # with a suffix and an ending, a safe name is well below 255 bytes
_RESERVED = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9]|lpt[0-9])", re.IGNORECASE)
NoteCallback = Callable[[str], None]  # receives a sentence for the instructor that is not about a single person
ReadingCallback = Callable[[str], None]  # receives the name of the submission that is being read


@dataclass(frozen=True)
class Submission:
    name: str  # the person's name: of the folder, file or archive, or from a table
    sources: dict[str, str]  # module name ("ch03_attention", or "test_softmax") → text, for each one found
    problem: str = ""  # one sentence, if nothing can be graded
    notes: tuple[str, ...] = ()  # sentences for the instructor
    submitted: datetime | None = None  # with a time zone; None if unknown
    digest: str = ""  # a hash of the content (sources, broken chapters and problem), without the owner
    broken: dict[str, str] = field(default_factory=dict)  # module name → why that chapter cannot be read
    slug: str = ""  # a file name for this person, valid on every system and unique in the class
    ids: dict[str, str] = field(default_factory=dict)  # of the person: "canvas_id", "moodle_id", "email", "number"
    group: str = ""  # the same text for people who handed in one submission together
    absent: dict[str, str] = field(default_factory=dict)  # exercise or module that is not in it → what was sent instead
    own_tests: Submission | None = None  # the content if tests count and not chapters; None if nothing could be read

    def with_tests(self) -> Submission:
        """The submission of the same people with their own tests instead of the chapters."""
        names = ("sources", "broken", "problem", "notes", "digest", "absent")
        content = {name: getattr(self.own_tests, name) for name in names} if self.own_tests else {}
        return replace(self, own_tests=None, **content)


def add_slugs(submissions: Iterable[Submission]) -> list[Submission]:
    """The submissions sorted by name, each with a unique file name."""
    taken: set[str] = set()
    in_order = sorted(submissions, key=lambda one: (one.name, one.digest, one.notes))
    return [replace(one, slug=make_safe_name(one.name, taken)) for one in in_order]


def replace_undecodable(name: str) -> str:
    """The name with a replacement character for each byte that is not UTF-8, so that it can be written anywhere."""
    return re.sub("[\ud800-\udfff]", "\ufffd", name)


def make_safe_name(name: str, taken: set[str]) -> str:
    """A file name for this person that is valid on every system.

    It differs from all names in `taken` also without case and accents, and is added to them.
    """
    text = unicodedata.normalize("NFKC", replace_undecodable(name)).replace("\ufffd", "_")
    text = "".join(c if unicodedata.category(c)[0] in "LMN" or c in "-." else "_" for c in text)
    text = re.sub(r"_+", "_", re.sub(r"\.{2,}", ".", text)).strip("._-")
    text = text.encode()[:MAX_SAFE_BYTES].decode(errors="ignore").rstrip("._-") or "submission"
    stem, dot, rest = text.partition(".")
    if _RESERVED.fullmatch(stem):  # a device name on Windows, with any extension
        text = f"{stem}_{dot}{rest}"
    candidate, number = text, 2
    while _fold(candidate) in taken:
        candidate = f"{text}-{number}"
        number += 1
    taken.add(_fold(candidate))
    return candidate


def _fold(text: str) -> str:
    return unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())


def hash_content(sources: Mapping[str, str], broken: Mapping[str, str], problem: str) -> str:
    """A hash of the content; owner, place and time make no difference."""
    total = hashlib.sha256()
    for part in ("sources", *_flatten(sources), "broken", *_flatten(broken), "problem", problem):
        data = part.encode("utf-8", "surrogatepass")
        total.update(b"%d:" % len(data) + data)
    return total.hexdigest()


def _flatten(texts: Mapping[str, str]) -> list[str]:
    return [part for name in sorted(texts) for part in (name, texts[name])]


def name_other_chapters(submissions: Iterable[Submission], modules: Sequence[str]) -> list[Submission]:
    """The submissions; those that lack one of these chapters, which are graded, say which others they have instead."""
    named = []
    for one in submissions:
        submitted = sorted({*one.sources, *one.broken})
        others = [module for module in submitted if module not in modules]
        missing = [module for module in modules if module not in submitted]
        if others and missing:
            files = list_names([f"{module}.py" for module in others], 5)
            sent = f"{files} {'was' if len(others) == 1 else 'were'} sent"
            one = replace(one, absent=one.absent | {module: f"{sent}, not {module}.py" for module in missing})
        named.append(one)
    return named


def describe_unknown_times(submissions: Sequence[Submission]) -> list[str]:
    """A sentence on submissions whose time is unknown, if there are any."""
    many = sum(one.submitted is None and not one.problem for one in submissions)
    if not many:
        return []
    start = f"the time of {many} of {len(submissions)} submissions is unknown, so it counts as on time"
    return [f"{start}; to give times, grade a table with the columns name,path,submitted"]
