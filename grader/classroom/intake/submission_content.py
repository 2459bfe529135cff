"""Chooses the chapters among the files of one submission.

For each chapter, these files are versions of it, and the first kind that exists counts: files with the chapter's name,
files that define its exercises, unchanged stubs. Of several versions, the newest counts.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from io import BytesIO

from grader.classroom.intake.file_names import (
    KIT_FOLDERS,
    MAX_NAME_LENGTH,
    CodeName,
    NeutralNames,
    is_too_long,
    parse_code_name,
    strip_archive_suffix,
)
from grader.classroom.intake.files import (
    MAX_FOLDER_LEVELS,
    MB,
    PERSON,
    FoundFile,
    is_archive,
    list_members,
)
from grader.classroom.intake.loose_code import (
    MAX_NOTEBOOK_BYTES,
    Cell,
    find_defined,
    read_cells,
    read_code,
    write_chapter,
)
from grader.classroom.intake.submissions import Submission, UnreadableSubmission, describe_error, hash_content
from grader.classroom.sanitize import shorten
from grader.course.source import MAX_FILE_BYTES, SourceProblem, TooComplex, decode_source, is_written, parse, too_large
from grader.course.syllabus import load_syllabus

MAX_CODE_BYTES = 64 * MB  # of all Python files and notebooks
MAX_FILES = 50_000
MAX_VERSIONS = 50  # of one chapter that are read
MAX_NOTES = 20
MAX_ARCHIVE_LEVELS = 3  # a zip in a zip in a zip


@dataclass
class _Files:
    """The files of one submission."""

    code: list[CodeFile] = field(default_factory=list)
    archives: list[FoundFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    count: int = 0
    sample: list[str] = field(default_factory=list)  # a few names, for the message that no chapter was found


def read_content(founds: Iterable[FoundFile], hides_names: bool = False, level: int = 0) -> Submission:
    """A submission of these files, without a name; `level` is the number of archives around them.

    With `hides_names`, no sentence shows a name of a file that its owner chose.
    """
    try:
        return _with_digest(_read(NeutralNames().hide(founds) if hides_names else founds, hides_names, level))
    except UnreadableSubmission as problem:
        return unreadable(str(problem))
    except Exception as error:  # a fault in one submission must not affect any other
        return unreadable(f"it cannot be read: {describe_error(error)}")


def unreadable(problem: str) -> Submission:
    return _with_digest(Submission("", {}, problem))


def _with_digest(found: Submission) -> Submission:
    digest = hash_content(found.sources, found.broken, found.problem)
    return replace(found, digest=digest, notes=found.notes[:MAX_NOTES])


def _read(founds: Iterable[FoundFile], hides_names: bool, level: int) -> Submission:
    files = _gather(founds)
    versions = _read_versions(files)
    tests = _choose_tests({name: versions.pop(name) for name in list(versions) if name.startswith("test_")}, files)
    if all(file.is_of_tests for file in files.code) and len(files.archives) == 1:
        inner = _read_archive(files, hides_names, level)
        return replace(inner, own_tests=_with_digest(tests)) if tests.sources else inner
    return replace(_choose_chapters(versions, files), own_tests=_with_digest(tests))


def _choose_tests(versions: dict[str, list[Version]], files: _Files) -> Submission:
    """The submission if the learner's own tests count."""
    if not versions:
        problem = _explain_nothing(files, "tests", "name the files like test_softmax.py")
        return Submission("", {}, problem, tuple(files.notes))
    return _choose_versions(versions, [*files.notes])


def _choose_chapters(versions: dict[str, list[Version]], files: _Files) -> Submission:
    if not versions:
        problem = _explain_nothing(files, "chapter", "name the chapter files like ch03_attention.py")
        return Submission("", {}, problem, tuple(files.notes))
    for archive in files.archives:
        why = "because there are chapter files next to it"
        files.notes.append(f"the archive {shorten(archive.path[-1])} was not opened, {why}")
    return _choose_versions(versions, files.notes)


def _read_versions(files: _Files) -> dict[str, list[Version]]:
    """The versions by chapter, at most MAX_VERSIONS of each."""
    versions: dict[str, list[Version]] = {}
    counts = Counter[str]()

    def is_full(kind: str) -> bool:
        counts[kind] += 1
        return counts[kind] > MAX_VERSIONS

    for file in sorted(files.code, key=lambda file: (not file.module, file.rank)):
        for version in read_chapters(file, files.notes, is_full):
            versions.setdefault(version.module, []).append(version)
    read = f"and {MAX_VERSIONS} of them were read; submit one"
    many = {kind: count for kind, count in sorted(counts.items()) if count > MAX_VERSIONS}
    files.notes[:0] = [f"there are {count:,} {kind}, {read}" for kind, count in many.items()]
    return versions


def _read_archive(files: _Files, hides_names: bool, level: int) -> Submission:
    """The content of the only archive, if there is nothing else."""
    archive = files.archives[0]
    if level == MAX_ARCHIVE_LEVELS:
        why = f"{shorten(archive.path[-1])} was not opened, because it is in {level} other archives"
        raise UnreadableSubmission(f"it contains no readable chapter: {why}; submit the chapter files")
    data = archive.read(PERSON.packed_bytes + 1)
    inner = read_content(list_members(BytesIO(data), len(data)), hides_names, level + 1)
    return replace(inner, notes=(*files.notes, *inner.notes))


# ---- collecting files


def _gather(founds: Iterable[FoundFile]) -> _Files:
    files, total = _Files(), 0
    for found in founds:
        path = found.path
        _refuse_unsafe(found)
        if found.kind == "deep":
            files.notes.append(f"files more than {MAX_FOLDER_LEVELS} folders deep were not read")
        if found.kind in ("folder", "deep"):
            continue
        files.count += 1
        if files.count > MAX_FILES:
            raise UnreadableSubmission(f"it contains more than {MAX_FILES} files; submit only the chapter files")
        files.sample += [path[-1]] if len(files.sample) < 3 else []
        name = parse_code_name(path[-1])
        if found.kind != "file":
            if (name and name.module) or len(path) == 1:
                special = "not a regular file, so it was not opened"
                what = "a link, which the grader does not follow" if found.kind == "link" else special
                files.notes.append(f"the file {shorten('/'.join(path))} is {what}")
        elif name:
            if code := _read_code(found, name, files):
                files.code.append(code)
                total += len(code.data)
                if total > MAX_CODE_BYTES:
                    raise UnreadableSubmission("it contains far too many copies of the chapters; submit one of each")
        elif strip_archive_suffix(path[-1]) or (len(path) == 1 and "." not in path[-1] and is_archive(found)):
            files.archives.append(found)
    return _without_kit(files)


def _refuse_unsafe(found: FoundFile) -> None:
    path = found.path
    if is_too_long(path):
        name = next((part for part in path if len(part) > MAX_NAME_LENGTH), "/".join(path))
        what = f"a name longer than {MAX_NAME_LENGTH} characters ({shorten(name, 30)})"
        raise UnreadableSubmission(f"it contains {what}; submit only the chapter files")
    if found.kind == "escape":
        what = f"a path outside of it ({shorten('/'.join(path))})"
        raise UnreadableSubmission(f"a file in the archive has {what}; submit only the chapter files")
    if found.kind == "closed":
        raise UnreadableSubmission(f"the folder {shorten(path[-1])} cannot be opened")


def _read_code(found: FoundFile, name: CodeName, files: _Files) -> CodeFile | None:
    """A Python file or notebook; None for the kit's own and for too large ones."""
    path, is_chapter = found.path, bool(name.module) and not name.is_notebook
    in_kit = any(part in KIT_FOLDERS for part in path[:-1])
    if in_kit and not is_chapter:
        return None
    most = MAX_NOTEBOOK_BYTES if name.is_notebook else MAX_FILE_BYTES
    data = found.read(most + 1)
    if len(data) > most and not is_chapter:  # the sentence about a chapter comes from decoding it
        advice = "; delete its outputs" if name.is_notebook else ""
        files.notes.append(f"{shorten('/'.join(path))} is larger than {most // 1000:,} KB and was not read{advice}")
        return None
    is_blank = all(not line.strip() or line.lstrip().startswith(b"#") for line in data.splitlines())
    depth = len(path) if name.module else 0
    age = -found.time.timestamp() if found.time else 0.0
    rank = (in_kit, is_blank, bool(name.person), depth, age, -name.copy, name.is_notebook, found.order or path)
    return CodeFile(path, data, rank, name.module)


def _without_kit(files: _Files) -> _Files:
    """Leave out the chapters of a copy of the kit that are not in its `exercises` folder."""
    kits = {file.path[:-2] for file in files.code if file.module and file.path[-2:-1] == ("exercises",)}
    own = {(*kit, folder) for kit in kits for folder in KIT_FOLDERS}
    files.code = [file for file in files.code if not own & {file.path[:depth] for depth in range(len(file.path))}]
    return files


# ---- choosing versions


def _choose_versions(all_versions: dict[str, list[Version]], notes: list[str]) -> Submission:
    """The submission with the version of each chapter that counts."""
    sources, broken = {}, {}
    absent: dict[str, str] = {}
    for module in sorted(all_versions):
        chosen, *others = _sort_versions(all_versions[module])
        if chosen.problem:
            broken[module] = chosen.problem
        else:
            sources[module] = chosen.text
            absent |= dict.fromkeys(chosen.lacks, "the notebook does not define it")
            different = [other for other in others if other.text != chosen.text]
            notes += [*chosen.notes, *describe_others(chosen, different)]
    problem = "" if sources else next(iter(broken.values()))
    notes += [sentence for sentence in broken.values() if sentence != problem]
    return Submission("", sources, problem, tuple(notes), broken=broken, absent=absent)


def _sort_versions(versions: list[Version]) -> list[Version]:
    """Those of the first kind that exists; the first one counts."""
    most = max(version.defined for version in versions)  # a helper with an exercise's name does not replace a chapter
    defining = [version for version in versions if 2 * version.defined >= most]
    kinds = [
        [version for version in versions if version.is_begun and version.is_named],
        [version for version in defining if version.is_begun],
        [version for version in versions if version.is_named],
        defining,
    ]
    return sorted(next(filter(None, kinds)), key=lambda version: (bool(version.problem), version.file.rank))


def _explain_nothing(files: _Files, what: str, advice: str) -> str:
    """Why there is no chapter, or no file of tests."""
    if len(files.archives) > 1:
        names = " and ".join(shorten(archive.path[-1]) for archive in files.archives[:3])
        return f"it contains several archives ({names}) and no {what} file; submit one archive"
    if files.notes:
        return f"it contains no readable {what}: {files.notes[0]}"
    if not files.count:
        return "nothing was submitted: it is empty"
    names = ", ".join(shorten(name, 30) for name in files.sample)
    more = " and more" if files.count > len(files.sample) else ""
    return f"it contains no {what}, only {names}{more}; {advice}"


# ---- the chapters in one file: its name says a chapter, or it is those whose exercises it defines


MAX_SENTENCES = 4  # about one notebook


@dataclass(frozen=True)
class CodeFile:
    """A Python file or notebook of a submission."""

    path: tuple[str, ...]
    data: bytes
    rank: tuple  # of several versions of a chapter, the one with the smallest rank counts
    module: str  # the chapter, or the tests, that its name says; "" for none

    @property
    def name(self) -> str:
        return shorten("/".join(self.path))

    @property
    def is_of_tests(self) -> bool:
        return self.module.startswith("test_")


@dataclass(frozen=True)
class Version:
    """A chapter that a file contains."""

    module: str
    file: CodeFile
    text: str
    problem: str = ""  # why it cannot be graded
    is_begun: bool = True  # False if it implements no exercise
    notes: tuple[str, ...] = ()  # sentences for the instructor, if this version counts
    defined: int = 0  # exercises
    lacks: tuple[str, ...] = ()  # exercises that a notebook does not define: the chapter made of it has their stubs

    @property
    def is_named(self) -> bool:
        return bool(self.file.module)


def read_chapters(file: CodeFile, notes: list[str], is_full: Callable[[str], bool]) -> list[Version]:
    """The chapters in this file. Problems of a file that says no chapter become notes.

    `is_full` is called with what would be read, in words, and returns whether there are enough of it already.
    """
    name = shorten(file.path[-1])
    is_notebook = name.lower().endswith(".ipynb")
    try:
        if file.module and is_full(_versions_of(file.module)):
            return []
        if file.module and not is_notebook:
            return [_read_named(file)]
        if not is_notebook:
            return list(map(_checked, _read_unnamed(file, name, is_full)))
        if file.module or not is_full("notebooks whose names say no chapter"):
            return list(map(_checked, _read_notebook(file, name, notes, is_full)))
    except (SourceProblem, UnreadableSubmission) as problem:
        notes.append(str(problem))
    except Exception as error:
        notes.append(f"{file.name} cannot be read: {describe_error(error)}")
    return []


def _versions_of(module: str) -> str:
    return f"versions of {module}.py"


def _read_named(file: CodeFile) -> Version:
    name, own_name = f"{file.module}.py", file.path[-1]
    try:
        text = decode_source(file.data, name)
    except SourceProblem as problem:
        return Version(file.module, file, "", str(problem))
    renamed = (f"{shorten(own_name)} was used as {name}",) if own_name.lower() != name else ()
    return _checked(Version(file.module, file, text, notes=renamed))


def _read_unnamed(file: CodeFile, name: str, is_full: Callable[[str], bool]) -> Iterator[Version]:
    """The chapters of a Python file. If it has several and is not valid Python, each gets all of its text."""
    text = decode_source(file.data, name)
    found = find_defined(text)
    chapters = {module: exercises for module, exercises in found.items() if not is_full(_versions_of(module))}
    code = read_code([Cell(1, text)], name) if chapters and len(found) > 1 else None
    for module, exercises in chapters.items():
        used = f"the file {name} was used as {module}.py, because it defines {_list(exercises)}"
        if code is None or code.problems:
            chapter = text
        else:
            chapter = write_chapter(code, module).text
            used += "; only the code that they use was read"
        yield Version(module, file, chapter, notes=(used,), defined=len(exercises))


def _read_notebook(file: CodeFile, name: str, notes: list[str], is_full: Callable[[str], bool]) -> Iterator[Version]:
    code = read_code(read_cells(file.data, name), name)
    notes += code.problems[:MAX_SENTENCES]
    chapters = {module: exercises for module, exercises in code.exercises().items() if file.module in ("", module)}
    if not chapters:
        where = f" of {file.module}" if file.module else ""
        advice = "its cells must define functions or classes with the names of the exercises"
        raise UnreadableSubmission(f"{name} defines no exercise{where}; {advice}")
    for module, exercises in chapters.items():
        if not file.module and is_full(_versions_of(module)):
            continue
        written = write_chapter(code, module)
        cells = f"{written.describe_cells()} (cells are counted from the top)"
        used = [f"the notebook {name} was used as {module}.py: {cells}"]
        for missing, cell in list(written.missing.items())[:MAX_SENTENCES]:
            used.append(
                f"cell {cell} of {name} sets {shorten(missing)}, which the exercises use, by running code; "
                "the grader runs no cells, so move it into a function"
            )
        lacks = tuple(one.name for one in load_syllabus().chapter(module).exercises if one.name not in written.cells)
        yield Version(module, file, written.text, notes=tuple(used), defined=len(exercises), lacks=lacks)


def _checked(version: Version) -> Version:
    """The version, with a problem if later steps cannot parse it without risk. Grading reports syntax errors."""
    name, text, problem, is_begun = f"{version.module}.py", version.text, "", True
    try:
        if len(text.encode("utf-8", "replace")) > 4 * MAX_FILE_BYTES:
            raise too_large(name)
        if not any(map(_does_something, parse(text, name).body)):
            what = "has only comments and imports" if text.strip() else "is empty"
            problem = f"{name} {what}; submit the file with your code"
        if not version.file.is_of_tests:
            is_begun = any(is_written(text, one.name) for one in load_syllabus().chapter(version.module).exercises)
    except TooComplex as error:
        problem = str(error)
    except SourceProblem:
        pass
    return replace(version, problem=problem, is_begun=is_begun)


def _does_something(statement: ast.stmt) -> bool:
    """False for an import and for a docstring."""
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return not is_text and not isinstance(statement, ast.Import | ast.ImportFrom | ast.Pass)


def _list(names: list[str]) -> str:
    return " and ".join(names) if len(names) < 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"


def describe_others(chosen: Version, others: list[Version]) -> list[str]:
    if not others:
        return []
    more = f" and {len(others) - 2} more" if len(others) > 2 else ""
    names = " and ".join(other.file.name for other in others[:2])
    return [f"there are several versions of {chosen.module}.py; {chosen.file.name} was graded, not {names}{more}"]
