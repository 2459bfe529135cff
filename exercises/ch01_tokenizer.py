"""Chapter 1: text becomes numbers.

A model computes with numbers, so text is cut into tokens and each token gets an id. First whole words, then byte-pair
encoding (BPE), the scheme of GPT-2: begin with single bytes, and give the pairs that occur most often an id of their own.

Your turn: write your own code wherever NotImplementedError is raised, from the top down. The TODO steps say what to do,
the lesson ch01_tokenizer.md says why, and `headway check` says how far you are.

Rules for all exercises of this chapter; the tests check them:
- Do not change an argument in place, unless the docstring says so.
- A ValueError names the values that do not fit: raise ValueError(f"d_model = {d_model} is not possible with n_heads = {n_heads}").
  It may be raised when an object is made or at the first call. An assert with such a message is accepted too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

Pair = tuple[int, int]


def build_vocab(corpus: Iterable[str]) -> list[str]:
    """The distinct lower-cased words of all texts in the corpus, sorted.

    White space separates words: spaces, tabs, line ends. `corpus` is any iterable of strings, also a generator, which gives
    each text only once.
    """
    # TODO 1: walk through the texts; lower-case each and split it at white space
    # TODO 2: keep each word once
    # TODO 3: return the words as a sorted list
    raise NotImplementedError


class WordTokenizer:
    """One id a word: its position in `vocab`.

    `vocab_size` is the number of entries. With `unk` an unknown word gets that entry's id; an `unk` that is not in `vocab` is
    a ValueError. Without `unk` an unknown word raises a KeyError that names it, lower-cased.
    """

    def __init__(self, vocab: Sequence[str], unk: str | None = None) -> None:
        # TODO 1: refuse an unk that vocab does not have
        # TODO 2: keep the words, so that an id finds its word
        # TODO 3: keep a dict from word to id, so that a word finds its id
        # TODO 4: set self.vocab_size
        raise NotImplementedError

    def encode(self, text: str) -> list[int]:
        """The ids of the words of `text`, lower-cased and split at white space."""
        # TODO 1: lower-case and split
        # TODO 2: look each word up; an unknown one is unk's id, or a KeyError with the word
        raise NotImplementedError

    def decode(self, ids: Sequence[int]) -> str:
        """The words of `ids`, with one space between them."""
        # TODO: look each id up and join the words
        raise NotImplementedError


def count_pairs(ids: Sequence[int]) -> dict[Pair, int]:
    """How often each pair of neighbours occurs in `ids`; overlapping ones count too.

    The pair is a tuple (left, right). [1, 1, 1] holds (1, 1) twice.
    """
    # TODO 1: walk over every id and the one after it
    # TODO 2: add one to the count of that pair
    raise NotImplementedError


def merge_pair(ids: Sequence[int], pair: Pair, new_id: int) -> list[int]:
    """A new list in which `new_id` replaces every occurrence of `pair`.

    From left to right, and never overlapping: with pair (1, 1) and new id 9, [1, 1, 1] becomes [9, 1].
    """
    # TODO 1: go through ids from the left, with an index
    # TODO 2: where the pair begins, append new_id and step over both of its ids
    # TODO 3: elsewhere append the id itself, the last one too
    raise NotImplementedError


def train_bpe(text: str, vocab_size: int) -> dict[Pair, int]:
    """Learn byte-pair merges from `text`: pair -> new id, in the order learned.

    The ids 0 to 255 are the bytes of UTF-8; the first merge gets 256, the next 257, up to `vocab_size` ids in all. Each
    merge takes the pair that is most frequent now; among equals the smallest pair. Training stops early when
    no pair occurs twice. A `vocab_size` below 256 raises a ValueError that names it.
    """
    # TODO 1: refuse a vocab_size below 256
    # TODO 2: turn the text into its UTF-8 bytes, a list of ids
    # TODO 3: for each new id, count the pairs of what the ids have become
    # TODO 4: stop when there is no pair, or none that occurs twice
    # TODO 5: take the most frequent pair, the smallest among equals; note it and merge it
    raise NotImplementedError


class BPETokenizer:
    """Byte-level BPE with the merges of `train_bpe`: pair -> new id, from 256, in the order learned.

    `vocab_size` is 256 plus the number of merges. decode(encode(text)) equals text for every text.
    """

    def __init__(self, merges: Mapping[Pair, int]) -> None:
        # TODO 1: keep the merges, and set self.vocab_size
        # TODO 2: note the bytes of each id: 0 to 255 are bytes themselves, a merged id has those of its two parts
        raise NotImplementedError

    def encode(self, text: str) -> list[int]:
        """The ids of `text`: its UTF-8 bytes, on which the earliest learned merge present is applied until none is left."""
        # TODO 1: begin with the UTF-8 bytes
        # TODO 2: among the pairs present that have a merge, find the one with the smallest new id
        # TODO 3: merge it; go on until no pair present has a merge
        raise NotImplementedError

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; bytes that are no UTF-8 become U+FFFD, the replacement character."""
        # TODO 1: join the bytes of all ids
        # TODO 2: decode the whole at once, replacing what is no UTF-8
        raise NotImplementedError
