"""Dense layers compared with experts: a walk on 800 sums, and whether the load of experts spreads out (lesson 11)."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from grader.chapters.small_models import ATTENDING
from grader.console.output import ProgressReporter, show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import Report, result_table
from grader.teaching.terminal_drawing import bars, curves, grid, table
from grader.teaching.walks.parts import MixedChapters
from torch import Tensor, nn

REQUIRED_EXERCISES = (
    "TokenEmbedding", "LearnedPositions", *ATTENDING, "CausalSelfAttention", "gelu", "dropout", "LayerNorm",
    "FeedForward", "PreNormBlock", "count_parameters", "cross_entropy", "AdamW", "route", "load_balancing_loss",
    "MoELayer", "MoEBlock", "active_parameters",
)  # fmt: skip

OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "plus": lambda a, b: a + b,
    "minus": lambda a, b: a - b,
    "times": lambda a, b: a * b,
    "max": max,
    "min": min,
    "apart": lambda a, b: abs(a - b),
    "twice-plus": lambda a, b: 2 * a + b,
    "square-plus": lambda a, b: a * a + b,
}
WORDS = (*map(str, range(10)), *OPERATIONS)
WIDTH, HEADS, D_FF, EXPERTS, TOP_K = 32, 2, 16, 8, 2
STEPS, BATCH, LR, FACTOR = 600, 200, 3e-3, 0.01
SMOOTH = 20  # steps that make one point of a curve
SHOWN = ("7 plus 5", "7 times 5", "2 max 9", "2 min 9")
EXPERT_NUMBERS = [f"{i}" for i in range(EXPERTS)]


class Sums(nn.Module):
    """A model of one block that predicts the last digit of a sum: ids (B, 3) -> logits (B, 3, V), balance loss."""

    def __init__(self, parts: MixedChapters, block: nn.Module) -> None:
        super().__init__()
        self.token_emb = parts.TokenEmbedding(len(WORDS), WIDTH)
        self.pos_emb = parts.LearnedPositions(3, WIDTH)
        self.block = block
        self.ln_f = parts.LayerNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, len(WORDS))
        for module in (self.token_emb, self.pos_emb):
            for parameter in module.parameters():
                nn.init.normal_(parameter, std=0.5)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor | float]:
        out = self.block(self.pos_emb(self.token_emb(ids)))
        x, balance = out if isinstance(out, tuple) else (out, 0.0)
        x = self.ln_f(x)
        return self.lm_head(x), balance


def all_sums() -> tuple[Tensor, Tensor]:
    """Return every sum, (800, 3), and the targets: its answer at the last place, nothing elsewhere."""
    operations, digits = list(enumerate(OPERATIONS.values(), start=10)), range(10)
    rows = [(a, i, b, operation(a, b) % 10) for i, operation in operations for a in digits for b in digits]
    table = torch.tensor(rows)
    targets = torch.full((len(rows), 3), -100)
    targets[:, -1] = table[:, -1]
    return table[:, :3], targets


def measure(parts: MixedChapters, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
    narrow, wide = TOP_K * D_FF, EXPERTS * D_FF
    makers: dict[str, tuple[int, Callable[[], nn.Module]]] = {
        "dense, narrow": (narrow, lambda: parts.PreNormBlock(WIDTH, HEADS, narrow)),
        "experts": (narrow, lambda: parts.MoEBlock(WIDTH, HEADS, D_FF, EXPERTS, TOP_K)),
        "dense, wide": (wide, lambda: parts.PreNormBlock(WIDTH, HEADS, wide)),
    }
    sums, targets = all_sums()
    models, trained = [], {}
    with report_progress("training three models", STEPS * len(makers)) as step:
        for name, (hidden, make) in makers.items():
            torch.manual_seed(seed)
            model = trained[name] = Sums(parts, make())
            losses = _train(parts, model, sums, targets, seed, step)
            with torch.no_grad():
                correct = (model.eval()(sums)[0][:, -1].argmax(-1) == targets[:, -1]).float()
            by_operation = correct.view(len(OPERATIONS), -1).mean(1)
            one = SimpleNamespace(name=name, hidden=hidden, losses=losses)  # hidden: units that one token meets
            one.parameters, one.active = parts.count_parameters(model), parts.active_parameters(model)
            one.right, one.by_operation = by_operation.mean().item(), by_operation.tolist()
            models.append(one)
    return SimpleNamespace(models=models, **_routing(parts, trained["experts"], sums, targets))


def _train(
    parts: MixedChapters, model: nn.Module, sums: Tensor, targets: Tensor, seed: int, step: Callable[[], None]
) -> list[float]:
    generator = torch.Generator().manual_seed(seed)
    optimizer = parts.AdamW(model.parameters(), lr=LR)
    losses = []
    for _ in range(STEPS):
        picked = torch.randint(len(sums), (BATCH,), generator=generator)
        logits, balance = model(sums[picked])
        loss = parts.cross_entropy(logits, targets[picked])
        optimizer.zero_grad()
        (loss + FACTOR * balance).backward()
        optimizer.step()
        losses.append(loss.item())
        step()
    return [sum(losses[i : i + SMOOTH]) / SMOOTH for i in range(0, STEPS, SMOOTH)]


@torch.no_grad()
def _routing(parts: MixedChapters, model: Sums, sums: Tensor, targets: Tensor) -> dict[str, Any]:
    """Return the experts to which the tokens of all sums are routed."""
    layer, seen = model.block.moe, []
    layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    said = model(sums)[0][:, -1].argmax(-1)
    logits = layer.router(seen[0])  # (800, 3, N)
    weights, experts = parts.route(logits, TOP_K)
    probs = parts.softmax(logits, dim=-1)
    routed, answers = [], []
    for text in SHOWN:
        ids = torch.tensor([WORDS.index(word) for word in text.split()])
        row = int((sums == ids).all(1).nonzero()[0])
        routed.append(list(zip(text.split(), experts[row].tolist(), weights[row].tolist())))
        answers.append((WORDS[said[row]], WORDS[targets[row, -1]]))
    at_last = experts[:, -1].reshape(len(OPERATIONS), -1)
    return {
        "routed": routed,  # for each text of SHOWN: token, its experts, their weights
        "answers": answers,  # to these texts: of the model with experts, and the right one
        "by_operation": [_shares(chosen) for chosen in at_last],
        "by_place": [_shares(experts[:, place]) for place in range(3)],
        "shares": _shares(experts),
        "chances": probs.flatten(0, 1).mean(0).tolist(),
        "balance": float(parts.load_balancing_loss(probs, experts)),
    }


def _shares(experts: Tensor) -> list[float]:
    return (experts.flatten().bincount(minlength=EXPERTS) / experts.numel()).tolist()


def describe(n: SimpleNamespace) -> dict[str, Any]:
    narrow, experts, wide = n.models
    words = list(OPERATIONS)
    sizes = [[m.name, m.hidden, f"{m.parameters:,}", f"{m.active:,}"] for m in n.models]
    right = [[word, *(f"{m.by_operation[i]:.0%}" for m in n.models)] for i, word in enumerate(words)]
    routed = []
    for tokens, (said, answer) in zip(n.routed, n.answers):
        for word, chosen, weights in tokens:
            routed.append([word, *(f"{e} ({w:.2f})" for e, w in zip(chosen, weights)), ""])
        routed[-1][-1] = f"answers {said}" + ("" if said == answer else f", right is {answer}")
    columns = list(zip(*n.by_operation))
    expert = max(range(EXPERTS), key=lambda i: max(columns[i]) - min(columns[i]))
    most, least = max(columns[expert]), min(columns[expert])
    places = ["first digit", "operation", "second digit"]
    return {
        "operations": len(OPERATIONS),
        "model_table": table(sizes, ["", "hidden units per token", "parameters", "active per token"]),
        "loss_curves": curves({m.name: m.losses for m in n.models}, width=40),
        "right_bars": bars([(m.name, m.right) for m in n.models], most=1.0, decimals=3),
        "right_table": table(right, ["", *(m.name for m in n.models)]),
        "active_share": experts.active / wide.active,
        "routed_table": table(routed, ["token", "first", "second", ""], left=4),
        "operation_grid": grid(_percent(n.by_operation), words, EXPERT_NUMBERS, decimals=0, width=4),
        "expert": expert,
        "most": words[columns[expert].index(most)],
        "most_share": most,
        "least": words[columns[expert].index(least)],
        "least_share": least,
        "place_grid": grid(_percent(n.by_place), places, EXPERT_NUMBERS, decimals=0, width=4),
        "balance_grid": grid([n.shares, n.chances], ["f, share of choices", "P, mean probability"], EXPERT_NUMBERS),
        "even": 1 / EXPERTS,
        "collapsed": EXPERTS / TOP_K,
    }


def _percent(shares: list[list[float]]) -> list[list[float]]:
    return [[100 * share for share in row] for row in shares]


# ---- lesson 11


FEW_EXPERTS, D_MODEL, PLACES, POSITIONS = 4, 16, 8, 16
START = 4.0  # the router's first score for the experts that all tokens choose


def train_collapsed_layer(
    chapter: ModuleType, top_k: int, factor: float, seed: int, steps: int, step_done: Callable[[], None] = lambda: None
) -> dict[int, SimpleNamespace]:
    """Train a layer that starts collapsed; return its state after 0, a tenth, three tenths and all of the steps.

    It is measured on tokens that were not in training: each expert's share of all choices, the balance loss, and the
    mean squared error as a share of the targets' own mean square.
    """
    generator = torch.Generator().manual_seed(seed)
    places = torch.randn(PLACES, D_MODEL, generator=generator)
    maps = torch.randn(PLACES, D_MODEL, D_MODEL, generator=generator) / D_MODEL**0.5

    def draw_tokens(batch: int) -> tuple[Tensor, Tensor]:
        """Draw tokens and their targets, (B, T, D) each."""
        place = torch.randint(PLACES, (batch, POSITIONS), generator=generator)
        x = places[place] + 0.5 * torch.randn(batch, POSITIONS, D_MODEL, generator=generator)
        x[..., 0] = 1.0
        return x, (maps[place] @ x[..., None])[..., 0]

    exam, wanted = draw_tokens(128)
    torch.manual_seed(seed)
    layer = chapter.MoELayer(D_MODEL, 8, FEW_EXPERTS, top_k)
    layer.router.weight.data[:, 0] = 0.0  # every token is sent to the first top_k experts
    layer.router.weight.data[:top_k, 0] = START
    optimizer = torch.optim.Adam(layer.parameters(), lr=3e-3)
    checkpoints = {}
    for step in range(steps + 1):
        if step in (0, steps // 10, steps * 3 // 10, steps):
            with torch.no_grad():
                chosen, (found, balance) = chapter.route(layer.router(exam), top_k)[1], layer(exam)
            shares = chosen.flatten().bincount(minlength=FEW_EXPERTS) / chosen.numel()
            error = (found - wanted).square().mean() / wanted.square().mean()
            checkpoints[step] = SimpleNamespace(shares=shares.tolist(), loss=float(balance), error=float(error))
        x, y = draw_tokens(8)
        found, balance = layer(x)
        optimizer.zero_grad()
        ((found - y).square().mean() + factor * balance).backward()
        optimizer.step()
        step_done()
    return checkpoints


def report_balance(chapters: ChapterPackage, seed: int = 2, *, steps: int = 1000) -> Report:
    """Lesson 11: if all tokens start at the same experts, does the load spread out, with and without the balance loss?

    The task has parts that experts can share: each token comes from one of eight places, and each place has its own
    linear map to learn, too many for one narrow expert. Every token's first feature is 1. From this feature the router
    starts with a score of 4 for its first top_k experts; all other scores are small and random. So all tokens choose
    the same experts. Every run has the same tokens and the same initial weights, and trains all parameters with Adam on
    the error plus `factor` times the balance loss. The default seed is typical of seeds 0 to 3, which differ in how
    soon a third expert is used without the loss.
    """
    chapter = chapters.module("ch11_moe")
    rows, found = [], {}
    with show_progress("training 6 layers", 6 * (steps + 1)) as step:
        for top_k in (1, 2):
            for factor in (0.0, 0.01, 0.1):
                found = train_collapsed_layer(chapter, top_k, factor, seed, steps, step)
                *_, last = found.values()
                shares = [" ".join(f"{100 * share:.0f}" for share in one.shares) for one in found.values()]
                even = math.exp(-sum(share * math.log(share) for share in last.shares if share > 0))
                rows.append([top_k, f"{factor:g}", *shares, f"{even:.1f}", last.loss, last.error])
    columns = ("k", "factor", *(f"step {step}" for step in found), "even", "loss", "error")
    title = f"Shares of {FEW_EXPERTS} experts in percent, and the final state"
    yield result_table(title, columns, rows, ".2f", padding=0)
    yield "k: experts per token. factor: weight of the balance loss in training."
    yield "even: the number of equally used experts with the same entropy. loss: the balance"
    yield "loss, 1 for an even load. error: of the task, 1 for an output of zeros."
