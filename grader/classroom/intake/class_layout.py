"""Divides the files of a class's folder or archive among its people.

Each has one folder, archive or file, with a name as `parse_owner` in file_names.py says.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from grader.classroom.intake.file_names import (
    KIT_FOLDERS,
    MAX_NAME_LENGTH,
    NeutralNames,
    Owner,
    is_too_long,
    parse_code_name,
    parse_owner,
)
from grader.classroom.intake.files import FoundFile, is_archive
from grader.classroom.intake.submissions import GradingProblem, UnreadableSubmission
from grader.classroom.intake.tables import GradescopeRecord, read_gradescope
from grader.classroom.sanitize import list_names, shorten

GRADESCOPE_METADATA = ("submission_metadata.yml", "submission_metadata.yaml")
_GRADESCOPE_EXPORT = re.compile(r"assignment_[0-9]{1,20}_export")  # the top folder of a Gradescope export
MAX_METADATA_BYTES = 50_000_000

MemberPath = tuple[str, ...]


@dataclass
class PersonFiles:
    """The files of one submission, and whose they are (a group has several people)."""

    names: Sequence[str]
    files: list[FoundFile]  # with their paths in the submission
    folder: MemberPath = ()  # its place in the class, which identifies it
    ids: Sequence[dict[str, str]] = ({},)  # of the people in `names`: "canvas_id", "moodle_id", "email", "number"
    submitted: datetime | None = None
    problem: str = ""

    @property
    def key(self) -> str:
        return "/".join(self.folder)


@dataclass
class ClassFiles:
    """All files of a class's folder or archive."""

    name: str  # as messages show it
    stem: str  # the name without its ending
    files: list[FoundFile]
    is_archive: bool = False
    names: NeutralNames | None = None  # what messages show instead of the names that people chose

    def __post_init__(self) -> None:
        files = [one.path for one in self.files if one.kind == "file" and not is_too_long(one.path)]
        code = [(path, name) for path in files if (name := parse_code_name(path[-1]))]
        named = [(path, name) for path, name in code if name.module and not name.person]
        chapters = [path for path, name in named if not name.is_of_tests]
        # If names alone show no chapter, any code may be somebody's chapter.
        any_code = chapters or [path for path, _ in code if len(path) > 1]
        # Tests beside chapters say nothing: a learner's folder has exercises/my_tests.
        self.chapters = {path[:-1] for path in chapters or [path for path, _ in named]}
        self.above_code = {path[:depth] for path in any_code for depth in range(min(len(path), 3))}

    def show(self, name: str, is_folder: bool = False) -> str:
        """The name of an entry, for a message."""
        return shorten(self.names.name(name, is_folder) if self.names else name)

    def entries(self, folder: MemberPath) -> dict[str, list[FoundFile]]:
        """The files below each entry of this folder; for a file, only itself."""
        found: dict[str, list[FoundFile]] = {}
        for one in self.files:
            if len(one.path) > len(folder) and one.path[: len(folder)] == folder:
                found.setdefault(one.path[len(folder)], []).append(one)
        return found

    def is_kit(self, folder: MemberPath) -> bool:
        return (*folder, "exercises") in self.chapters and bool(KIT_FOLDERS & self.entries(folder).keys())

    def people(self, folder: MemberPath) -> list[str]:
        """The entries of this folder that contain chapters, or whose names say so."""
        return [name for name, found in self.entries(folder).items() if self._is_submission((*folder, name), found)]

    def _is_submission(self, path: MemberPath, found: list[FoundFile]) -> bool:
        if _is_folder(path, found):
            return path in self.above_code
        owner = self.owner_of(path, found)
        return bool(owner and owner.name)

    def owner_of(self, path: MemberPath, found: list[FoundFile]) -> Owner | None:
        is_bare = "." not in path[-1] and (found[0].kind != "file" or is_archive(found[0]))
        return parse_owner(path[-1], is_bare or _is_folder(path, found))


def _is_folder(path: MemberPath, found: list[FoundFile]) -> bool:
    return found[0].kind == "folder" or len(found[0].path) > len(path)


def divide_class(found: ClassFiles, add_note: Callable[[str], None]) -> list[PersonFiles]:
    """The files of each person. GradingProblem if the names are ambiguous."""
    if any(one.kind == "closed" and len(one.path) == 1 for one in found.files):
        raise GradingProblem(f"{found.name} cannot be opened")
    if outside := next((one for one in found.files if one.path[0] == ".."), None):
        shown = "" if found.names else f" ({shorten('/'.join(outside.path))})"
        where = f"a file in it has a path outside of it{shown}"
        raise GradingProblem(f"{found.name} is not safe to read: {where}")
    if _is_single(found):
        return [PersonFiles([found.stem], found.files)]
    around = _find_wrapper(found)
    people, unowned = _divide(found, around)
    if not people:
        nothing = "it has no folder, no archive and no file with a name like NAME_ch03_attention.py"
        raise GradingProblem(f"{found.name} contains no submissions: {nothing}")
    if unowned:
        advice = "put each submission into a folder with the person's name"
        add_note(f"ignored because they have no owner: {list_names(list(map(found.show, unowned)), 3)}; {advice}")
    return people


def _is_single(found: ClassFiles) -> bool:
    """Is all of this one person's submission?"""
    people, has_chapters = found.people(()), () in found.chapters
    if found.is_kit(()):
        return bool(found.above_code)
    if has_chapters and people:
        also = found.show(people[0], _is_folder((people[0],), found.entries(())[people[0]]))
        raise GradingProblem(
            f"{found.name} contains chapter files and also {also}, so it is unclear whether it is one "
            "submission or a class. Put each person's files into a separate folder"
        )
    return has_chapters


def _find_wrapper(found: ClassFiles) -> MemberPath:
    """The path of a folder around everything, which most archives have; else ()."""
    entries = found.entries(())
    only = tuple(entries)
    if len(only) != 1 or not _is_folder(only, entries[only[0]]) or only in found.chapters or found.is_kit(only):
        return ()
    if _read_gradescope_records(found, only):
        return only
    people = found.people(only) if found.is_archive else []
    return only if len(people) > 1 or (people and only[0] == found.stem) else ()


def _read_gradescope_records(found: ClassFiles, around: MemberPath) -> dict[str, GradescopeRecord]:
    """Gradescope's records, by the folder of a submission, if the class's own folder or that of an export has them."""
    if around and not _GRADESCOPE_EXPORT.fullmatch(around[0]):
        return {}
    for one in found.files:
        if one.path[:-1] == around and one.path[-1] in GRADESCOPE_METADATA and one.kind == "file":
            with suppress(UnreadableSubmission):
                return read_gradescope(one.read(MAX_METADATA_BYTES).decode("utf-8", "replace"))
    return {}


def _divide(found: ClassFiles, around: MemberPath) -> tuple[list[PersonFiles], list[str]]:
    """The submissions, and the files without an owner."""
    owners: dict[tuple[str, str, str], list[tuple[str, Owner]]] = {}
    unowned = []
    entries, records = found.entries(around), _read_gradescope_records(found, around)
    for name, files in entries.items():
        owner = found.owner_of((*around, name), files)
        if owner and owner.name:
            owners.setdefault((owner.name, owner.id, owner.platform), []).append((name, owner))
        elif files[0].kind == "file" and name not in GRADESCOPE_METADATA:
            unowned.append(name)
    same_name = Counter(name for name, _, _ in owners)
    people = []
    for (name, number, platform), places in owners.items():
        shown = f"{name} ({number})" if number and same_name[name] > 1 else name
        first, files = (*around, places[0][0]), []
        for place, owner in places:
            is_folder = _is_folder((*around, place), entries[place])
            for one in entries[place]:
                path = one.path[len(first) :] if is_folder else (owner.rest or place,)
                files += [replace(one, path=path)] if path else []
        person = PersonFiles([shown], files, first)
        person.ids = [{f"{platform}_id": number} if number else {}]
        firsts = {place: entries[place][0] for place, _ in places}
        person.problem = _describe_problem(firsts, len(first), bool(number), found.show)
        if len(places) == 1 and (record := records.get(first[-1])):
            person.names, person.ids, person.submitted = record.names, record.ids, record.submitted
        people.append(person)
    return people, unowned


def _describe_problem(found: dict[str, FoundFile], depth: int, has_number: bool, show: Callable[[str], str]) -> str:
    """What is wrong with the entries of one owner, judged by their names; "" if nothing is."""
    kinds = {name: one.kind if len(one.path) == depth else "folder" for name, one in found.items()}
    if any(len(name) > MAX_NAME_LENGTH for name in kinds):
        return f"the submitted file or folder has a name longer than {MAX_NAME_LENGTH} characters"
    if "link" in kinds.values():
        return "the submission is a link, and the grader does not follow links; submit the files themselves"
    if "special" in kinds.values():
        why = "the submission is not a regular file, so the grader did not open it"
        return f"{why}; submit chapter files or an archive"
    codes = [parse_code_name(name) if kind == "file" else None for name, kind in kinds.items()]
    if len(kinds) > 1 and not has_number and not all(code and code.module for code in codes):
        shown = sorted("a folder" if kind == "folder" else show(name) for name, kind in kinds.items())
        return f"several submissions have this name ({' and '.join(shown)}); keep one of them"
    return ""
