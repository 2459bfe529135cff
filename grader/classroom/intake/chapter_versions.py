"""One of several versions of a chapter in a submission, where the instructor asked for the better one."""

from __future__ import annotations

from dataclasses import dataclass

MOST_VERSIONS = 3  # of a chapter that are judged: each takes as long as a submission


@dataclass(frozen=True)
class ChapterVersion:
    module: str
    file: str  # its path in the submission
    text: str
    notes: tuple[str, ...] = ()  # sentences for the instructor, if this version counts
