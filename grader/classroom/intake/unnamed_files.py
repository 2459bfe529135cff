"""Finds chapters in notebooks and in Python files whose names do not say a chapter: by the exercises that they define.

A Python file or notebook that has the chapter's name comes first, unless it is an unchanged stub. Of several files that define a chapter's exercises, the
newest counts; with `--copies fullest`, the one in which most exercises are implemented; with `--copies better`, the one with most points. A note says
which file was used, and for what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from grader.classroom.intake.decoding import decode_chapter
from grader.classroom.intake.file_names import parse_notebook_name
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

    @property
    def is_named(self) -> bool:
        """Does the file's name, or the instructor, say this chapter?"""
        named = parse_notebook_name(self.copy.path[-1])
        return self.module in (self.copy.module, named.module if named else "")

    @property
    def path(self) -> str:
        return shorten("/".join(self.copy.path))


def find_unnamed(files: SubmissionFiles, refused: Mapping[str, str], before_file: Callable[[str], None]) -> dict[str, FoundChapter]:
    """The chapters, by module, that are used. Problems of a file become notes of the submission."""
    found: dict[str, list[FoundChapter]] = {}
    for copy in files.unnamed:
        name = "/".join(copy.path)
        before_file(name)
        try:
            if name in refused:
                raise UnreadableSubmission(refused[name])
            for chapter in _read_file(copy, files):
                found.setdefault(chapter.module, []).append(chapter)
                files.places.setdefault(chapter.module, []).append(copy.path)
        except (SourceProblem, UnreadableSubmission) as trouble:
            files.note(str(trouble))
        except Exception as error:
            files.note(f"{shorten(name)} cannot be read: {describe_error(error)}")
    chosen = {module: _choose(files, module, candidates) for module, chapters in found.items() if (candidates := _find_candidates(files, module, chapters))}
    for module, chapters in found.items():
        _note_fuller_files(files, module, chapters, chosen.get(module))
    return chosen


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


def _find_candidates(files: SubmissionFiles, module: str, chapters: list[FoundChapter]) -> list[FoundChapter]:
    """The files that may count instead of the Python file with the chapter's name: notebooks with its name, or others if that file is an unchanged stub."""
    python = files.best.get(module)
    begun = [chapter for chapter in chapters if count_written(chapter.text, module) != 0]
    if named := [chapter for chapter in begun if chapter.is_named]:
        return [*_read_python(files, module), *named]
    if python is None:
        return [] if module in files.oversized else chapters
    return begun if count_written_bytes(python.data, module) == 0 else []


def _read_python(files: SubmissionFiles, module: str) -> list[FoundChapter]:
    """The Python files with the chapter's name that can be read and are no unchanged stubs."""
    found = []
    for copy in [files.best[module], *files.others.get(module, [])] if module in files.best else []:
        try:
            text, note = decode_chapter(copy.data, f"{module}.py")
        except SourceProblem:
            continue
        if count_written(text, module) != 0:
            found.append(FoundChapter(module, text, copy, 0, (note,) if note else ()))
    return found


def _note_fuller_files(files: SubmissionFiles, module: str, chapters: list[FoundChapter], chosen: FoundChapter | None) -> None:
    """A note on a file of another name that implements more exercises than the file that is used because of its name."""
    used = chosen.copy if chosen else files.best.get(module)
    if used is None or (chosen and not chosen.is_named) or not files.options.is_graded(module):
        return
    most = count_written(chosen.text, module) if chosen else count_written_bytes(used.data, module)
    for chapter in chapters:
        if not chapter.is_named and count_written(chapter.text, module) > most:
            used_path = shorten("/".join(used.path))
            files.note(f"{chapter.path} implements more exercises of {module} and was not used, because {used_path} has the chapter's name")


def _choose(files: SubmissionFiles, module: str, chapters: list[FoundChapter]) -> FoundChapter:
    """The chapter that counts, with a note on the others.

    A file with few of the exercises (a helper of that name) does not replace one with many, unless its name says the chapter.
    """
    most = 0 if any(chapter.is_named for chapter in chapters) else max(chapter.defined for chapter in chapters)
    candidates = [chapter for chapter in chapters if 2 * chapter.defined >= most]
    candidates.sort(key=lambda chapter: chapter.copy.rank)
    if files.options.copies == FULLEST:
        candidates.sort(key=lambda chapter: -count_written(chapter.text, module))
    chosen, *others = candidates
    if different := [other for other in others if other.text != chosen.text]:
        if files.options.copies == BETTER:
            return replace(chosen, others=tuple(different))
        paths = " and ".join(other.path for other in different[:2])
        more = f" and {len(different) - 2} more" if len(different) > 2 else ""
        why = "the version with most exercises" if files.options.copies == FULLEST else "the newest version"
        sentence = f"several files define exercises of {module}; {chosen.path} was graded ({why}), not {paths}{more}"
        return replace(chosen, notes=(*chosen.notes, sentence))
    return chosen


def _read_file(copy: ChapterCopy, files: SubmissionFiles) -> Iterable[FoundChapter]:
    file = shorten(copy.path[-1])
    if copy.path[-1].lower().endswith(".ipynb"):
        return _read_notebook(copy, file, files.note)
    text, note = decode_chapter(copy.data, file)
    defined = {module: names for module, names in find_defined(text).items() if copy.module in ("", module)}
    if note and any(map(files.options.is_graded, defined)):
        files.note(note)
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
