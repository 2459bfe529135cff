"""What a class hands in is read whatever its shape, and nothing hostile in it does more than spoil its own submission."""

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import tarfile
import time
import zipfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import handed_in
import pytest
from grader.grading import archives, commits, gathering
from grader.grading.archives import Limits
from grader.grading.found import files_below
from grader.grading.layout import Class, layout_of
from grader.grading.naming import safe_name
from grader.grading.problems import GradingProblem, Unreadable
from grader.grading.submissions import read_submissions
from grader.syllabus import ROOT, SOLUTIONS
from handed_in import CHAPTER, clone, git, patched, tar_header, tar_member, tarred, write, zipped
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def by_name(path):
    return {submission.name: submission for submission in read_submissions(path)}


def one(path):
    (submission,) = read_submissions(path)
    return submission


def archive(tmp_path, data, name="anna.zip"):
    """One person's archive in a class's folder."""
    write(tmp_path / "class" / name, data)
    return one(tmp_path / "class")


# Shapes


def test_a_folder_a_file_and_an_archive_of_each_kind_side_by_side(tmp_path):
    write(tmp_path / "Anna Bell" / "week 3" / CHAPTER, "a")
    write(tmp_path / f"ben_{CHAPTER}", "b")
    write(tmp_path / "ben_ch01_tokenizer.py", "b1")
    write(tmp_path / "ch03_attention_cleo.py", "c")
    write(tmp_path / "dora.zip", zipped({f"hw/{CHAPTER}": "d"}))
    for ending, mode in ((".tar", "w:"), (".tar.gz", "w:gz"), (".tar.bz2", "w:bz2"), (".tar.xz", "w:xz"), (".tgz", "w:gz")):
        write(tmp_path / f"eve{ending}eve{ending}", tarred({f"hw/{CHAPTER}": f"e{ending}"}, mode))
    write(tmp_path / "README.md", "read me")
    write(tmp_path / "grades.xlsx", "a table")
    found = by_name(tmp_path)
    assert [s.problem for s in found.values()] == [""] * len(found)
    sources = {name: s.sources for name, s in found.items()}
    eves = {f"eve{ending}eve": {"ch03_attention": f"e{ending}"} for ending in (".tar", ".tar.gz", ".tar.bz2", ".tar.xz", ".tgz")}
    assert sources == {
        "Anna Bell": {"ch03_attention": "a"},
        "ben": {"ch01_tokenizer": "b1", "ch03_attention": "b"},
        "cleo": {"ch03_attention": "c"},
        "dora": {"ch03_attention": "d"},
        **eves,
    }
    assert list(found) == sorted(found)


@pytest.mark.parametrize("around", ["", "submissions/"])
@pytest.mark.parametrize("pack, ending", [(zipped, ".zip"), (tarred, ".tar.gz")])
def test_one_archive_that_holds_all_of_these(tmp_path, around, pack, ending):
    path = write(
        tmp_path / f"class{ending}",
        pack(
            {
                f"{around}anna/{CHAPTER}": "a",
                f"{around}ben.zip": zipped({CHAPTER: "b"}),
                f"{around}cleo_{CHAPTER}": "c",
                f"{around}dora/hw.tgz": tarred({CHAPTER: "d"}),
                f"{around}eve/notes.txt": "e",
                f"{around}fay.zip": b"PK\x03\x04 cut",
            }
        ),
    )
    found = by_name(path)
    assert {name: s.sources.get("ch03_attention") for name, s in found.items()} == {"anna": "a", "ben": "b", "cleo": "c", "dora": "d", "eve": None, "fay": None}
    assert found["eve"].problem == "there is no chapter in it, only notes.txt; chapters are called like ch03_attention.py"
    assert found["fay"].problem == "the archive is damaged or cut short; hand it in again"


def test_archives_are_not_opened_inside_a_persons_archive(tmp_path):
    found = archive(tmp_path, zipped({"inner.zip": zipped({CHAPTER: "x"})}))
    assert found.problem == "there is no chapter in it, only inner.zip; chapters are called like ch03_attention.py"


def test_one_persons_folder_archive_or_file_alone(tmp_path):
    write(tmp_path / "anna" / CHAPTER)
    write(tmp_path / "ben.zip", zipped({CHAPTER: "x = 1\n"}))
    write(tmp_path / f"cleo_{CHAPTER}")
    clone(tmp_path / "dora")
    write(tmp_path / "dora" / "old" / CHAPTER, "an older one")
    alone = [one(tmp_path / name) for name in ("anna", "ben.zip", f"cleo_{CHAPTER}", "dora")]
    assert [(s.name, s.sources, s.time_from) for s in alone] == [(name, {"ch03_attention": "x = 1\n"}, "file") for name in ("anna", "ben", "cleo")] + [
        ("dora", {"ch03_attention": "x = 1\n"}, "commit")
    ]


def test_a_folder_that_nobody_may_read_is_told_as_such(tmp_path):
    (closed,) = files_below(tmp_path / "gone", ("anna",))
    pile = gathering.Pile()
    pile.add(closed)
    assert gathering.finished(pile).problem == "the folder gone cannot be opened"
    with pytest.raises(GradingProblem, match="^class cannot be opened$"):
        layout_of(Class("class", "class", lambda: files_below(tmp_path / "gone")))


def test_the_digest_names_the_content_and_nothing_else(tmp_path):
    write(tmp_path / "anna" / CHAPTER, time=1_700_000_000)
    write(tmp_path / "ben" / "deep" / CHAPTER, time=1_790_000_000)
    write(tmp_path / "cleo.zip", zipped({CHAPTER: "x = 1\n"}))
    write(tmp_path / "dora" / CHAPTER, "x = 2\n")
    write(tmp_path / "eve" / "ch01_tokenizer.py")
    (tmp_path / "fay").mkdir()
    digests = [s.digest for s in read_submissions(tmp_path)]
    assert digests[0] == digests[1] == digests[2]
    assert len(set(digests)) == 4
    assert digests[0] == "c9fd069f5fb0722863a976e8c73fef63778b6215cc1df28c52dda911ba20353a"  # the same on every machine, and next year


def test_what_a_copy_of_the_whole_kit_holds_of_its_own_is_not_the_learners(tmp_path):
    for person in ("anna", "ben"):
        write(tmp_path / person / "headway" / "exercises" / "ch01_tokenizer.py", "mine", time=1_780_000_000)
        write(tmp_path / person / "headway" / "solutions" / CHAPTER, "the reference")
        write(tmp_path / person / "headway" / "solutions" / "ch01_tokenizer.py", "the reference")
        write(tmp_path / person / "headway" / "grader" / "pictures" / "ch01_tokenizer.py", "a picture")
    found = by_name(tmp_path)
    assert found["anna"].sources == {"ch01_tokenizer": "mine"}
    assert found["anna"].notes == ("the chapters in solutions/ are the kit's own and were not read",)
    alone = one(tmp_path / "ben" / "headway")
    assert alone.name == "headway" and alone.sources == {"ch01_tokenizer": "mine"}


def test_hidden_folders_and_what_tools_make_are_passed_over(tmp_path):
    write(tmp_path / "anna" / CHAPTER, "mine")
    for folder in (".venv/lib", "__MACOSX", "node_modules/x", "__pycache__", ".ipynb_checkpoints", ".git/x"):
        write(tmp_path / "anna" / folder / "ch01_tokenizer.py", "not mine")
        write(tmp_path / ".hidden" / CHAPTER)
    members = {f"__MACOSX/ben/._{CHAPTER}": "junk", f"ben/.venv/x/{CHAPTER}": "junk", f"ben/{CHAPTER}": "mine"}
    write(tmp_path / "ben.zip", zipped(members))
    assert {name: (s.sources, s.notes) for name, s in by_name(tmp_path).items()} == {n: ({"ch03_attention": "mine"}, ()) for n in ("anna", "ben")}


def test_of_two_versions_the_shallowest_counts_then_the_newest_and_a_note_says_so(tmp_path):
    write(tmp_path / "anna" / "old" / "x" / CHAPTER, "deep", time=1_790_000_000)
    write(tmp_path / "anna" / "b" / CHAPTER, "new", time=1_780_000_000)
    write(tmp_path / "anna" / "a" / CHAPTER, "old", time=1_770_000_000)
    write(tmp_path / "ben" / "a" / CHAPTER, "same")
    write(tmp_path / "ben" / "b" / CHAPTER, "same")
    found = by_name(tmp_path)
    assert found["anna"].sources == {"ch03_attention": "new"}
    (note,) = found["anna"].notes
    assert note.startswith("there are several versions of ch03_attention.py: b/ch03_attention.py was taken, not ")
    assert "old/x/ch03_attention.py" in note and "a/ch03_attention.py" in note
    assert found["ben"].sources == {"ch03_attention": "same"} and found["ben"].notes == ()


def test_a_file_that_was_renamed_still_counts_where_no_other_is_there(tmp_path):
    write(tmp_path / "anna" / f"anna_{CHAPTER}", "renamed")
    write(tmp_path / "anna" / f"test_{CHAPTER}", "a test")
    write(tmp_path / "ben" / f"old_{CHAPTER}", "old")
    write(tmp_path / "ben" / "deep" / CHAPTER, "right")
    found = by_name(tmp_path)
    assert found["anna"].sources == {"ch03_attention": "renamed"} and found["anna"].notes == ("anna_ch03_attention.py was taken for ch03_attention.py",)
    assert found["ben"].sources == {"ch03_attention": "right"}


# What learning platforms make of names


def test_moodle_with_folders_and_without(tmp_path):
    write(tmp_path / "a" / "Anna Bell_4711_assignsubmission_file_" / CHAPTER, "a")
    write(tmp_path / "a" / "Anna Bell_4711_assignsubmission_onlinetext_" / "onlinetext.html", "hello")
    write(tmp_path / "a" / "Anna Bell_4712_assignsubmission_file_" / "hw.zip", zipped({CHAPTER: "other"}))
    write(tmp_path / "a" / "Participant 9_9_assignsubmission_file" / CHAPTER, "p")
    write(tmp_path / "b" / f"Anna Bell_4711_assignsubmission_file_{CHAPTER}", "a")
    write(tmp_path / "b" / "Ben_12_assignsubmission_file_my work.zip", zipped({CHAPTER: "b"}))
    assert {name: s.sources["ch03_attention"] for name, s in by_name(tmp_path / "a").items()} == {
        "Anna Bell (4711)": "a",
        "Anna Bell (4712)": "other",
        "Participant 9": "p",
    }
    assert {name: s.sources["ch03_attention"] for name, s in by_name(tmp_path / "b").items()} == {"Anna Bell": "a", "Ben": "b"}


def test_canvas_with_late_marks_and_resubmissions(tmp_path):
    write(tmp_path / f"bellanna_123_4567_{CHAPTER}", "first", time=1_790_000_000)
    write(tmp_path / "bellanna_123_4568_ch03_attention-1.py", "second", time=1_790_000_000)
    write(tmp_path / "bellanna_LATE_123_4569_ch01_tokenizer.py", "t")
    write(tmp_path / "kimben_LATE_124_4570_ch03_attention-2.py", "b")
    write(tmp_path / "leecleo_125_4571_report.pdf", "a report")
    found = by_name(tmp_path)
    assert found["bellanna"].sources == {"ch01_tokenizer": "t", "ch03_attention": "second"}
    assert found["kimben"].sources == {"ch03_attention": "b"}
    assert found["leecleo"].problem == "there is no chapter in it, only report.pdf; chapters are called like ch03_attention.py"


METADATA = """---
submission_11:
  :submitters:
  - :name: Anna Bell
    :sid: '1'
    :email: anna@example.org
  :created_at: 2026-11-20 09:21:27.370285000 Z
  :score: 3.0
  :history:
  - :id: 10
    :created_at: 2026-11-19 09:21:27.370285000 Z
    :submitters:
    - :name: Somebody Else
submission_12:
  :submitters:
  - :name: 'O''Neil: <b>'
    :sid:
  - :name: "Zo\\u00eb"
    :sid: '3'
  :created_at: 2026-11-20 09:21:27.370285000 -08:00
"""


@pytest.mark.parametrize("form", ["folder", "inside", "zip"])
def test_a_gradescope_export_with_a_group_in_it(tmp_path, form):
    files = {"submission_metadata.yml": METADATA, f"submission_11/{CHAPTER}": "a", f"submission_12/{CHAPTER}": "o", f"submission_13/{CHAPTER}": "?"}
    if form == "zip":
        path = write(tmp_path / "export.zip", zipped({f"assignment_5_export/{name}": text for name, text in files.items()}))
    else:
        path = tmp_path / "export"
        for name, text in files.items():
            write((path / "assignment_5_export" if form == "inside" else path) / name, text)
    found = by_name(path)
    assert {name: s.sources["ch03_attention"] for name, s in found.items()} == {"Anna Bell": "a", "O'Neil: <b>": "o", "Zoë": "o", "submission_13": "?"}
    assert found["Anna Bell"].submitted == datetime(2026, 11, 20, 9, 21, 27, tzinfo=UTC) and found["Anna Bell"].time_from == "Gradescope"
    assert found["Zoë"].submitted == datetime(2026, 11, 20, 17, 21, 27, tzinfo=UTC)


def test_nbgraders_time_stamps_count_in_its_own_folder_only(tmp_path):
    for root in ("submitted", "elsewhere"):
        write(tmp_path / root / "anna" / "hw" / CHAPTER, time=1_790_000_000)
        write(tmp_path / root / "anna" / "hw" / "timestamp.txt", "2026-11-20 10:30:47.524219 UTC\n")
    assert one(tmp_path / "submitted").submitted == datetime(2026, 11, 20, 10, 30, 47, 524219, tzinfo=UTC)
    assert one(tmp_path / "elsewhere").submitted == datetime.fromtimestamp(1_790_000_000, UTC)


# Times


def test_when_it_was_handed_in_comes_from_files_and_archives(tmp_path):
    write(tmp_path / "anna" / CHAPTER, time=1_790_000_000)
    write(tmp_path / "anna" / "ch01_tokenizer.py", time=1_790_000_100)
    write(tmp_path / "anna" / "notes.txt", time=1_799_000_000)
    write(tmp_path / "ben.tgz", tarred({CHAPTER: "x"}))
    write(tmp_path / "cleo.zip", zipped({CHAPTER: "x"}))
    write(tmp_path / "dora.tgz", tarred({CHAPTER: "x"}, time=0))
    found = by_name(tmp_path)
    assert found["anna"].submitted == datetime.fromtimestamp(1_790_000_100, UTC)
    assert found["ben"].submitted == datetime.fromtimestamp(1_795_000_000, UTC) and found["ben"].zone_known
    assert found["cleo"].submitted == datetime(2026, 11, 20, 12, 30, tzinfo=UTC) and not found["cleo"].zone_known
    assert found["dora"].submitted is None and found["dora"].time_from == ""


@pytest.mark.parametrize("form", ["loose", "packed", "cloned", "detached"])
def test_a_git_clone_was_handed_in_when_its_last_commit_was_made(tmp_path, form):
    folder = clone(tmp_path / "class" / "anna", "first", time="2026-11-01T10:00:00+01:00")
    write(folder / CHAPTER, "second")
    git(folder, "commit", "-q", "-a", "-m", "again", time="2026-11-20T10:00:00+01:00")
    if form == "packed":
        git(folder, "gc", "-q")
    elif form == "cloned":
        git(tmp_path, "clone", "-q", "--no-local", str(folder), str(tmp_path / "class" / "cloned"))
        assert list((tmp_path / "class" / "cloned" / ".git" / "objects" / "pack").glob("*.idx"))
        subprocess.run(["rm", "-r", str(folder)], check=True)
    elif form == "detached":
        git(folder, "checkout", "-q", "HEAD~1")
    found = one(tmp_path / "class")
    assert found.sources == {"ch03_attention": "first" if form == "detached" else "second"}
    assert found.submitted == datetime(2026, 11, 1 if form == "detached" else 20, 9, tzinfo=UTC)
    assert found.time_from == "commit"


def test_nothing_in_a_clone_is_executed_and_no_link_in_it_is_followed(tmp_path):
    folder = clone(tmp_path / "class" / "anna")
    touched = tmp_path / "touched"
    for hook in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction"):
        write(folder / ".git" / "hooks" / hook, f"#!/bin/sh\ntouch {touched}\n").chmod(0o755)
    settings = "".join(f"\t{name} = touch {touched}\n" for name in ("fsmonitor", "pager", "sshCommand", "editor", "hooksPath"))
    write(folder / ".git" / "config", f"[core]\n{settings}[gpg]\n\tprogram = touch {touched}\n[log]\n\tshowSignature = true\n")
    other = clone(tmp_path / "other", time="2020-01-01T00:00:00+00:00")
    assert one(tmp_path / "class").time_from == "commit" and not touched.exists()
    (folder / ".git").rename(tmp_path / "moved")
    (folder / ".git").symlink_to(other / ".git")
    assert one(tmp_path / "class").time_from == "file"
    (folder / ".git").unlink()
    write(folder / ".git", f"gitdir: {other / '.git'}\n")
    assert one(tmp_path / "class").time_from == "file"


@pytest.mark.parametrize(
    "head",
    ["", "ref: refs/../../../../etc/passwd", "ref: /etc/passwd", "ref: refs/heads/none", "0" * 40, "ref: " + "a/" * 5000, "\0\xff", "ref: refs/heads/main\n" * 10_000],
)
def test_a_clone_with_a_nonsensical_head_has_no_time_of_its_own(tmp_path, head):
    folder = clone(tmp_path / "anna")
    write(folder / ".git" / "HEAD", head.encode("latin-1"))
    assert commits.head_time(folder) is None


def test_a_clone_with_damaged_objects_or_pipes_for_files_has_no_time_of_its_own(tmp_path):
    folder = clone(tmp_path / "anna")
    git(folder, "gc", "-q")
    for path in (folder / ".git" / "objects" / "pack").iterdir():
        path.chmod(0o644)
        data = path.read_bytes()
        for cut in (0, 4, 8, 300, 1032, len(data) - 60):
            path.write_bytes(data[:cut])
            assert commits.head_time(folder) is None or cut > 0 or path.suffix == ".rev"
        path.write_bytes(data)
    assert commits.head_time(folder) is not None
    (folder / ".git" / "HEAD").unlink()
    os.mkfifo(folder / ".git" / "HEAD")
    assert commits.head_time(folder) is None


# A table


def test_a_table_maps_people_to_paths(tmp_path):
    write(tmp_path / "x" / CHAPTER, "a", time=1_790_000_000)
    write(tmp_path / "b.zip", zipped({CHAPTER: "b"}))
    write(tmp_path / f"c_{CHAPTER}", "c")
    rows = ['name,path,submitted', '"Bell, Anna",x,2026-11-20T10:00:00+01:00', "Ben,b.zip,", f"Cleo,c_{CHAPTER}", "", "Dora,nowhere,", "Eve,,", "Ben,x,"]
    write(tmp_path / "class.csv", "\ufeff" + "\r\n".join(rows))
    found = read_submissions(tmp_path / "class.csv")
    assert {(s.name, s.sources["ch03_attention"]) for s in found if not s.problem} == {("Bell, Anna", "a"), ("Ben", "a"), ("Ben", "b"), ("Cleo", "c")}
    assert [s.name for s in found] == ["Bell, Anna", "Ben", "Ben", "Cleo", "Dora", "Eve"]
    assert found[0].submitted == datetime(2026, 11, 20, 9, tzinfo=UTC) and found[0].time_from == "roster"
    assert {s.name: s.problem for s in found if s.problem} == {
        "Dora": "line 6 of the table gives a path that does not lead anywhere",
        "Eve": "line 7 of the table gives no path: nothing was handed in",
    }
    assert len({s.slug for s in found}) == 6
    write(tmp_path / "semicolons.csv", "name;path\nAnna;x\n")
    assert one(tmp_path / "semicolons.csv").sources == {"ch03_attention": "a"}


@pytest.mark.parametrize(
    "text, sentence",
    [
        (b"", "class.csv, line 1: there is no column name; the first line names the columns: name,path or name,path,submitted"),
        (b"Anna,x\n", "class.csv, line 1: there is no column name; the first line names the columns: name,path or name,path,submitted"),
        (b"name,path,grade\nAnna,x,1\n", "class.csv, line 1: there is no use for a column 'grade'; the first line names the columns: name,path or name,path,submitted"),
        (b"name,path,path\n", "class.csv, line 1: the column path is there twice; the first line names the columns: name,path or name,path,submitted"),
        (b"name,path\n", "class.csv has a header and no rows; each row gives a person's name and the path to what they handed in"),
        (b"name,path\nBell, Anna,x\n", "class.csv, line 2: there are 3 cells for 2 columns; put a cell with a comma in it in quotes"),
        (b"name,path\n,x\n", "class.csv, line 2: the name is missing"),
        (b"name,path\n\nAnna,x\nB\xe9n,x\n", 'class.csv, line 4: this is not UTF-8; save the table as "CSV UTF-8"'),
        (b"name,path\nAnna,a\0b\n", "class.csv, line 2: there is a null byte in the path"),
        (b'name,path\n"Anna"x,x\n', "class.csv, line 2: this is not CSV (',' expected after '\"')"),
        (
            b"name,path,submitted\nAnna,x,2026-11-20 10:00\n",
            "class.csv, line 2: '2026-11-20 10:00' does not say which time zone; write it like 2026-11-20T10:00:00+01:00",
        ),
        (
            b"name,path,submitted\nAnna,x,0001-01-01T00:00:00+14:00\n",
            "class.csv, line 2: '0001-01-01T00:00:00+14:00' is in the year 1, when nobody handed anything in",
        ),
        (b"name,path,submitted\nAnna,x,soon\n", "class.csv, line 2: 'soon' is not a time; write it like 2026-12-01T23:59:00+01:00"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused_with_its_line(tmp_path, text, sentence):
    with pytest.raises(GradingProblem) as refused:
        read_submissions(write(tmp_path / "class.csv", text))
    assert str(refused.value) == sentence


# The whole input


def test_an_input_that_makes_no_sense_is_refused_in_a_sentence(tmp_path):
    def refusal(path):
        with pytest.raises(GradingProblem) as refused:
            read_submissions(path)
        return str(refused.value).replace(str(tmp_path), "HERE")

    (tmp_path / "empty").mkdir()
    write(tmp_path / "mixed" / CHAPTER)
    write(tmp_path / "mixed" / "anna" / CHAPTER)
    write(tmp_path / "words.txt", "words")
    write(tmp_path / "cut.zip", b"PK\x03\x04")
    write(tmp_path / "out.zip", zipped({"../../anna/ch03_attention.py": "x"}))
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path / "none") == "there is no file or folder HERE/none"
    assert refusal(tmp_path / "pipe") == "HERE/pipe is neither a file nor a folder"
    assert refusal(tmp_path / "empty") == "HERE/empty holds no submissions: there is no folder, no archive and no file called like NAME_ch03_attention.py in it"
    assert refusal(tmp_path / "mixed") == (
        "HERE/mixed holds chapters itself and also anna: is it one person's or a class's? Put each person's files in a folder of their own"
    )
    assert refusal(tmp_path / "words.txt") == "words.txt is neither a folder, an archive, a table (.csv) nor a chapter called like ch03_attention.py"
    assert refusal(tmp_path / "cut.zip") == "cut.zip: the archive is damaged or cut short; hand it in again"
    assert refusal(tmp_path / "out.zip") == "out.zip is not safe to read: a file in it points outside of it (../../anna/ch03_attention.py)"


def test_two_submissions_of_one_name_are_that_persons_problem(tmp_path):
    write(tmp_path / "anna" / CHAPTER)
    write(tmp_path / "anna.zip", zipped({CHAPTER: "x"}))
    write(tmp_path / "Anna" / CHAPTER)
    found = by_name(tmp_path)
    assert found["anna"].problem == "there are several submissions under this name (a folder and anna.zip): keep one"
    assert found["Anna"].problem == "" and found["Anna"].slug.lower() != found["anna"].slug.lower()


def test_several_archives_of_one_person_are_ambiguous(tmp_path):
    write(tmp_path / "anna" / "a.zip", zipped({CHAPTER: "x"}))
    write(tmp_path / "anna" / "b.zip", zipped({CHAPTER: "y"}))
    write(tmp_path / "ben" / "a.zip", zipped({CHAPTER: "x"}))
    write(tmp_path / "ben" / CHAPTER, "mine")
    found = by_name(tmp_path)
    assert found["anna"].problem == "there are several archives and no chapter beside them (a.zip and b.zip): which one is meant?"
    assert found["ben"].sources == {"ch03_attention": "mine"} and found["ben"].notes == ("a.zip was not looked into, because there are chapters beside it",)


# Links, pipes, encodings, sizes


def test_links_are_not_followed_and_pipes_do_not_hang(tmp_path):
    write(tmp_path / "secret" / CHAPTER, "secret")
    folder = tmp_path / "class"
    (folder / "anna").mkdir(parents=True)
    (folder / "anna" / CHAPTER).symlink_to(tmp_path / "secret" / CHAPTER)
    (folder / "anna" / "all").symlink_to(tmp_path / "secret")
    write(folder / "anna" / "ch01_tokenizer.py", "mine")
    (folder / "ben").mkdir()
    os.mkfifo(folder / "ben" / CHAPTER)
    (folder / "cleo").symlink_to(tmp_path / "secret")
    os.mkfifo(folder / "dora.zip")
    (folder / "eve").mkdir()
    (folder / "eve" / "round").symlink_to(folder / "eve")
    found = by_name(folder)
    assert found["anna"].sources == {"ch01_tokenizer": "mine"}
    assert "ch03_attention.py is a link, and links are not followed" in found["anna"].notes
    assert found["ben"].problem == "there is no chapter to read: ch03_attention.py is not a regular file, and was not opened"
    assert found["cleo"].problem == "what was handed in is a link, and links are not followed"
    assert found["dora"].problem == "what was handed in is not a regular file, and was not opened"
    assert found["eve"].problem and not any("secret" in str(s) for s in found.values())


def test_files_are_decoded_as_python_does_and_one_that_cannot_be_spoils_itself_alone(tmp_path):
    write(tmp_path / "anna" / CHAPTER, "# -*- coding: latin-1 -*-\nx = 'é'\r\n".encode("latin-1"))
    write(tmp_path / "anna" / "ch01_tokenizer.py", b"\xef\xbb\xbfx = 1\r\n")
    write(tmp_path / "anna" / "ch02_embeddings.py", b"x = 1\n# \xff\xfe\n")
    write(tmp_path / "ben" / CHAPTER, b"\xff")
    found = by_name(tmp_path)
    assert found["anna"].sources == {"ch01_tokenizer": "x = 1\r\n", "ch03_attention": "# -*- coding: latin-1 -*-\nx = 'é'\r\n"}
    (sentence,) = found["anna"].notes
    assert sentence == found["anna"].broken["ch02_embeddings"] and sentence.startswith("ch02_embeddings.py")
    assert found["anna"].problem == "" and found["ben"].problem.startswith("ch03_attention.py")


def test_a_huge_chapter_spoils_itself_alone(tmp_path):
    write(tmp_path / "anna" / CHAPTER, b"#" * (gathering.MAX_FILE + 1))
    write(tmp_path / "anna" / "ch01_tokenizer.py", "mine")
    write(tmp_path / "ben.zip", zipped({CHAPTER: b"#" * (gathering.MAX_FILE + 1)}))
    found = by_name(tmp_path)
    assert found["anna"].sources == {"ch01_tokenizer": "mine"} and found["anna"].broken == {"ch03_attention": "ch03_attention.py is larger than 1 MB, and no chapter is"}
    assert found["ben"].problem == "ch03_attention.py is larger than 1 MB, and no chapter is"


# Hostile archives


@pytest.mark.parametrize("name", ["../x.py", "/etc/passwd", "a/../../x.py", "..\\x.py", "C:\\x.py", "C:/x.py", "\\x.py", "a/../b.py", ".git/../../x"])
def test_an_archive_with_a_path_that_leads_out_is_refused(tmp_path, name):
    write(tmp_path / "anna.zip", zipped({CHAPTER: "x", name: "y"}))
    write(tmp_path / "ben.tgz", tarred({CHAPTER: "x", name: "y"}))
    write(tmp_path / "cleo" / CHAPTER)
    found = by_name(tmp_path)
    for person in ("anna", "ben"):
        assert found[person].problem.startswith("a file in the archive points outside of it (") and not found[person].sources
    assert not found["cleo"].problem


def test_null_bytes_and_control_characters_in_names_stay_text(tmp_path):
    nul = zipped({"aXb.py": "x"}).replace(b"aXb.py", b"a\0b.py")
    assert archive(tmp_path / "a", nul).problem == "a file in the archive points outside of it (../a\\x00b.py); hand in the chapters alone"
    found = archive(tmp_path / "b", zipped({"\x1b[31m\u202ered/notes\n.txt": "x", "y" * 60_000: "z"}))
    assert found.problem.startswith("there is no chapter in it, only notes\\x0a.txt, yyy") and len(found.problem) < 200


def test_links_and_devices_in_archives_are_not_followed(tmp_path):
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as out:
        for name, kind, target in ((CHAPTER, tarfile.SYMTYPE, "/etc/passwd"), ("ch01_tokenizer.py", tarfile.LNKTYPE, "ch03_attention.py"), ("x", tarfile.CHRTYPE, "")):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            out.addfile(info)
        out.addfile(tarfile.TarInfo("ch02_embeddings.py"), io.BytesIO())
    found = archive(tmp_path / "a", tar.getvalue(), "anna.tar")
    assert found.sources == {"ch02_embeddings": ""}
    assert [note for note in found.notes if "links are not followed" in note] == [f"{n} is a link, and links are not followed" for n in (CHAPTER, "ch01_tokenizer.py")]
    link = zipfile.ZipInfo(CHAPTER)
    link.external_attr = 0o120777 << 16
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as out:
        out.writestr(link, "/etc/passwd")
    assert archive(tmp_path / "b", target.getvalue()).problem == "there is no chapter to read: ch03_attention.py is a link, and links are not followed"


def test_a_password_is_told_as_such(tmp_path):
    found = archive(tmp_path, patched(zipped({CHAPTER: "x = 1\n"}), flags=1))
    assert found.problem == "the archive is protected by a password; hand it in without"
    strongly = archive(tmp_path, patched(zipped({CHAPTER: "x = 1\n"}), flags=1, method=99))
    assert strongly.problem == found.problem
    other = archive(tmp_path, patched(zipped({"notes.txt": "n"}), flags=1))
    assert other.problem == "there is no chapter in it, only notes.txt; chapters are called like ch03_attention.py"


def test_names_in_a_zip_are_read_as_utf8_even_where_it_does_not_say_so(tmp_path):
    said = zipped({f"José/{CHAPTER}": "j", f"李小龙/{CHAPTER}": "l"})
    silent = patched(said, flags=0)
    old = patched(zipped({f"Jxx/{CHAPTER}": "j", f"anna/{CHAPTER}": "a"}), flags=0).replace(b"Jxx", b"J\x82x")
    for number, data in enumerate((said, silent)):
        assert list(by_name(write(tmp_path / f"{number}.zip", data))) == ["José", "李小龙"]
    assert list(by_name(write(tmp_path / "old.zip", old))) == ["Jéx", "anna"]


@pytest.mark.parametrize("pack, mode", [(zipped, ""), (tarred, "w:gz"), (tarred, "w:"), (tarred, "w:xz"), (tarred, "w:bz2")])
def test_an_archive_cut_short_is_told_as_such(tmp_path, pack, mode):
    content = "".join(f"x{number} = {number * number}\n" for number in range(3000))
    whole = pack({f"hw/{CHAPTER}": content}, *([mode] if mode else []))
    assert archive(tmp_path, whole).sources == {"ch03_attention": content}
    if mode == "w:":
        whole = whole[: 512 + len(content)]  # without the zeros behind everything
    for cut in (len(whole) - 30, len(whole) // 2, 20):
        found = archive(tmp_path, whole[:cut])
        assert found.problem == (DAMAGED if cut > 20 or mode != "w:" else "it is called an archive and is none"), (mode, cut)


def test_what_the_bytes_say_counts_and_not_the_ending(tmp_path):
    write(tmp_path / "anna.zip", tarred({CHAPTER: "a"}))
    write(tmp_path / "ben.tar.gz", zipped({CHAPTER: "b"}))
    write(tmp_path / "cleo", zipped({CHAPTER: "c"}))
    write(tmp_path / "dora.zip", "words")
    write(tmp_path / "eve.zip", b"")
    write(tmp_path / "fay.7z", b"7z\xbc\xaf\x27\x1c" + bytes(100))
    write(tmp_path / "gil.rar", b"Rar!\x1a\x07\x01\x00" + bytes(100))
    write(tmp_path / "hal.gz", gzip.compress(b"x = 1\n"))
    write(tmp_path / "ida.zip", zipped({}))
    found = by_name(tmp_path)
    assert [found[name].sources["ch03_attention"] for name in ("anna", "ben", "cleo")] == ["a", "b", "c"]
    assert {name: s.problem for name, s in found.items() if s.problem} == {
        "dora": "it is called an archive and is none",
        "eve": "it is called an archive and is none (it is an empty file)",
        "fay": "it is a 7z archive, which the grader does not read; hand in a zip or tar archive",
        "gil": "it is a rar archive, which the grader does not read; hand in a zip or tar archive",
        "hal": "it is a gz file with no tar archive in it; hand in a zip or tar archive",
        "ida": "nothing was handed in: it is empty",
    }


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_stream_in_pieces_is_one_stream_and_what_follows_it_does_not_count(tmp_path, pack):
    tar = tarred({CHAPTER: "x = 1\n" * 500}, "w:")
    pieces = pack(tar[:700]) + pack(b"") + pack(tar[700:])
    for behind in (b"", bytes(512), b"junk"):
        assert archive(tmp_path, pieces + behind).sources == {"ch03_attention": "x = 1\n" * 500}


def test_sizes_that_lie_damage_the_archive(tmp_path):
    honest = zipped({CHAPTER: "x = 1\n" * 100}, zipfile.ZIP_STORED)
    deflated = zipped({CHAPTER: "x = 1\n" * 100})
    for lie in (patched(deflated, size=10), patched(deflated, crc=7), patched(honest, method=8), patched(deflated, size=900_000)):
        assert archive(tmp_path, lie).problem == "the archive is damaged or cut short; hand it in again"
    assert archive(tmp_path, patched(deflated, size=0xFFFFFFF0)).problem == "the archive unpacks to more than 300 MB; hand in the chapters alone"


def test_duplicate_members_and_members_on_top_of_each_other(tmp_path):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as out, pytest.warns(UserWarning):
        out.writestr(zipfile.ZipInfo(CHAPTER, (2026, 1, 1, 0, 0, 0)), "old")
        out.writestr(zipfile.ZipInfo(CHAPTER, (2026, 1, 2, 0, 0, 0)), "new")
        out.writestr(zipfile.ZipInfo("a.py", (2026, 1, 2, 0, 0, 0)), "a")
    found = archive(tmp_path / "a", target.getvalue())
    assert found.sources == {"ch03_attention": "new"} and len(found.notes) == 1
    with zipfile.ZipFile(target, "a") as out:
        out.filelist[2].header_offset = out.filelist[1].header_offset
        out._didModify = True
    assert archive(tmp_path / "b", target.getvalue()).problem == "the archive is not an honest one: its files lie on top of each other"


def test_unusual_ways_of_packing_a_zip_are_refused(tmp_path):
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        found = archive(tmp_path, zipped({CHAPTER: b"#" * 900_000}, method))
        assert found.problem == "the archive is packed in an unusual way; make a plain zip of the chapters"


def test_too_many_members_are_refused():
    def refusal(data, limits):
        with pytest.raises(Unreadable) as refused:
            list(archives.members(io.BytesIO(data), len(data), limits))
        return str(refused.value)

    few = Limits(size=100_000, unpacked=50_000, members=10, names=2_000)
    many = {f"{number}.txt": "" for number in range(11)}
    assert refusal(zipped(many), few) == "the archive holds 11 files, and at most 10 are read; hand in the chapters alone"
    assert refusal(tarred(many), few) == "the archive holds more than 10 files; hand in the chapters alone"
    assert refusal(zipped({"x" * 3000: ""}), few) == "the archive holds far too many files; hand in the chapters alone"
    assert refusal(zipped({}) + bytes(100_000), few) == "the archive is 0 MB large, and at most 0 MB are read; hand in the chapters alone"
    assert refusal(zipped({"x": "y" * 60_000}), few) == "the archive unpacks to more than 0 MB; hand in the chapters alone"
    for mode in ("w:", "w:gz", "w:bz2", "w:xz"):
        assert refusal(tarred({"x": "y" * 60_000}, mode), few) == "the archive unpacks to far too much; hand in the chapters alone"
    skipped = {f".venv/{number}": "" for number in range(15)}
    for pack in (zipped, tarred):
        data = pack(skipped | {CHAPTER: "mine"})
        assert [found.path for found in archives.members(io.BytesIO(data), len(data), few)] == [(CHAPTER,)]
    assert "more than 10" in refusal(tarred({f".venv/{number}": "" for number in range(101)}, "w:"), replace(few, size=10**6, unpacked=10**6))
    assert archives.PERSON.members < 100_000 and archives.PERSON.unpacked < 10**9


END = bytes(1024)
SPARSE = "the archive has sparse files in it, which the grader does not read; make it without --sparse"
LONG = "the archive is not an honest one: a name in it is longer than any file could have"
OUT = "a file in the archive points outside of it (../../xy); hand in the chapters alone"
PAX = b"30 mtime=1790000000.123456789\n"
DAMAGED = "the archive is damaged or cut short; hand it in again"


@pytest.mark.parametrize(
    "blocks, problem",
    [
        ([tar_member(CHAPTER.encode()), END], ""),
        ([tar_member(CHAPTER.encode())], DAMAGED),
        ([tar_header(b"x", size_field=b"\xff" * 12), END], DAMAGED),
        ([tar_header(b"x", size_field=b"\x80" + b"\xff" * 11), END], DAMAGED),
        ([tar_header(CHAPTER.encode(), 1 << 30), END], DAMAGED),
        ([tar_header(b"x", 400_000_000, b"x"), END], LONG),
        ([tar_header(b"x", 400_000_000, b"L"), END], LONG),
        ([tar_header(b"x", 5, b"S") + bytes(512), END], SPARSE),
        ([tar_member(b"x", b"22 GNU.sparse.major=1\n", b"x"), tar_member(CHAPTER.encode()), END], SPARSE),
        ([tar_member(b"x", b"13 size=-512\n", b"x"), tar_member(CHAPTER.encode()), END], DAMAGED),
        ([tar_member(b"x", b"9999999 path=x\n", b"x"), tar_member(CHAPTER.encode()), END], DAMAGED),
        ([tar_member(b"x", b"0 path=x\n", b"x"), tar_member(CHAPTER.encode()), END], DAMAGED),
        ([tar_member(b"x", b"17 path=../../xy\n", b"x"), tar_member(CHAPTER.encode()), END], OUT),
        ([tar_member(b"x", PAX, b"x"), tar_member(CHAPTER.encode()), END], ""),
        ([tar_member(b"x", b"20 mtime=1e999999999\n", b"x"), tar_member(CHAPTER.encode()), END], ""),
        ([tar_member(b"x", ("a/" * 200 + CHAPTER).encode() + b"\0", b"L"), tar_member(b"x"), END], ""),
        ([tar_member(CHAPTER.encode()), b"\xff" * 512, END], DAMAGED),
        ([tar_member(b"d/", b"", b"5"), tar_member(CHAPTER.encode()), END + b"junk behind the end"], ""),
    ],
)
def test_the_tricks_of_tar(tmp_path, blocks, problem):
    found = archive(tmp_path, b"".join(blocks), "anna.tar")
    assert found.problem == problem
    assert found.sources == ({} if problem else {"ch03_attention": "x = 1\n"})


BOMB = """
import bz2, gzip, io, lzma, resource, sys, tarfile, zipfile, zlib
from pathlib import Path
sys.path.insert(0, {tests!r})
from handed_in import CHAPTER, patched, tar_header, tar_member
from grader.grading.submissions import read_submissions
here = Path({here!r}); here.mkdir()
SIZE = 1_500_000_000
for name, method in (("anna.zip", zipfile.ZIP_DEFLATED), ("ida.zip", zipfile.ZIP_BZIP2)):
    with zipfile.ZipFile(here / name, "w", method) as out:
        out.writestr(CHAPTER, bytes(50_000_000))
for name, pack in (("ben.tgz", gzip.compress), ("cleo.tar.bz2", bz2.compress), ("dora.tar.xz", lzma.compress)):
    (here / name).write_bytes(pack(tar_header(b"zeros", SIZE)) + pack(bytes(5_000_000)) * 70)
for name, kind in (("eve.tgz", b"x"), ("fay.tgz", b"L"), ("gil.tgz", b"g")):
    (here / name).write_bytes(gzip.compress(tar_header(b"x", SIZE, kind)) + gzip.compress(bytes(5_000_000)) * 20)
with zipfile.ZipFile(here / "hal.zip", "w", zipfile.ZIP_DEFLATED) as out:
    for number in range(70): out.writestr(f"{{number}}/" + CHAPTER, bytes([number]) * 1_000_000)
(here / "anna.zip").write_bytes(patched((here / "anna.zip").read_bytes(), size=900_000))
(here / "ida.zip").write_bytes(patched((here / "ida.zip").read_bytes(), size=900_000))
filters = [{{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 20}}]
packed = bytearray(lzma.compress(tar_member(CHAPTER.encode()) + bytes(1024), lzma.FORMAT_XZ, filters=filters))
# a block header that asks for a dictionary of 4 GB: the one byte that says how large it is, and the header's checksum
start = 12; length = (packed[start] + 1) * 4
place = start + 4
assert packed[start + 2] == 0x21, packed[start:start + 12].hex()
packed[place] = 40
packed[start + length - 4:start + length] = zlib.crc32(bytes(packed[start:start + length - 4])).to_bytes(4, "little")
(here / "joy.tar.xz").write_bytes(packed)
resource.setrlimit(resource.RLIMIT_AS, (2**20 * {megabytes},) * 2)
for s in read_submissions(here):
    print(s.name, s.problem or "read", sep=": ")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_bombs_are_refused_in_little_memory(tmp_path):
    program = BOMB.format(tests=str(handed_in.__file__.rpartition("/")[0]), here=str(tmp_path / "class"), megabytes=400)
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    *told, _ = done.stdout.splitlines()
    far = "the archive unpacks to far too much; hand in the chapters alone"
    assert dict(line.split(": ", 1) for line in told) == {
        "anna": DAMAGED,
        "ben": far,
        "cleo": far,
        "dora": far,
        "eve": LONG,
        "fay": LONG,
        "gil": LONG,
        "hal": "there are far too many copies of the chapters; hand in one of each",
        "ida": "the archive is packed in an unusual way; make a plain zip of the chapters",
        "joy": DAMAGED,
    }


# Anything at all


SEEDS = [
    zipped({f"hw/{CHAPTER}": "x = 1\n" * 20, "notes.txt": "n"}),
    tarred({f"hw/{CHAPTER}": "x = 1\n" * 20}, "w:"),
    tarred({CHAPTER: "x = 1\n"}),
    tarred({CHAPTER: "x = 1\n"}, "w:xz"),
]


@st.composite
def mutated(draw):
    """An archive with a few bytes changed, dropped or repeated."""
    data = bytearray(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 6))):
        place = draw(st.integers(0, len(data) - 1)) if data else 0
        change = draw(st.sampled_from(["set", "drop", "repeat", "swap"]))
        if change == "set":
            data[place : place + 1] = bytes([draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, draw(st.integers(0, 255))]))])
        elif change == "drop":
            del data[place : place + draw(st.integers(1, 600))]
        elif change == "repeat":
            data[place:place] = data[place : place + draw(st.integers(1, 600))]
        else:
            other = draw(st.integers(0, len(data) - 1)) if data else 0
            data[place : place + 8], data[other : other + 8] = data[other : other + 8], data[place : place + 8]
    return bytes(data)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(data=st.one_of(st.binary(max_size=2000), mutated(), mutated(), mutated()), name=st.sampled_from(["anna.zip", "anna.tar", "anna.tgz"]))
def test_no_bytes_make_the_reader_fail_or_hang(tmp_path_factory, data, name):
    folder = tmp_path_factory.mktemp("any")
    write(folder / name, data)
    began = time.monotonic()
    found = one(folder)
    assert bool(found.problem) != bool(found.sources)
    assert time.monotonic() - began < 60
    try:
        read_submissions(folder / name)
    except GradingProblem:
        pass


@settings(max_examples=60, deadline=None, database=None)
@given(names=st.lists(st.text(max_size=40) | st.sampled_from(["con", "CON", "aux.txt", "é", "e\u0301", "..", "-rf", "a" * 400, "\udcff", "."]), max_size=12))
def test_safe_names_are_safe_and_all_different(names):
    taken = set()
    safe = [safe_name(name, taken) for name in names]
    assert len({name.casefold() for name in safe}) == len(names)
    for name in safe:
        assert 0 < len(name.encode()) <= 130 and not set(name) & set('<>:"/\\|?*\0 \'`$&;()=@+') and name[0] not in ".-_" and name[-1] != "."
        assert name.isprintable() and name.partition(".")[0].lower() not in ("con", "prn", "aux", "nul", "com1", "lpt1")


def test_names_stay_what_they_are_and_their_file_names_are_safe(tmp_path):
    names = ["<script>alert(1)<", "=1+1", "\x1b[31mred", "\u202eevil", "x" * 250, "Anna", "anna", "COM¹", "é", "e\u0301", "a\udcffb"]
    for name in names:
        write(tmp_path / name / CHAPTER)
    found = read_submissions(tmp_path)
    assert sorted(s.name for s in found) == sorted(n.replace("\udcff", "\ufffd") for n in names)
    for submission in found:
        submission.name.encode()
        write(tmp_path / "out" / f"{submission.slug}.md")
    assert len(list((tmp_path / "out").iterdir())) == len(names)


def test_a_class_of_reference_solutions_is_read_in_full(tmp_path):
    for person in ("anna", "ben"):
        for path in SOLUTIONS.glob("ch*.py"):
            write(tmp_path / person / path.name, path.read_bytes())
    for submission in read_submissions(tmp_path):
        assert len(submission.sources) == 12 and not submission.problem and not submission.notes
        assert submission.submitted and datetime.now(UTC) - submission.submitted < timedelta(days=1)
