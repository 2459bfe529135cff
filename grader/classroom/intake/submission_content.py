"""Chooses the chapters among the files of one submission.

For each chapter, these files are versions of it, and the first kind that exists counts: files with the chapter's name,
files that define its exercises, unchanged stubs. Of several versions, the newest counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from io import BytesIO

from grader.classroom.intake.code_files import MAX_NOTEBOOK_BYTES, CodeFile, Version, describe_others, read_chapters
from grader.classroom.intake.file_names import (
    KIT_FOLDERS,
    MAX_NAME_LENGTH,
    CodeName,
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
from grader.classroom.intake.problems import UnreadableSubmission, describe_error
from grader.classroom.intake.submissions import Submission, hash_content
from grader.classroom.sanitize import shorten
from grader.course.source import MAX_FILE_BYTES

MAX_CODE_BYTES = 64 * MB  # of all Python files and notebooks
MAX_FILES = 50_000
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


def read_content(founds: Iterable[FoundFile], level: int = 0) -> Submission:
    """A submission of these files, without a name; `level` is the number of archives around them."""
    try:
        return _with_digest(_read(founds, level))
    except UnreadableSubmission as problem:
        return unreadable(str(problem))
    except Exception as error:  # a fault in one submission must not affect any other
        return unreadable(f"it cannot be read: {describe_error(error)}")


def unreadable(problem: str) -> Submission:
    return _with_digest(Submission("", {}, problem))


def _with_digest(found: Submission) -> Submission:
    digest = hash_content(found.sources, found.broken, found.problem)
    return replace(found, digest=digest, notes=found.notes[:MAX_NOTES])


def _read(founds: Iterable[FoundFile], level: int) -> Submission:
    files = _gather(founds)
    if not files.code and len(files.archives) == 1:
        return _read_archive(files, level)
    versions: dict[str, list[Version]] = {}
    for file in sorted(files.code, key=lambda file: file.rank):
        for version in read_chapters(file, files.notes):
            versions.setdefault(version.module, []).append(version)
    if not versions:
        return Submission("", {}, _explain_no_chapter(files), tuple(files.notes))
    for archive in files.archives:
        why = "because there are chapter files next to it"
        files.notes.append(f"{shorten(archive.path[-1])} was not opened, {why}")
    return _choose_versions(versions, files.notes)


def _read_archive(files: _Files, level: int) -> Submission:
    """The content of the only archive, if there is nothing else."""
    archive = files.archives[0]
    if level == MAX_ARCHIVE_LEVELS:
        why = f"{shorten(archive.path[-1])} was not opened, because it is in {level} other archives"
        raise UnreadableSubmission(f"it contains no readable chapter: {why}; submit the chapter files")
    data = archive.read(PERSON.packed_bytes + 1)
    inner = read_content(list_members(BytesIO(data), len(data)), level=level + 1)
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
                files.notes.append(f"{shorten('/'.join(path))} is {what}")
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
    rank = (in_kit, is_blank, bool(name.person), depth, age, -name.copy, name.is_notebook, path)
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
    for module in sorted(all_versions):
        chosen, *others = _sort_versions(all_versions[module])
        if chosen.problem:
            broken[module] = chosen.problem
        else:
            sources[module] = chosen.text
            different = [other for other in others if other.text != chosen.text]
            notes += [*chosen.notes, *describe_others(chosen, different)]
    problem = "" if sources else next(iter(broken.values()))
    notes += [sentence for sentence in broken.values() if sentence != problem]
    return Submission("", sources, problem, tuple(notes), broken=broken)


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


def _explain_no_chapter(files: _Files) -> str:
    if len(files.archives) > 1:
        names = " and ".join(shorten(archive.path[-1]) for archive in files.archives[:3])
        return f"it contains several archives ({names}) and no chapter file; submit one archive"
    if files.notes:
        return f"it contains no readable chapter: {files.notes[0]}"
    if not files.count:
        return "nothing was submitted: it is empty"
    names = ", ".join(shorten(name, 30) for name in files.sample)
    more = " and more" if files.count > len(files.sample) else ""
    return f"it contains no chapter, only {names}{more}; name the chapter files like ch03_attention.py"
