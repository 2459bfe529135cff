"""Chapter 1: text becomes numbers.

A model computes with numbers, so a tokenizer splits text into tokens, and each token has an id. You write two tokenizers:
one for whole words, and one with byte-pair encoding (BPE), as in GPT-2. BPE starts from single bytes and gives the most
frequent pairs their own ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

Pair = tuple[int, int]
END_OF_TEXT = "<|endoftext|>"
ENDINGS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")


def build_vocab(corpus: Iterable[str]) -> list[str]:
    """Return the distinct words of all texts in the corpus, lower-cased and sorted.

    Words are separated by white space: spaces, tabs, line ends. `corpus` is any iterable of strings. It may be a generator,
    so iterate over it only once.
    """
    # TODO 1: iterate over the texts; convert each to lower case and split it at white space
    # TODO 2: keep each word once
    # TODO 3: return the words as a sorted list
    ### BEGIN SOLUTION
    words = set()
    for text in corpus:
        words.update(text.lower().split())
    return sorted(words)
    ### END SOLUTION


class WordTokenizer:
    """A tokenizer with one id per word: the word's position in `vocab`.

    `vocab_size` is the number of entries of `vocab`. With `unk`, an unknown word gets the id of `unk`; an `unk` that is not
    in `vocab` raises a ValueError. Without `unk`, an unknown word raises a KeyError that names the word, lower-cased.
    """

    def __init__(self, vocab: Sequence[str], unk: str | None = None) -> None:
        # TODO 1: raise a ValueError if unk is given but is not in vocab
        # TODO 2: store the words, to look up the word of an id
        # TODO 3: store a dict from word to id, to look up the id of a word
        # TODO 4: set self.vocab_size
        ### BEGIN SOLUTION
        if unk is not None and unk not in vocab:
            raise ValueError(f"unk {unk!r} is not among the {len(vocab)} words of vocab")
        self.words = list(vocab)
        self.word_to_id = {word: i for i, word in enumerate(self.words)}
        self.unk = unk
        self.vocab_size = len(self.words)
        ### END SOLUTION

    def encode(self, text: str) -> list[int]:
        """Return the ids of the words of `text`, lower-cased and split at white space."""
        # TODO 1: convert the text to lower case and split it
        # TODO 2: look up each word; an unknown word gets unk's id, or raises a KeyError with the word
        ### BEGIN SOLUTION
        ids = []
        for word in text.lower().split():
            if word not in self.word_to_id and self.unk is not None:
                word = self.unk
            ids.append(self.word_to_id[word])
        return ids
        ### END SOLUTION

    def decode(self, ids: Sequence[int]) -> str:
        """Return the words of `ids` as one string, with one space between them."""
        # TODO: look up the word of each id, and join the words
        ### BEGIN SOLUTION
        return " ".join(self.words[i] for i in ids)
        ### END SOLUTION


def count_pairs(ids: Sequence[int]) -> dict[Pair, int]:
    """Count how often each pair of neighbours occurs in `ids`; overlapping pairs count too.

    A pair is a tuple (left, right). In [1, 1, 1] the pair (1, 1) occurs twice.
    """
    # TODO 1: iterate over each id together with the next one
    # TODO 2: add one to the count of that pair
    ### BEGIN SOLUTION
    counts: dict[Pair, int] = {}
    for pair in zip(ids, ids[1:]):
        counts[pair] = counts.get(pair, 0) + 1
    return counts
    ### END SOLUTION


def merge_pair(ids: Sequence[int], pair: Pair, new_id: int) -> list[int]:
    """Return a new list in which `new_id` replaces every occurrence of `pair`.

    Merges go from left to right and never overlap: with pair (1, 1) and new id 9, [1, 1, 1] becomes [9, 1].
    """
    # TODO 1: go through ids from left to right, with an index
    # TODO 2: where the pair begins, append new_id and move past both of its ids
    # TODO 3: elsewhere append the id itself, including the last one
    ### BEGIN SOLUTION
    merged = []
    i = 0
    while i < len(ids):
        if i + 1 < len(ids) and (ids[i], ids[i + 1]) == tuple(pair):
            merged.append(new_id)
            i += 2
        else:
            merged.append(ids[i])
            i += 1
    return merged
    ### END SOLUTION


def train_bpe(text: str, vocab_size: int) -> dict[Pair, int]:
    """Learn byte-pair merges from `text`: a dict from pair to new id, in the order learned.

    The ids 0 to 255 are the bytes of UTF-8; the first merge gets id 256, the next 257, up to `vocab_size` ids in total. Each
    step merges the pair that is now the most frequent; in a tie, the smallest pair. Training stops early if no pair occurs
    at least twice. A `vocab_size` below 256 raises a ValueError that names it.
    """
    # TODO 1: raise a ValueError if vocab_size is below 256
    # TODO 2: convert the text to its UTF-8 bytes, a list of ids
    # TODO 3: for each new id, count the pairs of the current ids
    # TODO 4: stop if there is no pair, or none that occurs at least twice
    # TODO 5: choose the most frequent pair, in a tie the smallest; record it and merge it
    ### BEGIN SOLUTION
    if vocab_size < 256:
        raise ValueError(f"vocab_size {vocab_size} is below 256, the number of bytes")
    ids = list(text.encode("utf-8"))
    merges: dict[Pair, int] = {}
    for new_id in range(256, vocab_size):
        counts = count_pairs(ids)
        if max(counts.values(), default=0) < 2:
            break
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        merges[best] = new_id
        ids = merge_pair(ids, best, new_id)
    return merges
    ### END SOLUTION


class BPETokenizer:
    """A byte-level BPE tokenizer with the merges of `train_bpe`: pair -> new id, from 256 on.

    The new ids say in which order the merges were learned, whatever the order of the dict. `vocab_size` is 256 plus the number
    of merges. decode(encode(text)) equals text for every text.
    """

    def __init__(self, merges: Mapping[Pair, int]) -> None:
        # TODO 1: store the merges, and set self.vocab_size
        # TODO 2: store the bytes of each id: 0 to 255 are single bytes; from the smallest new id on, a merged id has the bytes of its two parts
        ### BEGIN SOLUTION
        self.merges = dict(merges)
        self.vocab_size = 256 + len(self.merges)
        self.id_to_bytes = {i: bytes([i]) for i in range(256)}
        for (left, right), new_id in sorted(self.merges.items(), key=lambda merge: merge[1]):
            self.id_to_bytes[new_id] = self.id_to_bytes[left] + self.id_to_bytes[right]
        ### END SOLUTION

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`: start from its UTF-8 bytes, and apply the earliest learned merge until none applies."""
        # TODO 1: start from the UTF-8 bytes
        # TODO 2: among the neighbouring pairs that have a merge, find the one with the smallest new id
        # TODO 3: merge it; repeat until no pair has a merge
        ### BEGIN SOLUTION
        ids = list(text.encode("utf-8"))
        while True:
            known = [pair for pair in count_pairs(ids) if pair in self.merges]
            if not known:
                return ids
            first = min(known, key=lambda pair: self.merges[pair])
            ids = merge_pair(ids, first, self.merges[first])
        ### END SOLUTION

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of `ids`; bytes that are not valid UTF-8 become U+FFFD, the replacement character."""
        # TODO 1: join the bytes of all ids
        # TODO 2: decode all bytes at once, and replace those that are not valid UTF-8
        ### BEGIN SOLUTION
        return b"".join(self.id_to_bytes[i] for i in ids).decode("utf-8", errors="replace")
        ### END SOLUTION


def split_for_bpe(text: str) -> list[str]:
    """Split the text into the pieces inside which BPE may merge, as GPT-2 does. The pieces, joined, are the text again.

    Each END_OF_TEXT is a piece of its own, and the parts between them are split separately. From left to right, the next piece
    of a part is the first of these that fits:

    - one of ENDINGS, in lower case;
    - a run of letters, a run of digits, or a run of other characters that are not white space; if one space is in front of the
      run, it belongs to the piece;
    - a run of white space. If the part goes on behind it, it leaves its last character to the next piece. A run of a single
      character is a piece.

    Letters, digits and white space are what str.isalpha, str.isnumeric and str.isspace say, in every language. What is both a
    letter and numeric, such as the Chinese five, is a letter. (For GPT-2 the control characters U+001C to U+001F are others;
    here they may be either.)
    """
    # TODO 1: cut the text at each END_OF_TEXT, which is a piece; split each part in between with the next steps
    # TODO 2: if the rest of the part begins with one of ENDINGS, that is the next piece
    # TODO 3: otherwise skip one space; if no white space follows, the piece ends with that run of letters, digits or others
    # TODO 4: otherwise the piece is the run of white space, without its last character if the part goes on and the run is longer
    # TODO 5: continue where the piece ends, until the part is empty
    ### BEGIN SOLUTION
    def kind(c: str) -> str:
        if c.isalpha():
            return "letter"
        if c.isnumeric():
            return "digit"
        return "space" if c.isspace() and c not in "\x1c\x1d\x1e\x1f" else "other"  # GPT-2 has these four as others

    def end_of_run(part: str, start: int) -> int:
        end = start + 1
        while end < len(part) and kind(part[end]) == kind(part[start]):
            end += 1
        return end

    def end_of_piece(part: str, start: int) -> int:
        for ending in ENDINGS:
            if part.startswith(ending, start):
                return start + len(ending)
        first = start + 1 if part[start] == " " and start + 1 < len(part) else start
        if kind(part[first]) != "space":
            return end_of_run(part, first)
        end = end_of_run(part, start)
        return end if end == len(part) or end == start + 1 else end - 1

    pieces = []
    for part in re.split(f"({re.escape(END_OF_TEXT)})", text):
        start = 0
        while start < len(part):
            end = len(part) if part == END_OF_TEXT else end_of_piece(part, start)
            pieces.append(part[start:end])
            start = end
    return pieces
    ### END SOLUTION
