"""Chooses the chapters among the files of one submission, and decodes them."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType

from grader.classroom.intake.chapter_versions import MOST_VERSIONS, ChapterVersion
from grader.classroom.intake.decoding import decode_chapter
from grader.classroom.intake.file_names import KIT_FOLDERS
from grader.classroom.intake.options import BETTER, FULLEST
from grader.classroom.intake.problems import UnreadableSubmission, describe_error
from grader.classroom.intake.several_people import NO_PEOPLE, People, find_people
from grader.classroom.intake.submission_files import ChapterCopy, SubmissionFiles
from grader.classroom.intake.unnamed_files import FoundChapter, count_written_bytes, find_unnamed
from grader.classroom.sanitize import shorten
from grader.course.source import LARGEST, SourceProblem, TooComplex, parse, too_large


@dataclass(frozen=True)
class SubmissionContent:
    """The chapters of a submission, chosen and decoded."""

    sources: dict[str, str]
    broken: dict[str, str]
    problem: str
    notes: tuple[str, ...]
    submitted: datetime | None
    zone_known: bool
    versions: tuple[ChapterVersion, ...] = ()  # all versions of the chapters that have several, the newest first, if the better one counts
    paths: tuple[tuple[str, ...], ...] = ()  # of the files whose chapters are graded; for an archive, its own path
    mapped: tuple[str, ...] = ()  # the names in `--map` that fit a file
    other_code: tuple[str, ...] = ()  # the names of files with code, if no chapter was found
    people: People = NO_PEOPLE  # whose files these seem to be, if they are several people's

    @property
    def digest(self) -> str:
        return hash_content(self.sources, self.broken, self.problem)


def hash_content(sources: Mapping[str, str], broken: Mapping[str, str], problem: str) -> str:
    """A hash of the content; owner, place and time make no difference."""
    total = hashlib.sha256()
    for part in ("sources", *_flatten(sources), "broken", *_flatten(broken), "problem", problem):
        data = part.encode("utf-8", "surrogatepass")
        total.update(b"%d:" % len(data) + data)
    return total.hexdigest()


def read_content(
    files: SubmissionFiles, refused: Mapping[str, str] = MappingProxyType({}), before_chapter: Callable[[str], None] = lambda module: None
) -> SubmissionContent:
    """Choose and decode the chapters. `refused` says why a chapter or another file must not be read; `before_chapter` is called with each before it is read."""
    if files.problem:
        return SubmissionContent({}, {}, files.problem, (), None, True)
    _drop_kit_copies(files)
    _choose_fullest(files)
    unnamed = find_unnamed(files, refused, before_chapter)
    if not files.best and not files.oversized and not unnamed:
        if len(files.archives) == 1:
            path, inner_files = files.archives[0]
            inner = read_content(inner_files, refused, before_chapter)
            return replace(inner, notes=(*files.notes, *inner.notes), paths=(path,) if inner.paths else (), people=inner.people.in_archive(path))
        people = find_people({"": [path for path, _ in files.archives]})
        other_code = tuple(dict.fromkeys(copy.path[-1] for copy in files.unnamed))
        return SubmissionContent({}, {}, _explain_no_chapter(files), tuple(files.notes), None, True, other_code=other_code, people=people)
    for path, _ in files.archives:
        files.note(f"{shorten(path[-1])} was not opened, because there are chapter files next to it")
    sources, broken = {}, {}
    versions: list[ChapterVersion] = []
    for module in sorted({*files.best, *files.oversized, *unnamed}):
        copy = files.best.get(module)
        if module not in unnamed and copy is None:
            broken[module] = str(too_large(f"{module}.py"))
            continue
        before_chapter(module)
        try:
            if module in refused:
                raise UnreadableSubmission(refused[module])
            sources[module] = _check_chapter(unnamed[module].text, f"{module}.py") if module in unnamed else _read_chapter(files, copy, f"{module}.py")
        except (SourceProblem, UnreadableSubmission) as trouble:
            broken[module] = str(trouble)
        except Exception as error:
            broken[module] = f"{module}.py cannot be read: {describe_error(error)}"
        if not files.options.is_graded(module):  # notes about it do not help
            continue
        several = _list_versions(files, sources[module], copy, unnamed.get(module)) if module in sources and files.options.copies == BETTER else []
        versions += several
        for note in unnamed[module].notes if module in unnamed and not several else ():
            files.note(note)
        if copy is not None and module not in unnamed:
            _note_other_copies(files, module, copy, bool(several))
    used = files.best | {module: found.copy for module, found in unnamed.items()}
    graded = [copy for module, copy in used.items() if files.options.is_graded(module)] or [*used.values()]
    times = [files.earliest[copy.module, copy.data] for copy in graded if (copy.module, copy.data) in files.earliest]
    submitted, zone_known = max(times, key=lambda one: one[0], default=(None, True))
    problem = "" if sources else next((broken[module] for module in broken if files.options.is_graded(module)), next(iter(broken.values())))
    for module, sentence in broken.items():
        if sentence != problem and files.options.is_graded(module):
            files.note(sentence)
    paths, people = tuple(copy.path for copy in graded), find_people(files.places)
    return SubmissionContent(sources, broken, problem, tuple(files.notes), submitted, zone_known, tuple(versions), paths, people=people)


def _read_chapter(files: SubmissionFiles, copy: ChapterCopy | None, file: str) -> str:
    assert copy is not None
    text, note = decode_chapter(copy.data, file)
    if note and files.options.is_graded(copy.module):
        files.note(note)
    return _check_chapter(text, file)


def _list_versions(files: SubmissionFiles, text: str, copy: ChapterCopy | None, unnamed: FoundChapter | None) -> list[ChapterVersion]:
    """The chosen version and those after it, the newest first, that can be read; empty if there is only one."""
    module = unnamed.module if unnamed else copy.module if copy else ""
    others: list[tuple[ChapterCopy, str | None, tuple[str, ...]]]
    if unnamed:
        found = [ChapterVersion(module, "/".join(unnamed.copy.path), text, unnamed.notes)]
        others = [(one.copy, one.text, one.notes) for one in unnamed.others]
    else:
        found = [ChapterVersion(module, "/".join(copy.path) if copy else "", text)]
        others = [(one, None, ()) for one in sorted(files.others.get(module, []), key=lambda one: one.rank)]
    for other, decoded, notes in others:
        try:
            if decoded is None:
                decoded, note = decode_chapter(other.data, f"{module}.py")
                notes = (note,) if note else ()
            decoded = _check_chapter(decoded, f"{module}.py")
        except (SourceProblem, UnreadableSubmission):
            continue
        if len(found) < MOST_VERSIONS and decoded not in [one.text for one in found]:
            found.append(ChapterVersion(module, "/".join(other.path), decoded, notes))
    return found if len(found) > 1 else []


def _check_chapter(text: str, file: str) -> str:
    """A chapter's text, if later steps can parse it without risk. Syntax errors are reported by grading, which shows more of them."""
    if len(text.encode("utf-8", "replace")) > 4 * LARGEST:
        raise too_large(file)
    try:
        tree = parse(text, file)
    except TooComplex:
        raise
    except SourceProblem:
        return text
    if not any(map(_does_something, tree.body)):
        raise UnreadableSubmission(f"{file} {'has only comments and imports' if text.strip() else 'is empty'}; submit the file with your code")
    return text


def _does_something(statement: ast.stmt) -> bool:
    """False for an import and for a docstring."""
    return not isinstance(statement, ast.Import | ast.ImportFrom | ast.Pass) and not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))


def _drop_kit_copies(files: SubmissionFiles) -> None:
    """Remove the chapters of a copy of the kit that are not in its `exercises` folder."""
    dropped = set()
    for module, copy in list(files.best.items()):
        for kit in files.kits:
            if len(copy.path) > len(kit) + 1 and copy.path[: len(kit)] == kit and copy.path[len(kit)] in KIT_FOLDERS:
                dropped.add(copy.path[len(kit)])
                del files.best[module]
                break
    for folder in sorted(dropped):
        files.note(f"the chapters in {folder}/ belong to the kit and were not read")
    for others in files.others.values():
        others[:] = [o for o in others if not any(o.path[: len(kit)] == kit and o.path[len(kit)] in KIT_FOLDERS for kit in files.kits if len(o.path) > len(kit) + 1)]


def _choose_fullest(files: SubmissionFiles) -> None:
    """With `--copies fullest`, choose the version of each chapter in which most exercises are implemented."""
    if files.options.copies != FULLEST:
        return
    for module, others in files.others.items():
        if module in files.best and others:
            versions = sorted([files.best[module], *others], key=lambda copy: (-count_written_bytes(copy.data, module), copy.rank))
            files.best[module], others[:] = versions[0], versions[1:]


def _note_other_copies(files: SubmissionFiles, module: str, copy: ChapterCopy, all_judged: bool) -> None:
    if all_judged:  # the note is written when the better one is known
        return
    if copy.path[-1].lower() != f"{module}.py":
        files.note(f"{shorten(copy.path[-1])} was used as {module}.py")
    others = files.others.get(module)
    if others:
        paths = " and ".join(shorten("/".join(other.path)) for other in others[:2])
        more = f" and {len(others) - 2} more" if len(others) > 2 else ""
        files.note(f"there are several versions of {module}.py; {shorten('/'.join(copy.path))} was graded, not {paths}{more}")


def _explain_no_chapter(files: SubmissionFiles) -> str:
    if len(files.archives) > 1:
        names = " and ".join(shorten(path[-1]) for path, _ in files.archives)
        return f"it contains several archives ({names}) and no chapter file; submit one archive"
    if files.notes:
        return f"it contains no readable chapter: {files.notes[0]}"
    if not files.file_count:
        return "nothing was submitted: it is empty"
    names = ", ".join(shorten(name, 30) for name in files.sample_names)
    more = " and more" if files.file_count > len(files.sample_names) else ""
    return f"it contains no chapter, only {names}{more}; name the chapter files like ch03_attention.py"


def _flatten(texts: Mapping[str, str]) -> list[str]:
    return [part for name in sorted(texts) for part in (name, texts[name])]
