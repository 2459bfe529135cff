"""Reads a class's folder, archive or table into one Submission per person.

Every fault in one submission becomes the `problem` of that submission only. `headway grade` reads in a separate process
(reader.py), which may be killed and started again. So each submission has a key, and the next process skips the keys
that are done.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from grader.classroom.intake.class_layout import ClassFiles, PersonFiles, divide_class, find_nbgrader_submissions
from grader.classroom.intake.file_names import parse_code_name, replace_undecodable, strip_archive_suffix
from grader.classroom.intake.files import (
    CLASS,
    describe_entry,
    is_archive,
    list_members,
    walk_folder,
)
from grader.classroom.intake.options import DEFAULTS, ReadOptions
from grader.classroom.intake.problems import GradingProblem, UnreadableSubmission, describe_error
from grader.classroom.intake.roster import RosterRow, read_roster
from grader.classroom.intake.several_people import explain_people, refuse_classes
from grader.classroom.intake.submission_content import read_content, unreadable
from grader.classroom.intake.submissions import LATE_MARK, NO_LATE_MARK, UNTRUSTED, NoteCallback, Submission, add_slugs
from grader.classroom.sanitize import shorten
from grader.course.syllabus import EXERCISES, ROOT, SOLUTIONS, TESTS

NAMES = "\0names"  # the key while the files of the class are listed
FILES_BETWEEN_REPORTS = 1_000


# The key of a submission, its people, and a function that reads it.
Reading = tuple[str, Sequence[str], Callable[[], list[Submission]]]


@dataclass(frozen=True)
class ReadProgress:
    """What an earlier process has read, and the instructor's options."""

    done: Collection[str] = ()  # keys of submissions that are not read again
    refused: Mapping[str, str] = field(default_factory=dict)  # key → why the submission is not read
    options: ReadOptions = DEFAULTS


def read_submissions(
    path: Path, add_note: NoteCallback = lambda sentence: None, options: ReadOptions = DEFAULTS
) -> list[Submission]:
    """All submissions, sorted by name. GradingProblem, one sentence, if the input as a whole cannot be used."""
    progress = ReadProgress(options=options)
    submissions = [one for found in iterate_submissions(path, add_note, progress) for one in found]
    refuse_classes(Path(path), submissions, add_note)
    return add_slugs(submissions)


def iterate_submissions(
    path: Path, add_note: NoteCallback, progress: ReadProgress, report: Callable[[str], None] = lambda key: None
) -> Iterator[list[Submission]]:
    """The submissions of each key (for a group, one per person). `report` is called with each key before."""
    for key, names, read in _find_submissions(Path(path).expanduser(), add_note, progress.options, report):
        if key in progress.done:
            continue
        report(key)
        problem = progress.refused.get(key, "")
        try:
            found = [] if problem else read()
        except Exception as error:  # no other submission is affected
            problem = f"it cannot be read: {describe_error(error)}"
        if problem:
            found = [replace(unreadable(problem), name=name) for name in names]
        yield [replace(one, name=replace_undecodable(one.name)) for one in found]


def _find_submissions(
    path: Path, add_note: NoteCallback, options: ReadOptions, report: Callable[[str], None]
) -> Iterator[Reading]:
    if path.is_dir():
        if path.resolve() in (ROOT, EXERCISES, SOLUTIONS, TESTS):
            raise GradingProblem(f"{path} belongs to the kit itself; name the folder with the submissions")
        if submitted := find_nbgrader_submissions(path):
            course = f"{path.resolve().name} is the folder of an nbgrader course"
            add_note(f"{course}, so its folder {submitted.name} was read")
        folder, files = submitted or path, []
        for number, found in enumerate(walk_folder(folder)):
            if number % FILES_BETWEEN_REPORTS == 0:
                report(NAMES)
            files.append(found)
        yield from _divide(ClassFiles(str(folder), folder.resolve().name, files, options, folder), add_note)
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
            yield from _divide(ClassFiles(path.name, stem, members, options), add_note)
    elif path.suffix.lower() == ".csv":
        for row in read_roster(path):
            yield f"line {row.line}", [row.name], partial(_read_row, row, options)
    elif code := parse_code_name(path.name):
        name = code.person or path.stem
        yield "", [name], lambda: [replace(_read_path(path, options), name=name)]
    else:
        raise GradingProblem(f"{path.name} is not a folder, an archive, a table (.csv), a Python file or a notebook")


def _divide(found: ClassFiles, add_note: NoteCallback) -> Iterator[Reading]:
    people = divide_class(found, add_note)
    if found.folder and (kit := [one for one in people if found.folder.joinpath(*one.folder).resolve() == ROOT]):
        add_note(f"ignored because it is the kit itself: {shorten(kit[0].names[0])}")
        people.remove(kit[0])
    for person in people:
        yield person.key, person.names, partial(_read_person, person, found)


def _read_row(row: RosterRow, options: ReadOptions) -> list[Submission]:
    if row.path is None:
        found = unreadable(f"nothing was submitted: line {row.line} of the table has no path")
    elif not row.path.exists():
        found = unreadable(f"the path in line {row.line} of the table does not exist")
    else:
        found = _read_path(row.path.resolve(), options)
    if row.submitted:
        found = replace(found, submitted=row.submitted, zone_known=True, time_from="roster")
    return [replace(found, name=row.name)]


def _read_path(path: Path, options: ReadOptions) -> Submission:
    """One person's folder, archive or file."""
    if path.is_dir():
        return read_content(walk_folder(path), options, path)
    return read_content([describe_entry(path, (path.name,))], options)


def _read_person(person: PersonFiles, found: ClassFiles) -> list[Submission]:
    """One submission for each person of a group (usually one person)."""
    if person.problem:
        content = unreadable(person.problem)
    else:
        is_nbgrader = person.time_from == "nbgrader"
        on_disk = found.folder if person.is_folder and not is_nbgrader else None
        folder = on_disk.joinpath(*person.folder) if on_disk else None
        content = read_content(person.files, found.options, folder, is_dated=is_nbgrader)
    time_from = content.time_from
    if person.submitted or (person.time_from == "nbgrader" and time_from == "file"):
        time_from = person.time_from
    elif time_from == UNTRUSTED and any("canvas_id" in ids for ids in person.ids):
        time_from = NO_LATE_MARK
    zone_known = bool(person.submitted) or content.zone_known
    submitted = person.submitted or content.submitted
    content = replace(content, submitted=submitted, zone_known=zone_known, time_from=time_from)
    if person.late:
        content = replace(content, submitted=None, time_from=LATE_MARK)
    if not person.folder:  # the instructor named one person's folder
        content = replace(content, people=(), people_in="")
    if content.people:
        people_in = "/".join(filter(None, [person.key, content.people_in if person.is_folder else ""]))
        problem = explain_people(content.people)
        refused = replace(unreadable(problem), people=content.people) if problem else content
        content = replace(refused, people_in=people_in)
    group = person.key if len(person.names) > 1 else ""
    people = zip(person.names, person.ids, strict=True)
    return [replace(content, name=name, ids=ids, group=group) for name, ids in people]
