"""`headway grade --anonymous` where every folder, archive, file and inner path has its owner's name: no written byte and no printed line has it."""

import json

import pytest
from grade_command import hand_in, headway, marks
from grader.classroom.anonymous import read_key
from grader.classroom.intake.reader import ReadLimits, iterate_submissions, read_in_subprocess
from pytest_runs import solution
from submission_archives import write, zipped

SECRET = "xq"  # a part of every first name, family name and number
SOFTMAX = "import torch\n\n\ndef softmax(x, dim=-1):\n    {}\n"
NOTEBOOK = {"cells": [{"cell_type": "code", "source": source} for source in ("def f(:", "size = measured()", "def softmax(x, dim=-1):\n    return x + size\n")]}


def owner(number):
    return f"Xqada{number}_Xqlove_XQ100{number}"


def a_class(folder):
    """What students send, and for each of them a sentence that once showed a name."""
    names = [owner(number) for number in range(12)]
    write(folder / names[0] / f"{names[0]}_homework.py", SOFTMAX.format("return x"))
    inner = {f"{names[1]}/{names[1]}_ch03_attention.py": SOFTMAX.format("return 2 * x"), f"{names[1]}/{names[1]}_old/{names[1]}_ch03_attention.py": "x = 1", f"{names[1]}.pdf": "x"}
    write(folder / f"{names[1]}.zip", zipped(inner | {f"{names[1]}_more.zip": zipped({"x.py": "x"})}))
    write(folder / names[2] / f"{names[2]}.ipynb", json.dumps(NOTEBOOK))
    write(folder / f"{names[3]}.zip", zipped({f"{names[3]}_essay.docx": "x", f"{names[3]}.{SECRET}": "x"}))
    write(folder / f"{names[4]}.zip", zipped({f"{names[4]}_{part}.zip": zipped({"ch03_attention.py": "x"}) for part in "ab"}))
    write(folder / "real" / f"{names[5]}_ch03_attention.py", "x = 1")
    (folder / names[5]).mkdir()
    (folder / names[5] / f"{names[5]}_ch03_attention.py").symlink_to(folder / "real" / f"{names[5]}_ch03_attention.py")
    write(folder / f"{names[6]}_notes.md", "no owner")
    write(folder / names[7] / "ch03_attention.py", "x = 1")
    write(folder / f"{names[7]}.zip", zipped({"ch03_attention.py": "x = 2"}))
    write(folder / names[8] / f"{names[8]}.py", SOFTMAX.format("return x") + "#" * 300_000)
    write(folder / f"{names[9]}.zip", zipped({f"../{names[9]}_ch03_attention.py": "x"}))
    write(folder / f"{names[10]}.zip", zipped({f"{names[10]}.zip": zipped({f"{names[10]}.zip": zipped({f"{names[10]}_homework.py": "def softmax(:"})})}))
    write(folder / f"{names[11]}_LATE_5550009_909_{names[11]}.ch05_layers.py", "def gelu(x):\n    return x\n")
    return folder


def test_no_output_has_a_name_of_a_file_folder_or_archive(tmp_path):
    submissions, out = a_class(tmp_path / "class"), tmp_path / "grades"
    asked = ("--exercises", "softmax", "--out", out)
    said = [headway("grade", submissions, *asked, "--anonymous", "-j", 1)]
    assert said[0].status == 1, said[0].out
    alpha = next(entry.pseudonym for entry in read_key(tmp_path / "anonymous_key.csv") if owner(0) in entry.name)
    for arguments in (
        ("override", alpha, "softmax", 2, "--because", f"{owner(0)} has asked me"),
        ("override", "--list"),
        ("regrade", alpha, "-j", 1),
        ("similarity",),
        ("similarity", submissions),
        ("grade", submissions, "--exercises", "softmax", "--anonymous", "-j", 1),
    ):
        said.append(headway(*arguments, "--out", out))
        assert said[-1].status < 2, said[-1].out
    for ran in said:
        assert SECRET not in ran.out.casefold(), ran.out
    files = [path for path in out.rglob("*") if path.is_file()]
    assert {"gradebook.sqlite", "report.html", "grades.csv", "similarity.html", "similarity.csv", "asked.json"} <= {path.name for path in files}
    for path in [*files, *out.rglob("*")]:
        assert SECRET not in path.relative_to(out).as_posix().casefold()
    for path in files:
        content = path.read_bytes()
        assert SECRET not in (content.decode("utf-8", "replace") + content.decode("utf-16-le", "replace")).casefold(), path
    notes = " ".join(row["notes"] + row["problem"] for row in marks(out).values())
    for sentence in (
        "the file FILE1.py was used as ch03_attention.py, because it defines softmax",
        "NAME1_ch03_attention.py was used as ch03_attention.py",
        "the archive ARCHIVE1.zip was not opened",
        "cell 2 of FILE1.ipynb sets size",
        "it contains no chapter, only FILE1.docx, FILE2.other",
        "it contains several archives (ARCHIVE1.zip and ARCHIVE2.zip)",
        "the file NAME1_ch03_attention.py is a link",
        "several submissions have this name (ARCHIVE1.zip and a folder)",
        "FILE1.py is larger than 200 KB",
        "a path outside of it (../NAME1_ch03_attention.py)",
    ):
        assert sentence in notes, (sentence, notes)
    assert "ignored because they have no owner: FILE1.md" in said[0].out


def test_the_submission_of_one_person_is_refused_because_its_path_is_stored(tmp_path):
    hand_in(tmp_path, owner(0), SOFTMAX.format("return x"))
    write(tmp_path / f"{owner(1)}.zip", zipped({"ch03_attention.py": "x = 1"}))
    write(tmp_path / f"{owner(2)}.py", SOFTMAX.format("return x"))
    for name in (owner(0), f"{owner(1)}.zip", f"{owner(2)}.py"):
        ran = headway("grade", tmp_path / name, "--exercises", "softmax", "--out", tmp_path / "grades", "--anonymous")
        assert ran.status == 2 and "put it into a folder, and name that folder" in ran.out and not (tmp_path / "grades").exists()


@pytest.mark.parametrize("hides_names", [False, True])
def test_what_is_read_is_reported_and_named_only_if_names_may_be_seen(tmp_path, monkeypatch, hides_names):
    """A submission that takes long is reported again while it is read."""
    monkeypatch.setattr("grader.classroom.intake.reader.SLOW_SECONDS", 0.01)
    write(tmp_path / f"{owner(0)}.zip", zipped({"ch03_attention.py": solution("ch03")}))
    write(tmp_path / owner(1) / "homework.py", "x = (" + "a," * 60_000 + ")\n")
    reported: list[str] = []
    read_in_subprocess(tmp_path, limits=ReadLimits(), report=reported.append, hides_names=hides_names)
    first, *seen = dict.fromkeys(reported)
    names = [""] * 2 if hides_names else [f": {owner(0)}.zip", f": {owner(1)}"]
    assert first == f"the file names in {tmp_path.name}" and seen == [f"submission {k + 1}{name}" for k, name in enumerate(names)]
    assert len(reported) > 1 + len(seen), "the start of the process takes longer than this, so it is reported again"


def test_a_class_that_is_also_one_submission_is_refused_without_a_name(tmp_path):
    write(tmp_path / "class" / "ch03_attention.py", "x = 1")
    write(tmp_path / "class" / owner(0) / "ch03_attention.py", "x = 1")
    with pytest.raises(ValueError, match="also FOLDER1, so it is unclear"):
        list(iterate_submissions(tmp_path / "class", print, hides_names=True))
