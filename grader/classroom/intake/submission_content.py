"""Chooses the chapters among the files of one submission.

For each chapter, these files are versions of it, and the first kind that exists counts: files with the chapter's name
(or that `--map` names), files that define its exercises, unchanged stubs. Of several versions, the newest counts; with
`--copies fullest`, the one in which most exercises are implemented; with `--copies better`, the one with most points.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path

from grader.classroom.intake.code_files import CodeFile, Version, describe_fuller, describe_others, read_chapters
from grader.classroom.intake.commit_time import read_commit_time
from grader.classroom.intake.file_names import (
    KIT_FOLDERS,
    MAX_NAME_LENGTH,
    CodeName,
    is_too_long,
    parse_code_name,
    strip_archive_suffix,
)
from grader.classroom.intake.files import MAX_FOLDER_LEVELS, MB, PERSON, FoundFile, is_archive, list_members
from grader.classroom.intake.notebooks import MAX_NOTEBOOK_BYTES
from grader.classroom.intake.options import BETTER, FULLEST, ReadOptions
from grader.classroom.intake.problems import UnreadableSubmission, describe_error
from grader.classroom.intake.several_people import find_people
from grader.classroom.intake.submissions import UNTRUSTED, ChapterVersion, Submission, hash_content
from grader.classroom.sanitize import shorten
from grader.course.source import LARGEST

MAX_CODE_BYTES = 64 * MB  # of all Python files and notebooks
MAX_FILES = 50_000
MAX_JUDGED = 3  # versions of a chapter: each takes as long as a submission
MAX_NOTES = 20
MAX_ARCHIVE_LEVELS = 3  # a zip in a zip in a zip


@dataclass
class _Files:
    """The files of one submission."""

    code: list[CodeFile] = field(default_factory=list)
    archives: list[FoundFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    mapped: set[str] = field(default_factory=set)  # the names in `--map` that fit a file
    count: int = 0
    sample: list[str] = field(default_factory=list)  # a few names, for the message that no chapter was found


def read_content(
    founds: Iterable[FoundFile],
    options: ReadOptions,
    folder: Path | None = None,
    level: int = 0,
    is_dated: bool = False,
) -> Submission:
    """A submission of these files, without a name.

    `folder` is the folder on disk that has them, and `level` the number of archives around them. With `is_dated` a
    platform says the files' times.
    """
    try:
        return _with_digest(_read(founds, options, folder, level, is_dated))
    except UnreadableSubmission as problem:
        return unreadable(str(problem))
    except Exception as error:  # a fault in one submission must not affect any other
        return unreadable(f"it cannot be read: {describe_error(error)}")


def unreadable(problem: str) -> Submission:
    return _with_digest(Submission("", {}, problem))


def _with_digest(found: Submission) -> Submission:
    digest = hash_content(found.sources, found.broken, found.problem)
    return replace(found, digest=digest, notes=found.notes[:MAX_NOTES])


def _read(
    founds: Iterable[FoundFile], options: ReadOptions, folder: Path | None, level: int, is_dated: bool
) -> Submission:
    files = _gather(founds, options)
    if not files.code and len(files.archives) == 1:
        return _read_archive(files, options, folder, level, is_dated)
    versions: dict[str, list[Version]] = {}
    for file in sorted(files.code, key=lambda file: file.rank):
        for version in read_chapters(file, files.notes):
            versions.setdefault(version.module, []).append(version)
    places = [(one.module, one.file.path) for found in versions.values() for one in found]
    people, people_in = find_people([*places, *(("", archive.path) for archive in files.archives)])
    mapped = tuple(sorted(files.mapped))
    found = Submission("", {}, mapped=mapped, people=people, people_in="/".join(people_in))
    if not versions:
        other_code = tuple(dict.fromkeys(file.path[-1] for file in files.code))
        return replace(found, other_code=other_code, problem=_explain_no_chapter(files), notes=tuple(files.notes))
    for archive in files.archives:
        why = "because there are chapter files next to it"
        files.notes.append(f"{shorten(archive.path[-1])} was not opened, {why}")
    found, used = _choose_versions(found, versions, files.notes, options)
    paths = [one.file.path for one in used]
    return _with_commit(_with_file_time(found, used, versions, is_dated or options.trust_file_dates), folder, paths)


def _read_archive(files: _Files, options: ReadOptions, folder: Path | None, level: int, is_dated: bool) -> Submission:
    """The content of the only archive, if there is nothing else."""
    archive = files.archives[0]
    if level == MAX_ARCHIVE_LEVELS:
        why = f"{shorten(archive.path[-1])} was not opened, because it is in {level} other archives"
        raise UnreadableSubmission(f"it contains no readable chapter: {why}; submit the chapter files")
    data = archive.read(PERSON.packed_bytes + 1)
    members = list_members(BytesIO(data), len(data))
    if is_dated:
        members = [replace(member, time=archive.time, zone_known=True) for member in members]
    inner = _with_commit(read_content(members, options, level=level + 1, is_dated=is_dated), folder, [archive.path])
    people_in = "/".join(archive.path) if inner.people else ""
    mapped = tuple(sorted({*files.mapped, *inner.mapped}))
    return replace(inner, notes=(*files.notes, *inner.notes), mapped=mapped, people_in=people_in)


# ---- collecting files


def _gather(founds: Iterable[FoundFile], options: ReadOptions) -> _Files:
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
        name = _find_name(path[-1], options, files)
        if found.kind != "file":
            if (name and name.module) or len(path) == 1:
                special = "not a regular file, so it was not opened"
                what = "a link, which the grader does not follow" if found.kind == "link" else special
                files.notes.append(f"{shorten('/'.join(path))} is {what}")
        elif name:
            if code := _read_code(found, name, options, files):
                files.code.append(code)
                total += len(code.data)
                if total > MAX_CODE_BYTES:
                    raise UnreadableSubmission("it contains far too many copies of the chapters; submit one of each")
        elif strip_archive_suffix(path[-1]) or (len(path) == 1 and "." not in path[-1] and is_archive(found)):
            files.archives.append(found)
    return _without_kit(files)


def _find_name(file: str, options: ReadOptions, files: _Files) -> CodeName | None:
    """What the name of this file says, or `--map` about it."""
    name, mapped = parse_code_name(file), options.find_mapped(file)
    if not mapped:
        return name
    files.mapped.add(mapped)
    copy, is_notebook = name.copy if name else 0, file.lower().endswith(".ipynb")
    return CodeName(options.chapters[mapped], copy=copy, is_notebook=is_notebook)


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


def _read_code(found: FoundFile, name: CodeName, options: ReadOptions, files: _Files) -> CodeFile | None:
    """A Python file or notebook; None for the kit's own and for too large ones."""
    path, is_chapter = found.path, bool(name.module) and not name.is_notebook
    in_kit = any(part in KIT_FOLDERS for part in path[:-1])
    if in_kit and not is_chapter:
        return None
    most = MAX_NOTEBOOK_BYTES if name.is_notebook else 2 * LARGEST if is_chapter else LARGEST
    data = found.read(most + 1)
    if len(data) > most and not is_chapter:  # the sentence about a chapter comes from decoding it
        advice = "; delete its outputs" if name.is_notebook else ""
        files.notes.append(f"{shorten('/'.join(path))} is larger than {most // 1000:,} KB and was not read{advice}")
        return None
    is_blank = all(not line.strip() or line.lstrip().startswith(b"#") for line in data.splitlines())
    is_elsewhere, depth = not options.is_in_assignment(path), len(path) if name.module else 0
    age = -found.time.timestamp() if found.time else 0.0
    rank = (in_kit, is_blank, is_elsewhere, bool(name.person), depth, age, -name.copy, name.is_notebook, path)
    return CodeFile(path, data, found.time, found.zone_known, rank, name.module)


def _without_kit(files: _Files) -> _Files:
    """Leave out the chapters of a copy of the kit that are not in its `exercises` folder."""
    kits = {file.path[:-2] for file in files.code if file.module and file.path[-2:-1] == ("exercises",)}
    own = {(*kit, folder) for kit in kits for folder in KIT_FOLDERS}
    files.code = [file for file in files.code if not own & {file.path[:depth] for depth in range(len(file.path))}]
    return files


# ---- choosing versions


def _choose_versions(
    found: Submission, all_versions: dict[str, list[Version]], notes: list[str], options: ReadOptions
) -> tuple[Submission, list[Version]]:
    """The submission with the version of each chapter that counts, and those of the graded chapters."""
    sources, broken, judged = {}, {}, []
    used: dict[bool, list[Version]] = {True: [], False: []}
    for module in sorted(all_versions):
        versions = all_versions[module]
        chosen, others = _choose(versions, options)
        is_graded = options.is_graded(module)
        used[is_graded].append(chosen)
        if chosen.problem:
            broken[module] = chosen.problem
            continue
        sources[module] = chosen.text
        different = [other for other in others if other.text != chosen.text]
        readable = [chosen, *{other.text: other for other in reversed(different) if not other.problem}.values()]
        if not is_graded:  # notes about it do not help
            continue
        if options.copies == BETTER and len(readable) > 1:
            readable = [chosen, *(one for one in different if one in readable)][:MAX_JUDGED]
            judged += [ChapterVersion(module, "/".join(one.file.path), one.text, one.notes) for one in readable]
        else:
            notes += [*chosen.notes, *describe_others(chosen, different), *describe_fuller(chosen, versions)]
    wrong = [broken[module] for module in broken if options.is_graded(module)]
    problem = "" if sources else [*wrong, *broken.values()][0]
    notes += [sentence for sentence in wrong if sentence != problem]
    found = replace(found, sources=sources, broken=broken, problem=problem, notes=tuple(notes), versions=tuple(judged))
    return found, used[True] or used[False]


def _choose(versions: list[Version], options: ReadOptions) -> tuple[Version, list[Version]]:
    """The version that counts, and the others of its kind."""
    begun = [version for version in versions if version.written]
    most = max(version.defined for version in versions)  # a helper with an exercise's name does not replace a chapter
    kinds = [
        [version for version in begun if version.is_named],
        [version for version in begun if 2 * version.defined >= most],
        [version for version in versions if version.is_named],
    ]
    candidates = next(filter(None, kinds), [version for version in versions if 2 * version.defined >= most])
    candidates = sorted(candidates, key=lambda version: (bool(version.problem), version.file.rank))
    if options.copies == FULLEST:
        candidates.sort(key=lambda version: -version.written)
    return candidates[0], candidates[1:]


def _with_file_time(
    found: Submission, used: list[Version], versions: dict[str, list[Version]], is_trusted: bool
) -> Submission:
    """The submission with the newest time of these chapters. If a file is there several times, its first date counts.

    The times of files count only if the instructor says so, because copying and unpacking change them.
    """
    times = []
    for chosen in used:
        files = [one.file for one in versions[chosen.module] if one.file.data == chosen.file.data]
        times += sorted((file.time, file.zone_known) for file in files if file.time)[:1]
    if not times or not is_trusted:
        return replace(found, time_from=UNTRUSTED if times else "")
    submitted, zone_known = max(times)
    return replace(found, submitted=submitted, zone_known=zone_known, time_from="file")


def _with_commit(found: Submission, folder: Path | None, paths: list[tuple[str, ...]]) -> Submission:
    """The submission with the time of the last commit, if these files are in git clones.

    The files' own times are those of cloning.
    """
    clones = {folder.joinpath(*path[:depth]) for path in paths for depth in range(len(path))} if folder else set()
    times = list(filter(None, map(read_commit_time, clones)))
    return replace(found, submitted=max(times), zone_known=True, time_from="commit") if times else found


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
