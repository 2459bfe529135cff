"""Finds chapters in notebooks and in Python files whose names do not say a chapter: by the exercises that they define.

A file that has the chapter's name comes first, unless it is an unchanged stub. Of several files that define a chapter's exercises, the newest counts; with
`--copies fullest`, the one in which most exercises are implemented; with `--copies better`, the one with most points. A note says which file was used, and for what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from grader.classroom.intake.decoding import decode_chapter
from grader.classroom.intake.loose_code import describe_cells, find_chapters, find_defined, read_code, write_chapter
from grader.classroom.intake.notebooks import Cell, read_cells
from grader.classroom.intake.options import BETTER, FULLEST
from grader.classroom.intake.problems import UnreadableSubmission, describe_error
from grader.classroom.intake.submission_files import ChapterCopy, SubmissionFiles
from grader.classroom.sanitize import shorten
from grader.course.source import LARGEST, SourceProblem, find_definition, is_written
from grader.course.syllabus import load_syllabus

MOST_SENTENCES = 4


@dataclass(frozen=True)
class FoundChapter:
    """A chapter that a file defines."""

    module: str
    text: str
    copy: ChapterCopy
    defined: int  # exercises
    notes: tuple[str, ...]
    others: tuple[FoundChapter, ...] = ()  # other versions, if the better one counts


def find_unnamed(files: SubmissionFiles, refused: Mapping[str, str], before_file: Callable[[str], None]) -> dict[str, FoundChapter]:
    """The chapters, by module, that are used. Problems of a file become notes of the submission."""
    found: dict[str, list[FoundChapter]] = {}
    for copy in files.unnamed:
        name = "/".join(copy.path)
        before_file(name)
        try:
            if name in refused:
                raise UnreadableSubmission(refused[name])
            for chapter in _read_file(copy, files.note):
                if not _is_better_named(files, chapter):
                    found.setdefault(chapter.module, []).append(chapter)
        except (SourceProblem, UnreadableSubmission) as trouble:
            files.note(str(trouble))
        except Exception as error:
            files.note(f"{shorten(name)} cannot be read: {describe_error(error)}")
    return {module: _choose(files, module, chapters) for module, chapters in found.items()}


def count_written(text: str, module: str) -> int:
    """The exercises of this chapter that the text implements; -1 if it is not valid Python."""
    try:
        return sum(find_definition(text, e.name) is not None and is_written(text, e.name) for e in load_syllabus().chapter(module).exercises)
    except SourceProblem:
        return -1


def count_written_bytes(data: bytes, module: str) -> int:
    """Like `count_written`, for a file that is not decoded yet."""
    try:
        return count_written(decode_chapter(data, f"{module}.py")[0], module)
    except SourceProblem:
        return -1


def _is_better_named(files: SubmissionFiles, chapter: FoundChapter) -> bool:
    """Is there a file with the chapter's name that is more than an unchanged stub?"""
    named = files.best.get(chapter.module)
    if named is None:
        return chapter.module in files.oversized
    return count_written_bytes(named.data, chapter.module) != 0 or count_written(chapter.text, chapter.module) == 0


def _choose(files: SubmissionFiles, module: str, chapters: list[FoundChapter]) -> FoundChapter:
    """The chapter that counts, with a note on the others. A file with few of the exercises (a helper of that name) does not replace one with many."""
    most = max(chapter.defined for chapter in chapters)
    candidates = [chapter for chapter in chapters if 2 * chapter.defined >= most]
    candidates.sort(key=lambda chapter: chapter.copy.rank)
    if files.options.copies == FULLEST:
        candidates.sort(key=lambda chapter: -count_written(chapter.text, module))
    chosen, *others = candidates
    if different := [other for other in others if other.text != chosen.text]:
        if files.options.copies == BETTER:
            return replace(chosen, others=tuple(different))
        paths = " and ".join(shorten("/".join(other.copy.path)) for other in different[:2])
        more = f" and {len(different) - 2} more" if len(different) > 2 else ""
        why = "the version with most exercises" if files.options.copies == FULLEST else "the newest version"
        sentence = f"several files define exercises of {module}; {shorten('/'.join(chosen.copy.path))} was graded ({why}), not {paths}{more}"
        return replace(chosen, notes=(*chosen.notes, sentence))
    return chosen


def _read_file(copy: ChapterCopy, add_note: Callable[[str], None]) -> Iterable[FoundChapter]:
    file = shorten(copy.path[-1])
    if copy.path[-1].lower().endswith(".ipynb"):
        return _read_notebook(copy, file, add_note)
    text, note = decode_chapter(copy.data, file)
    defined = {module: names for module, names in find_defined(text).items() if copy.module in ("", module)}
    if note and defined:
        add_note(note)
    if len(defined) == 1:
        [(module, names)] = defined.items()
        return [FoundChapter(module, text, copy, len(names), (f"the file {file} was used as {module}.py, because it defines {_list(names)}",))]
    return _split_file(copy, file, text, defined)


def _split_file(copy: ChapterCopy, file: str, text: str, defined: dict[str, list[str]]) -> Iterable[FoundChapter]:
    """The chapters of one Python file with several. If it is not valid Python, each chapter gets all of it, and grading reports the line."""
    code = read_code([Cell(1, text)], file)
    for module, names in defined.items():
        note = f"the file {file} was used as {module}.py, because it defines {_list(names)}"
        if code.problems:
            yield FoundChapter(module, text, copy, len(names), (note,))
        else:
            yield FoundChapter(module, write_chapter(code, module, mark=False).text, copy, len(names), (f"{note}; only the code that they use was read",))


def _read_notebook(copy: ChapterCopy, file: str, add_note: Callable[[str], None]) -> Iterable[FoundChapter]:
    code = read_code(read_cells(copy.data, file), file)
    for sentence in code.problems[:MOST_SENTENCES]:
        add_note(sentence)
    chapters = {module: names for module, names in find_chapters(code).items() if copy.module in ("", module)}
    if not chapters:
        where = f" of {copy.module}" if copy.module else ""
        raise UnreadableSubmission(f"{file} defines no exercise{where}; its cells must define functions or classes with the names of the exercises")
    for module, names in chapters.items():
        written = write_chapter(code, module)
        if len(written.text) > LARGEST:
            raise UnreadableSubmission(f"the code of {module} in {file} is larger than {LARGEST // 1000} KB; keep only the code of its exercises")
        notes = [f"the notebook {file} was used as {module}.py: {describe_cells(written)} (cells are counted from the top)"]
        for name, cell in list(written.missing.items())[:MOST_SENTENCES]:
            notes.append(f"cell {cell} of {file} sets {shorten(name)}, which the exercises use, by running code; the grader runs no cells, so move it into a function")
        yield FoundChapter(module, written.text, copy, len(names), tuple(notes))


def _list(names: list[str]) -> str:
    return " and ".join(names) if len(names) < 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"
