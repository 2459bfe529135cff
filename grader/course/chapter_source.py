"""The text of a chapter. This module imports nothing of the kit, because a worker gets as little of it as possible."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ChapterSource:
    """One chapter: the learner's, the reference's, or a changed reference."""

    name: str  # "ch03_attention"
    text: str
    filename: str  # the author's file name, for messages and tracebacks
    sealed: bool = False  # is it the reference in a handout? messages show only its lines that raise
    code: bytes = b""  # the reference for a worker: compiled by this Python; there is then no text
    replaced: tuple[str, ...] = ()  # names whose definitions come from the reference, in another module
