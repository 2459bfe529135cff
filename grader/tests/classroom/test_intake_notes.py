"""What notes and problems say about the files of a submission: only what helps, about the chapters that are graded."""

import pytest
from grade_command import headway, marks
from grader.classroom.intake.class_notes import describe_maps
from grader.classroom.intake.options import parse_options
from grader.classroom.intake.reader import read_in_subprocess
from submission_archives import CHAPTER, by_name, one, write, zipped

MODULE = "ch03_attention"
SOFTMAX = "def softmax(x, dim=-1):\n    return x\n"

# ---- empty chapters


@pytest.mark.parametrize(
    "text, says",
    [("", "is empty"), (" \n\n", "is empty"), ("# todo\n", "has only comments and imports"), ('"""Mine."""\nimport torch\nfrom torch import nn\n...\n', "has only")],
)
def test_an_empty_chapter_cannot_be_graded_and_one_sentence_says_so(tmp_path, text, says):
    write(tmp_path / "alpha" / CHAPTER, text)
    found = one(tmp_path)
    assert found.problem.startswith(f"ch03_attention.py {says}") and found.problem.endswith("; submit the file with your code")
    assert (found.sources, found.notes) == ({}, ())


def test_an_empty_chapter_beside_others_is_a_note_and_an_empty_copy_does_not_count(tmp_path):
    write(tmp_path / "alpha" / CHAPTER, "")
    write(tmp_path / "alpha" / "ch05_layers.py", "x = 1\n")
    write(tmp_path / "beta" / f"{MODULE} (1).py", "# coming\n", time=1_790_000_000)
    write(tmp_path / "beta" / CHAPTER, SOFTMAX, time=1_780_000_000)
    found = by_name(tmp_path)
    assert list(found["alpha"].sources) == ["ch05_layers"] and found["alpha"].notes == ("ch03_attention.py is empty; submit the file with your code",)
    assert found["beta"].sources == {MODULE: SOFTMAX}, "the newest copy that is not empty"


@pytest.mark.thorough
def test_the_report_lists_an_empty_chapter_as_not_graded(tmp_path):
    write(tmp_path / "class" / "alpha" / CHAPTER, "\n")
    write(tmp_path / "class" / "beta" / CHAPTER, SOFTMAX)
    ran = headway("grade", tmp_path / "class", "--out", tmp_path / "out", "--exercises", "softmax", "-j", 1)
    assert ran.status == 1 and "Not graded: alpha: ch03_attention.py is empty; submit the file with your code." in ran.out
    assert marks(tmp_path / "out")["alpha"]["problem"] == "ch03_attention.py is empty; submit the file with your code"
    feedback = (tmp_path / "out" / "feedback" / "alpha.md").read_text(encoding="utf-8")
    assert feedback.count("is empty") == 1 and "does not define" not in feedback
    report = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Submissions without a mark" in report


# ---- notes about chapters that are not graded


def test_there_are_no_notes_about_chapters_that_are_not_graded(tmp_path):
    write(tmp_path / "alpha" / "all_my_code.py", f"{SOFTMAX}\n\ndef gelu(x):\n    return x\n\n\ndef build_vocab(texts):\n    return {{}}\n")
    for number in (1, 2):
        write(tmp_path / "beta" / f"ch05_layers ({number}).py", f"x = {number}\n")
    write(tmp_path / "beta" / "ch01_tokenizer.py", "")
    write(tmp_path / "beta" / CHAPTER, SOFTMAX)
    found = {submission.name: submission for submission in read_in_subprocess(tmp_path, options=parse_options(modules=[MODULE]))}
    assert found["alpha"].notes == (f"the file all_my_code.py was used as {MODULE}.py, because it defines softmax; only the code that they use was read",)
    assert found["beta"].notes == ()
    every = by_name(tmp_path)
    assert len(every["alpha"].notes) == 3 and len(every["beta"].notes) == 3
    assert every["alpha"].digest == found["alpha"].digest and every["beta"].digest == found["beta"].digest, "grading other chapters later finds the same content"


# ---- --map


def test_a_map_that_fits_no_file_is_noted_with_a_suggestion(tmp_path):
    write(tmp_path / "alpha" / "homework3.py", "x = 3\n")
    write(tmp_path / "beta" / "hw.zip", zipped({"deep/Homework4 (1).py": "x = 4\n"}))
    write(tmp_path / "chi" / CHAPTER)
    options = parse_options(["homework9.py=ch03", "homework4.py=ch03"])
    assert describe_maps(options, read_in_subprocess(tmp_path, options=options)) == [
        "--map homework9.py=ch03_attention: no file has this name; did you mean homework3.py?",
        "no exercise was found in homework3.py of alpha; if you know its chapter, name it, like --map homework3.py=ch03",
    ]
    options = parse_options(["homework3.py=ch05", "homework4.py=ch03"], modules=[MODULE])
    assert describe_maps(options, read_in_subprocess(tmp_path, options=options)) == ["--map homework3.py=ch05_layers: this chapter is not graded here"]
    assert describe_maps(parse_options(), read_in_subprocess(tmp_path / "chi")) == []
