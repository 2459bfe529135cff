"""GPT-2's tokenizer: byte-level byte-pair encoding, with the published files `vocab.json` and `merges.txt`.

Chapter 1's BPE has the same merges, but its ids 0 to 255 are the bytes and its merges run over the whole text. GPT-2
first splits the text with chapter 1's `split_for_bpe`, writes every byte as a printable character, and takes each
token's id from `vocab.json`.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence

from grader.models.tokenizers import fingerprint_of

END_OF_TEXT = "<|endoftext|>"


def byte_alphabet() -> dict[int, str]:
    """A printable character for each byte, as in the published files: itself where it is printable, else the next one
    from U+0100 on."""
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) if byte in printable else chr(256 + others.index(byte)) for byte in range(256)}


class GPT2Tokenizer:
    """Text to ids and back. `vocab` has each token, written in the byte alphabet, with its id; `merges` has the pairs,
    the first learned first.

    `split` is the learner's or the reference's `split_for_bpe`.
    """

    kind = "gpt2"
    start_ids: list[int] = []  # nothing comes before a text

    def __init__(
        self, vocab: Mapping[str, int], merges: Sequence[tuple[str, str]], split: Callable[[str], Sequence[str]]
    ) -> None:
        self.vocab = dict(vocab)
        self.split = split
        self.merges = [(left, right) for left, right in merges]
        self.vocab_size = max(self.vocab.values(), default=-1) + 1
        self.end_id = self.vocab.get(END_OF_TEXT)
        self._ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        self._to_character = byte_alphabet()
        to_byte = {character: byte for byte, character in self._to_character.items()}
        self._bytes = {
            i: bytes(to_byte[character] for character in token)
            for token, i in self.vocab.items()
            if token != END_OF_TEXT
        }
        if self.end_id is not None:
            self._bytes[self.end_id] = END_OF_TEXT.encode()
        self._known_pieces: dict[str, list[int]] = {}  # pieces repeat, so each is merged once

    def encode(self, text: str) -> list[int]:
        """The ids of `text`. The characters `<|endoftext|>` are one token."""
        ids: list[int] = []
        for piece in self.split(text):
            ids += [self.end_id] if piece == END_OF_TEXT and self.end_id is not None else self._encode_piece(piece)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; bytes that are not UTF-8 become U+FFFD."""
        return b"".join(map(self.token_bytes, ids)).decode("utf-8", errors="replace")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """What each id adds to the text; a character of several tokens appears with the last of them."""
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        pieces = [decoder.decode(self.token_bytes(i)) for i in ids]
        if pieces and (rest := decoder.decode(b"", final=True)):
            pieces[-1] += rest
        return pieces

    def unknown_words(self, text: str) -> list[str]:
        """None: every text is made of bytes."""
        return []

    def token_bytes(self, i: int) -> bytes:
        """The bytes of one token; none for an id that `vocab.json` leaves out."""
        return self._bytes.get(i, b"")

    def to_data(self) -> dict:
        return {"kind": self.kind, "vocab": self.vocab, "merges": [list(pair) for pair in self.merges]}

    @property
    def fingerprint(self) -> str:
        """Equal for tokenizers that give every text the same ids."""
        return fingerprint_of(self.to_data())

    # ---- merging

    def _encode_piece(self, piece: str) -> list[int]:
        if piece not in self._known_pieces:
            tokens = self._merge([self._to_character[byte] for byte in piece.encode("utf-8", errors="replace")])
            self._known_pieces[piece] = [self.vocab[token] for token in tokens]
        return self._known_pieces[piece]

    def _merge(self, tokens: list[str]) -> list[str]:
        """Join neighbours until no pair has a merge; the pair that was learned first is joined first, everywhere in the
        piece."""
        while len(tokens) > 1:
            first = min(zip(tokens, tokens[1:]), key=lambda pair: self._ranks.get(pair, len(self._ranks)))
            if first not in self._ranks:
                break
            merged, i = [], 0
            while i < len(tokens):
                if tuple(tokens[i : i + 2]) == first:
                    merged.append(tokens[i] + tokens[i + 1])
                    i += 2
                else:
                    merged.append(tokens[i])
                    i += 1
            tokens = merged
        return tokens
