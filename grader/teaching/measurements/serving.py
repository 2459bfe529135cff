"""Lesson 15: tokens per second of texts that are written one by one, in a batch, and with guesses of a small model.

A GPT and a smaller draft learn the course's twenty sentences. Then the GPT continues two words of each, greedily. Passes and words are counted;
they do not depend on the machine. The times are medians of RUNS runs, on one core.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from statistics import median
from time import perf_counter
from types import ModuleType
from typing import Any

import torch
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.corpora import SENTENCES
from grader.teaching.measurements._running import make_table, run_measurement
from rich.table import Table
from torch import Tensor, nn

WIDTH, LAYERS, HEADS, STEPS = 256, 4, 4, 60
DRAFT_WIDTH, DRAFT_LAYERS, DRAFT_STEPS = 16, 1, 40
NEW, RUNS = 10, 3
BATCHES, N_DRAFTS = (1, 4, 10, 20), (1, 2, 4, 8)
PAD = "<pad>"


def word_ids(package: ChapterPackage) -> tuple[Any, tuple[Tensor, Tensor]]:
    """Return a tokenizer of the sentences' words, padding first, and all sentences as one batch."""
    tokenization, training = package.module("ch01_tokenizer"), package.module("ch08_training")
    tokenizer = tokenization.WordTokenizer([PAD, *tokenization.build_vocab(SENTENCES)])
    return tokenizer, training.collate([window for text in SENTENCES for window in training.next_token_pairs(tokenizer.encode(text), 32)])


def trained(package: ChapterPackage, kind: type[nn.Module], config: Any, batch: tuple[Tensor, Tensor], steps: int, lr: float, seed: int) -> nn.Module:
    """Return a GPT, or another kind of it, that has learned the batch."""
    training, models = package.module("ch08_training"), package.module("ch07_models")
    torch.manual_seed(seed)
    plain = models.GPT(config)
    optimizer = training.AdamW(plain.parameters(), lr=lr)
    for _ in range(steps):
        training.train_step(plain, optimizer, *batch)
    model = kind(config).eval()
    model.load_state_dict(plain.state_dict())
    return model


def timed(call: Callable[[], Any], *models: nn.Module) -> tuple[float, list[int], Any]:
    """Return the median seconds of a call, the passes of each model in one run, and the call's result."""
    passes = [0] * len(models)

    def count(number: int) -> Callable[..., None]:
        def hook(*_: object) -> None:
            passes[number] += 1

        return hook

    hooks = [model.register_forward_hook(count(number)) for number, model in enumerate(models)]
    result = call()
    for hook in hooks:
        hook.remove()
    seconds = []
    for _ in range(RUNS):
        start = perf_counter()
        call()
        seconds.append(perf_counter() - start)
    return median(seconds), passes, result


def batches(serving: ModuleType, model: nn.Module, prompts: list[list[int]]) -> Table:
    """Rows: how many texts are written together."""
    rows, first = [], 0.0
    for size in BATCHES:
        groups = [prompts[start : start + size] for start in range(0, len(prompts), size)]

        def write(groups: list[list[list[int]]] = groups) -> list[Any]:
            return [serving.generate_batch(model, group, NEW) for group in groups]

        seconds, [passes], _ = timed(write, model)
        speed = NEW * len(prompts) / seconds
        first = first or speed
        rows.append([f"{size}", f"{passes}", f"{speed:.0f}", f"{speed / first:.1f}x"])
    return make_table(f"{len(prompts)} texts of {NEW} new tokens", ["texts in a batch", "passes", "tokens a second", "faster"], rows)


def guesses(serving: ModuleType, sampling: ModuleType, model: nn.Module, draft: nn.Module, prompts: list[list[int]]) -> Table:
    """Rows: without guesses, and by the number of guesses in a round. Each pass of the model writes one token besides the guesses that it keeps."""
    ids, tokens = [torch.tensor([prompt]) for prompt in prompts], NEW * len(prompts)
    plain, [passes], texts = timed(lambda: [sampling.generate(model, one, NEW, temperature=0) for one in ids], model)
    rows = [["none", f"{passes}", "-", f"{tokens / passes:.2f}", f"{tokens / plain:.0f}", "1.0x"]]
    for n_draft in N_DRAFTS:

        def write(n_draft: int = n_draft) -> list[Tensor]:
            return [serving.generate_speculative(model, draft, one, NEW, n_draft, temperature=0) for one in ids]

        seconds, [passes, drafted], found = timed(write, model, draft)
        if any(not torch.equal(one, other) for one, other in zip(found, texts)):
            raise AssertionError("generate_speculative wrote another text than generate")
        kept = f"{(tokens - passes) / drafted:.0%}"
        rows.append([f"{n_draft}", f"{passes}", kept, f"{tokens / passes:.2f}", f"{tokens / seconds:.0f}", f"{plain / seconds:.1f}x"])
    return make_table("One text at a time", ["guesses a round", "passes", "kept", "tokens a pass", "tokens a second", "faster"], rows)


def report(package: ChapterPackage, seed: int) -> Iterable[Table | str]:
    yield f"Training a model and a draft. Then {len(SENTENCES)} texts are written {RUNS + 1} times in each way. In all this takes about a minute."
    serving, sampling, models = (package.module(name) for name in ("ch15_serving", "ch09_sampling", "ch07_models"))
    tokenizer, batch = word_ids(package)
    config = models.GPTConfig(tokenizer.vocab_size, 32, WIDTH, HEADS, LAYERS)
    model = trained(package, serving.PaddedGPT, config, batch, STEPS, 1e-3, seed)
    small = models.GPTConfig(tokenizer.vocab_size, 32, DRAFT_WIDTH, 2, DRAFT_LAYERS)
    draft = trained(package, models.GPT, small, batch, DRAFT_STEPS, 2e-2, seed + 1)
    prompts = [tokenizer.encode(" ".join(text.split()[:2])) for text in SENTENCES]
    with torch.no_grad():
        yield batches(serving, model, prompts)
        yield guesses(serving, sampling, model, draft, prompts)


def main(arguments: list[str] | None = None) -> int:
    return run_measurement(__doc__, "ch15_serving", report, arguments)


if __name__ == "__main__":
    sys.exit(main())
