# variant: each merge over the whole text, in the order learned
class BPETokenizer:
    def __init__(self, merges):
        self.merges = sorted(merges.items(), key=lambda merge: merge[1])
        self.pieces = [bytes([i]) for i in range(256)]
        for (left, right), _ in self.merges:
            self.pieces.append(self.pieces[left] + self.pieces[right])

    @property
    def vocab_size(self):
        return len(self.pieces)

    def encode(self, text):
        ids = list(text.encode())
        for pair, new_id in self.merges:
            ids = merge_pair(ids, pair, new_id)
        return ids

    def decode(self, ids):
        return b"".join(map(self.pieces.__getitem__, ids)).decode(errors="replace")


# variant: one place at a time, the leftmost of the earliest merge
class BPETokenizer:
    def __init__(self, merges):
        self.rank = dict(merges)
        self.parts = {new_id: pair for pair, new_id in merges.items()}
        self.vocab_size = 256 + len(merges)

    def encode(self, text):
        ids = list(bytearray(text, "utf-8"))
        while len(ids) > 1:
            new_id, i = min((self.rank.get(pair, self.vocab_size), i) for i, pair in enumerate(zip(ids, ids[1:])))
            if new_id == self.vocab_size:
                break
            ids[i : i + 2] = [new_id]
        return ids

    def decode(self, ids):
        return bytes(self.spell(ids)).decode("utf-8", "replace")

    def spell(self, ids):
        for i in ids:
            if i in self.parts:
                yield from self.spell(self.parts[i])
            else:
                yield i


# variant: replaced in a string of one character an id; decoding undoes the merges from the last
class BPETokenizer:
    def __init__(self, merges):
        ordered = sorted((new_id, pair) for pair, new_id in merges.items())
        self.steps = [(chr(left) + chr(right), chr(new_id)) for new_id, (left, right) in ordered]
        self.vocab_size = 256 + len(self.steps)

    def encode(self, text):
        written = text.encode("utf-8").decode("latin-1")
        for pair, new in self.steps:
            written = written.replace(pair, new)
        return tuple(map(ord, written))

    def decode(self, ids):
        written = "".join(map(chr, ids))
        for pair, new in reversed(self.steps):
            written = written.replace(new, pair)
        return written.encode("latin-1").decode("utf-8", errors="replace")


# variant: infinity for pairs without a merge, the whole list rebuilt each time
class BPETokenizer:
    def __init__(self, merges):
        self.merges = {tuple(pair): int(new_id) for pair, new_id in merges.items()}
        self.vocab = {i: i.to_bytes(1, "big") for i in range(256)}
        for pair, new_id in sorted(self.merges.items(), key=lambda item: item[1]):
            self.vocab[new_id] = b"".join(self.vocab[part] for part in pair)
        self.vocab_size = len(self.vocab)

    def encode(self, text):
        ids = [int(byte) for byte in text.encode("utf-8")]
        while len(ids) >= 2:
            pair = min(zip(ids, ids[1:]), key=lambda p: self.merges.get(p, float("inf")))
            if pair not in self.merges:
                break
            out, i = [], 0
            while i < len(ids):
                if i < len(ids) - 1 and ids[i] == pair[0] and ids[i + 1] == pair[1]:
                    out.append(self.merges[pair])
                    i += 2
                else:
                    out.append(ids[i])
                    i += 1
            ids = out
        return ids

    def decode(self, ids):
        collected = bytearray()
        for i in ids:
            collected += self.vocab[i]
        return str(collected, "utf-8", "replace")
