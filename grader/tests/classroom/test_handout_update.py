"""`headway handout --into FOLDER`: a handout of a later week updates a learner's folder, and nothing that they wrote is lost."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from grader.classroom.handout.handout_folder import make_handout
from grader.classroom.handout.update import MANIFEST, UpdateProblem, update_folder
from grader.course.syllabus import ROOT, load_syllabus
from kit_copy import Kit, posix
from pytest_runs import solution

FIRST, SECOND = "ch01_tokenizer", "ch02_embeddings"


@pytest.fixture(scope="module")
def weeks(tmp_path_factory):
    place = tmp_path_factory.mktemp("weeks")
    return make_handout(place / "week1", ["1"], ["build_vocab"]).folder, make_handout(place / "week2", ["2"], []).folder


@pytest.fixture
def first(weeks, tmp_path):
    """A learner's folder of week 1, with work in it."""
    kit = Kit(Path(shutil.copytree(weeks[0], tmp_path / "first")))
    kit.file(FIRST).write_text(solution("ch01"), encoding="utf-8")
    (kit.exercises / "progress.txt").write_text("mine")
    (kit.root / "notes.md").write_text("mine")
    return kit


@pytest.fixture
def second(weeks, tmp_path):
    return Path(shutil.copytree(weeks[1], tmp_path / "second"))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts}


def test_the_new_chapter_comes_and_the_work_and_the_old_chapter_stay(first, second):
    before = contents(first.root)
    update = update_folder(second, first.root)
    assert update.conflicts == [] and f"exercises/{SECOND}.py" in update.added and not update.needs_installation
    after = contents(first.root)
    for path in (f"exercises/{FIRST}.py", "exercises/progress.txt", "notes.md", f"exercises/{FIRST}.md", f"reference/{FIRST}.mistakes", "tests/test_ch01_tokenizer.py"):
        assert after[path] == before[path], path
    course = load_syllabus(first.exercises / "syllabus.toml")
    assert [(chapter.id, bool(chapter.exercises)) for chapter in course.chapters] == [("ch00", False), ("ch01", True), ("ch02", True)]
    assert course.chapter("1").hidden == ("build_vocab",)
    readme = after["README.md"].decode()
    assert "| 1 Tokenizer |" in readme and "| 2 Embeddings" in readme and "Only your instructor can grade `build_vocab`" in readme
    lock = after["exercises/.stubs.toml"].decode()
    assert f"{FIRST} = " in lock and f"{SECOND} = " in lock
    again = update_folder(second, first.root)
    assert (again.added, again.replaced, again.conflicts) == ([], [], []) and contents(first.root) == after
    listed = first.run("list")
    assert "ch02" in listed and "not in this handout" not in listed.partition("ch01")[2]


def test_a_file_that_both_have_changed_stays_and_the_new_one_is_next_to_it(first, second):
    for week, path, text in (
        (first.root, "Makefile", "mine\n"), (second, "Makefile", "theirs\n"), (first.root, "LICENSE", "mine\n"), (second, "LICENSE", None),
        (first.root, "exercises/ch02_embeddings.py", "my own chapter 2\n"), (second, "constraints.txt", "torch==9\n"), (second, "grader/version.py", "newer = 1\n"),
    ):  # fmt: skip
        if text is not None:
            (week / path).write_text(text)
    update = update_folder(second, first.root)
    assert update.conflicts == ["Makefile", "exercises/ch02_embeddings.py"] and update.kept == ["LICENSE"] and update.needs_installation
    assert (first.root / "Makefile").read_text() == "mine\n" and (first.root / "Makefile.new").read_text() == "theirs\n"
    assert first.file(SECOND).read_text() == "my own chapter 2\n" and "NotImplementedError" in Path(f"{first.file(SECOND)}.new").read_text()
    assert (first.root / "grader" / "version.py").read_text() == "newer = 1\n" and (first.root / "LICENSE").read_text() == "mine\n"
    (first.root / "Makefile.new").unlink()
    assert update_folder(second, first.root).conflicts == [], "it is said once"


def test_line_ends_of_windows_are_no_change(first, second):
    path = first.root / "README.md"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert "README.md" in update_folder(second, first.root).replaced


def test_an_update_that_was_interrupted_can_be_repeated(first, second, weeks):
    whole = Path(shutil.copytree(first.root, first.root.with_name("whole")))
    update_folder(second, whole)
    blocked = first.root / "tests" / "test_ch02_embeddings.py"
    blocked.mkdir()  # a write fails in the middle
    with pytest.raises(OSError):
        update_folder(second, first.root)
    blocked.rmdir()
    assert update_folder(second, first.root).conflicts == []
    assert contents(first.root) == contents(whole)


def test_folders_that_cannot_be_updated_are_refused(first, second, tmp_path):
    (tmp_path / "other").mkdir()
    for folder, says in ((tmp_path / "none", "is not a folder"), (tmp_path / "other", "has no valid .handout.json"), (second, "is the new handout itself")):
        with pytest.raises(UpdateProblem, match=says):
            update_folder(second, folder)
    for manifest in ("", "{", "[]", '{"files": 3}', '{"files": {"../x": "y"}}', '{"files": {"a": 3}}'):
        (first.root / MANIFEST).write_text(manifest)
        with pytest.raises(UpdateProblem, match="copy your files of exercises/ into the new handout instead"):
            update_folder(second, first.root)
    assert list((tmp_path / "other").iterdir()) == []


@pytest.mark.thorough
def test_the_command_works_in_a_handout_and_in_the_whole_kit(first, second, tmp_path):
    other = Kit(Path(shutil.copytree(first.root, tmp_path / "other")))
    said = Kit(second).run("handout", "--into", str(first.root))
    assert "New chapters: ch02_embeddings." in said and "is up to date" in Kit(second).run("handout", f"--into={first.root}")
    assert "does not work in a handout" in Kit(second).run("handout", str(tmp_path / "x"), status=2)
    assert "leave out --chapters" in Kit(second).run("handout", "--into", str(first.root), "--chapters", "2", status=2)
    assert "New chapters: ch02_embeddings." in Kit(ROOT).run("handout", "--into", str(other.root), "--chapters", "2")
    assert "leave out DIR" in Kit(ROOT).run("handout", str(tmp_path / "x"), "--into", str(other.root), status=2)
    assert "name the folder to make" in Kit(ROOT).run("handout", status=2)
    assert "has no valid .handout.json" in Kit(ROOT).run("handout", "--into", str(tmp_path), "--chapters", "2", status=2)


@posix
@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_update_uses_the_environment_of_the_first_folder(first, second):
    python = first.root / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (first.root / "LICENSE").write_text("mine\n")
    (second / "LICENSE").write_text("theirs\n")
    done = subprocess.run(["make", "update", "FOLDER=../first"], cwd=second, env=first.environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "New chapters: ch02_embeddings." in done.stdout, done.stdout + done.stderr
    assert "LICENSE.new" in done.stdout and "Error" not in done.stderr, "a file that both have changed is no error"
    assert not (second / ".venv").exists()
    done = subprocess.run(["make", "update"], cwd=second, env=first.environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode != 0 and "Name the folder of your earlier handout" in done.stdout
