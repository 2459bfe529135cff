"""Written in the functional style: small pure functions, folds and scans, nothing changed in place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial, reduce
from itertools import accumulate, chain, islice, pairwise, takewhile

Pair = tuple[int, int]


def words_of(text: str) -> list[str]:
    return text.lower().split()


def build_vocab(corpus: Iterable[str]) -> list[str]:
    return sorted(set(chain.from_iterable(map(words_of, corpus))))


def look_up(index: Mapping[str, int], unknown: int | None, word: str) -> int:
    return index[word] if unknown is None else index.get(word, unknown)


class WordTokenizer:
    def __init__(self, vocab: Sequence[str], unk: str | None = None) -> None:
        if unk is not None and unk not in vocab:
            raise ValueError(f"unk {unk!r} is not in the vocabulary")
        self.words = tuple(vocab)
        index = {word: i for i, word in enumerate(self.words)}
        self.id_of = partial(look_up, index, None if unk is None else index[unk])
        self.vocab_size = len(self.words)

    def encode(self, text: str) -> list[int]:
        return list(map(self.id_of, words_of(text)))

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(map(self.words.__getitem__, ids))


def count_pairs(ids: Sequence[int]) -> dict[Pair, int]:
    return dict(Counter(pairwise(ids)))


def merge_pair(ids: Sequence[int], pair: Pair, new_id: int) -> list[int]:
    """A merge begins at each occurrence of the pair, unless one has begun one place before: a scan over the pairs."""
    begins = list(accumulate((here == pair for here in pairwise(ids)), lambda before, here: here and not before))
    return [new_id if begin else i for i, begin, used in zip(ids, [*begins, False], [False, *begins]) if not used]


def best_pair(ids: Sequence[int]) -> Pair | None:
    """The most frequent pair, the smallest among equals; None when no pair occurs twice."""
    repeated = ((-count, pair) for pair, count in count_pairs(ids).items() if count > 1)
    return min(repeated, default=(0, None))[1]


def learn_merge(state: tuple[list[int], Pair | None], new_id: int) -> tuple[list[int], Pair] | None:
    ids, _ = state
    pair = best_pair(ids)
    return None if pair is None else (merge_pair(ids, pair, new_id), pair)


def train_bpe(text: str, vocab_size: int) -> dict[Pair, int]:
    if vocab_size < 256:
        raise ValueError(f"vocab_size is {vocab_size}, but the bytes alone are 256")
    start = (list(text.encode("utf-8")), None)
    states = takewhile(lambda state: state is not None, accumulate(range(256, vocab_size), learn_merge, initial=start))
    return {pair: new_id for new_id, (_, pair) in enumerate(islice(states, 1, None), start=256)}


def spell(merges: Iterable[tuple[Pair, int]]) -> dict[int, bytes]:
    """The bytes of each id."""
    single = {byte: bytes([byte]) for byte in range(256)}
    return reduce(lambda known, merge: known | {merge[1]: known[merge[0][0]] + known[merge[0][1]]}, merges, single)


class BPETokenizer:
    def __init__(self, merges: Mapping[Pair, int]) -> None:
        self.merges = dict(merges)
        self.in_order = tuple(sorted(self.merges.items(), key=lambda merge: merge[1]))
        self.pieces = spell(self.in_order)
        self.vocab_size = 256 + len(self.merges)

    def encode(self, text: str) -> list[int]:
        """Replaying all merges, the earliest first: one that is not present changes nothing."""
        return reduce(lambda ids, merge: merge_pair(ids, *merge), self.in_order, list(text.encode("utf-8")))

    def decode(self, ids: Sequence[int]) -> str:
        return b"".join(map(self.pieces.__getitem__, ids)).decode("utf-8", errors="replace")
