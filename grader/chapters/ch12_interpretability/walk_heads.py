"""The heads of a model that is trained on a language with known rules.

The first token of a text is its theme. Each later token is, with equal probability, the theme's own letter, the letter
that belongs to the token before the last, or the letter that belongs to the last token. So a model must attend to three
places, and heads that attend to them have names.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from grader.chapters.small_models import GPT_PARTS, Batch, small_gpt, train
from grader.console.output import ProgressReporter
from grader.teaching.terminal_drawing import causal, curve, grid, table
from grader.teaching.walks.parts import MixedChapters
from torch import Tensor, nn

REQUIRED_EXERCISES = (
    *GPT_PARTS, "cross_entropy", "train_step", "warmup_cosine", "AdamW",
    "residual_stream", "attention_patterns", "classify_head",
)  # fmt: skip

THEMES, LETTERS = "12345678", "abcdefghijkl"
TOKENS = THEMES + LETTERS
LENGTH = 15
RULES = ("theme", "one before last", "last one")
STEPS, BATCH, LR = 500, 32, 3e-3
EXAM_TEXTS = 256
LAYERS, HEADS, WIDTH = 2, 4, 64


def measure(parts: MixedChapters, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
    language = Language(seed)
    sizes = {"max_len": LENGTH, "d_model": WIDTH, "n_heads": HEADS, "n_layers": LAYERS}
    model = small_gpt(parts, len(TOKENS), seed, **sizes)
    exam, rules, chances = language.texts(EXAM_TEXTS)
    before = _patterns(parts, model, exam)

    def draw() -> Batch:
        texts, _, _ = language.texts(BATCH)
        targets = texts[:, 1:].clone()
        targets[:, :2] = -100  # the first two letters are random
        return texts[:, :-1], targets

    def rate(number: int) -> float:
        return parts.warmup_cosine(number, 30, STEPS + 1, LR)

    losses = train(parts, model, draw, STEPS, report_progress, what="training a small GPT", rate=rate)
    heads = []
    for layer, patterns in enumerate(_patterns(parts, model, exam)):
        for number, pattern in enumerate(patterns):
            one = SimpleNamespace(layer=layer, number=number)
            one.before, one.name = (parts.classify_head(each) for each in (before[layer, number], pattern))
            one.first = pattern[1:, 0].mean().item()  # mean weights of rows 1 and later, on position 0,
            one.previous = pattern.diagonal(-1).mean().item()  # on the position before, and on the position itself
            one.own = pattern.diagonal()[1:].mean().item()
            heads.append(one)
    by_rule = {"all heads": _by_rule(model, exam, rules)}
    for name in sorted({head.name for head in heads} - {"mixed"}):
        with without_heads(model, [(head.layer, head.number) for head in heads if head.name == name]):
            by_rule[f"without {name}"] = _by_rule(model, exam, rules)
    example = exam[0, :LENGTH]
    return SimpleNamespace(
        example="".join(TOKENS[i] for i in example.tolist()),
        heads=heads,
        on_example=parts.attention_patterns(model, example[None])[:, 0].flatten(0, 1).tolist(),
        losses=losses,
        best=-chances.log().mean().item(),
        by_rule=by_rule,
    )


class Language:
    """Its two lists of pairs, and a source of texts, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        pairs = [len(THEMES) + torch.randperm(len(LETTERS), generator=self.generator) for _ in range(3)]
        self.of_theme, self.of_before_last, self.of_last = pairs

    def texts(self, n: int) -> tuple[Tensor, Tensor, Tensor]:
        """Draw texts (n, LENGTH + 1); also return the rule of each token from the fourth on, and its probability."""
        theme = torch.randint(len(THEMES), (n,), generator=self.generator)
        opening = len(THEMES) + torch.randint(len(LETTERS), (2, n), generator=self.generator)
        tokens, rules, chances = [theme, *opening], [], []
        for _ in range(LENGTH + 1 - len(tokens)):
            before_last, last = (token - len(THEMES) for token in tokens[-2:])
            by_rule = [self.of_theme[theme], self.of_before_last[before_last], self.of_last[last]]
            options = torch.stack(by_rule)  # (3, n)
            rule = torch.randint(3, (n,), generator=self.generator)
            tokens.append(options[rule, torch.arange(n)])
            rules.append(rule)
            chances.append((options == tokens[-1]).float().mean(0))
        return torch.stack(tokens, 1), torch.stack(rules, 1), torch.stack(chances, 1)


def _patterns(parts: MixedChapters, model: nn.Module, exam: Tensor) -> Tensor:
    return parts.attention_patterns(model, exam[:, :-1]).mean(1)


@torch.no_grad()
def _by_rule(model: nn.Module, exam: Tensor, rules: Tensor) -> list[float]:
    logits = model(exam[:, :-1])[0][:, 2:]  # (B, T - 2, V)
    losses = F.cross_entropy(logits.transpose(1, 2), exam[:, 3:], reduction="none")
    return [losses[rules == rule].mean().item() for rule in range(len(RULES))]


@contextmanager
def without_heads(model: nn.Module, heads: list[tuple[int, int]]) -> Iterator[None]:
    """Remove the output of these heads, each a layer and a number, for a while: their columns of W_out are 0."""
    d_head = model.blocks[0].attn.W_out.weight.shape[1] // HEADS
    kept = [(block.attn.W_out.weight, block.attn.W_out.weight.detach().clone()) for block in model.blocks]
    for layer, number in heads:
        model.blocks[layer].attn.W_out.weight.data[:, number * d_head : (number + 1) * d_head] = 0.0
    yield
    for weight, before in kept:
        weight.data.copy_(before)


def describe(n: SimpleNamespace) -> dict[str, Any]:
    def clarity(head: SimpleNamespace) -> float:
        return max(head.previous, head.own, head.first * (head.layer == 0))

    clearest = max(n.heads, key=clarity)
    numbers = ["", *(f"head {number}" for number in range(HEADS))]
    removed = []
    for name, losses in list(n.by_rule.items())[1:]:
        rises = [without - whole for whole, without in zip(n.by_rule["all heads"], losses)]
        rise, rule = max(rises), RULES[rises.index(max(rises))]
        if rise > 0.1:
            removed.append(f"{name[0].upper()}{name[1:]} heads, the loss of the rule {rule!r} rises most: {rise:+.2f}.")
    rows = [[f"layer {h.layer}, head {h.number}", h.first, h.previous, h.own, h.name] for h in n.heads]
    return {
        "symbols": len(TOKENS),
        "spaced_example": " ".join(n.example),
        "before_table": table(_by_layer(n.heads, "before"), numbers),
        "loss_curve": curve("loss", n.losses),
        "after_table": table(_by_layer(n.heads, "name"), numbers),
        "weights_table": table(rows, ["", "first", "previous", "self", "name"], ".2f"),
        "clearest": clearest,
        "pattern": grid(causal(n.on_example[n.heads.index(clearest)]), n.example, n.example, decimals=1),
        "removed_table": table([[name, *losses] for name, losses in n.by_rule.items()], ["", *RULES], ".2f"),
        "removed_sentences": removed,
    }


def _by_layer(heads: list[SimpleNamespace], what: str) -> list[list[str]]:
    return [
        [f"layer {layer}", *(getattr(head, what) for head in heads if head.layer == layer)] for layer in range(LAYERS)
    ]
