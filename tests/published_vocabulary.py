"""A small vocabulary as a published file has it: tokens, merges and special tokens; and what its encoding is, computed in another way."""

from __future__ import annotations

import re
import unicodedata
from itertools import groupby

PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
NAMES = {byte: chr(byte) for byte in PRINTABLE} | {byte: chr(256 + i) for i, byte in enumerate(b for b in range(256) if b not in PRINTABLE)}
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_end|>!", "<file_sep>"]
WITHOUT_TOKEN = (0, 1, 2, 192, 255)

# In the order learned. "h e" comes before "t h"; "hell o" needs "h e"; "1 2" and "Ġ 3" can never apply, because digits stand alone,
# nor can "² Â", "½ Â", "§ â" and "£ Ù", parts of ²³, ½¼, ⅧⅨ and ٣٤; "ä¸Ģ ä¸ª" can, because 一 and 个 are letters;
# "<| e" and "t <" cannot, because a piece ends between them; "st h" cannot, because "t h" comes first, so "s" and "th" stay apart.
MERGES = [
    "h e", "Ġ t", "l l", "i n", "Ġt he", "Ġ w", "o r", "t h", "he ll", "hell o", "Ġw or", "1 2", "e r", "Ã ©", "a b", "b a", "in g",
    "Ġ 3", "t <", "st h", "Ċ Ċ", "u s", "us er", "Ġ Ġ", "s y", "s t", "Ġt h", "ĠĠ ĠĠ", "< |", "<| e", "| >", "e n", "en d", "n Ġ", "à ¤", "ðŁ ĺ", "ð Ł", "² Â", "½ Â", "§ â", "£ Ù", "ä ¸", "ä¸ Ģ", "ä¸ ª", "ä¸Ģ ä¸ª", "o f",
]  # fmt: skip
TOKENS = [*SPECIAL, *(NAMES[byte] for byte in reversed(range(256)) if byte not in WITHOUT_TOKEN), *sorted(merge.replace(" ", "") for merge in MERGES)]
IDS = {token: place for place, token in enumerate(TOKENS)}


def pieces_of(text):
    """What merges stay inside of: a digit, an ending, or a run of one kind with one space in front."""
    kinds = r"'(?:s|t|re|ve|m|ll|d)| ?[^\W\d_]+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+"
    pieces = []
    for is_digit, run in groupby(text, lambda c: unicodedata.category(c) in ("Nd", "Nl", "No")):
        part = "".join(run)
        pieces += part if is_digit else re.findall(kinds, part)
    return pieces


def expected_ids(text):
    """The ids of a text without special tokens: for each merge in turn, apply it wherever it fits, until nothing changes."""
    ids = []
    for piece in pieces_of(text):
        symbols = [NAMES[byte] for byte in piece.encode() if byte not in WITHOUT_TOKEN]
        changed = True
        while changed:
            changed = False
            for merge in MERGES:
                left, right = merge.split(" ")
                done = []
                for symbol in symbols:
                    if done and done[-1] == left and symbol == right:
                        done[-1] = left + right
                        changed = True
                    else:
                        done.append(symbol)
                symbols = done
                if changed:
                    break
        ids += [IDS[symbol] for symbol in symbols]
    return ids


TEXTS = (
    "hello world", "  the   other\n\n  thing", "the then hell", "caf\u00e9 na\u00efve as\u00ed", "users' system isn't ending", "abab baba ab", "",
    "\U0001f600 \U0001f642!", "\u0939\u093f\u0928\u094d\u0926\u0940", "a_b <|end of|>", "the 12th in 3, 45", "hellor, hellor", "th<|endoftext|>the",
    "\u4e00\u4e2a \u4e94 \u00bd\u00bc", "ab\u0663\u0664 \u216710",
)  # fmt: skip
