# variant: two dicts, the size a property
class WordTokenizer:
    def __init__(self, vocab, unk=None):
        self.stoi = {word: i for i, word in enumerate(vocab)}
        self.itos = {i: word for word, i in self.stoi.items()}
        if unk is not None and unk not in self.stoi:
            raise ValueError(f"{unk} is not in the vocabulary")
        self.unk_id = None if unk is None else self.stoi[unk]

    @property
    def vocab_size(self):
        return len(self.itos)

    def encode(self, text):
        words = text.lower().split()
        if self.unk_id is None:
            return [self.stoi[word] for word in words]
        return [self.stoi.get(word, self.unk_id) for word in words]

    def decode(self, ids):
        return " ".join(map(self.itos.__getitem__, ids))


# variant: no dict, the list is searched; the missing unk is noticed at its first use
class WordTokenizer:
    def __init__(self, vocab, unk=None):
        self.vocab, self.unk = tuple(vocab), unk
        self.vocab_size = len(self.vocab)

    def encode(self, text):
        return [self.position(word) for word in text.lower().split()]

    def position(self, word):
        if word in self.vocab:
            return self.vocab.index(word)
        if self.unk is None:
            raise KeyError(f"unknown word: {word}")
        return self.vocab.index(self.unk)

    def decode(self, ids):
        text = ""
        for n, i in enumerate(ids):
            text += (" " if n else "") + self.vocab[i]
        return text


# variant: a dict with __missing__ for unknown words; unk checked by an assert
class Lookup(dict):
    unk = None

    def __missing__(self, word):
        if self.unk is None:
            raise KeyError(word)
        return self[self.unk]


class WordTokenizer:
    def __init__(self, vocab, unk=None):
        self.vocab = list(vocab)
        self.ids = Lookup(zip(self.vocab, range(len(self.vocab))))
        assert unk is None or unk in self.ids, f"no {unk} in the vocabulary"
        self.ids.unk = unk
        self.vocab_size = len(self.ids)

    def encode(self, text):
        return [self.ids[word.lower()] for word in text.split()]

    def decode(self, ids):
        return " ".join([self.vocab[i] for i in ids])


# variant: ids in a tuple, a sorted index searched by halves
from bisect import bisect_left


class WordTokenizer:
    def __init__(self, vocab, unk=None):
        self.words = list(vocab)
        self.index = sorted((word, i) for i, word in enumerate(self.words))
        self.vocab_size = len(self.index)
        self.unk = None
        if unk is not None:
            try:
                self.unk = self.find(unk)
            except KeyError:
                raise ValueError("the unknown word has no entry") from None

    def find(self, word):
        place = bisect_left(self.index, (word, -1))
        if place < len(self.index) and self.index[place][0] == word:
            return self.index[place][1]
        raise KeyError(word)

    def encode(self, text):
        ids = []
        for word in text.lower().split():
            try:
                ids.append(self.find(word))
            except KeyError:
                if self.unk is None:
                    raise
                ids.append(self.unk)
        return tuple(ids)

    def decode(self, ids):
        return " ".join(self.words[int(i)] for i in ids)


# variant: a subclass of KeyError as exception; an assert without a message for unk
class UnknownWord(KeyError):
    pass


class WordTokenizer:
    def __init__(self, vocab, unk=None):
        assert unk is None or unk in vocab
        self.vocab_size = len(vocab)
        self.words = dict(enumerate(vocab))
        self.ids = {word: i for i, word in self.words.items()}
        self.unk = unk

    def encode(self, text):
        return [self.id_of(word) for word in text.lower().split()]

    def id_of(self, word):
        if word in self.ids:
            return self.ids[word]
        if self.unk is None:
            raise UnknownWord(f"{word!r} is not among the words of this tokenizer")
        return self.ids[self.unk]

    def decode(self, ids):
        return " ".join(map(self.words.__getitem__, ids))
