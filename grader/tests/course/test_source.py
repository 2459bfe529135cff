"""Reading a chapter's text, and finding definitions in it."""

import os
import sys

import pytest
from grader.course.source import (
    MAX_FILE_BYTES,
    MAX_TREE_LEVELS,
    SourceProblem,
    TooComplex,
    append_definition,
    decode_source,
    definition,
    find_definition,
    parse,
    read_source,
    replace_definition,
    write_source,
)
from grader.course.source_check import forbidden_calls, reference_imports
from grader.files import write_whole

CHAPTER = '''"""A chapter."""

import os

# a constant
X = 1

# about f:
# two lines
@decorated(
    3
)
def f(x):
    """A form feed: \x0c, and a string with a hash:
# not a comment
"""
    return x
# about G
class G:
    pass


def f2(y):
    return y
    # the last words of f2
def last(): return 0
'''


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_a_definition_brings_its_decorators_and_the_comments_above(ending):
    text = CHAPTER.replace("\n", ending)
    segment = definition(text, "f")
    assert (segment.start, segment.end, segment.line) == (8, 17, 13)
    assert segment.text.startswith("# about f:") and segment.text.endswith("    return x" + ending)
    assert definition(text, "G").text == f"# about G{ending}class G:{ending}    pass{ending}"
    assert definition(text, "X").text == f"# a constant{ending}X = 1{ending}"


def test_an_indented_comment_belongs_to_what_is_above_it():
    assert definition(CHAPTER, "last").text == "def last(): return 0\n"


def test_the_last_of_two_definitions_counts_as_it_does_when_python_runs():
    text = "def f():\n    return 1\n\n\ndef f():\n    return 2\n"
    assert definition(text, "f").start == 5


def test_only_the_top_level_is_searched():
    assert find_definition("class A:\n    def f(self): pass\n", "f") is None
    with pytest.raises(SourceProblem, match="ch.py does not define f"):
        definition("x = 1\n", "f", "ch.py")


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_replacing_changes_only_that_definition_and_keeps_the_line_ends(ending):
    text = CHAPTER.replace("\n", ending)
    new = replace_definition(text, "f", "def f(x):\n    return x + 1\n\n\n")
    before, after = text.split("# about f:")[0], text[text.index("# about G") :]
    assert new == before + f"def f(x):{ending}    return x + 1{ending}" + after


def test_appending_replaces_an_earlier_definition():
    new = append_definition(CHAPTER.rstrip(), "def f(x):\n    return 7\n")
    assert new.startswith(CHAPTER.rstrip()) and definition(new, "f").text.endswith("return 7\n")
    assert append_definition("", "x = 1") == "x = 1\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\ndef f(:\n", "ch.py, line 2: this is not valid Python"),
        ("x = (1,\n", "never closed"),
        ("if 1:\nx = 1\n", "ch.py, line 2: the indentation is wrong"),
        ("if 1:\n\tx = 1\n        y = 1\n", "tabs and spaces"),
        ("x = 1\ny = '\0'\n", "ch.py, line 2: the file contains a null byte"),
        ("(" * 5000, "ch.py"),
    ],
)
def test_text_that_is_not_python_is_named_with_its_line(text, words):
    with pytest.raises(SourceProblem) as caught:
        parse(text, "ch.py")
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_encodings_as_python_reads_them():
    assert decode_source("# coding: latin-1\nx = 'é'\n".encode("latin-1")) == "# coding: latin-1\nx = 'é'\n"
    assert decode_source(b"\xef\xbb\xbfx = 1\r\n") == "x = 1\r\n"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"x = '\xe9'\n", "is not UTF-8"),
        (b"\n\n\nx = 1\n# \xff\n", "line 5: byte 0xff is not valid UTF-8"),
        (b"# coding: martian\n", "unknown encoding: martian"),
        (b"\xef\xbb\xbf# coding: latin-1\n", "save the file as UTF-8"),
    ],
)
def test_bytes_that_are_not_text_are_one_sentence(data, words):
    with pytest.raises(SourceProblem, match=words):
        decode_source(data, "ch.py")


def test_missing_files_and_folders_are_one_sentence(tmp_path):
    with pytest.raises(SourceProblem, match="there is no file ch.py"):
        read_source(tmp_path / "ch.py")
    (tmp_path / "ch.py").mkdir()
    with pytest.raises(SourceProblem, match="ch.py cannot be read"):
        read_source(tmp_path / "ch.py")


@pytest.mark.parametrize("data", [b"\xef\xbb\xbfx = 'a'\r\n", "# coding: latin-1\nx = 'é'\n".encode("latin-1")])
def test_writing_keeps_byte_order_mark_and_encoding(tmp_path, data):
    path = tmp_path / "ch.py"
    path.write_bytes(data)
    write_source(path, read_source(path))
    assert path.read_bytes() == data


def test_writing_what_the_encoding_lacks_is_refused_and_changes_nothing(tmp_path):
    path = tmp_path / "ch.py"
    path.write_bytes(b"# coding: latin-1\n")
    with pytest.raises(SourceProblem, match="latin-1|iso-8859-1"):
        write_source(path, "# coding: latin-1\nx = '→'\n")
    assert path.read_bytes() == b"# coding: latin-1\n"


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "file.txt"
    path.write_text("old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, "new")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["file.txt"]


@pytest.mark.skipif(sys.platform == "win32", reason="modes and links are POSIX's")
def test_writing_keeps_mode_and_follows_links(tmp_path):
    path, link = tmp_path / "file.txt", tmp_path / "link.txt"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_whole(link, "new")
    assert link.is_symlink() and path.read_text() == "new" and path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("codec", ["rot13", "zlib", "punycode", "undefined", "unicode_escape", "utf-7", "utf-16"])
def test_an_encoding_that_is_not_for_text_is_one_sentence(tmp_path, codec):
    path = tmp_path / "ch03.py"
    path.write_bytes(b"# coding: " + codec.encode() + b"\nx = 1\n")
    for read in (read_source, lambda path: write_source(path, "x = 2\n")):
        with pytest.raises(SourceProblem, match=f"^ch03.py.* {codec}.*; save the file as UTF-8"):
            read(path)


def test_common_encodings_of_text_are_read():
    for codec in ("utf-8", "cp1252", "ascii", "koi8-r", "gb18030", "shift_jis", "euc-kr", "big5"):
        assert decode_source(f"# coding: {codec}\nx = 1\n".encode(codec)) == f"# coding: {codec}\nx = 1\n"


def test_a_long_chapter_is_one_sentence():
    assert len(decode_source(b"#" * MAX_FILE_BYTES)) == MAX_FILE_BYTES
    with pytest.raises(SourceProblem, match="^ch03.py is larger than 200 KB, "):
        decode_source(b"#" * (MAX_FILE_BYTES + 1), "ch03.py")


DEEP = {
    "attributes": "x = a" + ".a" * 600,
    "a sum": "x = " + "a + " * 5000 + "a",
    "lambdas": "x = " + "lambda: " * 25_000 + "0",
    "elif": "if a:\n    pass\n" + "elif a:\n    pass\n" * 5000,
    "decorators": "@(" + "a(" * 180 + ")" * 180 + ")\ndef f():\n    pass",
}
LONG = {
    "a tuple": "x = (" + "1," * 90_000 + ")",
    "statements": "a;" * 60_000,
}


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in (DEEP | LONG).items()])
def test_a_tree_that_is_too_deep_or_too_large_is_one_sentence(text):
    with pytest.raises(TooComplex, match="^ch03.py.*(too deeply nested|nested too deeply|too long)"):
        parse(text, "ch03.py")


def test_a_tree_within_the_limits_is_read_at_any_stack_depth():
    """Also if much of the stack is in use."""
    text = "def f(x):\n    return x" + ".a" * (MAX_TREE_LEVELS - 10) + "\n"

    def below(frames: int) -> None:
        if frames:
            below(frames - 1)
            return
        parse(text)
        assert forbidden_calls(text + "import torch\ndef g(x):\n    return torch.softmax if " + "-" * 130 + "x else 0\n", "g", ["softmax"])
        assert reference_imports(text) == ()

    below(250)
