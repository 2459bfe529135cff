"""Texts in a terminal are broken between words, also while they are being written."""

from __future__ import annotations

import pytest
from grader.models.play.prompt import WordWrap
from rich.cells import cell_len

TEXT = "Mia had a red ball. She lost it in the tall grass,\nand then 小さな猫 found it again. Unbelievably, it was dry."


def printed(width: int, pieces: list[str]) -> str:
    wrap = WordWrap(width)
    return "".join(map(wrap.feed, pieces))


def pieces_of(text: str) -> list[str]:
    """As a model writes: each word with the space before it."""
    return ["".join(part) for part in zip(["", *" " * text.count(" ")], text.split(" "))]


@pytest.mark.parametrize("width", [14, 20, 37, 80])
def test_lines_break_between_words_and_no_word_is_lost(width):
    got = printed(width, pieces_of(TEXT))
    assert got.split() == TEXT.split()
    assert max(map(cell_len, got.split("\n"))) <= width
    assert all(line == line.strip() for line in got.split("\n"))


def test_a_text_in_one_piece_breaks_like_the_same_text_word_by_word():
    assert printed(20, [TEXT]) == printed(20, pieces_of(TEXT))


def test_a_word_that_comes_in_pieces_stays_whole_where_it_fits():
    assert printed(20, ["the un", "believ", "able", " story"]) == "the unbelievable\nstory"


def test_a_word_that_is_longer_than_the_line_is_printed_as_it_is():
    assert printed(8, ["a", " extraordinary", " cat"]) == "a\nextraordinary\ncat"
