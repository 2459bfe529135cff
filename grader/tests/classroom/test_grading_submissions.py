"""What a class hands in is read in any form, and a problem affects only its own submission."""

import json
import os
import re
import textwrap

import pytest
from grader.classroom.intake import submission_content
from grader.classroom.intake.file_names import NeutralNames, parse_code_name, strip_archive_suffix
from grader.classroom.intake.files import FoundFile
from grader.classroom.intake.reader import iterate_submissions, read_submissions
from grader.classroom.intake.submission_content import MAX_FILES, MAX_VERSIONS, read_content
from grader.classroom.intake.submissions import GradingProblem, make_safe_name
from grader.course.source import MAX_FILE_BYTES, parse
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


# One person's files

MODULE = "ch03_attention"
ONE = "def softmax(x, dim=-1):\n    return x + 1\n"
TWO = "def softmax(x, dim=-1):\n    return x\n\n\ndef causal_mask(q_len, k_len=None):\n    return q_len\n"
STUB = reference_stub(MODULE)
LATIN = "# -*- coding: latin-1 -*-\nx = 'é'\r\n"
TOO_LARGE = f"{CHAPTER} is larger than 200 KB, the limit for a chapter; remove everything except the code of its exercises"
EMPTY = f"{CHAPTER} has only comments and imports; submit the file with your code"
ARCHIVE = zipped({CHAPTER: "x"})

# For each person the files (later ones are newer), the chapters that are graded, and the problem and notes.
PEOPLE: dict[str, tuple[dict[str, str | bytes], dict[str, str], str]] = {
    "a copy of the kit": (
        {"headway/exercises/ch01_tokenizer.py": "mine", f"headway/solutions/{CHAPTER}": "reference", "headway/grader/pictures/ch01_tokenizer.py": "a picture"},
        {"ch01_tokenizer": "mine"}, "",
    ),
    "folders of tools": (
        {CHAPTER: "mine"} | {f"{folder}/ch01_tokenizer.py": "x" for folder in (".venv/lib", "__MACOSX", "node_modules/x", "__pycache__", ".git/x", "exercises/hunts")},
        {MODULE: "mine"}, "",
    ),
    "the shallowest and then the newest version": (
        {f"a/{CHAPTER}": "old", f"b/{CHAPTER}": "new", f"old/x/{CHAPTER}": "deep"}, {MODULE: "new"},
        f"there are several versions of {CHAPTER}; b/{CHAPTER} was graded, not a/{CHAPTER} and old/x/{CHAPTER}",
    ),
    "the same version twice": ({f"a/{CHAPTER}": "same", f"b/{CHAPTER}": "same"}, {MODULE: "same"}, ""),
    "a renamed file": ({f"alpha_{CHAPTER}": "x", f"test_{CHAPTER}": "a test"}, {MODULE: "x"}, f"alpha_{CHAPTER} was used as {CHAPTER}"),
    "the right name": (
        {f"deep/{CHAPTER}": "right", f"old_{CHAPTER}": "old"}, {MODULE: "right"},
        f"there are several versions of {CHAPTER}; deep/{CHAPTER} was graded, not old_{CHAPTER}",
    ),
    "what it defines": (
        {"attention.py": TWO, "plots.py": "def draw():\n    return 1\n"}, {MODULE: TWO},
        f"the file attention.py was used as {CHAPTER}, because it defines softmax and causal_mask",
    ),
    "code that is not Python": (
        {"homework.py": "def softmax(x:\n"}, {MODULE: "def softmax(x:\n"}, f"the file homework.py was used as {CHAPTER}, because it defines softmax",
    ),
    "another ending": ({f"{CHAPTER}.txt": TWO}, {MODULE: TWO}, f"{CHAPTER}.txt was used as {CHAPTER}"),
    "a helper that does not replace the chapter": (
        {"attention.py": STUB, "train.py": ONE}, {MODULE: STUB},
        f"the file attention.py was used as {CHAPTER}, because it defines softmax, causal_mask and 9 more",
    ),
    "the kit's own files": (
        {place: TWO for place in ("tests/variants/ch03_attention/softmax.py", "solutions/attention.py", "grader/x.py", "test_softmax.py", "conftest.py")},
        {}, "it contains no chapter, only conftest.py, x.py, attention.py and more; name the chapter files like ch03_attention.py",
    ),
    "numbered copies": (
        {CHAPTER: TWO, f"{MODULE} (2).py": ONE}, {MODULE: ONE},
        f"{MODULE} (2).py was used as {CHAPTER}; there are several versions of {CHAPTER}; {MODULE} (2).py was graded, not {CHAPTER}",
    ),
    "an empty copy": ({CHAPTER: ONE, f"{MODULE} (1).py": "# todo\n"}, {MODULE: ONE}, ""),
    "an empty chapter": ({CHAPTER: " \n\n"}, {}, f"{CHAPTER} is empty; submit the file with your code"),
    "an empty chapter beside another": ({CHAPTER: '"""Mine."""\nimport torch\n...\n', "ch05_layers.py": "x = 1\n"}, {"ch05_layers": "x = 1\n"}, EMPTY),
    "several archives": (
        {"a.zip": ARCHIVE, "b.zip": ARCHIVE}, {}, "it contains several archives (a.zip and b.zip) and no chapter file; submit one archive",
    ),
    "an archive beside the chapter": ({"a.zip": ARCHIVE, CHAPTER: "x"}, {MODULE: "x"}, "the archive a.zip was not opened, because there are chapter files next to it"),
    "too deep": ({CHAPTER: "x", "d/" * 70 + "ch01_tokenizer.py": "y"}, {MODULE: "x"}, "files more than 60 folders deep were not read"),
    "too large": ({CHAPTER: b"#" * (MAX_FILE_BYTES + 1), "ch01_tokenizer.py": "mine"}, {"ch01_tokenizer": "mine"}, TOO_LARGE),
    "too large in an archive": ({"hw.zip": zipped({CHAPTER: b"#" * (MAX_FILE_BYTES + 1)})}, {}, TOO_LARGE),
    "encodings of Python": (
        {CHAPTER: LATIN.encode("latin-1"), "ch01_tokenizer.py": b"\xef\xbb\xbfx = 1\r\n"}, {"ch01_tokenizer": "x = 1\r\n", MODULE: LATIN}, "",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def class_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("class")
    for person, (files, _, _) in PEOPLE.items():
        for number, (path, content) in enumerate(files.items()):
            write(folder / person / path, content, time=1_780_000_000 + number)
    write(folder / ".hidden" / CHAPTER)
    return folder


@pytest.fixture(scope="module")
def the_class(class_folder):
    found = by_name(class_folder)
    assert found.keys() == PEOPLE.keys()
    return found


@pytest.mark.parametrize("person", PEOPLE)
def test_what_is_graded_of_a_persons_files_and_what_the_notes_say(the_class, person):
    _, sources, says = PEOPLE[person]
    found = the_class[person]
    assert (found.sources, "; ".join(filter(None, [found.problem, *found.notes]))) == (sources, says)


def test_with_neutral_names_the_same_is_graded_and_no_sentence_shows_a_name(the_class, class_folder):
    for [found] in iterate_submissions(class_folder, print, hides_names=True):
        files, _, _ = PEOPLE[found.name]
        named = the_class[found.name]
        assert (found.sources, found.broken, bool(found.problem)) == (named.sources, named.broken, bool(named.problem)), found.name
        assert len(found.notes) == len(named.notes)
        said = " ".join([found.problem, *found.notes])
        for part in {part for path in files for part in path.split("/")} - {CHAPTER, MODULE, "exercises", "solutions", "grader", "tests"}:
            name = parse_code_name(part)
            if not (name and name.module and not name.person):
                assert not re.search(rf"\b{re.escape(part)}\b", said), (found.name, part, said)


@pytest.mark.parametrize(
    "name, neutral",
    {
        "ada_homework.py": "FILE1.py", "ada (2).py": "FILE1-2.py", "ada.py.txt": "FILE1.py", "test_ada.py": "test_FILE1.py", "ada.ipynb": "FILE1.ipynb",
        "ada_ch03_attention (1).py": "NAME1_ch03_attention-1.py", "CH03_attention-4.py": "CH03_attention-4.py", "ch03_attention_ada.ipynb": "NAME1_ch03_attention.ipynb",
        "ada.tar.gz": "ARCHIVE1.tar.gz", "ada.docx": "FILE1.docx", "my.ada": "FILE1.other", "ada": "FILE1", "A" * 300: "FILE1" + "_" * 300,
    }.items(),
)  # fmt: skip
def test_a_neutral_name_says_what_the_grader_must_know(name, neutral):
    names = NeutralNames()
    assert names.name(name, False) == names.name(name, False) == neutral != names.name("other" + name, False)
    old, new = parse_code_name(name), parse_code_name(neutral)
    assert (old is None) == (new is None) and (old is None or (old.module, bool(old.person), old.copy, old.is_notebook) == (new.module, bool(new.person), new.copy, new.is_notebook))
    assert bool(strip_archive_suffix(name)) == bool(strip_archive_suffix(neutral)) and ("." in name) == ("." in neutral)
    assert names.name("ada", True) == "FOLDER1" and names.name("tests", True) == "tests"


def test_one_file_with_several_chapters_is_divided(tmp_path):
    gelu = "def gelu(x):\n    return softmax(x)\n"
    write(tmp_path / "alpha" / "all.py", f"import torch\n{ONE}{gelu}print(gelu(torch.ones(3)))\n")
    found = one(tmp_path)
    assert list(found.sources) == [MODULE, "ch05_layers"]
    assert "gelu" not in found.sources[MODULE] and "print" not in found.sources[MODULE]
    assert f"from .{MODULE} import softmax\n" in found.sources["ch05_layers"]
    assert found.notes[0] == "the file all.py was used as ch03_attention.py, because it defines softmax; only the code that they use was read"


def test_a_file_whose_code_is_all_below_an_if_or_a_try_is_the_chapter_that_it_defines(tmp_path):
    for outer, after in (("if True:", ""), ("try:", "except ImportError:\n    raise\n"), ("if True:", "x = (\n")):
        text = f"{outer}\n" + textwrap.indent("from .ch01_tokenizer import build_vocab\n" + ONE, "    ") + after
        write(tmp_path / "alpha" / "homework.py", text)
        write(tmp_path / "alpha" / "old" / CHAPTER, reference_stub(MODULE))
        assert one(tmp_path).sources == {MODULE: text}, "and it comes before a stub"


def test_text_that_cannot_be_decoded_affects_only_its_file(tmp_path):
    write(tmp_path / "alpha" / CHAPTER, ONE)
    write(tmp_path / "alpha" / "ch02_embeddings.py", b"x = 1\n# \0\xff\xfe\n")
    write(tmp_path / "beta" / CHAPTER, b"\xff\0")
    found = by_name(tmp_path)
    assert found["alpha"].sources == {MODULE: ONE} and found["alpha"].problem == "" and found["beta"].problem.startswith("ch03_attention.py")
    (sentence,) = found["alpha"].notes
    assert sentence == found["alpha"].broken["ch02_embeddings"] and sentence.startswith("ch02_embeddings.py")


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


# Many versions


def test_at_most_fifty_versions_of_a_chapter_are_read_and_a_note_says_so(tmp_path, monkeypatch):
    """Of files with the chapter's name, of others, and of notebooks; the newest ones are read."""
    parsed = []
    monkeypatch.setattr(submission_content, "parse", lambda text, *rest: (parsed.append(text), parse(text, *rest))[1])
    notebook = {"cells": [{"cell_type": "code", "source": ONE}]}
    for person, name, text in (("alpha", CHAPTER, "{}"), ("beta", "homework.py", "{}"), ("chi", "work.ipynb", json.dumps(notebook))):
        for number in range(70):
            content = text.replace("{}", f"{ONE}\n# {number}\n") if text == "{}" else text
            write(tmp_path / "class" / person / str(number) / name, content, time=1_790_000_000 + number)
    found = by_name(tmp_path / "class")
    assert len(parsed) <= 3 * 4 * MAX_VERSIONS
    versions = "there are 70 versions of ch03_attention.py, and 50 of them were read; submit one"
    assert found["alpha"].notes[0] == found["beta"].notes[0] == versions
    assert found["chi"].notes[0] == "there are 70 notebooks whose names say no chapter, and 50 of them were read; submit one"
    assert found["alpha"].sources[MODULE].endswith("# 69\n") and "69/homework.py was graded" in found["beta"].notes[-1]
    files = {f"{number}/{CHAPTER}": f"{ONE}# {number}\n" for number in range(50)}
    write(tmp_path / "few" / "alpha.zip", zipped(files))
    assert not any("were read" in note for note in by_name(tmp_path / "few")["alpha"].notes)


# Links, pipes, sizes


def test_the_number_of_files_is_limited():
    many = (FoundFile((f"{number}.txt",), "file") for number in range(MAX_FILES + 1))
    assert read_content(many).problem == "it contains more than 50000 files; submit only the chapter files"


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
    assert "the file ch03_attention.py is a link, which the grader does not follow" in found["alpha"].notes
    assert found["beta"].problem == "it contains no readable chapter: the file ch03_attention.py is not a regular file, so it was not opened"
    assert found["chi"].problem == "the submission is a link, and the grader does not follow links; submit the files themselves"
    assert found["delta"].problem == "the submission is not a regular file, so the grader did not open it; submit chapter files or an archive"
    assert found["epsilon"].problem and not any("secret" in str(s) for s in found.values())


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
