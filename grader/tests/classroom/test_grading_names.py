"""Names chosen by strangers cost no time and rename no other person."""

import pytest
from grader.classroom.intake.class_layout import GRADESCOPE_METADATA
from grader.classroom.intake.file_names import MAX_NAME_LENGTH, CodeName, Owner, parse_code_name, parse_owner
from submission_archives import CHAPTER, by_name, one, tarred, write, zipped

LONG = "_" * 65_000
TOO_LONG = f"it contains a name longer than {MAX_NAME_LENGTH} characters (___________________________...); submit only the chapter files"


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_an_overlong_name_affects_only_its_owner(tmp_path, pack):
    hostile = {f"deep/{LONG}{number}.py": "x" for number in range(60)}
    write(tmp_path / "class" / "alpha.zip", pack({CHAPTER: "a"} | hostile))
    write(tmp_path / "class" / "beta.zip", zipped({CHAPTER: "b"}))
    found = by_name(tmp_path / "class")
    assert found["alpha"].problem == TOO_LONG and found["beta"].sources == {"ch03_attention": "b"}
    inside = {f"alpha/{name}": text for name, text in ({CHAPTER: "a"} | hostile).items()}
    found = by_name(write(tmp_path / "class.zip", pack(inside | {f"beta/{CHAPTER}": "b", f"{LONG}/{CHAPTER}": "c"})))
    assert found["alpha"].problem == TOO_LONG and found["beta"].sources == {"ch03_attention": "b"}
    assert found[LONG].problem == f"the submitted file or folder has a name longer than {MAX_NAME_LENGTH} characters"


def test_too_deeply_nested_folders_affect_only_their_owner(tmp_path):
    deep = "d/" * 30_000
    found = by_name(write(tmp_path / "class.zip", zipped({f"alpha/{deep}{CHAPTER}": "a", f"beta/{CHAPTER}": "b"})))
    assert found["alpha"].problem.startswith("it contains a name longer than ") and found["beta"].sources == {"ch03_attention": "b"}


def test_names_of_platforms_and_people_are_parsed():
    chapters = {
        "ch03_attention.py": ("", 0), "CH03_Attention.PY": ("", 0), "alpha one_ch03_attention.py": ("alpha one", 0), "ch03_attention - alpha.py": ("alpha", 0),
        "ch03_attention (2).py": ("", 2), "ch03_attention-2.py": ("", 2), "alpha_ch03_attention-12.py": ("alpha", 12), "ch03_attention_alpha (1).py": ("alpha", 1),
    }  # fmt: skip
    assert {name: parse_code_name(name) for name in chapters} == {name: CodeName("ch03_attention", *rest) for name, rest in chapters.items()}
    for name in ("test_ch03_attention.py", "ch03_attention.txt", "a" * 300 + "_ch03_attention.py", "ch03_attention"):
        assert parse_code_name(name) is None, name
    for name in ("ch03_attentions.py", "xch03_attention.py", "_ch03_attention.py"):
        assert parse_code_name(name) == CodeName(), name
    assert parse_owner("A_B_12_assignsubmission_file_x_y.zip", False) == Owner("A_B", "12", "x_y.zip", platform="moodle")
    assert parse_owner("onealpha_LATE_12_345_x_y.py", False) == Owner("onealpha", "12", "x_y.py", platform="canvas")
    assert parse_owner("one_alpha_12_345_x.py", False) == Owner("one_alpha", "12", "x.py", platform="canvas")


RENAMED = """---
submission_1:
  :submitters:
  - :name: Somebody Else
  :created_at: 2026-11-20 09:21:27.370285000 Z
"""


@pytest.mark.parametrize("form", ["folder", "zip", "archive in a folder", "chapters next to it"])
def test_metadata_inside_a_submission_renames_no_person(tmp_path, form):
    """The class has one person."""
    files = {f"alpha/{GRADESCOPE_METADATA[0]}": RENAMED, f"alpha/submission_1/{CHAPTER}": "x"} | ({f"alpha/{CHAPTER}": "mine"} if form == "chapters next to it" else {})
    path = tmp_path / "class"
    if form == "zip":
        path = write(tmp_path / "class.zip", zipped(files))
    elif form == "archive in a folder":
        write(path / "alpha.zip", zipped({name.removeprefix("alpha/"): text for name, text in files.items()}))
    else:
        for name, text in files.items():
            write(path / name, text)
    found = one(path)
    assert found.name == "alpha" and found.submitted is None


def test_a_path_out_of_a_persons_folder_in_a_class_archive_costs_only_its_owner(tmp_path):
    found = by_name(write(tmp_path / "class.zip", zipped({f"alpha/{CHAPTER}": "a", f"beta/../../{CHAPTER}": "b"})))
    assert found["alpha"].sources == {"ch03_attention": "a"} and set(found) == {"alpha", "beta"}
    assert found["beta"].problem == f"a file in the archive has a path outside of it (../../{CHAPTER}); submit only the chapter files"
