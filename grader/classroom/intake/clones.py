"""Reads a person's clone of a git repository: the files of its last commit before the deadline, and when that was.

A clone is somebody else's repository, so nothing in it decides what git does. Git runs in an empty repository of the
grader and takes from the clone only objects: no configuration, hook, filter or attribute of it is read, nothing is
checked out, and nothing is fetched.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from threading import Timer
from typing import NoReturn

from grader.classroom.intake.files import MB, FoundFile, describe_entry, is_wanted, plausible_time
from grader.classroom.intake.submission_content import read_content, unreadable
from grader.classroom.intake.submissions import GradingProblem, Submission, UnreadableSubmission
from grader.classroom.intake.tables import parse_time, read_cells
from grader.course.source import is_written
from grader.course.syllabus import load_syllabus

MAX_COMMITS = 10_000
MAX_LISTED_BYTES = 20 * MB  # of names of files, or of commits
GIT_SECONDS = 30.0  # for one command
KINDS = {"100": "file", "120": "link"}  # by the mode of an entry; another one is a submodule
_HASH = re.compile("[0-9a-f]{40}")
_BRANCH = re.compile(r"ref: (refs/(?!.*\.\.)[\w./@+#-]+)")
SETTINGS = ("core.hooksPath=/dev/null", "core.fsmonitor=false", "core.commitGraph=false", "protocol.allow=never")
ADVICE = "clone it again"


@dataclass(frozen=True)
class CommitDates:
    """What decides which commit counts; both by the end of the clone's name, in small letters."""

    due: Mapping[str, datetime] = field(default_factory=dict)  # commits until then count; "" is for everybody else
    pushed: Mapping[str, datetime] = field(default_factory=dict)  # when the last push arrived, if the instructor knows


NO_DATES = CommitDates()


def read_pushes(file: str) -> dict[str, datetime]:
    """The dates in a CSV with the columns login and date; {} without a file. GradingProblem if it is not one."""
    path, dates = Path(file), dict[str, datetime]()
    rows = read_cells(path) if file else []
    if not file:
        return dates
    if not rows or [cell.lower() for cell in rows[0][1]] != ["login", "date"]:
        raise GradingProblem(f"{path.name}, line 1: the first line names the columns: login,date")
    for line, cells in rows[1:]:
        if len(cells) != 2 or not cells[0]:
            example = "ada,2026-12-01T20:00:00+01:00"
            raise GradingProblem(f"{path.name}, line {line}: write a login and a date, like {example}")
        if cells[0].casefold() in dates:
            raise GradingProblem(f"{path.name}, line {line}: this login is in an earlier line, too; keep one of them")
        try:
            dates[cells[0].casefold()] = parse_time(cells[1])
        except ValueError as problem:
            raise GradingProblem(f"{path.name}, line {line}: {problem}") from None
    return dates


def is_clone(folder: Path) -> bool:
    parts = (folder, folder / ".git", folder / ".git" / "HEAD")
    return [describe_entry(part, ()).kind for part in parts] == ["folder", "folder", "file"]


def read_clone(folder: Path, dates: CommitDates, hides_names: bool = False) -> Submission:
    """What its owner had committed at the deadline; later work, as late, if nothing was written until then."""
    try:
        with _own_repository(folder / ".git") as repository:
            return _read(repository, folder.name, dates, hides_names)
    except UnreadableSubmission as problem:
        return unreadable(str(problem))


def _read(repository: _Repository, name: str, dates: CommitDates, hides_names: bool) -> Submission:
    pushed, due = _find(name, dates.pushed), _find(name, dates.due)
    commits = repository.list_commits()
    last, when = commits[0]
    notes = [] if repository.branch else [f"the clone is on no branch; its commit {last[:7]} was graded"]
    until = next((place for place, (_, time) in enumerate(commits) if due and time and time <= due), 0)
    place = until if pushed is None else 0
    found = read_content(repository.list_files(commits[place][0]), hides_names)
    if place and not _is_begun(found):
        place, found = 0, read_content(repository.list_files(last), hides_names)
    commit, when = commits[place]
    if place:
        notes.append(f"the commit {commit[:7]} was graded, the last one before the deadline; {place} came later")
    elif repository.is_shallow and due and pushed is None and when and when > due:
        notes.append("the clone is shallow, so earlier commits are missing, and the last one was graded")
    # whoever knows a commit's hash can look its author up
    return replace(found, submitted=pushed or when, notes=(*found.notes, *(() if hides_names else notes)))


def _find(name: str, table: Mapping[str, datetime]) -> datetime | None:
    """The entry for the longest end of this name, after a hyphen: logins may contain hyphens themselves."""
    parts = name.casefold().split("-")
    ends = ("-".join(parts[place:]) for place in range(len(parts)))
    return table.get(next((end for end in ends if end in table), ""))


def _is_begun(found: Submission) -> bool:
    chapters = [one for one in load_syllabus().chapters if one.name in found.sources]
    return any(is_written(found.sources[one.name], each.name) for one in chapters for each in one.exercises)


# ---- git


@contextmanager
def _own_repository(clone: Path) -> Iterator[_Repository]:
    """An empty repository, whose objects are those of the clone. UnreadableSubmission if they cannot be used."""
    if shutil.which("git") is None:
        raise UnreadableSubmission("it is a git repository, and git is not installed on this machine")
    objects = clone / "objects"
    if describe_entry(objects, ()).kind != "folder" or (objects / "info" / "alternates").exists():
        raise UnreadableSubmission(f"it is a git repository without objects of its own; {ADVICE}")
    commit, branch = read_head(clone)
    with tempfile.TemporaryDirectory(prefix="headway-git-") as place:
        for name in ("objects", "refs"):
            (Path(place) / name).mkdir()
        (Path(place) / "HEAD").write_text("ref: refs/heads/none\n", encoding="ascii")
        shallow = _HASH.findall(_read_text(clone / "shallow", MB))
        (Path(place) / "shallow").write_text("".join(f"{one}\n" for one in shallow), encoding="ascii")
        yield _Repository(place, objects, commit, branch, bool(shallow))


def read_head(clone: Path) -> tuple[str, str]:
    """The commit that is checked out, and its branch, if it is on one."""
    head = _read_text(clone / "HEAD", 1000).strip()
    if not (named := _BRANCH.fullmatch(head)):
        return head if _HASH.fullmatch(head) else _refuse(), ""
    commit = _read_text(clone / named[1], 1000).strip()
    packed = re.search(rf"^({_HASH.pattern}) {re.escape(named[1])}$", _read_text(clone / "packed-refs"), re.MULTILINE)
    commit = commit or (packed[1] if packed else "")
    if not commit:
        raise UnreadableSubmission("nothing was submitted: its git repository has no commit")
    return commit if _HASH.fullmatch(commit) else _refuse(), named[1]


def _read_text(path: Path, most: int = 10 * MB) -> str:
    """The beginning of this regular file; "" if there is none."""
    found = describe_entry(path, (path.name,))
    return found.read(most).decode("utf-8", "replace") if found.kind == "file" else ""


def _refuse() -> NoReturn:
    raise UnreadableSubmission(f"git cannot read its repository, which is damaged or incomplete; {ADVICE}")


@dataclass(frozen=True)
class _Repository:
    place: str
    objects: Path
    commit: str
    branch: str
    is_shallow: bool

    def list_commits(self) -> list[tuple[str, datetime | None]]:
        """The commits of the branch, the newest first, with their dates."""
        lines = self._git(MAX_LISTED_BYTES, "log", "--first-parent", f"-n{MAX_COMMITS}", "--format=%H %ct", self.commit)
        pairs = [line.split() for line in lines.decode("ascii", "replace").splitlines()]
        return [(commit, plausible_time(int(seconds))) for commit, seconds in pairs] or _refuse()

    def list_files(self, commit: str) -> Iterator[FoundFile]:
        """The files of this commit. Their content is read as it was committed, without any filter."""
        for entry in self._git(MAX_LISTED_BYTES, "ls-tree", "-r", "-l", "-z", commit).split(b"\0")[:-1]:
            facts, _, name = entry.decode("utf-8", "surrogateescape").partition("\t")
            mode, _, blob, size = facts.split()
            path = tuple(name.split("/"))
            kind = KINDS.get(mode[:3], "special")
            if is_wanted(path) and size.isdecimal():
                yield FoundFile(path, kind, int(size), load=partial(self._git, args=("cat-file", "blob", blob)))

    def _git(self, most: int, *names: str, args: tuple[str, ...] = ()) -> bytes:
        """The first bytes of what git prints, at most so many."""
        settings = [word for setting in SETTINGS for word in ("-c", setting)]
        env = {
            "PATH": os.environ.get("PATH", os.defpath), "HOME": self.place, "GIT_DIR": self.place,
            "GIT_OBJECT_DIRECTORY": str(self.objects.resolve()), "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull, "GIT_ALLOW_PROTOCOL": "none", "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0",
        }  # fmt: skip
        command = ["git", "--no-pager", *settings, *names, *args]
        null, pipe = subprocess.DEVNULL, subprocess.PIPE
        with subprocess.Popen(command, env=env, cwd=self.place, stdin=null, stdout=pipe, stderr=null) as run:
            assert run.stdout is not None
            timer = Timer(GIT_SECONDS, run.kill)
            timer.start()
            try:
                data = run.stdout.read(most)
                if is_cut := len(data) == most:
                    run.kill()
                run.wait()
            finally:
                timer.cancel()
        return data if is_cut or run.returncode == 0 else _refuse()
