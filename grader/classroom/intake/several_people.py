"""Recognises the files of a whole class where one person's are expected: in the folder above an export, or in one with a folder for each assignment.

Then folders or files next to each other, with different names, have the same chapter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from grader.classroom.intake.file_names import parse_chapter_name, parse_owner
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.sanitize import shorten

FEW = 3  # with fewer copies of a chapter, a person has probably handed in several versions
MANY = 7  # no person hands in so many versions
MOST_PATHS = 2_000  # of one chapter that are compared


class ReadSubmission(Protocol):
    @property
    def sources(self) -> Mapping[str, str]: ...

    @property
    def people(self) -> tuple[str, ...]: ...

    @property
    def people_in(self) -> str: ...


@dataclass(frozen=True)
class People:
    names: tuple[str, ...] = ()  # of the folders or files; empty if there are fewer than FEW
    folder: tuple[str, ...] = ()  # that contains them

    @property
    def problem(self) -> str:
        """Why the submission is not graded; "" if it may be one person's."""
        if len(self.names) < MANY:
            return ""
        return f"it {_describe(self.names)}, as a whole class does; if it is one person's, submit one version"

    def in_archive(self, path: tuple[str, ...]) -> People:
        return replace(self, folder=path) if self.names else self


NO_PEOPLE = People()


def find_people(places: Mapping[str, Sequence[tuple[str, ...]]]) -> People:
    """The largest set of folders or files next to each other that have the same chapter; `places` has the paths of each chapter."""
    found = NO_PEOPLE
    for paths in places.values():
        beside: dict[tuple[str, ...], set[str]] = {}
        for path in paths[:MOST_PATHS]:
            for depth, name in enumerate(path[:-1]):
                beside.setdefault(path[:depth], set()).add(name)
            if person := _find_person(path[-1]):
                beside.setdefault(path[:-1], set()).add(person)
        for folder, names in beside.items():
            if len(names) >= max(FEW, len(found.names) + 1):
                found = People(tuple(sorted(names)), folder)
    return found


def _find_person(file: str) -> str:
    """The person in the name of a file, as in NAME_ch03_attention.py, NAME_123_456_homework.py and NAME.zip; "" if there is none."""
    owner, chapter = parse_owner(file, False), parse_chapter_name(file)
    if owner is None or (chapter and file.lower().startswith(chapter.module)):  # ch03_attention_old.py is a version
        return ""
    is_archive = owner.rest == file and not file.lower().endswith((".py", ".ipynb"))
    return owner.name if chapter or owner.platform or is_archive else ""


def refuse_classes(path: Path, submissions: Iterable[ReadSubmission], add_note: Callable[[str], None]) -> None:
    """GradingProblem if every submission with code seems to be a whole class; a note on each one that does, if only some do."""
    having = [one for one in submissions if one.sources or one.people]
    classes = {one.people_in: one.people for one in having if one.people}
    sentences = [f"{shorten(folder)} {_describe(people)}" for folder, people in sorted(classes.items())]
    if having and all(one.people for one in having):
        first = sorted(classes)[0]
        how = f"unpack it, and grade one of its folders at a time, like {first}" if path.is_file() else f"grade one folder or archive at a time, like {path / first}"
        raise GradingProblem(
            f"{path.name or path} seems to contain whole classes and not the submissions of single people: {sentences[0]}; {how}. "
            "If these are versions of one person, grade a table with the columns name,path"
        )
    for sentence in sentences:
        add_note(f"{sentence}; if these are several people, grade it by itself")


def _describe(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"has the same chapter {len(names)} times ({', '.join(map(shorten, names[:3]))}{more})"
