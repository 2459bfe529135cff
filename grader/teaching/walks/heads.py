"""What each head attends to, in a model that is trained here on a language with known rules.

The first token of a text is its theme. Each later token is, with equal probability, the theme's own letter, the letter that belongs to
the token before the last, or the letter that belongs to the last token. So a model must attend to three places, and heads that attend
to them have names.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from grader.teaching.drawing.charts import Map, draw_maps
from grader.teaching.walks.parts import Parts
from grader.teaching.walks.progress_line import ProgressReporter
from grader.teaching.walks.small_models import GPT_PARTS, small_gpt
from grader.teaching.walks.walk_page import WalkPage, shape
from torch import Tensor, nn

REQUIRED_EXERCISES = (
    *GPT_PARTS, "cross_entropy", "train_step", "warmup_cosine", "AdamW", "residual_stream", "attention_patterns", "classify_head",
)  # fmt: skip
NEXT_STEP = "Next: `headway walk induction` trains a model until a head appears that none of these names fits."

THEMES, WORDS = "12345678", "abcdefghijkl"
TOKENS = THEMES + WORDS
LENGTH = 15
RULES = ("theme", "one before last", "last one")
STEPS, BATCH, LR = 500, 32, 3e-3
EXAM = 256  # texts
LAYERS, HEADS, WIDTH = 2, 4, 64


@dataclass(frozen=True)
class Head:
    layer: int
    number: int
    before: str  # its name before training
    name: str
    first: float  # mean weights of rows 1 and later, on position 0, on the position before, and on the position itself
    previous: float
    own: float


@dataclass(frozen=True)
class Numbers:
    example: str
    heads: list[Head]
    on_example: list[list[list[float]]]  # of each head, on the example alone
    losses: list[float]
    best: float  # the loss of the true probabilities
    by_rule: dict[str, list[float]]  # loss a token by the rule that made it: with all heads, and without all heads of a name


def measure(parts: Parts, seed: int, report_progress: ProgressReporter) -> Numbers:
    """Train a GPT on the language, classify its heads, and remove the heads of each class in turn."""
    language = Language(seed)
    model = small_gpt(parts, len(TOKENS), seed, max_len=LENGTH, d_model=WIDTH, n_heads=HEADS, n_layers=LAYERS)
    exam, rules, chances = language.texts(EXAM)
    before = _patterns(parts, model, exam)
    losses = _trained(parts, model, language, report_progress)
    after = _patterns(parts, model, exam)
    heads = []
    for layer in range(LAYERS):
        for h in range(HEADS):
            pattern = after[layer, h]
            means = pattern[1:, 0].mean().item(), pattern.diagonal(-1).mean().item(), pattern.diagonal()[1:].mean().item()
            heads.append(Head(layer, h, parts.classify_head(before[layer, h]), parts.classify_head(pattern), *means))
    by_rule = {"all heads": _by_rule(model, exam, rules)}
    for name in sorted({head.name for head in heads} - {"mixed"}):
        with _without(model, [head for head in heads if head.name == name]):
            by_rule[f"without {name}"] = _by_rule(model, exam, rules)
    example = exam[0, :LENGTH]
    return Numbers(
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
        self.chance = torch.Generator().manual_seed(seed)
        self.of_theme, self.of_before_last, self.of_last = (len(THEMES) + torch.randperm(len(WORDS), generator=self.chance) for _ in range(3))

    def texts(self, n: int) -> tuple[Tensor, Tensor, Tensor]:
        """Texts (n, LENGTH + 1); the rule that made each token from the third on, and the true chance of it, both (n, LENGTH - 2 + 1)."""
        theme = torch.randint(len(THEMES), (n,), generator=self.chance)
        opening = len(THEMES) + torch.randint(len(WORDS), (2, n), generator=self.chance)
        tokens, rules, chances = [theme, *opening], [], []
        for _ in range(LENGTH + 1 - len(tokens)):
            options = torch.stack([self.of_theme[theme], self.of_before_last[tokens[-2] - len(THEMES)], self.of_last[tokens[-1] - len(THEMES)]])  # (3, n)
            rule = torch.randint(3, (n,), generator=self.chance)
            tokens.append(options[rule, torch.arange(n)])
            rules.append(rule)
            chances.append((options == tokens[-1]).float().mean(0))
        return torch.stack(tokens, 1), torch.stack(rules, 1), torch.stack(chances, 1)


def _trained(parts: Parts, model: nn.Module, language: Language, report_progress: ProgressReporter) -> list[float]:
    """Train, and return the losses. The first two letters are random and are left out."""
    optimizer = parts.AdamW(model.parameters(), lr=LR)
    losses = []
    with report_progress("training a small GPT", STEPS) as step:
        for number in range(STEPS):
            texts, _, _ = language.texts(BATCH)
            targets = texts[:, 1:].clone()
            targets[:, :2] = -100
            optimizer.param_groups[0]["lr"] = parts.warmup_cosine(number + 1, 30, STEPS + 1, LR)
            losses.append(float(parts.train_step(model, optimizer, texts[:, :-1], targets)))
            step()
    model.eval()
    return losses


def _patterns(parts: Parts, model: nn.Module, exam: Tensor) -> Tensor:
    """Averaged over texts, (layers, heads, T, T)."""
    return parts.attention_patterns(model, exam[:, :-1]).mean(1)


@torch.no_grad()
def _by_rule(model: nn.Module, exam: Tensor, rules: Tensor) -> list[float]:
    """The mean loss of the tokens that each rule made."""
    logits = model(exam[:, :-1])[0][:, 2:]  # (B, T - 2, V)
    losses = F.cross_entropy(logits.transpose(1, 2), exam[:, 3:], reduction="none")
    return [losses[rules == rule].mean().item() for rule in range(len(RULES))]


@contextmanager
def _without(model: nn.Module, heads: list[Head]) -> Any:
    """Remove the output of these heads for a while: their columns of W_out are 0."""
    d_head = WIDTH // HEADS
    kept = [(block.attn.W_out.weight, block.attn.W_out.weight.detach().clone()) for block in model.blocks]
    try:
        with torch.no_grad():
            for head in heads:
                model.blocks[head.layer].attn.W_out.weight[:, head.number * d_head : (head.number + 1) * d_head] = 0.0
        yield
    finally:
        with torch.no_grad():
            for weight, before in kept:
                weight.copy_(before)


def print_walk(page: WalkPage, n: Numbers) -> None:
    T = len(n.example)
    page.step("A language whose rules are known")
    page.say(
        f"Texts of {len(TOKENS)} symbols. The first symbol is the theme, one of {THEMES[0]} to {THEMES[-1]}; two random letters follow. Each later letter "
        "follows one of three rules with equal probability: it is the theme's own letter, or the letter that belongs to the symbol before the last, or the "
        "letter that belongs to the last symbol. For example:"
    )
    page.line(" ".join(n.example), style="bold")
    page.say("To predict such a text, a model must attend to the first symbol, to the previous position, and to the position itself.")

    page.step("Heads before training", shape((LAYERS, HEADS, T, T)))
    page.say("Before training all patterns are alike. classify_head gives these names:")
    page.table(_by_layer(n.heads, "before"), ["", *(f"head {h}" for h in range(HEADS))])
    page.say("Small random weights give scores near 0, and a softmax of equal scores gives uniform attention.")

    page.step("Training")
    page.curve("loss", n.losses)
    page.say(f"{STEPS} steps of {BATCH} texts. No model can have a loss below {n.best:.2f}, because the choice of the rule is random.")

    page.step("What each head attends to now")
    page.table(_by_layer(n.heads, "name"), ["", *(f"head {h}" for h in range(HEADS))])
    page.say(f"The names come from mean weights, here over {EXAM} texts. A mean weight above 0.6 gives the name:")
    page.table(
        [[f"layer {head.layer}, head {head.number}", f"{head.first:.2f}", f"{head.previous:.2f}", f"{head.own:.2f}", head.name] for head in n.heads],
        ["", "first", "previous", "self", "name"],
    )

    clearest = max(range(len(n.heads)), key=lambda i: max(n.heads[i].previous, n.heads[i].own, n.heads[i].first * (n.heads[i].layer == 0)))
    head = n.heads[clearest]
    page.step("One head in detail", shape((T, T)))
    page.say(f"Head {head.number} of layer {head.layer}, class {head.name!r}, on the text above. Each row is one position and shows where it attends:")
    page.grid([[w if k <= q else math.nan for k, w in enumerate(row)] for q, row in enumerate(n.on_example[clearest])], n.example, n.example, decimals=1)

    page.step("Does the name say what a head does?")
    page.say("Remove all heads of one name, and see which letters become harder to predict. The mean loss by the rule that made the letter:")
    page.table([[name, *(f"{loss:.2f}" for loss in losses)] for name, losses in n.by_rule.items()], ["", *RULES])
    for name, losses in list(n.by_rule.items())[1:]:
        rises = [late - early for early, late in zip(n.by_rule["all heads"], losses)]
        worst = max(range(len(RULES)), key=lambda i: rises[i])
        if rises[worst] > 0.1:
            page.say(f"{name[0].upper()}{name[1:]} heads, the loss of the rule {RULES[worst]!r} rises most: {rises[worst]:+.2f}.")
    page.say("A name says where a head attends. Only removing the head shows what the model uses it for.")


def _by_layer(heads: list[Head], what: str) -> list[list[str]]:
    return [[f"layer {layer}", *(getattr(head, what) for head in heads if head.layer == layer)] for layer in range(LAYERS)]


def draw(n: Numbers) -> str:
    """Every head's pattern on the example."""
    panels = [Map(f"layer {head.layer}, head {head.number}: {head.name}", pattern, n.example, n.example) for head, pattern in zip(n.heads, n.on_example)]
    return draw_maps(panels, "What each head attends to", columns=HEADS, row_name="this position", column_name="attends to")
