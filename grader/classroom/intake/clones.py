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
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from threading import Timer

from grader.classroom.intake.files import MB, FoundFile, describe_entry, is_wanted, plausible_time
from grader.classroom.intake.submission_content import read_content, unreadable
from grader.classroom.intake.submissions import GradingProblem, Submission, UnreadableSubmission
from grader.classroom.intake.tables import parse_time, read_cells
from grader.course.source import is_written
from grader.course.syllabus import load_syllabus

MAX_COMMITS = "-n10000"
MAX_LISTED_BYTES = 20 * MB  # of names of files, or of commits
GIT_SECONDS = 30.0  # for one command
KINDS = {"100": "file", "120": "link"}  # by the mode of an entry; another one is a submodule
_HASH = re.compile("[0-9a-f]{40}")
_BRANCH = re.compile(r"ref: (refs/(?!.*\.\.)[\w./@+#-]+)")
DAMAGED = "git cannot read its repository, which is damaged or incomplete; clone it again"


@dataclass(frozen=True)
class CommitDates:
    """What decides which commit counts; both by the end of the clone's name, in small letters."""

    due: Mapping[str, datetime] = field(default_factory=dict)  # commits until then count; "" is for everybody else
    pushed: Mapping[str, datetime] = field(default_factory=dict)  # when the last push arrived, if the instructor knows


NO_DATES = CommitDates()


def read_pushes(path: Path) -> dict[str, datetime]:
    """The dates in a CSV with the columns login and date. GradingProblem, with the line, if it is not one."""
    rows, dates = read_cells(path), dict[str, datetime]()
    if not rows or [cell.lower() for cell in rows[0][1]] != ["login", "date"]:
        raise GradingProblem(f"{path.name}, line 1: the first line names the columns: login,date")
    for line, (login, *cells) in rows[1:]:
        if not login or login.casefold() in dates:
            raise GradingProblem(f"{path.name}, line {line}: each line has the login of another person")
        try:
            dates[login.casefold()] = parse_time(",".join(cells))
        except ValueError as problem:
            raise GradingProblem(f"{path.name}, line {line}: {problem}") from None
    return dates


def is_clone(folder: Path) -> bool:
    parts = (folder, folder / ".git", folder / ".git" / "HEAD")
    return [describe_entry(part, ()).kind for part in parts] == ["folder", "folder", "file"]


def read_clone(folder: Path, dates: CommitDates, hides_names: bool = False) -> list[Submission]:
    """What its owner had committed at the deadline; later work, as late, if nothing was written until then."""
    try:
        with tempfile.TemporaryDirectory(prefix="headway-git-") as place:
            found, notes = _choose(_Repository(folder / ".git", Path(place)), folder.name, dates, hides_names)
    except UnreadableSubmission as problem:
        return [replace(unreadable(str(problem)), name=folder.name)]
    # whoever knows a commit's hash can look its author up
    return [replace(found, name=folder.name, notes=(*found.notes, *(() if hides_names else notes)))]


def _choose(repository: _Repository, name: str, dates: CommitDates, hides_names: bool) -> tuple[Submission, list[str]]:
    """The submission of the commit that counts, and sentences about it."""
    pushed, due, commits = _find(name, dates.pushed), _find(name, dates.due), repository.list_commits()
    place = next((place for place, (_, time) in enumerate(commits) if due and time and time <= due), 0)
    place = 0 if pushed else place
    found = read_content(repository.list_files(commits[place][0]), hides_names)
    if place and not _is_begun(found):
        place, found = 0, read_content(repository.list_files(commits[0][0]), hides_names)
    commit, when = commits[place]
    notes = [] if repository.is_on_branch else [f"the clone is on no branch; its commit {commit[:7]} was graded"]
    if place:
        notes.append(f"the commit {commit[:7]} was graded, the last one before the deadline; {place} came later")
    elif repository.is_shallow and due and not pushed and when and when > due:
        notes.append("the clone is shallow, so earlier commits are missing, and the last one was graded")
    return replace(found, submitted=pushed or when), notes


def _find(name: str, table: Mapping[str, datetime]) -> datetime | None:
    """The entry for the longest end of this name, after a hyphen: logins may contain hyphens themselves."""
    parts = name.casefold().split("-")
    ends = ("-".join(parts[place:]) for place in range(len(parts)))
    return table.get(next((end for end in ends if end in table), ""))


def _is_begun(found: Submission) -> bool:
    chapters = [one for one in load_syllabus().chapters if one.name in found.sources]
    return any(is_written(found.sources[one.name], each.name) for one in chapters for each in one.exercises)


class _Repository:
    """An empty repository in `place`, whose objects are the clone's. UnreadableSubmission if they cannot be used."""

    def __init__(self, clone: Path, place: Path) -> None:
        if shutil.which("git") is None:
            raise UnreadableSubmission("it is a git repository, and git is not installed on this machine")
        self.objects, self.place = clone / "objects", place
        if describe_entry(self.objects, ()).kind != "folder" or (self.objects / "info" / "alternates").exists():
            raise UnreadableSubmission("it is a git repository without objects of its own; clone it again")
        for name in ("objects", "refs"):
            (place / name).mkdir()
        (place / "HEAD").write_text("ref: refs/heads/none\n", encoding="ascii")
        shallow = _HASH.findall(_read_text(clone / "shallow"))
        (place / "shallow").write_text("".join(f"{one}\n" for one in shallow), encoding="ascii")
        self.is_shallow, self.commit = bool(shallow), _read_text(clone / "HEAD").strip()
        branch = _BRANCH.fullmatch(self.commit)
        self.is_on_branch = branch is not None
        if branch:
            packed = rf"^{_HASH.pattern}(?= {re.escape(branch[1])}$)"
            found = re.search(packed, _read_text(clone / "packed-refs"), re.MULTILINE)
            self.commit = _read_text(clone / branch[1]).strip() or (found[0] if found else "")
            if not self.commit:
                raise UnreadableSubmission("nothing was submitted: its git repository has no commit")
        if not _HASH.fullmatch(self.commit):
            raise UnreadableSubmission(DAMAGED)

    def list_commits(self) -> list[tuple[str, datetime | None]]:
        """The commits of the branch, the newest first, with their dates."""
        lines = self._git(MAX_LISTED_BYTES, "log", "--first-parent", MAX_COMMITS, "--format=%H %ct", self.commit)
        pairs = [line.split() for line in lines.decode("ascii").splitlines()]
        return [(commit, plausible_time(int(seconds))) for commit, seconds in pairs]

    def list_files(self, commit: str) -> Iterator[FoundFile]:
        """The files of this commit. Their content is read as it was committed, without any filter."""
        for entry in self._git(MAX_LISTED_BYTES, "ls-tree", "-r", "-l", "-z", commit).split(b"\0")[:-1]:
            facts, _, name = entry.decode("utf-8", "surrogateescape").partition("\t")
            mode, _, blob, size = facts.split()
            path, kind = tuple(name.split("/")), KINDS.get(mode[:3], "special")
            if is_wanted(path) and size.isdecimal():
                yield FoundFile(path, kind, int(size), load=partial(self._git, args=("cat-file", "blob", blob)))

    def _git(self, most: int, *names: str, args: tuple[str, ...] = ()) -> bytes:
        """The first bytes of what git prints, at most so many."""
        place, null = str(self.place), subprocess.DEVNULL
        env = {
            "PATH": os.environ.get("PATH", os.defpath), "HOME": place, "GIT_DIR": place,
            "GIT_OBJECT_DIRECTORY": str(self.objects.resolve()), "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull, "GIT_ALLOW_PROTOCOL": "none", "GIT_NO_REPLACE_OBJECTS": "1",
        }  # fmt: skip
        command = ["git", "--no-pager", *names, *args]
        with subprocess.Popen(command, env=env, cwd=place, stdin=null, stdout=subprocess.PIPE, stderr=null) as run:
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
        if not is_cut and run.returncode:
            raise UnreadableSubmission(DAMAGED)
        return data


def _read_text(path: Path) -> str:
    """The beginning of this regular file; "" if there is none."""
    found = describe_entry(path, (path.name,))
    return found.read(10 * MB).decode("utf-8", "replace") if found.kind == "file" else ""
