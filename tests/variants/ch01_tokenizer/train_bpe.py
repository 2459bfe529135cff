# variant: everything written out, with max and negated pairs
from collections import Counter


def train_bpe(text, vocab_size):
    if vocab_size < 256:
        raise ValueError(f"vocab_size {vocab_size} is less than the 256 bytes")
    ids, merges = list(text.encode()), {}
    while 256 + len(merges) < vocab_size:
        counts = Counter(zip(ids, ids[1:]))
        if not counts:
            break
        best = max(counts, key=lambda pair: (counts[pair], -pair[0], -pair[1]))
        if counts[best] == 1:
            break
        new_id = 256 + len(merges)
        merges[best] = new_id
        merged = []
        for i in ids:
            if merged and merged[-1] == best[0] and i == best[1]:
                merged[-1] = new_id
            else:
                merged.append(i)
        ids = merged
    return merges


# variant: the counts sorted, the smallest pair first
def train_bpe(text, vocab_size):
    assert vocab_size >= 256, f"vocab_size {vocab_size} has no room for the bytes"
    ids, merges = list(bytearray(text, "utf-8")), {}
    for step in range(vocab_size - 256):
        ranked = sorted(count_pairs(ids).items(), key=lambda item: (-item[1], item[0]))
        if not ranked or ranked[0][1] < 2:
            return merges
        merges[ranked[0][0]] = 256 + step
        ids = merge_pair(ids, ranked[0][0], 256 + step)
    return merges


# variant: a string of characters, one for each id
def train_bpe(text, vocab_size):
    if vocab_size < 256:
        raise ValueError(f"{vocab_size}: too small")
    written, merges = text.encode("utf-8").decode("latin-1"), {}
    for new_id in range(256, vocab_size):
        counts = {}
        for left, right in zip(written, written[1:]):
            counts[left + right] = counts.get(left + right, 0) + 1
        most = max(counts.values(), default=0)
        if most <= 1:
            break
        best = min(pair for pair, n in counts.items() if n == most)
        merges[ord(best[0]), ord(best[1])] = new_id
        written = written.replace(best, chr(new_id))
    return merges


# variant: counts carried on from merge to merge, lowered and raised around each place
from collections import Counter


def train_bpe(text, vocab_size):
    if vocab_size < 256:
        raise ValueError(f"vocab_size {vocab_size} is below 256")
    ids = list(text.encode("utf-8"))
    counts, merges = Counter(zip(ids, ids[1:])), {}
    for new_id in range(256, vocab_size):
        best = min((pair for pair, n in counts.items() if n > 1), key=lambda pair: (-counts[pair], pair), default=None)
        if best is None:
            break
        merges[best] = new_id
        i = 0
        while i < len(ids) - 1:
            if (ids[i], ids[i + 1]) == best:
                around = ids[max(i - 1, 0) : i + 3]
                counts.subtract(zip(around, around[1:]))
                ids[i : i + 2] = [new_id]
                around = ids[max(i - 1, 0) : i + 2]
                counts.update(zip(around, around[1:]))
            i += 1
    return merges


# variant: a subclass of ValueError as exception, which groups the digits
class VocabularyTooSmall(ValueError):
    def __init__(self, size):
        super().__init__(f"a vocabulary of {size:,} ids is smaller than the 256 bytes")


def train_bpe(text, vocab_size):
    if vocab_size < 256:
        raise VocabularyTooSmall(vocab_size)
    ids, merges = [*text.encode()], {}
    while len(merges) < vocab_size - 256:
        counts = {}
        for pair in zip(ids[:-1], ids[1:]):
            counts[pair] = counts.get(pair, 0) + 1
        top = max(counts.values(), default=0)
        if top < 2:
            break
        pair = min(pair for pair, count in counts.items() if count == top)
        merges[pair] = 256 + len(merges)
        ids = merge_pair(ids, pair, merges[pair])
    return merges
