"""What a class hands in is read in any form, and a problem affects only its own submission."""

import os

import pytest
from grader.classroom.intake.file_names import make_safe_name
from grader.classroom.intake.files import FoundFile
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.intake.reader import read_submissions
from grader.classroom.intake.submission_content import MAX_FILES, read_content
from grader.course.source import LARGEST
from grader.course.stubs import reference_stub
from hypothesis import given, settings
from hypothesis import strategies as st
from submission_archives import CHAPTER, by_name, one, tarred, write, zipped

# Shapes


def test_folders_files_and_archives_of_each_kind_together(tmp_path):
    write(tmp_path / "Alpha One" / "week 3" / CHAPTER, "a")
    write(tmp_path / f"beta_{CHAPTER}", "b")
    write(tmp_path / "beta_ch01_tokenizer.py", "b1")
    write(tmp_path / "ch03_attention_chi.py", "c")
    write(tmp_path / "delta.zip", zipped({f"hw/{CHAPTER}": "d"}))
    endings = {".tar": "w:", ".tar.gz": "w:gz", ".tar.bz2": "w:bz2", ".tar.xz": "w:xz", ".tgz": "w:gz"}
    for ending, mode in endings.items():
        write(tmp_path / f"epsilon{ending}epsilon{ending}", tarred({f"hw/{CHAPTER}": f"e{ending}"}, mode))
    write(tmp_path / "README.md", "read me")
    found = by_name(tmp_path)
    assert [s.problem for s in found.values()] == [""] * len(found)
    assert {name: s.sources for name, s in found.items()} == {
        "Alpha One": {"ch03_attention": "a"}, "beta": {"ch01_tokenizer": "b1", "ch03_attention": "b"}, "chi": {"ch03_attention": "c"},
        "delta": {"ch03_attention": "d"}, **{f"epsilon{ending}epsilon": {"ch03_attention": f"e{ending}"} for ending in endings},
    }  # fmt: skip


@pytest.mark.parametrize("around, pack, ending", [("", zipped, ".zip"), ("submissions/", tarred, ".tar.gz")])
def test_one_archive_with_all_kinds_of_submissions(tmp_path, around, pack, ending):
    files = {
        "alpha/" + CHAPTER: "a", "beta.zip": zipped({CHAPTER: "b"}), f"chi_{CHAPTER}": "c", "delta/hw.tgz": tarred({CHAPTER: "d"}), "epsilon/notes.txt": "e",
        "fay.zip": b"PK\x03\x04 cut",
    }  # fmt: skip
    path = write(tmp_path / f"class{ending}", pack({around + name: content for name, content in files.items()}))
    found = by_name(path)
    assert {name: s.sources.get("ch03_attention") for name, s in found.items()} == {"alpha": "a", "beta": "b", "chi": "c", "delta": "d", "epsilon": None, "fay": None}
    assert found["epsilon"].problem == "it contains no chapter, only notes.txt; name the chapter files like ch03_attention.py"
    assert found["fay"].problem == "the archive is damaged or incomplete; submit it again"


def test_one_persons_folder_archive_or_file_alone(tmp_path):
    write(tmp_path / "alpha" / CHAPTER)
    write(tmp_path / "beta.zip", zipped({CHAPTER: "x = 1\n"}))
    write(tmp_path / f"chi_{CHAPTER}")
    names = ("alpha", "beta.zip", f"chi_{CHAPTER}")
    assert [(s.name, s.sources) for s in (one(tmp_path / name) for name in names)] == [(name, {"ch03_attention": "x = 1\n"}) for name in ("alpha", "beta", "chi")]


def test_the_digest_depends_only_on_the_content(tmp_path):
    write(tmp_path / "alpha" / CHAPTER, time=1_700_000_000)
    write(tmp_path / "beta" / "deep" / CHAPTER, time=1_790_000_000)
    write(tmp_path / "chi.zip", zipped({CHAPTER: "x = 1\n"}))
    write(tmp_path / "delta" / CHAPTER, "x = 2\n")
    digests = [s.digest for s in read_submissions(tmp_path)]
    assert digests[0] == digests[1] == digests[2]
    assert len(set(digests)) == 2
    assert digests[0] == "c9fd069f5fb0722863a976e8c73fef63778b6215cc1df28c52dda911ba20353a"  # the same on every machine, and next year


def test_solutions_in_a_copy_of_the_kit_are_not_graded(tmp_path):
    for person in ("alpha", "beta"):
        write(tmp_path / person / "headway" / "exercises" / "ch01_tokenizer.py", "mine", time=1_780_000_000)
        write(tmp_path / person / "headway" / "solutions" / CHAPTER, "the reference")
        write(tmp_path / person / "headway" / "solutions" / "ch01_tokenizer.py", "the reference")
        write(tmp_path / person / "headway" / "grader" / "pictures" / "ch01_tokenizer.py", "a picture")
    found = by_name(tmp_path)
    assert found["alpha"].sources == {"ch01_tokenizer": "mine"}
    alone = one(tmp_path / "beta" / "headway")
    assert alone.name == "headway" and alone.sources == {"ch01_tokenizer": "mine"}


def test_hidden_folders_and_folders_of_tools_are_ignored(tmp_path):
    write(tmp_path / "alpha" / CHAPTER, "mine")
    for folder in (".venv/lib", "__MACOSX", "node_modules/x", "__pycache__", ".ipynb_checkpoints", ".git/x"):
        write(tmp_path / "alpha" / folder / "ch01_tokenizer.py", "not mine")
        write(tmp_path / ".hidden" / CHAPTER)
    members = {f"__MACOSX/beta/._{CHAPTER}": "junk", f"beta/.venv/x/{CHAPTER}": "junk", f"beta/{CHAPTER}": "mine"}
    write(tmp_path / "beta.zip", zipped(members))
    assert {name: (s.sources, s.notes) for name, s in by_name(tmp_path).items()} == {n: ({"ch03_attention": "mine"}, ()) for n in ("alpha", "beta")}


def test_the_shallowest_then_newest_version_counts_with_a_note(tmp_path):
    write(tmp_path / "alpha" / "old" / "x" / CHAPTER, "deep", time=1_790_000_000)
    write(tmp_path / "alpha" / "b" / CHAPTER, "new", time=1_780_000_000)
    write(tmp_path / "alpha" / "a" / CHAPTER, "old", time=1_770_000_000)
    write(tmp_path / "beta" / "a" / CHAPTER, "same")
    write(tmp_path / "beta" / "b" / CHAPTER, "same")
    found = by_name(tmp_path)
    assert found["alpha"].sources == {"ch03_attention": "new"}
    (note,) = found["alpha"].notes
    assert note.startswith("there are several versions of ch03_attention.py; b/ch03_attention.py was graded, not ")
    assert "old/x/ch03_attention.py" in note and "a/ch03_attention.py" in note
    assert found["beta"].sources == {"ch03_attention": "same"} and found["beta"].notes == ()


def test_a_renamed_file_counts_if_there_is_no_other(tmp_path):
    write(tmp_path / "alpha" / f"alpha_{CHAPTER}", "renamed")
    write(tmp_path / "alpha" / f"test_{CHAPTER}", "a test")
    write(tmp_path / "beta" / f"old_{CHAPTER}", "old")
    write(tmp_path / "beta" / "deep" / CHAPTER, "right")
    found = by_name(tmp_path)
    assert found["alpha"].sources == {"ch03_attention": "renamed"} and found["alpha"].notes == ("alpha_ch03_attention.py was used as ch03_attention.py",)
    assert found["beta"].sources == {"ch03_attention": "right"}


# Files whose names say no chapter

MODULE = "ch03_attention"
ONE = "def softmax(x, dim=-1):\n    return x + 1\n"
TWO = "def softmax(x, dim=-1):\n    return x\n\n\ndef causal_mask(q_len, k_len=None):\n    return q_len\n"


def test_a_file_is_matched_by_what_it_defines(tmp_path):
    write(tmp_path / "alpha" / "attention.py", TWO)
    write(tmp_path / "alpha" / "plots.py", "def draw():\n    return 1\n")
    write(tmp_path / "chi" / "homework.py", "def softmax(x:\n")
    write(tmp_path / "epsilon" / "ch03_attention.py.txt", TWO)
    write(tmp_path / "fay" / "attention.py", reference_stub(MODULE), time=1_780_000_000)
    write(tmp_path / "fay" / "train.py", ONE, time=1_790_000_000)
    for place in ("tests/variants/ch03_attention/softmax.py", "solutions/attention.py", "grader/x.py", "test_softmax.py", "conftest.py"):
        write(tmp_path / "gil" / place, TWO)
    found = by_name(tmp_path)
    assert found["alpha"].sources == {MODULE: TWO}
    assert found["alpha"].notes == ("the file attention.py was used as ch03_attention.py, because it defines softmax and causal_mask",)
    assert found["chi"].sources == {MODULE: "def softmax(x:\n"}, "grading shows its owner the line"
    assert found["epsilon"].sources == {MODULE: TWO}
    assert found["fay"].sources == {MODULE: reference_stub(MODULE)}, "a helper with an exercise's name does not replace the chapter"
    assert found["gil"].problem, "the kit's own files and tests are nobody's work"


def test_of_numbered_copies_the_newest_counts(tmp_path):
    write(tmp_path / "chi" / f"{MODULE}.py", TWO, time=1_780_000_000)
    write(tmp_path / "chi" / f"{MODULE} (2).py", ONE, time=1_790_000_000)
    write(tmp_path / "delta" / "attention.py", ONE, time=1_790_000_000)
    write(tmp_path / "delta" / "attention (2).py", TWO, time=1_780_000_000)
    found = by_name(tmp_path)
    assert {name: s.sources[MODULE] for name, s in found.items()} == dict.fromkeys(["chi", "delta"], ONE)
    assert "ch03_attention (2).py was graded, not ch03_attention.py" in found["chi"].notes[-1]


def test_one_file_with_several_chapters_is_divided(tmp_path):
    gelu = "def gelu(x):\n    return softmax(x)\n"
    write(tmp_path / "alpha" / "all.py", f"import torch\n{ONE}{gelu}print(gelu(torch.ones(3)))\n")
    found = one(tmp_path)
    assert list(found.sources) == [MODULE, "ch05_layers"]
    assert "gelu" not in found.sources[MODULE] and "print" not in found.sources[MODULE]
    assert f"from .{MODULE} import softmax\n" in found.sources["ch05_layers"]
    assert found.notes[0] == "the file all.py was used as ch03_attention.py, because it defines softmax; only the code that they use was read"


@pytest.mark.parametrize(
    "text, says",
    [(" \n\n", "is empty"), ('"""Mine."""\nimport torch\nfrom torch import nn\n...\n', "has only")],
)
def test_an_empty_chapter_cannot_be_graded_and_one_sentence_says_so(tmp_path, text, says):
    write(tmp_path / "alpha" / CHAPTER, text)
    write(tmp_path / "beta" / CHAPTER, text)
    write(tmp_path / "beta" / "ch05_layers.py", "x = 1\n")
    write(tmp_path / "chi" / f"{MODULE} (1).py", text, time=1_790_000_000)
    write(tmp_path / "chi" / CHAPTER, ONE, time=1_780_000_000)
    found = by_name(tmp_path)
    problem = found["alpha"].problem
    assert problem.startswith(f"ch03_attention.py {says}") and problem.endswith("; submit the file with your code")
    assert (found["alpha"].sources, found["alpha"].notes) == ({}, ())
    assert list(found["beta"].sources) == ["ch05_layers"] and found["beta"].notes == (problem,)
    assert found["chi"].sources == {MODULE: ONE}, "the newest copy that is not empty"


# The whole input


def test_an_invalid_input_is_refused_with_one_sentence(tmp_path):
    def refusal(path):
        with pytest.raises(GradingProblem) as refused:
            read_submissions(path)
        return str(refused.value).replace(str(tmp_path), "HERE")

    (tmp_path / "empty").mkdir()
    write(tmp_path / "mixed" / CHAPTER)
    write(tmp_path / "mixed" / "alpha" / CHAPTER)
    write(tmp_path / "words.txt", "words")
    write(tmp_path / "cut.zip", b"PK\x03\x04")
    write(tmp_path / "out.zip", zipped({"../../alpha/ch03_attention.py": "x"}))
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path / "none") == "HERE/none does not exist"
    assert refusal(tmp_path / "pipe") == "HERE/pipe is neither a file nor a folder"
    assert refusal(tmp_path / "empty") == "HERE/empty contains no submissions: it has no folder, no archive and no file with a name like NAME_ch03_attention.py"
    assert refusal(tmp_path / "mixed") == (
        "HERE/mixed contains chapter files and also alpha, so it is unclear whether it is one submission or a class. Put each person's files into a separate folder"
    )
    assert refusal(tmp_path / "words.txt") == "words.txt is not a folder, an archive, a table (.csv), a Python file or a notebook"
    assert refusal(tmp_path / "cut.zip") == "cut.zip: the archive is damaged or incomplete; submit it again"
    assert refusal(tmp_path / "out.zip") == "out.zip is not safe to read: a file in it has a path outside of it (../../alpha/ch03_attention.py)"


def test_two_submissions_with_one_name_are_a_problem_of_that_person(tmp_path):
    write(tmp_path / "alpha" / CHAPTER)
    write(tmp_path / "alpha.zip", zipped({CHAPTER: "x"}))
    write(tmp_path / "Alpha" / CHAPTER)
    found = by_name(tmp_path)
    assert found["alpha"].problem == "several submissions have this name (a folder and alpha.zip); keep one of them"
    assert found["Alpha"].problem == "" and found["Alpha"].slug.lower() != found["alpha"].slug.lower()


def test_several_archives_of_one_person_are_ambiguous(tmp_path):
    write(tmp_path / "alpha" / "a.zip", zipped({CHAPTER: "x"}))
    write(tmp_path / "alpha" / "b.zip", zipped({CHAPTER: "y"}))
    write(tmp_path / "beta" / "a.zip", zipped({CHAPTER: "x"}))
    write(tmp_path / "beta" / CHAPTER, "mine")
    found = by_name(tmp_path)
    assert found["alpha"].problem == "it contains several archives (a.zip and b.zip) and no chapter file; submit one archive"
    assert found["beta"].sources == {"ch03_attention": "mine"} and found["beta"].notes == ("a.zip was not opened, because there are chapter files next to it",)


# Links, pipes, encodings, sizes


def test_the_number_of_files_and_the_depth_are_limited(tmp_path):
    many = (FoundFile((f"{number}.txt",), "file") for number in range(MAX_FILES + 1))
    assert read_content(many).problem == "it contains more than 50000 files; submit only the chapter files"
    write(tmp_path / "alpha" / CHAPTER, "mine")
    write(tmp_path.joinpath("alpha", *"d" * 70, "ch01_tokenizer.py"), "too deep")
    assert one(tmp_path).sources == {"ch03_attention": "mine"} and one(tmp_path).notes == ("files more than 60 folders deep were not read",)


def test_links_are_not_followed_and_pipes_do_not_hang(tmp_path):
    write(tmp_path / "secret" / CHAPTER, "secret")
    folder = tmp_path / "class"
    (folder / "alpha").mkdir(parents=True)
    (folder / "alpha" / CHAPTER).symlink_to(tmp_path / "secret" / CHAPTER)
    (folder / "alpha" / "all").symlink_to(tmp_path / "secret")
    write(folder / "alpha" / "ch01_tokenizer.py", "mine")
    (folder / "beta").mkdir()
    os.mkfifo(folder / "beta" / CHAPTER)
    (folder / "chi").symlink_to(tmp_path / "secret")
    os.mkfifo(folder / "delta.zip")
    (folder / "epsilon").mkdir()
    (folder / "epsilon" / "round").symlink_to(folder / "epsilon")
    found = by_name(folder)
    assert found["alpha"].sources == {"ch01_tokenizer": "mine"}
    assert "ch03_attention.py is a link, which the grader does not follow" in found["alpha"].notes
    assert found["beta"].problem == "it contains no readable chapter: ch03_attention.py is not a regular file, so it was not opened"
    assert found["chi"].problem == "the submission is a link, and the grader does not follow links; submit the files themselves"
    assert found["delta"].problem == "the submission is not a regular file, so the grader did not open it; submit chapter files or an archive"
    assert found["epsilon"].problem and not any("secret" in str(s) for s in found.values())


def test_files_are_decoded_like_python_and_a_failure_affects_only_its_file(tmp_path):
    write(tmp_path / "alpha" / CHAPTER, "# -*- coding: latin-1 -*-\nx = 'é'\r\n".encode("latin-1"))
    write(tmp_path / "alpha" / "ch01_tokenizer.py", b"\xef\xbb\xbfx = 1\r\n")
    write(tmp_path / "alpha" / "ch02_embeddings.py", b"x = 1\n# \0\xff\xfe\n")
    write(tmp_path / "beta" / CHAPTER, b"\xff\0")
    found = by_name(tmp_path)
    assert found["alpha"].sources == {"ch01_tokenizer": "x = 1\r\n", "ch03_attention": "# -*- coding: latin-1 -*-\nx = 'é'\r\n"}
    (sentence,) = found["alpha"].notes
    assert sentence == found["alpha"].broken["ch02_embeddings"] and sentence.startswith("ch02_embeddings.py")
    assert found["alpha"].problem == "" and found["beta"].problem.startswith("ch03_attention.py")


def test_an_oversized_chapter_affects_only_itself(tmp_path):
    write(tmp_path / "alpha" / CHAPTER, b"#" * (LARGEST + 1))
    write(tmp_path / "alpha" / "ch01_tokenizer.py", "mine")
    write(tmp_path / "beta.zip", zipped({CHAPTER: b"#" * (LARGEST + 1)}))
    found = by_name(tmp_path)
    sentence = "ch03_attention.py is larger than 200 KB, the limit for a chapter; remove everything except the code of its exercises"
    assert found["alpha"].sources == {"ch01_tokenizer": "mine"} and found["alpha"].broken == {"ch03_attention": sentence}
    assert found["beta"].problem == sentence and found["beta"].notes == () and found["alpha"].notes == (sentence,)


# Names


@settings(max_examples=60, deadline=None, database=None)
@given(names=st.lists(st.text(max_size=40) | st.sampled_from(["con", "CON", "aux.txt", "é", "e\u0301", "..", "-rf", "a" * 400, "\udcff", "."]), max_size=12))
def test_safe_names_are_safe_and_all_different(names):
    used = set()
    safe = [make_safe_name(name, used) for name in names]
    assert len({name.casefold() for name in safe}) == len(names)
    for name in safe:
        assert 0 < len(name.encode()) <= 130 and not set(name) & set('<>:"/\\|?*\0 \'`$&;()=@+') and name[0] not in ".-_" and name[-1] != "."
        assert name.isprintable() and name.partition(".")[0].lower() not in ("con", "prn", "aux", "nul", "com1", "lpt1")


def test_names_stay_unchanged_and_their_file_names_are_safe(tmp_path):
    names = ["<script>alert(1)<", "=1+1", "\x1b[31mred", "\u202eevil", "x" * 250, "Alpha", "alpha", "COM¹", "é", "e\u0301", "a\udcffb"]
    for name in names:
        write(tmp_path / name / CHAPTER)
    found = read_submissions(tmp_path)
    assert sorted(s.name for s in found) == sorted(n.replace("\udcff", "\ufffd") for n in names)
    for submission in found:
        submission.name.encode()
        write(tmp_path / "out" / f"{submission.slug}.md")
    assert len(list((tmp_path / "out").iterdir())) == len(names)
