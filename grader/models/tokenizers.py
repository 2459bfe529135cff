"""Text to ids and back, with the learner's WordTokenizer or BPETokenizer.

A language model reads `start_ids`, the ids of a text, and `end_id`. The concatenated pieces of some ids are their
decoded text, so a program can print a text token by token.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import cycle
from typing import Any

from grader.models.design import PAD_ID
from grader.models.file_values import ValueProblem, check, list_of, named, pair, show, string, whole

PAD, UNKNOWN, START, END = SPECIAL = ("<pad>", "<unk>", "<start>", "<end>")

_MARKS = re.escape('!"#$%&()*+,./:;<=>?@[\\]^_`{|}~…—–“”„«»‹›।॥。、，？！：；（）「」¿¡·•')
# a word with the hyphens and apostrophes inside it, or a mark
_TOKEN = re.compile(rf"(?:[^\s{_MARKS}'’-]|(?<=[^\s{_MARKS}'’-])['’-](?=[^\s{_MARKS}'’-]))+|\S")
_ENDS = frozenset(".!?…।॥。？！")  # a sentence ends here
_CLOSING = frozenset(".,!?;:…%)]}।॥。、，？！：；）」”»›")  # no space before these
_OPENING = frozenset("([{“„«‹（「¿¡#$")  # no space after these
_PIECE = re.compile(r" ?[^\s]+|\s+(?!\S)|\s+")  # BPE merges inside these, so each distinct one is encoded once
_BETWEEN = "".join(map(chr, (*range(1, 9), *range(14, 28))))  # one byte each, no spaces, and in no usual text


MOST_TOKEN_BYTES = 65_536
VALUES = {  # of the data of each kind
    "words": {"vocab": list_of(string()), "cased": named(string())},
    "bpe": {"merges": list_of(pair(whole(0, 1 << 24), whole(0, 1 << 24)))},
}


class TokenizerProblem(Exception):
    """The text or the stored data does not make a tokenizer; the message is a sentence."""


class ModelTokenizer:
    """What every tokenizer of a model can do."""

    kind: str  # "words", "bpe" or "gpt2"
    vocab_size: int
    start_ids: list[int]  # before every text; empty if texts have no mark at their beginning
    end_id: int | None  # after every text

    def encode(self, text: str) -> list[int]:
        raise NotImplementedError

    def decode(self, ids: Sequence[int]) -> str:
        raise NotImplementedError

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What each id adds to the text."""
        raise NotImplementedError

    def to_data(self) -> dict[str, Any]:
        raise NotImplementedError

    def unknown_words(self, text: str) -> list[str]:
        """None, if every text is made of bytes."""
        return []

    @property
    def fingerprint(self) -> str:
        """A short hash: two tokenizers with the same one give the same ids."""
        data = json.dumps(self.to_data(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(data.encode()).hexdigest()[:16]


def split_words(text: str) -> list[str]:
    """The words and punctuation marks of a text, in its own case."""
    return _TOKEN.findall(text)


class WordModelTokenizer(ModelTokenizer):
    """Words and punctuation marks, lower-cased, with the learner's WordTokenizer. Decoding writes capitals and spaces
    as in a printed text."""

    kind = "words"

    def __init__(self, parts: Any, vocab: Sequence[str], cased: dict[str, str]) -> None:
        self._own = parts.WordTokenizer(list(vocab), unk=UNKNOWN)
        self._vocab, self._cased = list(vocab), dict(cased)
        self._known = set(vocab)
        self.vocab_size = int(self._own.vocab_size)
        ends = list(self._own.encode(f"{START} {END}"))
        if len(ends) != 2:
            raise TokenizerProblem(f"your WordTokenizer makes {len(ends)} ids of two words")
        self.start_ids: list[int] = ends[:1]
        self.end_id: int | None = ends[1]

    @classmethod
    def of_texts(cls, parts: Any, texts: Iterable[str], most_words: int | None = None) -> WordModelTokenizer:
        """A tokenizer for these texts; with `most_words`, only for their most frequent words."""
        counts: Counter[str] = Counter()
        forms: dict[str, Counter[str]] = {}
        for text in texts:
            inside = False  # a sentence; the case of its first word says nothing about the word
            for word in split_words(text):
                counts[word.lower()] += 1
                if inside and word[0].isalpha():
                    forms.setdefault(word.lower(), Counter())[word] += 1
                inside = word not in _ENDS and (inside or word[0].isalnum())
        frequent = [word for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most_words]]
        vocab = parts.build_vocab([" ".join(frequent)])
        cased = {word: best for word in vocab if word in forms and (best := forms[word].most_common(1)[0][0]) != word}
        return cls(parts, [*SPECIAL, *vocab], cased)

    def encode(self, text: str) -> list[int]:
        return list(self._own.encode(" ".join(split_words(text))))

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self.pieces(ids))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What each id adds to the printed text: a space if needed, and the word in its case."""
        pieces = []
        last = ""
        # at a sentence's beginning; no space before the next; inside straight quotation marks
        begins, glued, quoted = True, True, False
        for word in (self._own.decode([i]) for i in ids):
            if word in SPECIAL and word != UNKNOWN:
                pieces.append("")
                begins, glued, quoted = True, True, False
                continue
            closes = word == '"' and quoted
            space = "" if glued or word in _CLOSING or closes else " "
            shown = self._cased.get(word, word)
            if begins and shown[:1].islower():
                shown = shown[:1].upper() + shown[1:]
            pieces.append(space + shown)
            glued = word in _OPENING or (word == '"' and not quoted)
            if word == '"':
                # "Where?" said Mia: the sentence goes on after a quoted question
                begins = not quoted or (begins and last == ".")
                quoted = not quoted
            elif word not in _OPENING and word not in "”»":
                begins = word in _ENDS
            last = word
        return pieces

    def unknown_words(self, text: str) -> list[str]:
        """The words that the model cannot read; it sees one common id for all of them."""
        return list(dict.fromkeys(word for word in split_words(text) if word.lower() not in self._known))

    def to_data(self) -> dict[str, Any]:
        return {"kind": self.kind, "vocab": self._vocab, "cased": self._cased}


class BpeModelTokenizer(ModelTokenizer):
    """Byte-pair encoding with the learner's BPETokenizer, inside words: a space belongs to the word after it."""

    kind = "bpe"

    def __init__(self, parts: Any, merges: dict[tuple[int, int], int]) -> None:
        self._own = parts.BPETokenizer(dict(merges))
        self._merges = dict(merges)
        self._encoded: dict[str, list[int]] = {}
        self._bytes = bytes_of_ids(merges)
        own_size = int(self._own.vocab_size)
        self.start_ids: list[int] = [own_size]
        self.end_id: int | None = own_size + 1
        self.vocab_size = own_size + 2

    @classmethod
    def of_text(cls, parts: Any, sample: str, vocab_size: int) -> BpeModelTokenizer:
        """Learn the merges from a sample of the text. Merges across the boundary of a word are left out, because no
        text uses them; they are rare, because behind each piece is another of the characters _BETWEEN."""
        learned = parts.train_bpe("".join(map(str.__add__, _PIECE.findall(sample), cycle(_BETWEEN))), vocab_size)
        table = bytes_of_ids(learned)
        new_ids: dict[int, int] = {i: i for i in range(256)}
        merges: dict[tuple[int, int], int] = {}
        for (left, right), new_id in learned.items():
            text = table[new_id].decode("utf-8", errors="replace")
            inside = len(_PIECE.findall(text)) == 1 and not set(text) & set(_BETWEEN)
            if inside and left in new_ids and right in new_ids:
                new_ids[new_id] = merges[new_ids[left], new_ids[right]] = 256 + len(merges)
        return cls(parts, merges)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for piece in _PIECE.findall(text):
            if piece not in self._encoded:
                self._encoded[piece] = list(self._own.encode(piece))
            ids += self._encoded[piece]
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return self._own.decode([i for i in ids if i < 256 + len(self._merges)])

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return pieces_of([self._bytes.get(i, b"") for i in ids])

    def to_data(self) -> dict[str, Any]:
        return {"kind": self.kind, "merges": [list(pair) for pair in self._merges]}


def pieces_of(tokens: Iterable[bytes]) -> list[str]:
    """What each token adds to the text; a character of several tokens appears with the last of them."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    pieces = [decoder.decode(token) for token in tokens]
    if pieces and (rest := decoder.decode(b"", final=True)):
        pieces[-1] += rest
    return pieces


def bytes_of_ids(merges: dict[tuple[int, int], int]) -> dict[int, bytes]:
    table = {i: bytes([i]) for i in range(256)}
    for (left, right), new_id in merges.items():
        table[new_id] = table[left] + table[right]
    return table


def _words_from_data(parts: Any, data: dict[str, Any]) -> ModelTokenizer:
    vocab = data["vocab"]
    if tuple(vocab[: len(SPECIAL)]) != SPECIAL or len(set(vocab)) < len(vocab):
        raise TokenizerProblem("its vocabulary is not that of a tokenizer of words")
    return WordModelTokenizer(parts, vocab, data["cased"])


def _bpe_from_data(parts: Any, data: dict[str, Any]) -> ModelTokenizer:
    merges: dict[tuple[int, int], int] = {}
    lengths = dict.fromkeys(range(256), 1)
    for left, right in data["merges"]:
        if left not in lengths or right not in lengths or (left, right) in merges:
            raise TokenizerProblem("a merge of its tokenizer uses an id that comes later, or is there twice")
        merges[left, right] = new = 256 + len(merges)
        lengths[new] = lengths[left] + lengths[right]
        if lengths[new] > MOST_TOKEN_BYTES:
            raise TokenizerProblem(f"a token of its tokenizer is longer than {MOST_TOKEN_BYTES:,} bytes")
    return BpeModelTokenizer(parts, merges)


def tokenizer_from_data(parts: Any, data: Any) -> ModelTokenizer:
    """The tokenizer that `to_data` described. TokenizerProblem if the data is not a tokenizer's."""
    check_tokenizer(data)
    return _words_from_data(parts, data) if data["kind"] == "words" else _bpe_from_data(parts, data)


def check_tokenizer(data: Any) -> None:
    """TokenizerProblem if values of the data are not possible."""
    kind = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(kind, str) or kind not in VALUES:
        raise TokenizerProblem(f"it has a tokenizer of an unknown kind ({show(kind)})")
    try:
        check(data, VALUES[kind], "it", needed=VALUES[kind], path="tokenizer.")
    except ValueProblem as problem:
        raise TokenizerProblem(str(problem)) from None


assert PAD_ID == SPECIAL.index(PAD)  # and with BPE it is the byte 0, which no text contains
