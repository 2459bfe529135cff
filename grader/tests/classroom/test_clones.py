"""Clones of git repositories as submissions: which commit counts, and nothing in a clone decides what git does. The repositories are real."""

import os
import shutil
import subprocess

import pytest
from grade_command import headway
from grader.classroom.intake import clones
from grader.classroom.intake.clones import CommitDates, read_pushes
from grader.classroom.intake.submissions import GradingProblem
from grader.classroom.intake.tables import parse_time
from grader.course.syllabus import EXERCISES
from kit_copy import posix
from pytest_runs import solution

pytestmark = [posix, pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")]
FILE = "exercises/ch03_attention.py"
STUB = (EXERCISES / "ch03_attention.py").read_text(encoding="utf-8")
BEFORE, ALSO_BEFORE, AFTER = "2026-12-01T10:00:00+01:00", "2026-12-01T20:00:00+01:00", "2026-12-02T20:00:00+01:00"
DUE = CommitDates({"": parse_time("2026-12-01T23:59:00+01:00")})
COURSE = '[assignments.week3]\nexercises = ["softmax"]\ndue = 2026-12-01T23:59:00+01:00\nper_day = 10\n[extensions.week3]\n"x-ada" = 2026-12-03T23:59:00+01:00\n'


def git(folder, *arguments, date=BEFORE):
    who = {
        f"GIT_{role}_{field}": value
        for role in ("AUTHOR", "COMMITTER")
        for field, value in (("NAME", "x"), ("EMAIL", "x@example.edu"), ("DATE", date))
    }
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", **who}
    subprocess.run(
        ["git", "-C", str(folder), "-c", "init.defaultBranch=main", *arguments],
        env=env,
        check=True,
        capture_output=True,
    )


def repository(folder, *commits):
    """A repository with a commit for each pair of a date and a text of the chapter."""
    (folder / "exercises").mkdir(parents=True)
    git(folder, "init")
    for date, text in commits:
        (folder / FILE).write_text(text, encoding="utf-8")
        git(folder, "add", "--all")
        git(folder, "commit", "-m", "work", date=date)
    return folder


def read_clone(folder, dates):
    [found] = clones.read_clone(folder, dates)
    return found


def text_of(found):
    assert not found.problem, found.problem
    return found.sources["ch03_attention"]


def test_the_last_commit_before_the_deadline_counts_and_a_stub_does_not(tmp_path):
    three = repository(
        tmp_path / "three",
        (BEFORE, STUB),
        (ALSO_BEFORE, "def softmax(x): return 1\n"),
        (AFTER, "def softmax(x): return 2\n"),
    )
    (three / FILE).write_text("def softmax(x): return 3\n", encoding="utf-8")  # not committed
    found = read_clone(three, DUE)
    assert "return 1" in text_of(found) and found.submitted == parse_time(ALSO_BEFORE)
    assert "the last one before the deadline; 1 came later" in found.notes[-1]
    assert "return 2" in text_of(read_clone(three, CommitDates())), "without a deadline"
    late = read_clone(repository(tmp_path / "late", (BEFORE, STUB), (AFTER, "def softmax(x): return 2\n")), DUE)
    assert "return 2" in text_of(late) and late.submitted == parse_time(AFTER) and not late.notes
    pushed = read_clone(three, CommitDates(DUE.due, {"three": parse_time(AFTER)}))
    assert "return 2" in text_of(pushed) and pushed.submitted == parse_time(AFTER), (
        "dates of commits can be set by anyone"
    )


def test_the_end_of_the_name_decides_about_the_deadline_and_logins_have_hyphens(tmp_path):
    clone = repository(
        tmp_path / "week3-x-ada", (BEFORE, "def softmax(x): return 1\n"), (AFTER, "def softmax(x): return 2\n")
    )
    later = parse_time("2026-12-03T20:00:00+01:00")
    assert "return 1" in text_of(read_clone(clone, CommitDates(DUE.due | {"ada": later, "x-ada": DUE.due[""]})))
    assert "return 2" in text_of(read_clone(clone, CommitDates(DUE.due | {"x-ada": later, "ada": DUE.due[""]})))


def test_what_is_wrong_with_a_clone_is_one_sentence(tmp_path, monkeypatch):
    good = repository(
        tmp_path / "good",
        (BEFORE, STUB),
        (ALSO_BEFORE, "def softmax(x): return 1\n"),
        (AFTER, "def softmax(x): return 2\n"),
    )
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "--depth", "1", good.as_uri(), str(shallow))
    found = read_clone(shallow, DUE)
    assert "return 2" in text_of(found) and found.notes[-1].startswith(
        "the clone is shallow, so earlier commits are missing"
    )
    git(good, "checkout", "--detach")
    assert any("the clone is on no branch; its commit " in note for note in read_clone(good, CommitDates()).notes)
    git(good, "checkout", "main")
    git(good, "pack-refs", "--all")
    git(good, "gc")
    assert "return 1" in text_of(read_clone(good, DUE)), "packed"
    for name in ("broken", "head", "outside", "borrowed"):
        shutil.copytree(good, tmp_path / name)
    shutil.rmtree(tmp_path / "broken" / ".git" / "objects" / "pack")
    (tmp_path / "head" / ".git" / "HEAD").write_bytes(b"\xff" * 5000)
    (tmp_path / "outside" / ".git" / "HEAD").write_text("ref: refs/heads/../../../../good/.git/HEAD")
    (tmp_path / "borrowed" / ".git" / "objects" / "info" / "alternates").write_text(f"{good}/.git/objects\n")
    damaged = "git cannot read its repository, which is damaged or incomplete; clone it again"
    assert {read_clone(tmp_path / name, DUE).problem for name in ("broken", "head", "outside")} == {damaged}
    assert read_clone(tmp_path / "borrowed", DUE).problem.startswith(
        "it is a git repository without objects of its own"
    )
    assert (
        read_clone(repository(tmp_path / "empty"), DUE).problem
        == "nothing was submitted: its git repository has no commit"
    )
    git(repository(tmp_path / "other"), "commit", "--allow-empty", "-m", "nothing")
    assert read_clone(tmp_path / "other", DUE).problem == "nothing was submitted: it is empty"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert read_clone(good, DUE).problem == "it is a git repository, and git is not installed on this machine"


def test_nothing_in_a_clone_is_run(tmp_path):
    clone = repository(tmp_path / "clone", (BEFORE, "def softmax(x): return 1\n"))
    (clone / ".gitattributes").write_text("*.py filter=evil diff=evil export-subst\n")
    git(clone, "add", "--all")
    git(clone, "commit", "-m", "attributes")
    ran, run = tmp_path / "ran", f"touch {tmp_path / 'ran'}"
    for hook in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction"):
        (clone / ".git" / "hooks" / hook).write_text(f"#!/bin/sh\n{run}\n")
        (clone / ".git" / "hooks" / hook).chmod(0o755)
    settings = {
        "filter.evil.smudge": run, "filter.evil.clean": run, "diff.evil.textconv": run, "core.fsmonitor": run, "core.pager": run, "core.sshCommand": run,
        "remote.origin.url": f"ext::sh -c {run}", "remote.origin.promisor": "true", "remote.origin.partialclonefilter": "blob:none", "protocol.ext.allow": "always",
        "extensions.partialClone": "origin", "core.repositoryFormatVersion": "1", "pager.log": "true", "core.gitProxy": run, "log.showSignature": "true", "gpg.program": run,
    }  # fmt: skip
    with (clone / ".git" / "config").open("a") as config:
        config.writelines(
            f'[{name.rpartition(".")[0].replace(".", " ", 1)}]\n\t{name.rpartition(".")[2]} = "{value}"\n'
            for name, value in settings.items()
            if name.count(".") == 1
        )
        config.writelines(
            f'[{name.split(".")[0]} "{name.split(".")[1]}"]\n\t{name.split(".")[2]} = "{value}"\n'
            for name, value in settings.items()
            if name.count(".") == 2
        )
    assert "return 1" in text_of(read_clone(clone, DUE)) and not ran.exists()
    git(clone, "archive", "HEAD")
    assert ran.exists(), "git itself runs what the repository says"
    ran.unlink()
    blob = subprocess.run(
        ["git", "hash-object", str(clone / FILE)], capture_output=True, text=True, check=True, cwd=tmp_path
    ).stdout.strip()
    (clone / ".git" / "objects" / blob[:2] / blob[2:]).unlink()  # git would fetch it from the remote
    found = read_clone(clone, DUE)
    assert found.problem and not ran.exists(), found


def test_a_repository_in_which_git_waits_for_ever_is_refused(tmp_path, monkeypatch):
    clone = repository(tmp_path / "clone", (BEFORE, STUB))
    os.mkfifo(clone / ".git" / "objects" / "pack" / f"pack-{'a' * 40}.idx")
    (clone / ".git" / "objects" / "pack" / f"pack-{'a' * 40}.pack").write_bytes(b"PACK")
    shutil.rmtree(clone / ".git" / "objects" / (clone / ".git" / "refs" / "heads" / "main").read_text()[:2])
    monkeypatch.setattr(clones, "GIT_SECONDS", 1.0)
    assert read_clone(clone, DUE).problem.startswith("git cannot read its repository")


def test_links_submodules_and_large_files_in_a_commit_are_not_followed(tmp_path):
    clone = repository(tmp_path / "clone", (BEFORE, "def softmax(x): return 1\n"))
    (clone / "ch05_layers.py").symlink_to(tmp_path / "secret.py")
    (tmp_path / "secret.py").write_text("x = 1\n")
    (clone / "ch06_model.py").write_text("# " + "x" * 3_000_000)
    git(clone, "add", "--all")
    git(clone, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    git(clone, "commit", "-m", "more")
    found = read_clone(clone, DUE)
    assert set(found.sources) == {"ch03_attention"} and any(
        "is a link, which the grader does not follow" in note for note in found.notes
    )


@pytest.mark.parametrize(
    "text, sentence",
    [("name,date\n", "line 1: the first line names the columns: login,date"), ("login,date\nada\n", "line 2: '' is not a time"),
     ("login,date\nada,soon\n", "line 2: 'soon' is not a time"), ("login,date\nada,2026-12-01T20:00:00\n", "has no time zone"),
     (f"login,date\nada,{BEFORE}\nADA,{AFTER}\n", "line 3: each line has the login of another person")],
)  # fmt: skip
def test_a_wrong_file_of_pushes_is_refused(tmp_path, text, sentence):
    (tmp_path / "pushes.csv").write_text(text)
    with pytest.raises(GradingProblem, match=sentence):
        read_pushes(tmp_path / "pushes.csv")


def test_a_class_of_clones_is_matched_with_the_roster(tmp_path):
    (tmp_path / "course.toml").write_text(f'roster = "roster.csv"\n{COURSE}')
    (tmp_path / "roster.csv").write_text(
        "name,login\nAda Lovelace,ada\nXaver Ada,x-ada\nEve Moss,eve\nFay Noon,fay\nGil Oak,gil\n"
    )
    for login, date in (("ada", AFTER), ("x-ada", AFTER), ("fay", BEFORE)):
        repository(tmp_path / "class" / f"week3-{login}", (date, solution("ch03")))
    repository(tmp_path / "class" / "week3-eve")
    (tmp_path / "class" / "week3-gil.zip").write_bytes(b"PK\x05\x06" + bytes(18))  # not everybody uses git
    (tmp_path / "pushes.csv").write_text(f"login,date\nfay,{AFTER}\nzed,{AFTER}\n")
    grade = ("grade", tmp_path / "class", "--course", tmp_path, "--assignment", "week3")
    ran = headway(*grade, "--pushes", tmp_path / "pushes.csv", "--dry-run")
    assert ran.status == 1 and "Would be graded: 3 people: Ada Lovelace, Fay Noon, Xaver Ada.\n" in ran.out, ran.out
    assert (
        "Could not be graded: Eve Moss: nothing was submitted: its git repository has no commit.\n" in ran.out
        and "Gil Oak: " in ran.out
    )
    assert "Note: in pushes.csv and not in the roster: zed\n" in ran.out
    ran = headway(*grade, "--pushes", tmp_path / "none.csv")
    assert ran.status == 2 and "none.csv cannot be read" in ran.out


@pytest.mark.thorough
def test_commits_and_pushes_are_late_by_their_dates(tmp_path):
    (tmp_path / "course.toml").write_text(f'roster = "roster.csv"\n{COURSE}')
    (tmp_path / "roster.csv").write_text("name,login\nAda Lovelace,ada\nXaver Ada,x-ada\nFay Noon,fay\n")
    for login, date in (("ada", AFTER), ("x-ada", AFTER), ("fay", BEFORE)):
        repository(tmp_path / "class" / f"week3-{login}", (date, solution("ch03")))
    (tmp_path / "pushes.csv").write_text(f"login,date\nfay,{AFTER}\n")
    ran = headway(
        "grade",
        tmp_path / "class",
        "--course",
        tmp_path,
        "--assignment",
        "week3",
        "--pushes",
        tmp_path / "pushes.csv",
        "-j",
        1,
    )
    assert ran.status == 0, ran.out
    table = (tmp_path / "grades" / "week3" / "grades.csv").read_text(encoding="utf-8-sig")
    assert {line.split(",")[0]: line.split(",")[1] for line in table.splitlines()[1:]} == {
        "Ada Lovelace": "9",
        "Xaver Ada": "10",
        "Fay Noon": "9",
    }
