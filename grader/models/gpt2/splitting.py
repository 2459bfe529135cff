"""How GPT-2 cuts a text into pieces before byte-pair encoding: no token contains parts of two pieces."""

from __future__ import annotations

import unicodedata

CONTRACTIONS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")  # only in lower case, and only with the ASCII apostrophe
WHITE_SPACE_CONTROLS = "\t\n\v\f\r\x85"


def split_for_bpe(text: str) -> list[str]:
    """The pieces of `text` in order; together they are the text again.

    A piece is the end of a contraction, or a run of letters, a run of digits, a run of other characters that are not white space, each
    with at most one space before it, or a run of white space. A run of white space leaves its last character to the next piece,
    except at the end of the text. The published pattern says the same:

        's|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+
    """
    pieces, start = [], 0
    while start < len(text):
        end = _end_of_piece(text, start)
        pieces.append(text[start:end])
        start = end
    return pieces


def _end_of_piece(text: str, start: int) -> int:
    for contraction in CONTRACTIONS:
        if text.startswith(contraction, start):
            return start + len(contraction)
    after_space = start + 1 if text[start] == " " and start + 1 < len(text) else start
    if _kind(text[after_space]) != "white space":
        return _end_of_run(text, after_space)
    end = _end_of_run(text, start)
    return end if end == len(text) or end == start + 1 else end - 1


def _end_of_run(text: str, start: int) -> int:
    """Where the characters of one kind end that begin at `start`."""
    end = start + 1
    while end < len(text) and _kind(text[end]) == _kind(text[start]):
        end += 1
    return end


def _kind(character: str) -> str:
    category = unicodedata.category(character)
    if category[0] == "L":
        return "letter"
    if category[0] == "N":
        return "number"
    return "white space" if category[0] == "Z" or character in WHITE_SPACE_CONTROLS else "other"
