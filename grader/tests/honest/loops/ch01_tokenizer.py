"""The course in explicit loops: a loop for everything that has an axis, plain lists, appends, and a stack at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

Pair = tuple[int, int]


def build_vocab(corpus: Iterable[str]) -> list[str]:
    seen = []
    known = set()
    for text in corpus:
        for word in text.split():
            word = word.lower()
            if word not in known:
                known.add(word)
                seen.append(word)
    seen.sort()
    return seen


class WordTokenizer:
    def __init__(self, vocab: Sequence[str], unk: str | None = None) -> None:
        self.words = []
        self.place = {}
        for word in vocab:
            self.place[word] = len(self.words)
            self.words.append(word)
        if unk is not None and unk not in self.place:
            raise ValueError(f"the unknown word {unk!r} is not in the vocabulary")
        self.unk = unk
        self.vocab_size = len(self.words)

    def encode(self, text: str) -> list[int]:
        ids = []
        for word in text.lower().split():
            if word in self.place:
                ids.append(self.place[word])
            elif self.unk is not None:
                ids.append(self.place[self.unk])
            else:
                raise KeyError(word)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        text = ""
        for i, number in enumerate(ids):
            if i > 0:
                text += " "
            text += self.words[number]
        return text


def count_pairs(ids: Sequence[int]) -> dict[Pair, int]:
    counts: dict[Pair, int] = {}
    for i in range(len(ids) - 1):
        pair = (ids[i], ids[i + 1])
        if pair not in counts:
            counts[pair] = 0
        counts[pair] += 1
    return counts


def merge_pair(ids: Sequence[int], pair: Pair, new_id: int) -> list[int]:
    left, right = pair
    merged = []
    skip = False
    for i in range(len(ids)):
        if skip:
            skip = False
            continue
        if i < len(ids) - 1 and ids[i] == left and ids[i + 1] == right:
            merged.append(new_id)
            skip = True
        else:
            merged.append(ids[i])
    return merged


def train_bpe(text: str, vocab_size: int) -> dict[Pair, int]:
    if vocab_size < 256:
        raise ValueError(f"vocab_size is {vocab_size}, and the bytes alone need 256")
    ids = []
    for byte in text.encode("utf-8"):
        ids.append(byte)
    merges: dict[Pair, int] = {}
    for new_id in range(256, vocab_size):
        best = None
        most = 1
        for pair, count in count_pairs(ids).items():
            if count > most or (count == most and best is not None and pair < best):
                best = pair
                most = count
        if best is None:
            break
        merges[best] = new_id
        ids = merge_pair(ids, best, new_id)
    return merges


class BPETokenizer:
    def __init__(self, merges: Mapping[Pair, int]) -> None:
        self.merges = []
        self.pieces = {}
        for byte in range(256):
            self.pieces[byte] = bytes([byte])
        for pair, new_id in sorted(merges.items(), key=lambda merge: merge[1]):
            self.merges.append((pair, new_id))
            self.pieces[new_id] = self.pieces[pair[0]] + self.pieces[pair[1]]
        self.vocab_size = 256 + len(self.merges)

    def encode(self, text: str) -> list[int]:
        ids = list(text.encode("utf-8"))
        # A merge only makes its own new id, and no earlier merge has that id in its pair: once through them, in order, is enough.
        for pair, new_id in self.merges:
            ids = merge_pair(ids, pair, new_id)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        together = bytearray()
        for number in ids:
            for byte in self.pieces[number]:
                together.append(byte)
        return together.decode("utf-8", errors="replace")
