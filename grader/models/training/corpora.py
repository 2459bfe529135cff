"""Batches by the number of the step: from the endless stories, from a text of the user's, or from pairs of sentences.

A batch is a list of smaller batches (inputs, targets), for the learner's `accumulated_step`: rows of similar length are
together, so little of a batch is padding. A file or folder of the user's is read as paragraphs first.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import torch
from grader.chapters.corpora import sentence_pairs
from grader.chapters.stories.corpus import story, validation_stories
from grader.counts import format_count
from grader.files import UserProblem, problem
from grader.models.tokenizers import BpeModelTokenizer, ModelTokenizer, WordModelTokenizer
from torch import Tensor

SUFFIXES = (".txt", ".md", ".text", ".rst")
MOST_TEXT_BYTES = 8_000_000  # more would not be read in an evening
MOST_PARAGRAPH_CHARACTERS = 1200  # longer ones are cut between lines or words
LEAST_CHARACTERS = 1000


class TextProblem(UserProblem):
    """The text cannot be trained on; the message is a sentence."""

    exit_status = 1


def read_paragraphs(path: Path) -> tuple[list[str], list[str]]:
    """The paragraphs of a text file, or of all text files in a folder; and notes about what was left out. TextProblem
    if there is no usable text."""
    notes: list[str] = []
    try:
        if path.is_dir():
            texts = _read_folder(path, notes)
        elif path.exists():
            texts = [_read_file(path, MOST_TEXT_BYTES, notes)]
        else:
            raise TextProblem(f"there is no file or folder {path}")
    except OSError as error:
        raise TextProblem(problem(error, f"read {error.filename or path}")) from None
    paragraphs = [piece for text in texts for piece in split_paragraphs(text)]
    count = sum(map(len, paragraphs))
    if count < LEAST_CHARACTERS:
        text = f"{format_count(count, 'character')} of text"
        raise TextProblem(f"{path} has {text}, which is too short to train on; give at least {LEAST_CHARACTERS}")
    return paragraphs, notes


def split_paragraphs(text: str) -> list[str]:
    """Paragraphs are separated by empty lines; long ones are cut."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    found = []
    for paragraph in re.split(r"\n[ \t]*\n+", text):
        paragraph = paragraph.strip("\n")
        while len(paragraph) > MOST_PARAGRAPH_CHARACTERS:
            ends = (paragraph.rfind(end, 0, MOST_PARAGRAPH_CHARACTERS) for end in "\n ")
            cut = next((end for end in ends if end > 0), MOST_PARAGRAPH_CHARACTERS)
            found.append(paragraph[:cut])
            paragraph = paragraph[cut:].lstrip("\n")
        found.append(paragraph)
    return [paragraph for paragraph in found if paragraph.strip()]


def _read_folder(folder: Path, notes: list[str]) -> list[str]:
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in SUFFIXES and path.is_file() and not path.name.startswith(".")
    )
    if not files:
        others = any(folder.iterdir())
        raise TextProblem(
            f"{folder} has no text file"
            + (f"; their names end in {', '.join(SUFFIXES)}" if others else ", because it is empty")
        )
    texts, left = [], MOST_TEXT_BYTES
    for number, path in enumerate(files):
        if left <= 0:
            notes.append(
                f"Headway reads only the first {format_count(number, 'file')}: {MOST_TEXT_BYTES:,} bytes are enough."
            )
            break
        try:
            text = _read_file(path, left, notes)
        except TextProblem as trouble:
            notes.append(f"Left out: {trouble}.")
            continue
        left -= len(text.encode("utf-8"))
        texts.append(text)
    if not texts:
        raise TextProblem(f"none of the {len(files)} text files in {folder} can be read. {notes[0]}")
    return texts


def _read_file(path: Path, most: int, notes: list[str]) -> str:
    if not path.is_file():
        raise TextProblem(f"{path} is not a regular file")
    with open(path, "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        notes.append(f"Only the first {most:,} bytes of {path} are read.")
        content = content[: content.rfind(b"\n", 0, most) + 1] or content[:most]
    if b"\x00" in content[:100_000]:
        raise TextProblem(f"{path} is a binary file, not a text in UTF-8")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as trouble:
        line = content[: trouble.start].count(b"\n") + 1
        raise TextProblem(
            f"{path} is not UTF-8: see byte {trouble.start} in line {line}; save it as UTF-8 in your editor"
        ) from None
    if sum(not (c.isprintable() or c.isspace()) for c in text[:20_000]) > 0.05 * len(text[:20_000]):
        raise TextProblem(f"{path} is a binary file, not a text")
    return text


Batch = tuple[Tensor, Tensor]
Window = tuple[list[int], list[int]]
Row = TypeVar("Row")

STORIES, PAIRS = "stories", "english-hindi"
VOCABULARY_STORIES = 3000  # they have every word of the corpus
BPE_SAMPLE = 30_000  # characters that merges are learned from
BPE_SIZE = {STORIES: 700, "text": 900}  # ids that are asked for; merges across words are left out
MOST_WORDS = 4000  # of a user's text; the rest are unknown words
VALIDATION_STORIES, VALIDATION_TOKENS = 60, 6000
LEAST_TOKENS = 200


class StoryCorpus:
    """Step n reads the stories with the numbers n * size to n * size + size - 1, without those that are held out."""

    def __init__(
        self,
        parts: Any,
        tokens: str,
        seed: int,
        rows: int,
        pieces: int,
        max_len: int,
        tokenizer: ModelTokenizer | None = None,
    ) -> None:
        self.parts, self.seed, self.rows, self.pieces, self.max_len = parts, seed, rows, pieces, max_len
        self.tokenizer = tokenizer or self._make_tokenizer(tokens)
        self.title, self.prompt = "little stories, written for this course", ""

    def _make_tokenizer(self, tokens: str) -> ModelTokenizer:
        texts = [story(self.seed, number) for number in range(VOCABULARY_STORIES)]
        if tokens == "bpe":
            return BpeModelTokenizer.of_text(self.parts, "\n".join(texts)[:BPE_SAMPLE], BPE_SIZE[STORIES])
        return WordModelTokenizer.of_texts(self.parts, texts)

    def batch(self, step: int) -> list[Batch]:
        texts = self.texts(range(step * self.rows, (step + 1) * self.rows))
        return collate_by_length(self.parts, self._windows(texts), self.pieces)

    def texts(self, numbers: range) -> list[str]:
        """The stories with these numbers, without those that are held out."""
        return [text for text in (story(self.seed, number) for number in numbers) if not self.parts.is_validation(text)]

    def validation(self) -> list[Batch]:
        texts = held_out_stories(self.parts, self.seed)
        return collate_by_length(self.parts, self._windows(texts), -(-len(texts) // 16))

    def describe(self) -> dict[str, Any]:
        return {"kind": STORIES, "seed": self.seed}

    def _windows(self, texts: Sequence[str]) -> list[Window]:
        return story_windows(self.parts, self.tokenizer, texts, self.max_len)


class TextCorpus:
    """A user's text: its paragraphs, divided into training and validation by their hash; windows in a new order each
    time around."""

    def __init__(
        self,
        parts: Any,
        path: Path,
        tokens: str,
        seed: int,
        rows: int,
        pieces: int,
        max_len: int,
        tokenizer: ModelTokenizer | None = None,
    ) -> None:
        self.parts, self.path, self.seed, self.rows, self.pieces = parts, path, seed, rows, pieces
        paragraphs, self.notes = read_paragraphs(path)
        self.fingerprint = fingerprint_of_text(paragraphs)
        training, held_out = divide(paragraphs, parts.is_validation)
        self.tokenizer = tokenizer or self._make_tokenizer(tokens, training)
        ids = encode_paragraphs(self.tokenizer, training)
        if len(ids) < LEAST_TOKENS:
            has = format_count(len(ids), "token")
            raise TextProblem(f"{path} gives {has}, which is too short to train on; give at least {LEAST_TOKENS}")
        self._training_windows: list[Window] = parts.next_token_pairs(ids, max_len)
        self._validation_windows: list[Window] = parts.next_token_pairs(
            encode_paragraphs(self.tokenizer, held_out)[:VALIDATION_TOKENS], max_len
        )
        self.tokens = len(ids)
        self.title = f"{path.name}, {len(ids):,} tokens"
        self.prompt = " ".join(training[0].split()[:3])

    def _make_tokenizer(self, tokens: str, training: list[str]) -> ModelTokenizer:
        if tokens == "words":
            return WordModelTokenizer.of_texts(self.parts, training, MOST_WORDS)
        return BpeModelTokenizer.of_text(self.parts, _spread_sample(training), BPE_SIZE["text"])

    def batch(self, step: int) -> list[Batch]:
        windows = draw_rows(self._training_windows, self.rows, step, self.seed)
        return collate_by_length(self.parts, windows, self.pieces)

    def validation(self) -> list[Batch]:
        return collate_by_length(self.parts, self._validation_windows, -(-len(self._validation_windows) // 16))

    def describe(self) -> dict[str, Any]:
        return {"kind": "text", "path": str(self.path.resolve()), "seed": self.seed, "fingerprint": self.fingerprint}


class PairCorpus:
    """English sentences and their Hindi translations. Source and target are side by side in one tensor; the source is
    `width` wide."""

    def __init__(self, parts: Any, seed: int, rows: int, pieces: int, tokenizer: ModelTokenizer | None = None) -> None:
        self.parts, self.seed, self.rows, self.pieces = parts, seed, rows, pieces
        pairs = sentence_pairs()
        self.held_out = [pair for pair in pairs if parts.is_validation(pair[0])]
        self.training = [pair for pair in pairs if not parts.is_validation(pair[0])]
        if not self.held_out or not self.training:
            raise TextProblem("your is_validation puts all sentences on one side; run `headway check is_validation`")
        self.tokenizer = tokenizer or WordModelTokenizer.of_texts(parts, (text for pair in pairs for text in pair))
        self.width = max(len(self.tokenizer.encode(source)) for source, _ in pairs)
        self.title, self.prompt = f"{len(self.training)} sentences in English and Hindi", self.held_out[0][0]

    def batch(self, step: int) -> list[Batch]:
        return self._collate(draw_rows(self.training, self.rows, step, self.seed), self.pieces)

    def validation(self) -> list[Batch]:
        return self._collate(self.held_out, -(-len(self.held_out) // 32))

    def describe(self) -> dict[str, Any]:
        return {"kind": PAIRS, "seed": self.seed}

    def _collate(self, pairs: Sequence[tuple[str, str]], pieces: int) -> list[Batch]:
        encoded = sorted(
            ((self.tokenizer.encode(source), self._target_ids(target)) for source, target in pairs),
            key=lambda pair: len(pair[1]),
        )
        batches = []
        for part in cut(encoded, pieces):
            sources, _ = self.parts.collate([(ids + [0] * (self.width - len(ids)), ids) for ids, _ in part])
            reads, writes = self.parts.collate([(ids[:-1], ids[1:]) for _, ids in part])
            batches.append((torch.cat([sources, reads], dim=1), writes))
        return batches

    def _target_ids(self, text: str) -> list[int]:
        return [
            *self.tokenizer.start_ids,
            *self.tokenizer.encode(text),
            *([] if self.tokenizer.end_id is None else [self.tokenizer.end_id]),
        ]


Corpus = StoryCorpus | TextCorpus | PairCorpus


def held_out_stories(parts: Any, seed: int) -> list[str]:
    return validation_stories(seed, parts.is_validation, VALIDATION_STORIES)


def story_windows(parts: Any, tokenizer: ModelTokenizer, texts: Sequence[str], max_len: int) -> list[Window]:
    """Windows of texts that each have a beginning and an end."""
    end = [] if tokenizer.end_id is None else [tokenizer.end_id]
    encoded = ([*tokenizer.start_ids, *tokenizer.encode(text), *end] for text in texts)
    return [window for ids in encoded for window in parts.next_token_pairs(ids, max_len)]


def encode_paragraphs(tokenizer: ModelTokenizer, paragraphs: Sequence[str]) -> list[int]:
    """The ids of paragraphs that follow each other in one text."""
    between = "\n\n" if tokenizer.kind != "words" else ""
    return [i for paragraph in paragraphs for i in tokenizer.encode(paragraph + between)]


def fingerprint_of_text(paragraphs: Sequence[str]) -> str:
    return hashlib.sha256("\n\n".join(paragraphs).encode()).hexdigest()[:16]


def divide(paragraphs: Sequence[str], is_validation: Any) -> tuple[list[str], list[str]]:
    """Training and validation paragraphs. A short text is divided into sentences or lines, until each side has
    something."""
    for pieces in (list(paragraphs), _cut_finer(paragraphs, LONG_PIECE), _cut_finer(paragraphs, SHORT_PIECE)):
        held_out = [piece for piece in pieces if is_validation(piece)]
        training = [piece for piece in pieces if not is_validation(piece)]
        share = sum(map(len, held_out)) / max(sum(map(len, pieces)), 1)
        if 0.02 < share < 0.4 and training:
            return training, held_out
    if not held_out or not training:
        raise TextProblem("the text is too short to hold out a part of it for validation; give a longer one")
    return training, held_out


LONG_PIECE, SHORT_PIECE = 400, 120


def _cut_finer(paragraphs: Sequence[str], most: int) -> list[str]:
    pieces = []
    for paragraph in paragraphs:
        words = paragraph.split(" ")
        piece = ""
        for word in words:
            if piece and len(piece) + len(word) > most:
                pieces.append(piece)
                piece = word
            else:
                piece = f"{piece} {word}" if piece else word
        pieces.append(piece)
    return [piece for piece in pieces if piece.strip()]


def _spread_sample(paragraphs: Sequence[str]) -> str:
    """Paragraphs from all over the text, BPE_SAMPLE characters in all."""
    every = max(sum(map(len, paragraphs)) // BPE_SAMPLE, 1)
    return "\n\n".join(paragraphs[::every])[:BPE_SAMPLE]


def draw_rows(rows: Sequence[Row], count: int, step: int, seed: int) -> list[Row]:
    """Those of this step's batch: all of them in a new order each time around."""
    count = min(count, len(rows))
    places = (divmod(place, len(rows)) for place in range(step * count, (step + 1) * count))
    return [rows[shuffled(len(rows), f"{seed} {time_around}")[index]] for time_around, index in places]


@lru_cache(maxsize=2)
def shuffled(size: int, seed: str) -> list[int]:
    """The numbers below `size` in an order that depends on the seed alone, with every version of Python."""
    draw = random.Random(seed).random
    return sorted(range(size), key=lambda _: draw())


def cut(rows: Sequence[Any], pieces: int) -> list[Sequence[Any]]:
    size = -(-len(rows) // max(pieces, 1))
    return [rows[at : at + size] for at in range(0, len(rows), max(size, 1))]


def collate_by_length(parts: Any, windows: Sequence[Window], pieces: int) -> list[Batch]:
    """The windows as this many batches, the short ones together."""
    return [parts.collate(part) for part in cut(sorted(windows, key=lambda window: len(window[0])), pieces)]


def count_targets(batches: Sequence[Batch]) -> int:
    return sum(int((targets != -100).sum()) for _, targets in batches)
