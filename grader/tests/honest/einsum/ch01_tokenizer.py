"""Style: einsum. No tensors yet, so the same taste in plain Python: say what is wanted, and loop only where one step needs the last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

Pair = tuple[int, int]


def build_vocab(corpus: Iterable[str]) -> list[str]:
    return sorted({word for text in corpus for word in text.lower().split()})


class WordTokenizer:
    def __init__(self, vocab: Sequence[str], unk: str | None = None) -> None:
        self.words = tuple(vocab)
        self.ids = {word: i for i, word in enumerate(self.words)}
        self.vocab_size = len(self.words)
        if unk is not None and unk not in self.ids:
            raise ValueError(f"unk={unk!r} is not in the vocabulary")
        self.unk_id = None if unk is None else self.ids[unk]

    def encode(self, text: str) -> list[int]:
        words = text.lower().split()
        if self.unk_id is None:
            return [self.ids[word] for word in words]
        return [self.ids.get(word, self.unk_id) for word in words]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(self.words[i] for i in ids)


def count_pairs(ids: Sequence[int]) -> dict[Pair, int]:
    return dict(Counter(pairwise(ids)))


def merge_pair(ids: Sequence[int], pair: Pair, new_id: int) -> list[int]:
    left, right = pair
    merged: list[int] = []
    waiting = None  # a `left` that may yet find its `right`
    for i in ids:
        if waiting is not None and i == right:
            merged.append(new_id)
            waiting = None
            continue
        if waiting is not None:
            merged.append(waiting)
        waiting = i if i == left else None
        if waiting is None:
            merged.append(i)
    return merged if waiting is None else [*merged, waiting]


def train_bpe(text: str, vocab_size: int) -> dict[Pair, int]:
    if vocab_size < 256:
        raise ValueError(f"vocab_size must be at least 256, one id for each byte, not {vocab_size}")
    ids = list(text.encode("utf-8"))
    merges: dict[Pair, int] = {}
    for new_id in range(256, vocab_size):
        counts = count_pairs(ids)
        most = max(counts.values(), default=0)
        if most < 2:
            break
        best = min(pair for pair, count in counts.items() if count == most)
        merges[best] = new_id
        ids = merge_pair(ids, best, new_id)
    return merges


class BPETokenizer:
    def __init__(self, merges: Mapping[Pair, int]) -> None:
        self.merges = dict(merges)
        self.vocab_size = 256 + len(self.merges)
        self.bytes_of = {i: bytes([i]) for i in range(256)}
        for (left, right), new_id in sorted(self.merges.items(), key=lambda merge: merge[1]):
            self.bytes_of[new_id] = self.bytes_of[left] + self.bytes_of[right]

    def encode(self, text: str) -> list[int]:
        ids = list(text.encode("utf-8"))
        while known := self.merges.keys() & set(pairwise(ids)):
            first = min(known, key=self.merges.__getitem__)
            ids = merge_pair(ids, first, self.merges[first])
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return b"".join(self.bytes_of[i] for i in ids).decode("utf-8", errors="replace")
