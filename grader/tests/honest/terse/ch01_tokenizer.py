"""Chapter 1 in the terse style: as short as it can be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf

Pair = tuple[int, int]


def build_vocab(corpus: Iterable[str]) -> list[str]:
    return sorted({w for text in corpus for w in text.lower().split()})


class WordTokenizer:
    def __init__(self, vocab: Sequence[str], unk: str | None = None) -> None:
        if unk is not None and unk not in vocab:
            raise ValueError(f"unk {unk!r} is not in the vocabulary")
        self.words, self.unk, self.vocab_size = list(vocab), unk, len(vocab)
        self.ids = {w: i for i, w in enumerate(vocab)}

    def encode(self, text: str) -> list[int]:
        return [self.ids[w if self.unk is None or w in self.ids else self.unk] for w in text.lower().split()]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(map(self.words.__getitem__, ids))


def count_pairs(ids: Sequence[int]) -> dict[Pair, int]:
    return Counter(zip(ids, ids[1:]))


def merge_pair(ids: Sequence[int], pair: Pair, new_id: int) -> list[int]:
    out, i = [], 0
    while i < len(ids):
        out.append(new_id if (hit := tuple(ids[i : i + 2]) == pair) else ids[i])
        i += 1 + hit
    return out


def train_bpe(text: str, vocab_size: int) -> dict[Pair, int]:
    if vocab_size < 256:
        raise ValueError(f"vocab_size {vocab_size} leaves no room for the 256 bytes")
    ids, merges = list(text.encode()), {}
    for new in range(256, vocab_size):
        best, n = min(count_pairs(ids).items(), key=lambda kv: (-kv[1], kv[0]), default=(None, 0))
        if n < 2:
            break
        merges[best], ids = new, merge_pair(ids, best, new)
    return merges


class BPETokenizer:
    def __init__(self, merges: Mapping[Pair, int]) -> None:
        self.merges, self.vocab_size = dict(merges), 256 + len(merges)
        self.bytes = {i: bytes([i]) for i in range(256)}
        for (a, b), i in sorted(self.merges.items(), key=lambda merge: merge[1]):
            self.bytes[i] = self.bytes[a] + self.bytes[b]

    def encode(self, text: str) -> list[int]:
        ids = list(text.encode())
        while (best := min(zip(ids, ids[1:]), key=lambda p: self.merges.get(p, inf), default=None)) in self.merges:
            ids = merge_pair(ids, best, self.merges[best])
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return b"".join(map(self.bytes.__getitem__, ids)).decode(errors="replace")
