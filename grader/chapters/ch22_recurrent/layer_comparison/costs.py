"""What a model keeps of a text, in bytes, and its processor time for the next token, after T tokens."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from grader.chapters.ch22_recurrent.layer_comparison.models import Memory, Size, new_model, read
from grader.chapters.ch22_recurrent.layer_comparison.recall import PAIRS, draw_texts, new_recaller
from torch import nn

LENGTHS = (128, 512, 2048)
TEXTS = 16  # that are written at once, so that reading a long cache takes longer than starting an operation
PIECE = 128  # tokens that are read at once
ROUNDS, TOKENS = 6, 4  # the time is that of the quickest round


@dataclass(frozen=True)
class Costs:
    """Of one kind of model."""

    bytes: list[int]  # of a text after each of the LENGTHS
    seconds: list[float]  # then, for the next token of all TEXTS
    pair_bytes: list[int]  # of a text with each number of PAIRS

    @property
    def ratios(self) -> list[float]:
        """The seconds, in those after the first length."""
        return [each / self.seconds[0] for each in self.seconds]


def measure(
    parts: Any, kinds: Sequence[str], size: Size, vocab_size: int, advance: Callable[[], None]
) -> dict[str, Costs]:
    """The costs of an untrained model of each kind; what it has learned does not matter here."""
    threads, found = torch.get_num_threads(), {}
    torch.set_num_threads(1)  # processor time also counts threads that wait
    try:
        for kind in kinds:
            torch.manual_seed(0)
            model = new_model(parts, kind, vocab_size, size).eval()
            kept, seconds = write(parts, model, vocab_size)
            found[kind] = Costs(kept, seconds, keep_pairs(parts, kind))
            advance()
    finally:
        torch.set_num_threads(threads)
    return found


@torch.no_grad()
def write(parts: Any, model: nn.Module, vocab_size: int) -> tuple[list[int], list[float]]:
    """Read random tokens up to each length, count the bytes, and measure some tokens from there."""
    memory, done = Memory(parts, model, TEXTS), 0
    kept, seconds = [], []
    ids = torch.randint(vocab_size, (TEXTS, LENGTHS[-1] + ROUNDS * TOKENS))
    for length in LENGTHS:
        for piece in ids[:, done:length].split(PIECE, dim=1):
            read(model, piece, memory)
        kept.append(memory.bytes // TEXTS)
        rounds, done = [], length
        for _ in range(ROUNDS):
            began = time.process_time()
            for _ in range(TOKENS):
                read(model, ids[:, done : done + 1], memory)
                done += 1
            rounds.append(time.process_time() - began)
        seconds.append(min(rounds) / TOKENS)
    return kept, seconds


@torch.no_grad()
def keep_pairs(parts: Any, kind: str) -> list[int]:
    """The bytes that the model of recall keeps of a text with each number of PAIRS."""
    model, found = new_recaller(parts, kind, 0).eval(), []
    for pairs in PAIRS:
        ids, _ = draw_texts(pairs, 1, torch.Generator().manual_seed(0))
        memory = Memory(parts, model, 1)
        read(model, ids[:, : 2 * pairs], memory)
        found.append(memory.bytes)
    return found
