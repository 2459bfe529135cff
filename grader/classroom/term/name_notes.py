"""Sentences for the instructor that list people. The list stays apart from the sentence, so that pseudonyms can be sorted before it is cut off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from grader.classroom.sanitize import list_names


@dataclass(frozen=True)
class NameNote:
    before: str
    names: tuple[str, ...]
    after: str = ""

    def __str__(self) -> str:
        return self.before + list_names(self.names) + self.after

    def rename(self, rename: Callable[[str], str]) -> NameNote:
        """The same sentence with other names, sorted: the order of the old ones would say who is who."""
        return replace(self, names=tuple(sorted(map(rename, self.names))))


Note = str | NameNote
