# variant: characters one by one, merges found by rank in a loop
import re
import unicodedata


class PublishedTokenizer:
    def __init__(self, tokens, merges, special=()):
        self.vocab = dict(zip(tokens, range(len(tokens))))
        self.inverse = list(tokens)
        self.order = {}
        for rank, merge in enumerate(merges):
            left, right = merge.split()
            self.order[left, right] = rank
        self.marks = sorted(special, key=lambda mark: -len(mark))
        self.alphabet = byte_names()
        self.back = {c: b for b, c in self.alphabet.items()}

    def encode(self, text, allow_special=False):
        if not allow_special:
            return self._plain(text)
        ids, start, i = [], 0, 0
        while i < len(text):
            mark = next((mark for mark in self.marks if text.startswith(mark, i)), None)
            if mark is None:
                i += 1
                continue
            ids += self._plain(text[start:i]) + [self.vocab[mark]]
            i += len(mark)
            start = i
        return ids + self._plain(text[start:])

    def _plain(self, text):
        parts, run = [], ""
        for c in text:
            if unicodedata.category(c) in ("Nd", "Nl", "No"):
                parts += [run, c]
                run = ""
            else:
                run += c
        parts.append(run)
        pieces = []
        for part in parts:
            for half in part.replace("<|endoftext", "<|\0endoftext").split("\0") if "\0" not in part else re.split(r"(?<=<\|)(?=endoftext)", part):
                pieces += split_for_bpe(half)
        return [i for piece in pieces for i in self._piece(piece)]

    def _piece(self, piece):
        word = [self.alphabet[b] for b in piece.encode("utf8")]
        word = [c for c in word if c in self.vocab]
        while len(word) > 1:
            ranked = [(self.order.get(pair, float("inf")), place) for place, pair in enumerate(zip(word[:-1], word[1:]))]
            rank, place = min(ranked)
            if rank == float("inf"):
                break
            word[place : place + 2] = [word[place] + word[place + 1]]
        return [self.vocab[c] for c in word]

    def decode(self, ids):
        return bytearray(self.back[c] for i in ids for c in self.inverse[i]).decode("utf-8", "replace")


# variant: recursion over merges, with a cache of pieces
import re
from functools import lru_cache


class PublishedTokenizer:
    def __init__(self, tokens, merges, special=()):
        self.tokens = tuple(tokens)
        self.place = {token: i for i, token in enumerate(self.tokens)}
        self.rank = {merge: i for i, merge in enumerate(merges)}
        self.special = tuple(special)
        names = byte_names()
        self.to_name = names
        self.to_byte = {name: byte for byte, name in names.items()}
        self.symbols = lru_cache(maxsize=1000)(self._symbols)

    def encode(self, text, allow_special=False):
        if allow_special and self.special:
            pattern = "|".join(re.escape(mark) for mark in sorted(self.special, key=len)[::-1])
            found, end = [], 0
            for match in re.finditer(pattern, text):
                found += self.encode(text[end : match.start()])
                found.append(self.place[match.group()])
                end = match.end()
            return found + self.encode(text[end:])
        chunks = re.findall(r"|".join([r"[^\W\d_]", r"."]), text, re.DOTALL)
        runs = [""]
        for c in chunks:
            runs = runs + [c, ""] if c.isnumeric() and not c.isalpha() else runs[:-1] + [runs[-1] + c]
        ids = []
        for run in runs:
            before, *after = run.split("<|endoftext")
            for half in [before + "<|" if after else before, *("endoftext" + part + ("<|" if n + 1 < len(after) else "") for n, part in enumerate(after))]:
                for piece in split_for_bpe(half):
                    ids += [self.place[symbol] for symbol in self.symbols(piece)]
        return ids

    def _symbols(self, piece):
        word = tuple(name for name in (self.to_name[b] for b in piece.encode()) if name in self.place)
        return self._merge(word)

    def _merge(self, word):
        pairs = {f"{a} {b}" for a, b in zip(word, word[1:])} & self.rank.keys()
        if not pairs:
            return word
        left, right = min(pairs, key=self.rank.__getitem__).split(" ")
        new, skip = [], False
        for here, following in zip(word, (*word[1:], None)):
            if skip:
                skip = False
            elif here == left and following == right:
                new.append(here + following)
                skip = True
            else:
                new.append(here)
        return self._merge(tuple(new))

    def decode(self, ids):
        return b"".join(bytes([self.to_byte[c]]) for i in ids for c in self.tokens[i]).decode(errors="replace")


# variant: numbers of pieces inside, strings outside
import unicodedata


class PublishedTokenizer:
    def __init__(self, tokens, merges, special=()):
        self.tokens, self.special = list(tokens), set(special)
        self.number = {t: i for i, t in enumerate(self.tokens)}
        self.pairs = {}
        for rank, merge in enumerate(merges):
            left, right = merge.split(" ")
            self.pairs[self.number[left], self.number[right]] = rank, self.number[left + right]
        self.byte_id = {b: self.number.get(c) for b, c in byte_names().items()}
        self.char_byte = {c: b for b, c in byte_names().items()}

    def encode(self, text, allow_special=False):
        parts = [(text, False)]
        for mark in sorted(self.special, key=len, reverse=True) if allow_special else ():
            cut = []
            for part, done in parts:
                if done:
                    cut.append((part, done))
                    continue
                first, *rest = part.split(mark)
                cut.append((first, False))
                for other in rest:
                    cut += [(mark, True), (other, False)]
            parts = cut
        ids = []
        for part, done in parts:
            ids += [self.number[part]] if done else self._ids(part)
        return ids

    def _ids(self, text):
        ids, run = [], ""
        for c in text + "0":
            ended_mark = run.endswith("<|") and c == "e"
            is_digit = unicodedata.category(c)[0] == "N"
            if is_digit or ended_mark:
                for piece in split_for_bpe(run):
                    ids += self._merged([self.byte_id[b] for b in piece.encode() if self.byte_id[b] is not None])
                run = ""
            if is_digit:
                ids += self._merged([self.byte_id[b] for b in c.encode() if self.byte_id[b] is not None])
            else:
                run += c
        return ids[:-1]

    def _merged(self, ids):
        while True:
            best = min((self.pairs[pair][0], place) for place, pair in enumerate(zip(ids, ids[1:])) if pair in self.pairs) if any(
                pair in self.pairs for pair in zip(ids, ids[1:])
            ) else None
            if best is None:
                return ids
            place = best[1]
            ids = ids[:place] + [self.pairs[ids[place], ids[place + 1]][1]] + ids[place + 2 :]

    def decode(self, ids):
        return bytes(self.char_byte[c] for c in "".join([self.tokens[i] for i in ids])).decode("utf-8", "replace")
