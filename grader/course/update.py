"""Brings a learner's clone up to date: new lessons and tests come in, the learner's code and progress stay.

A chapter that the learner has worked on gets the new text of its stub around the same code, where git can merge the
two; else it stays as it is. Before anything changes, it is saved in exercises/.headway/kept/.
"""

from __future__ import annotations

import ast
import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from grader.course.code_shape import code_by_name
from grader.course.stubs import keep
from grader.files import UserProblem, write_whole

CHAPTER = re.compile(r"exercises/ch\d\d_\w+\.py")
CHANGES = "CHANGELOG.md"
NEEDS_INSTALLING = {"pyproject.toml", "constraints.txt"}


@dataclass
class Update:
    """What an update has changed."""

    commits: int = 0  # 0: there was nothing new
    merged: list[str] = field(default_factory=list)  # chapters with the learner's code and the stub's new text
    as_before: list[str] = field(default_factory=list)  # chapters whose stub has changed where the learner has, too
    news: list[str] = field(default_factory=list)  # the new lines of CHANGELOG.md
    needs_installing: bool = False
    source: str = ""  # such as origin/main


def update(root: Path) -> Update:
    """Update the clone in this folder from where it was cloned. UserProblem if that is not possible; then nothing has
    changed."""
    if not (root / ".git").exists():
        advice = "download it again, and copy your files of exercises/ into it"
        raise UserProblem(f"{root} is not a clone that git can update; {advice}")
    source = _git(
        root, "rev-parse", "--abbrev-ref", "@{upstream}", problem="git does not know where this clone is from"
    )
    _git(root, "fetch", "--quiet", problem="the new version could not be fetched")
    base = _git(root, "merge-base", "HEAD", source, problem=f"{source} has no common history with this clone")
    found = Update(int(_git(root, "rev-list", "--count", f"{base}..{source}")), source=source)
    if not found.commits:
        return found
    mine, theirs = _changed(root, base), _changed(root, base, source)
    if both := sorted(name for name in mine & theirs if not CHAPTER.fullmatch(name)):
        names = ", ".join(both)
        raise UserProblem(
            f"you have changed {names}, and so does the update; to drop your change: git checkout {base[:8]} -- {names}"
        )
    own = {
        name: (root / name).read_bytes() for name in sorted(mine) if CHAPTER.fullmatch(name) and (root / name).exists()
    }
    new = {}
    for name, text in own.items():
        new[name] = _merged(text, _content(root, base, name), _content(root, source, name)) if name in theirs else text
        keep(f"{Path(name).stem}.update", text)
    _move(root, source, own, new)
    found.merged = [name for name, text in new.items() if text and text != own[name]]
    found.as_before = [name for name, text in new.items() if text is None]
    found.needs_installing = bool(theirs & NEEDS_INSTALLING)
    added = _git(root, "diff", "--unified=0", base, source, "--", CHANGES).splitlines()
    found.news = [line[1:] for line in added if re.match(r"\+(- |  \w)", line)]
    return found


def _move(root: Path, source: str, own: dict[str, bytes], new: dict[str, bytes | None]) -> None:
    """Merge `source` into the clone, with the learner's chapters out of the way; then put them back."""
    try:
        if own:
            _git(root, "checkout", "--quiet", "HEAD", "--", *own)
        _git(root, "merge", "--quiet", "--no-edit", "-X", "ours", source, problem="the new version could not be merged")
    except BaseException:
        if (root / ".git" / "MERGE_HEAD").exists():
            _git(root, "merge", "--abort")
        new = dict.fromkeys(own)
        raise
    finally:
        for name, text in own.items():
            write_whole(root / name, new[name] or text)


def _changed(root: Path, *versions: str) -> set[str]:
    """The names of the files that differ between these versions, or between one and the folder."""
    return set(_git(root, "diff", "--name-only", "--no-renames", *versions).splitlines())


def _content(root: Path, version: str, name: str) -> bytes:
    """A file of this version; empty if it has none."""
    done = subprocess.run(["git", "-C", str(root), "show", f"{version}:{name}"], capture_output=True)
    return done.stdout if done.returncode == 0 else b""


def _merged(own: bytes, base: bytes, new: bytes) -> bytes | None:
    """The learner's code with the changes of the stub; None if both have changed the same lines."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("own", "base", "new")]
        for path, text in zip(paths, (own, base, new), strict=True):
            path.write_bytes(text)
        done = subprocess.run(["git", "merge-file", "-p", "-q", *map(str, paths)], capture_output=True)
    return done.stdout if done.returncode == 0 and _has_code_of(done.stdout, own, base) else None


def _has_code_of(merged: bytes, own: bytes, base: bytes) -> bool:
    """Whether the learner's definitions are the same, apart from docstrings and comments."""
    try:
        now, mine, stub = (code_by_name(ast.parse(text)) for text in (merged, own, base))
    except (SyntaxError, ValueError):
        return False
    return all(now.get(name) == code for name, code in mine.items() if code != stub.get(name))


def _git(root: Path, *words: str, problem: str = "git could not update this clone") -> str:
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, errors="replace")
    except OSError:
        raise UserProblem("git is not installed, and an update needs it") from None
    if done.returncode:
        reason = " ".join(done.stderr.split())[:300] or "no reason was given"
        raise UserProblem(f"{problem}: {reason}; nothing has changed")
    return done.stdout.strip()
