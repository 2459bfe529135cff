"""What may happen to a gradebook: killed graders, damage, a full disk, names of every kind. It loses nothing and reports what it cannot do."""

import shutil
import signal
import sqlite3
import tempfile
from pathlib import Path

import pytest
from example_class import RULES, a_class, digest_of, submission, verdict_of
from gradebook_runs import GRADE_ALL, exported, graded, process, refused, start_gradebook
from grader.classroom.gradebook_file import GradebookProblem
from kit_copy import posix

# ---- killed graders and the order of grading change no byte


@posix
def test_a_killed_grader_continues_without_repeating_anything(tmp_path):
    many, log = 20, []
    book, todo, _ = start_gradebook(tmp_path / "calm", a_class(many))
    with book:
        for one in reversed(todo):
            book.store_verdict(one.digest, verdict_of(one.digest))
        calm = exported(book, tmp_path / "calm")
    for fatal in (3, 1, 100):  # how many it grades before it is killed
        grader = process(GRADE_ALL, tmp_path / "rough", many)
        grader.stdin.write("one more\n" * (fatal + 3))
        grader.stdin.flush()
        for number, line in enumerate(grader.stdout, start=1):
            log.append(line.strip())
            if number == fatal:
                grader.send_signal(signal.SIGKILL)
        assert grader.wait(60) == (0 if fatal == 100 else -signal.SIGKILL)
    assert len(log) == len(set(log)) and len(todo) - 2 <= len(log) <= len(todo)  # a grader may die between storing a result and reporting it
    book, todo, _ = start_gradebook(tmp_path / "rough", a_class(many))
    with book:
        assert todo == [] and exported(book, tmp_path / "rough") == calm


# ---- files, disks and names


def test_a_damaged_gradebook_is_reported_and_not_changed(tmp_path):
    graded(tmp_path / "good", a_class(20))
    good = (tmp_path / "good" / "gradebook.sqlite").read_bytes()
    zeros = good[: len(good) // 2] + bytes(4096) * 3 + good[len(good) // 2 + 3 * 4096 :]
    for name, data in {"cut": good[: len(good) // 2], "text": b"name,total\n" * 100, "zeros": zeros}.items():
        (tmp_path / name).mkdir()
        path = tmp_path / name / "gradebook.sqlite"
        path.write_bytes(data)
        assert "gradebook.sqlite is damaged and cannot be read; the grader did not change it. " in refused(tmp_path / name), name
        assert path.read_bytes() == data and [entry.name for entry in path.parent.iterdir()] == ["gradebook.sqlite"]


@pytest.mark.parametrize("row", ["'[{\"name\": 3'", "'{}'", "x'ff'"])
def test_an_invalid_row_counts_as_damage(tmp_path, row):
    graded(tmp_path, a_class(2))
    with sqlite3.connect(tmp_path / "gradebook.sqlite") as database:
        database.execute(f"UPDATE verdicts SET verdict = {row}")
    database.close()
    book, _, _ = start_gradebook(tmp_path, a_class(2))
    with book, pytest.raises(GradebookProblem, match="is damaged and cannot be read"):
        book.graded_class(RULES)


def test_gradebooks_of_other_versions_and_other_databases_are_refused(tmp_path):
    graded(tmp_path, a_class(2))
    path = tmp_path / "gradebook.sqlite"
    sentences = {99: "a newer version of Headway; update this one", 6: "a version of Headway that is too old for this one; to grade everything again, choose"}
    for version, sentence in sentences.items():
        with sqlite3.connect(path) as database:
            database.execute(f"PRAGMA user_version = {version}")
        database.close()
        assert f"gradebook.sqlite was written by {sentence}" in refused(tmp_path)
    path.unlink()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE photographs (id INTEGER)")
    database.close()
    kept = path.read_bytes()
    assert "is a database of another program, not a gradebook" in refused(tmp_path)
    assert path.read_bytes() == kept


@posix
def test_a_read_only_gradebook_is_reported():
    try_it = """
import os
user = os.geteuid()
for what, mode, where in (("gradebook.sqlite", 0o444, "."), (".", 0o555, "."), (".", 0o555, "new")):
    os.chmod(folder / what, mode)
    if user == 0:
        os.chown(folder, 65534, -1)  # only its owner may enter it
        os.seteuid(65534)
    try:
        Gradebook(folder / where)
    except GradebookProblem as problem:
        say(problem)
    os.seteuid(user)
"""
    folder = Path(tempfile.mkdtemp())  # not in pytest's folder, which no other user may enter
    try:
        folder.chmod(0o755)
        graded(folder, a_class(2))
        kept = (folder / "gradebook.sqlite").read_bytes()
        said = process(try_it, folder).communicate(timeout=60)[0].splitlines()
        assert [sentence.partition("gradebook.sqlite ")[2] for sentence in said[:2]] == [
            "cannot be written; allow writing to it and to its folder, or choose another folder with --out"
        ] * 2, said
        assert said[2:] == [f"could not create the folder {folder / 'new'} for the grades: permission denied"]
        folder.chmod(0o755)
        assert (folder / "gradebook.sqlite").read_bytes() == kept
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


@posix
def test_a_full_disk_is_reported_and_earlier_results_stay(tmp_path):
    fill = """
import resource
people = a_class(40)
with Gradebook(folder) as book:
    book.start_run(0, EXERCISES, VERSIONS)
    todo = book.submissions_to_do(people)
    now = book.path.stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (now + 60_000, resource.RLIM_INFINITY))
    kept = 0
    try:
        for one in todo:
            book.store_verdict(one.digest, verdict_of(one.digest, said="x" * 500))
            kept += 1
    except GradebookProblem as problem:
        say(kept)
        say(problem)
"""
    kept, said = process(fill, tmp_path).communicate(timeout=60)[0].splitlines()
    assert "gradebook.sqlite could not be written: the disk is full, or a limit on file sizes was reached" in said and "Earlier results are saved" in said
    assert int(kept) > 3
    people = a_class(40)
    book, todo, _ = start_gradebook(tmp_path, people)
    with book:
        assert len(todo) == len({one.digest for one in people if not one.problem}) - int(kept)
        assert sum(bool(person.results) for person in book.graded_class(RULES).people) >= int(kept)


def test_names_of_every_kind_are_stored(tmp_path):
    names = ["O'L; DROP TABLE people", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0646\u062f", "caf\udce9", "\ud800", "\x1b[2Jclear", "a\nb\u00a0c", "\U0001f600", "0", "="]
    people = [submission(name, slug=f"s{number}", digest=digest_of(str(number))) for number, name in enumerate(names)]
    graded(tmp_path, people)
    book, todo, _ = start_gradebook(tmp_path, people)
    with book:
        shown = {person.slug: person.name for person in book.graded_class(RULES).people}
        book.delete_verdicts(book.find_person("caf\udce9").slug)
    assert todo == [] and [shown[f"s{number}"] for number in (0, 1, 4, 5, 6, 7, 8)] == [names[0], names[1], "clear", "a b c", names[6], "0", "="]
    assert shown["s2"].startswith("caf\ufffd") and set(shown["s3"]) == {"\ufffd"}
