"""Updates a learner's folder with a newer handout: `headway handout --into FOLDER`.

Each handout lists its files with their hashes in `.handout.json`. So a file that its owner has changed is recognised, and is never overwritten:

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
from dataclasses import dataclass, field
from pathlib import Path

from grader.classroom.handout import templates
from grader.course.stubs import FINGERPRINTS, FINGERPRINTS_HEADER
from grader.course.syllabus import load_syllabus
from grader.files import write_whole

MANIFEST = ".handout.json"
SYLLABUS, LOCK_FILE, README = "exercises/syllabus.toml", f"exercises/{FINGERPRINTS}", "README.md"
INSTALLED = ("pyproject.toml", "constraints.txt")  # when they change, the environment is installed again


class UpdateProblem(ValueError):
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


def write_manifest(folder: Path) -> None:
    """List the files of a handout that has just been made."""
    paths = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    _store_manifest(folder, {path: hash_content((folder / path).read_bytes()) for path in paths if path != MANIFEST and "__pycache__" not in path})


def update_folder(new: Path, folder: Path) -> Update:
    """Update `folder`, an earlier handout, from the handout `new`. UpdateProblem if one of them is not a handout; OSError if a file cannot be written.

    An update that was interrupted can be repeated.
    """
    folder = folder.absolute()
    offered = _read_manifest(new, "the new handout")
    if not folder.is_dir():
        raise UpdateProblem(f"{folder} is not a folder; name the folder of your earlier handout")
    if folder.resolve() == new.resolve():
        raise UpdateProblem(f"{folder} is the new handout itself; name the folder of your earlier handout")
    base = _read_manifest(folder, str(folder))
    update = Update(folder)
    for path in sorted(offered, key=lambda path: (path in (SYLLABUS, LOCK_FILE, README), path == README)):
        base[path] = _update_file(new, folder, path, base.get(path, ""), update)
    _store_manifest(folder, base)
    return update


def _update_file(new: Path, folder: Path, path: str, base: str, update: Update) -> str:
    """Update one file; the hash that the next update compares with."""
    content, present = _offered_content(new, folder, path), _read_or_none(folder / path)
    hashed = hash_content(content)
    if present is None:
        write_whole(folder / path, content)
        update.added.append(path)
    elif hash_content(present) == hashed:
        pass
    elif hash_content(present) == base or path == LOCK_FILE:  # no person writes the lock
        write_whole(folder / path, content)
        update.replaced.append(path)
    elif hashed == base:
        update.kept.append(path)
    else:
        write_whole(folder / f"{path}.new", content)
        update.conflicts.append(path)
    return hashed


def _offered_content(new: Path, folder: Path, path: str) -> bytes:
    """The handout's file, joined with the folder's chapters that the handout lacks."""
    content = (new / path).read_bytes()
    if path == SYLLABUS and (old := _read_or_none(folder / path)):
        return _join_syllabuses(content.decode("utf-8"), old.decode("utf-8", "replace")).encode("utf-8")
    if path == LOCK_FILE and (old := _read_or_none(folder / path)):
        lines = dict(re.findall(r'^(\w+) = ("\w+")$', old.decode("utf-8", "replace"), re.MULTILINE))
        lines |= dict(re.findall(r'^(\w+) = ("\w+")$', content.decode("utf-8"), re.MULTILINE))
        return (FINGERPRINTS_HEADER + "".join(f"{name} = {value}\n" for name, value in sorted(lines.items()))).encode("utf-8")
    if path == README:
        chapters = [chapter for chapter in load_syllabus(folder / SYLLABUS).chapters if chapter.exercises]
        return templates.readme(chapters, [name for chapter in chapters for name in chapter.hidden]).encode("utf-8")
    return content


def _join_syllabuses(new: str, old: str) -> str:
    """The new syllabus, with the old part of each chapter of which the new one has no exercises."""
    head, parts = _split_chapters(new)
    _, before = _split_chapters(old)
    for name, part in before.items():
        if "[[chapter.exercise]]" in part and "[[chapter.exercise]]" not in parts.get(name, ""):
            parts[name] = part
    return head + "\n\n".join(parts[name].strip() for name in sorted(parts)) + "\n"


def _split_chapters(text: str) -> tuple[str, dict[str, str]]:
    """The text above the chapters, and the part of each chapter, by its id."""
    head, *parts = re.split(r"^(?=\[\[chapter\]\])", text, flags=re.MULTILINE)
    return head, {found[1]: part for part in parts if (found := re.search(r'^id = "(.*)"$', part, re.MULTILINE))}


def hash_content(data: bytes) -> str:
    """The hash of a file; line ends make no difference, because git on Windows changes them."""
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()


def _read_or_none(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _read_manifest(folder: Path, name: str) -> dict[str, str]:
    try:
        files = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        if all(isinstance(path, str) and isinstance(hashed, str) and not Path(path).is_absolute() and ".." not in Path(path).parts for path, hashed in files.items()):
            return files
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    raise UpdateProblem(f"{name} has no valid {MANIFEST}, so it cannot be updated; copy your files of exercises/ into the new handout instead")


def _store_manifest(folder: Path, files: dict[str, str]) -> None:
    write_whole(folder / MANIFEST, json.dumps({"files": dict(sorted(files.items()))}, indent=0) + "\n")
