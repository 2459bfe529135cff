# Style: typed and defensive.

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

Pair = tuple[int, int]

ENCODING: Final[str] = "utf-8"
N_BYTES: Final[int] = 256
MIN_PAIR_COUNT: Final[int] = 2


def _words(text: str) -> list[str]:
    return text.lower().split()


def _utf8_ids(text: str) -> list[int]:
    ids: list[int] = list(text.encode(ENCODING))
    assert all(0 <= i < N_BYTES for i in ids)
    return ids


def build_vocab(corpus: Iterable[str]) -> list[str]:
    distinct: set[str] = set()
    for text in corpus:
        distinct.update(_words(text))
    return sorted(distinct)


class WordTokenizer:
    __slots__ = ("_id_of", "_unk_id", "_words")

    _words: tuple[str, ...]
    _id_of: dict[str, int]
    _unk_id: int | None

    def __init__(self, vocab: Sequence[str], unk: str | None = None) -> None:
        words: tuple[str, ...] = tuple(vocab)
        id_of: dict[str, int] = {word: i for i, word in enumerate(words)}
        if len(id_of) != len(words):
            twice = sorted(word for word, count in Counter(words).items() if count > 1)
            raise ValueError(f"each word has one id, but the vocabulary holds these more than once: {twice}")
        if unk is not None and unk not in id_of:
            raise ValueError(f"unk {unk!r} is not in the vocabulary")
        self._words = words
        self._id_of = id_of
        self._unk_id = None if unk is None else id_of[unk]

    @property
    def vocab_size(self) -> int:
        return len(self._words)

    def encode(self, text: str) -> list[int]:
        return [self._look_up(word) for word in _words(text)]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(self._word_of(i) for i in ids)

    def _look_up(self, word: str) -> int:
        found: int | None = self._id_of.get(word, self._unk_id)
        if found is None:
            raise KeyError(word)
        return found

    def _word_of(self, i: int) -> str:
        if not 0 <= i < self.vocab_size:
            raise ValueError(f"id {i} is outside of 0 to {self.vocab_size - 1}")
        return self._words[i]


def count_pairs(ids: Sequence[int]) -> dict[Pair, int]:
    return dict(Counter(pairwise(ids)))


def merge_pair(ids: Sequence[int], pair: Pair, new_id: int) -> list[int]:
    if len(pair) != 2:
        raise ValueError(f"a pair has two ids, this one has {len(pair)}: {pair}")
    left, right = pair
    merged: list[int] = []
    place: int = 0
    last: int = len(ids) - 1
    while place <= last:
        if place < last and ids[place] == left and ids[place + 1] == right:
            merged.append(new_id)
            place += 2
        else:
            merged.append(ids[place])
            place += 1
    assert len(ids) <= 2 * len(merged)
    return merged


def _best_pair(counts: Mapping[Pair, int]) -> Pair | None:
    """The most frequent pair, the smallest among equals; None where no pair occurs often enough."""
    most: int = max(counts.values(), default=0)
    if most < MIN_PAIR_COUNT:
        return None
    return min(pair for pair, count in counts.items() if count == most)


def train_bpe(text: str, vocab_size: int) -> dict[Pair, int]:
    if vocab_size < N_BYTES:
        raise ValueError(f"vocab_size must be {N_BYTES} at least, one id for each byte; got {vocab_size}")
    merges: dict[Pair, int] = {}
    ids: list[int] = _utf8_ids(text)
    for new_id in range(N_BYTES, vocab_size):
        best: Pair | None = _best_pair(count_pairs(ids))
        if best is None:
            break
        merges[best] = new_id
        ids = merge_pair(ids, best, new_id)
    return merges


class BPETokenizer:
    __slots__ = ("_bytes_of", "_merges")

    _merges: dict[Pair, int]
    _bytes_of: list[bytes]

    def __init__(self, merges: Mapping[Pair, int]) -> None:
        in_order: list[tuple[Pair, int]] = sorted(merges.items(), key=lambda merge: merge[1])
        bytes_of: list[bytes] = [bytes([i]) for i in range(N_BYTES)]
        for (left, right), new_id in in_order:
            if new_id != len(bytes_of):
                raise ValueError(f"merged ids must count up from {N_BYTES} without a gap: expected {len(bytes_of)}, got {new_id}")
            if not (0 <= left < new_id and 0 <= right < new_id):
                raise ValueError(f"merge {new_id} is made of {(left, right)}, which must both be known before it")
            bytes_of.append(bytes_of[left] + bytes_of[right])
        self._merges = dict(in_order)
        self._bytes_of = bytes_of

    @property
    def vocab_size(self) -> int:
        return len(self._bytes_of)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = _utf8_ids(text)
        while (first := self._earliest_merge(ids)) is not None:
            ids = merge_pair(ids, first, self._merges[first])
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return b"".join(self._piece(i) for i in ids).decode(ENCODING, errors="replace")

    def _earliest_merge(self, ids: Sequence[int]) -> Pair | None:
        present = (pair for pair in pairwise(ids) if pair in self._merges)
        return min(present, key=self._merges.__getitem__, default=None)

    def _piece(self, i: int) -> bytes:
        if not 0 <= i < self.vocab_size:
            raise ValueError(f"id {i} is outside of 0 to {self.vocab_size - 1}")
        return self._bytes_of[i]
