"""Reads a class's folder, archive or table into one Submission per person.

Every fault in one submission becomes the `problem` of that submission only. `headway grade` reads in a separate process
(reader.py), which may be killed and started again. So each submission has a key, and the next process skips the keys
that are done.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from grader.classroom.intake.class_layout import ClassFiles, PersonFiles, divide_class
from grader.classroom.intake.file_names import parse_code_name, replace_undecodable, strip_archive_suffix
from grader.classroom.intake.files import CLASS, describe_entry, is_archive, list_members, walk_folder
from grader.classroom.intake.problems import GradingProblem, UnreadableSubmission, describe_error
from grader.classroom.intake.roster import RosterRow, read_roster
from grader.classroom.intake.submission_content import read_content, unreadable
from grader.classroom.intake.submissions import NoteCallback, Submission, add_slugs
from grader.course.syllabus import EXERCISES, ROOT, SOLUTIONS, TESTS

NAMES = "\0names"  # the key while the files of the class are listed
FILES_BETWEEN_REPORTS = 1_000


# The key of a submission, its people, and a function that reads it.
Reading = tuple[str, Sequence[str], Callable[[], list[Submission]]]


def read_submissions(path: Path, add_note: NoteCallback = lambda sentence: None) -> list[Submission]:
    """All submissions, sorted by name. GradingProblem, one sentence, if the input as a whole cannot be used."""
    return add_slugs(one for found in iterate_submissions(path, add_note) for one in found)


def iterate_submissions(
    path: Path,
    add_note: NoteCallback,
    done: Collection[str] = (),
    refused: Mapping[str, str] = {},
    report: Callable[[str], None] = lambda key: None,
) -> Iterator[list[Submission]]:
    """The submissions of each key (for a group, one per person). `report` is called with each key before.

    An earlier process has read those that are `done`, and failed at those that are `refused`, for the reason there.
    """
    for key, names, read in _find_submissions(Path(path).expanduser(), add_note, report):
        if key in done:
            continue
        report(key)
        problem = refused.get(key, "")
        try:
            found = [] if problem else read()
        except Exception as error:  # no other submission is affected
            problem = f"it cannot be read: {describe_error(error)}"
        if problem:
            found = [replace(unreadable(problem), name=name) for name in names]
        yield [replace(one, name=replace_undecodable(one.name)) for one in found]


def _find_submissions(path: Path, add_note: NoteCallback, report: Callable[[str], None]) -> Iterator[Reading]:
    if path.is_dir():
        if path.resolve() in (ROOT, EXERCISES, SOLUTIONS, TESTS):
            raise GradingProblem(f"{path} belongs to the kit itself; name the folder with the submissions")
        files = []
        for number, found in enumerate(walk_folder(path)):
            if number % FILES_BETWEEN_REPORTS == 0:
                report(NAMES)
            files.append(found)
        yield from _divide(ClassFiles(str(path), path.resolve().name, files, path), add_note)
    elif not path.exists():
        raise GradingProblem(f"{path} does not exist")
    elif not path.is_file():
        raise GradingProblem(f"{path} is neither a file nor a folder")
    elif not os.access(path, os.R_OK):
        raise GradingProblem(f"{path} cannot be read: permission denied")
    elif is_archive(describe_entry(path.resolve(), (path.name,))):
        with path.open("rb") as file:
            try:
                members = list_members(file, path.stat().st_size, CLASS)
            except UnreadableSubmission as problem:
                raise GradingProblem(f"{path.name}: {problem}") from None
            stem = strip_archive_suffix(path.name) or path.name
            yield from _divide(ClassFiles(path.name, stem, members), add_note)
    elif path.suffix.lower() == ".csv":
        for row in read_roster(path):
            yield f"line {row.line}", [row.name], partial(_read_row, row)
    elif code := parse_code_name(path.name):
        name = code.person or path.stem
        yield "", [name], lambda: [replace(_read_path(path), name=name)]
    else:
        raise GradingProblem(f"{path.name} is not a folder, an archive, a table (.csv), a Python file or a notebook")


def _divide(found: ClassFiles, add_note: NoteCallback) -> Iterator[Reading]:
    for person in divide_class(found, add_note):
        yield person.key, person.names, partial(_read_person, person, found)


def _read_row(row: RosterRow) -> list[Submission]:
    if row.path is None:
        found = unreadable(f"nothing was submitted: line {row.line} of the table has no path")
    elif not row.path.exists():
        found = unreadable(f"the path in line {row.line} of the table does not exist")
    else:
        found = _read_path(row.path.resolve())
    return [replace(found, name=row.name, submitted=row.submitted or found.submitted)]


def _read_path(path: Path) -> Submission:
    """One person's folder, archive or file."""
    if path.is_dir():
        return read_content(walk_folder(path), path)
    return read_content([describe_entry(path, (path.name,))])


def _read_person(person: PersonFiles, found: ClassFiles) -> list[Submission]:
    """One submission for each person of a group (usually one person)."""
    if person.problem:
        content = unreadable(person.problem)
    else:
        folder = found.folder.joinpath(*person.folder) if found.folder and person.is_folder else None
        content = read_content(person.files, folder)
    group = person.key if len(person.names) > 1 else ""
    content = replace(content, submitted=person.submitted or content.submitted, group=group)
    people = zip(person.names, person.ids, strict=True)
    return [replace(content, name=name, ids=ids) for name, ids in people]
