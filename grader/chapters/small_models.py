"""Small models that memorise the twenty sentences in a few seconds; several walks start with one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from grader.chapters.corpora import SENTENCES
from grader.console.output import ProgressReporter, hide_progress
from grader.teaching.walks.parts import MixedChapters
from torch import Tensor, nn

PAD = "<pad>"

TOKENIZING = ("build_vocab", "WordTokenizer")
ATTENDING = ("softmax", "causal_mask", "scaled_dot_product_attention", "split_heads", "merge_heads")
GPT_PARTS = (
    "TokenEmbedding", "LearnedPositions", *ATTENDING, "CausalSelfAttention", "gelu", "dropout", "LayerNorm",
    "FeedForward", "PreNormBlock", "GPT",
)  # fmt: skip
TRAINING = ("next_token_pairs", "collate", "cross_entropy", "train_step", "AdamW")
SENTENCE_GPT = (*TOKENIZING, *GPT_PARTS, *TRAINING)

Batch = tuple[Tensor, Tensor]


def names_of(*chapters: ModuleType) -> Any:
    """Return the names of several chapters as attributes of one object, as `MixedChapters` has them."""
    return SimpleNamespace(**{name: value for chapter in chapters for name, value in vars(chapter).items()})


def tokenizer_and_batch(parts: MixedChapters, sentences: tuple[str, ...] = SENTENCES) -> tuple[Any, Batch]:
    """Return a tokenizer of all their words, padding first, and all sentences as one batch.

    Uses TOKENIZING, next_token_pairs and collate.
    """
    tokenizer = parts.WordTokenizer([PAD, *parts.build_vocab(sentences)])
    return tokenizer, batch_of(parts, tokenizer, sentences)


def batch_of(parts: MixedChapters, tokenizer: Any, sentences: tuple[str, ...]) -> Batch:
    windows = [window for sentence in sentences for window in parts.next_token_pairs(tokenizer.encode(sentence), 32)]
    return parts.collate(windows)


def small_gpt(parts: Any, vocab_size: int, seed: int, **sizes: Any) -> nn.Module:
    """Return an untrained GPT; the same seed gives the same weights. Uses GPT_PARTS."""
    torch.manual_seed(seed)
    default = {"vocab_size": vocab_size, "max_len": 16, "d_model": 32, "n_heads": 2, "n_layers": 2}
    return parts.GPT(parts.GPTConfig(**default | sizes))


def scaled_normal_(model: nn.Module, generator: torch.Generator | None = None) -> None:
    """Draw every matrix from N(0, 1/columns); leave the vectors as they are."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            drawn = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            parameter.data = drawn / math.sqrt(parameter.size(1))


def train(
    parts: MixedChapters,
    model: nn.Module,
    batch: Batch | Callable[[], Batch],
    steps: int,
    report_progress: ProgressReporter = hide_progress,
    lr: float = 3e-3,
    what: str = "training",
    rate: Callable[[int], float] | None = None,
) -> list[float]:
    """Train on one batch, or on what a function returns for each step; return the loss before each step.

    `rate` gives the learning rate of each step, from 1 on. Uses cross_entropy, train_step and AdamW.
    """
    optimizer = parts.AdamW(model.parameters(), lr=lr)
    losses = []
    with report_progress(what, steps) as step:
        for number in range(1, steps + 1):
            if rate:
                optimizer.param_groups[0]["lr"] = rate(number)
            losses.append(float(parts.train_step(model, optimizer, *(batch() if callable(batch) else batch))))
            step()
    model.eval()
    return losses


def train_with_warmup(
    parts: Any,
    model: nn.Module,
    optimizer: Any,
    batches: Iterable[Batch],
    steps: int,
    warmup: int,
    each_step: Callable[[], None],
) -> None:
    """Train on so many batches. The optimizer's rates are the peaks, and fall to a twentieth; gradients are clipped.

    Uses warmup_cosine and train_step.
    """
    peaks = [group["lr"] for group in optimizer.param_groups]
    for step, batch in zip(range(1, steps + 1), batches):
        for group, peak in zip(optimizer.param_groups, peaks):
            group["lr"] = parts.warmup_cosine(step, min(warmup, steps - 1), steps, peak, 0.05 * peak)
        parts.train_step(model, optimizer, *batch, 1.0)
        each_step()
    model.eval()


def sentence_gpt(
    parts: MixedChapters, seed: int, steps: int, report_progress: ProgressReporter, lr: float = 3e-3, **sizes: Any
) -> tuple[nn.Module, Any, Batch, list[float]]:
    """Return a small GPT that has learned the sentences, its tokenizer, the batch and the losses. Uses SENTENCE_GPT."""
    tokenizer, batch = tokenizer_and_batch(parts)
    model = small_gpt(parts, tokenizer.vocab_size, seed, **sizes)
    return model, tokenizer, batch, train(parts, model, batch, steps, report_progress, lr, "training a small GPT")


class SideBySide(nn.Module):
    """A translator that reads source and target from one tensor, so that train_step can train it.

    The source is the first `width` columns.
    """

    def __init__(self, model: nn.Module, width: int) -> None:
        super().__init__()
        self.model, self.width = model, width

    def forward(self, both: Tensor) -> Tensor:
        return self.model(both[:, : self.width], both[:, self.width :])


def count_passes(model: nn.Module) -> list[None]:
    """Return a list that gets an entry for each pass of the model from now on."""
    passes: list[None] = []
    model.register_forward_pre_hook(lambda module, inputs: passes.append(None))
    return passes
