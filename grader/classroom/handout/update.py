"""Updates a learner's folder with a newer handout: `headway handout --into FOLDER`.

Each handout lists its files with their hashes in `.handout.json`. So a file that its owner has changed is recognised,
and is never overwritten:

| the owner's file | the handout's file | what happens |
| --- | --- | --- |
| unchanged | changed or new | it is replaced |
| changed | unchanged since the last handout | it stays |
| changed | changed | it stays, and the new one is put next to it as NAME.new |

Chapters of the folder that the new handout lacks stay, with their tests and their part of the syllabus.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grader.course.progress import format_points
from grader.course.stubs import FINGERPRINTS, FINGERPRINTS_HEADER
from grader.course.syllabus import Chapter, load_syllabus
from grader.files import UserProblem, write_whole

TEXTS = Path(__file__).parent / "texts"
MANIFEST = ".handout.json"
SYLLABUS, LOCK_FILE, README = "exercises/syllabus.toml", f"exercises/{FINGERPRINTS}", "README.md"
INSTALLED = ("pyproject.toml", "constraints.txt")  # when they change, the environment is installed again


class UpdateProblem(UserProblem, ValueError):
    """The folder cannot be updated; the message is one sentence."""


@dataclass
class Update:
    """What an update has done, as paths in the folder."""

    folder: Path
    added: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)  # the owner has changed them, and the handout has not
    conflicts: list[str] = field(default_factory=list)  # both have

    @property
    def needs_installation(self) -> bool:
        return any(path in INSTALLED for path in self.replaced)


def format_readme(chapters: Sequence[Chapter], hidden: Collection[str]) -> str:
    """The README; `chapters` come from the handout's own syllabus, without hidden exercises."""
    rows = []
    for chapter in chapters:
        names = ", ".join(f"`{exercise.name}`" for exercise in chapter.exercises)
        rows.append(f"| {chapter.number} {chapter.title} | {names} | {format_points(chapter.points)} |")
    files = ", ".join(f"`exercises/{chapter.name}.py`" for chapter in chapters)
    listed = ", ".join(f"`{name}`" for name in hidden)
    only = f"Only your instructor can grade {listed}: their tests are not here, but their stubs are in the files."
    text = (TEXTS / README).read_text(encoding="utf-8")
    more = f"\n\n{only}" if hidden else ""
    return text.format(rows="\n".join(rows), first=chapters[0].name, hidden=more, files=files)


def write_manifest(folder: Path) -> None:
    """List the files of a handout that has just been made."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    hashes = {path.relative_to(folder).as_posix(): _hash(path.read_bytes()) for path in paths}
    _store_manifest(folder, hashes)


def update_folder(new: Path, folder: Path) -> Update:
    """Update `folder`, an earlier handout, from the handout `new`. An update that was interrupted can be repeated.

    UpdateProblem if one of them is not a handout; OSError if a file cannot be written.
    """
    folder = folder.absolute()
    offered = _read_manifest(new, "the new handout")
    if not folder.is_dir():
        raise UpdateProblem(f"{folder} is not a folder; name the folder of your earlier handout")
    if folder.resolve() == new.resolve():
        raise UpdateProblem(f"{folder} is the new handout itself; name the folder of your earlier handout")
    known = _read_manifest(folder, str(folder))
    update = Update(folder)
    for path in sorted(offered, key=lambda path: (path in (SYLLABUS, LOCK_FILE, README), path == README)):
        known[path] = _update_file(new, path, known.get(path, ""), update)
    _store_manifest(folder, known)
    return update


def _update_file(new: Path, path: str, known: str, update: Update) -> str:
    """Update one file whose hash in the last handout is `known`; the hash that the next update compares with."""
    file = update.folder / path
    present = file.read_bytes() if file.exists() else None
    content = _join(path, (new / path).read_bytes(), present or b"", update.folder)
    hashed, own = _hash(content), "" if present is None else _hash(present)
    if present is None:
        write_whole(file, content)
        update.added.append(path)
    elif own == hashed:
        pass
    elif own == known or path == LOCK_FILE:  # no person writes the lock
        write_whole(file, content)
        update.replaced.append(path)
    elif hashed == known:
        update.kept.append(path)
    else:
        write_whole(file.with_name(f"{file.name}.new"), content)
        update.conflicts.append(path)
    return hashed


def _join(path: str, content: bytes, present: bytes, folder: Path) -> bytes:
    """The handout's file, joined with the folder's chapters that the handout lacks."""
    new, old = content.decode("utf-8", "replace"), present.decode("utf-8", "replace")
    if path == SYLLABUS:
        head, parts = _split_chapters(new)
        for name, part in _split_chapters(old)[1].items():
            if "[[chapter.exercise]]" in part and "[[chapter.exercise]]" not in parts.get(name, ""):
                parts[name] = part
        return (head + "\n\n".join(parts[name].strip() for name in sorted(parts)) + "\n").encode()
    if path == LOCK_FILE:
        lines = dict(re.findall(r'^(\w+) = ("\w+")$', f"{old}\n{new}", re.MULTILINE))
        return "".join([FINGERPRINTS_HEADER, *(f"{name} = {lines[name]}\n" for name in sorted(lines))]).encode()
    if path == README:
        chapters = [chapter for chapter in load_syllabus(folder / SYLLABUS).chapters if chapter.exercises]
        return format_readme(chapters, [name for chapter in chapters for name in chapter.hidden]).encode()
    return content


def _split_chapters(text: str) -> tuple[str, dict[str, str]]:
    """The text above the chapters, and the part of each chapter, by its id."""
    head, *parts = re.split(r"^(?=\[\[chapter\]\])", text, flags=re.MULTILINE)
    return head, {found[1]: part for part in parts if (found := re.search(r'^id = "(.*)"$', part, re.MULTILINE))}


def _hash(data: bytes) -> str:
    """The hash of a file; line ends make no difference, because git on Windows changes them."""
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()


def _read_manifest(folder: Path, name: str) -> dict[str, str]:
    try:
        files = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        if all(isinstance(hashed, str) and not {"", ".."} & set(path.split("/")) for path, hashed in files.items()):
            return files
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    raise UpdateProblem(
        f"{name} has no valid {MANIFEST}, so it cannot be updated; "
        "copy your files of exercises/ into the new handout instead"
    )


def _store_manifest(folder: Path, files: dict[str, str]) -> None:
    write_whole(folder / MANIFEST, json.dumps({"files": dict(sorted(files.items()))}, indent=0) + "\n")
