"""A text of the user's: what can be read, what is held out, and a sentence for everything else."""

import pytest
from grader.models.training.corpora import (
    MOST_PARAGRAPH_CHARACTERS,
    TextProblem,
    divide,
    read_paragraphs,
    split_paragraphs,
)

LONG = "\n\n".join(f"Paragraph {number} says that {number} birds sat on the roof and sang." for number in range(40))


def test_common_encodings_are_read(tmp_path):
    for encoding in ("utf-8", "utf-8-sig"):
        (tmp_path / "mine.txt").write_bytes((LONG + "\r\n\r\nनमस्ते — ça va?").encode(encoding))
        paragraphs, notes = read_paragraphs(tmp_path / "mine.txt")
        assert len(paragraphs) == 41 and paragraphs[-1] == "नमस्ते — ça va?" and notes == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "has 0 characters of text, which is too short"),
        (b"A short text.", "has 13 characters"),
        (LONG.encode() + b"caf\xe9", "is not UTF-8: see byte"),
        (b"\x7fELF\x00\x01" + LONG.encode(), "is a binary file"),
        (bytes(range(1, 32)) * 200, "is a binary file"),
        (LONG.encode("utf-16"), "is a binary file, not a text in UTF-8"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(tmp_path, content, says):
    (tmp_path / "mine.txt").write_bytes(content)
    with pytest.raises(TextProblem, match=says):
        read_paragraphs(tmp_path / "mine.txt")


def test_a_folder_gives_its_text_files(tmp_path):
    with pytest.raises(TextProblem, match="there is no file or folder"):
        read_paragraphs(tmp_path / "none")
    with pytest.raises(TextProblem, match="because it is empty"):
        read_paragraphs(tmp_path)
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    with pytest.raises(TextProblem, match="has no text file; their names end in .txt"):
        read_paragraphs(tmp_path)
    (tmp_path / "broken.txt").write_bytes(b"\xe9")
    with pytest.raises(TextProblem, match="none of the 1 text files"):
        read_paragraphs(tmp_path)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "one.md").write_text(LONG)
    paragraphs, notes = read_paragraphs(tmp_path)
    assert len(paragraphs) == 40 and len(notes) == 1 and "broken.txt is not UTF-8" in notes[0]


def test_long_paragraphs_are_cut_between_words():
    text = "word " * 2000
    pieces = split_paragraphs(text)
    assert max(map(len, pieces)) <= MOST_PARAGRAPH_CHARACTERS and "".join(pieces).split() == text.split()
    assert split_paragraphs("x" * 3000) == ["x" * MOST_PARAGRAPH_CHARACTERS, "x" * MOST_PARAGRAPH_CHARACTERS, "x" * (3000 - 2 * MOST_PARAGRAPH_CHARACTERS)]


def test_some_paragraphs_are_held_out(parts):
    training, held_out = divide(split_paragraphs(LONG), parts.is_validation)
    assert held_out and not set(training) & set(held_out) and sorted(training + held_out) == sorted(split_paragraphs(LONG))


def test_a_function_that_holds_out_nothing_is_a_sentence():
    with pytest.raises(TextProblem, match="too short to hold out"):
        divide(["one", "two"], lambda text: False)
