"""Moodle's grading worksheet as CSV, and the archive of feedback files.

The worksheet has the columns Identifier ("Participant 123"), Full name and Email address (unless names are hidden), Status, Grade, Maximum Grade, Grade can
be changed, Last modified (grade) and Feedback comments. Moodle's import finds people by the identifier, skips rows whose grade was changed since the
export, and needs the column Last modified (grade). In an archive of feedback files, each path begins with NAME_123_assignsubmission_file_.
"""

from __future__ import annotations

import html
import io
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path

from grader.classroom import sanitize
from grader.classroom.exports.csv import spreadsheet_text
from grader.classroom.exports.result_text import correction_sentences, make_sentence, problem_sentence
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.judging.scoring import format_points
from grader.classroom.platforms.csv_table import CsvTable, read_table
from grader.classroom.platforms.filling import Sheet
from grader.classroom.platforms.marks import PersonMark
from grader.classroom.platforms.matching import Learner
from grader.classroom.platforms.recognition import missing_column
from grader.classroom.sanitize import shorten

COMMENTS = "feedback comments"
LOCKED = "Moodle does not allow a change"
_IDENTIFIER = re.compile(r"\D*?([0-9]+)")
_OWN_COMMENT = re.compile(r"[0-9.]+ of [0-9.]+ points\.( .*)?", re.DOTALL)


def open_sheet(path: Path, column: str) -> Sheet:
    """The worksheet. `column` is the title of the grades if Moodle wrote it in another language. GradingProblem if it does not fit."""
    table = read_table(path)
    grade, identifier = table.column((column or "grade").casefold()), table.column("identifier")
    if identifier is None and column and grade:
        identifier = 0  # Moodle always writes it first
    if grade is None or identifier is None:
        if identifier == 0 or column:
            raise GradingProblem(f"{table.name} has no column {shorten(column or 'Grade')}; its columns are {_list(table.header)}")
        if table.body and _IDENTIFIER.fullmatch(table.body[0].value(0)):
            raise GradingProblem(
                f"{table.name} looks like a Moodle grading worksheet in another language. Say which column has the grades, "
                f'like --column "TITLE"; its columns are {_list(table.header)}'
            )
        raise missing_column(table, "a Moodle grading worksheet", "Identifier and Grade")
    if not column and table.column("last modified (grade)") is None:
        raise GradingProblem(f"{table.name} has no column Last modified (grade), which Moodle needs for the import; download the grading worksheet again")
    name, email, most = table.column("full name"), table.column("email address"), table.column("maximum grade")
    number, locked = table.column("id number"), table.column("grade can be changed")
    learners = []
    for row in table.body:
        found = _IDENTIFIER.fullmatch(row.value(identifier))
        if found is None:
            cell = row.value(identifier)
            raise GradingProblem(f"{table.name}, line {row.line}: the identifier {shorten(cell)!r} is not like Participant 123; download the grading worksheet again")
        known = {"moodle_id": found[1]}
        for field, place in (("email", email), ("number", number)):
            if place is not None:
                known[field] = row.value(place)
        is_locked = locked is not None and row.value(locked).casefold() == "no"
        learners.append(Learner(row, row.value(name) if name is not None else "", known, LOCKED if is_locked else ""))
    largest = {} if most is None else {learner.row.line: row_value for learner in learners if (row_value := learner.row.value(most))}
    return Sheet(table, learners, grade, table.header[grade], largest)


def write_comments(table: CsvTable, pairs: Sequence[tuple[Learner, PersonMark]]) -> int:
    """Fill empty cells of the comments column and replace earlier comments by Headway; return how many other comments were kept."""
    column = table.column(COMMENTS)
    kept = 0
    if column is None:
        return 0
    for learner, mark in pairs:
        old, new = learner.row.value(column), _comment(mark)
        if old and not _OWN_COMMENT.fullmatch(old):
            kept += 1
        elif old != new and not learner.locked:
            table.set(learner.row, column, new)
    return kept


def _comment(mark: PersonMark) -> str:
    """One paragraph for the learner. Moodle reads it as HTML."""
    person = mark.person
    sentences = [f"{format_points(mark.earned)} of {format_points(mark.points)} points.", person.late, problem_sentence(person), *correction_sentences(person)]
    sentences += person.remarks
    return spreadsheet_text(html.escape(" ".join(make_sentence(words) for words in sentences if words), quote=False))


def feedback_archive(pages: Sequence[tuple[Learner, str]]) -> bytes:
    """The zip of feedback pages that Moodle gives back to the learners. Equal pages give equal bytes."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for learner, page in pages:
            folder = f"{_folder_name(learner)}_{learner.ids['moodle_id']}_assignsubmission_file_"
            entry = zipfile.ZipInfo(f"{folder}/feedback.md", (1980, 1, 1, 0, 0, 0))
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, page)
    return target.getvalue()


def _folder_name(learner: Learner) -> str:
    """The name without characters that have a meaning in a path; Moodle splits at underscores, so there must be none."""
    shown = re.sub(r"""[\\/:*?"<>|_.~]""", " ", sanitize.line(learner.name, 100))
    return " ".join(shown.split()) or "Participant"


def _list(names: Sequence[str]) -> str:
    return ", ".join(shorten(name, 30) for name in names[:20])
