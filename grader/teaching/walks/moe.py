"""Dense layers compared with experts: a walk on 800 sums."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from grader.teaching.walks.parts import Parts
from grader.teaching.walks.progress_line import ProgressReporter
from grader.teaching.walks.small_models import ATTENDING
from grader.teaching.walks.walk_page import bars, curves, grid, table
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

    def __init__(self, parts: Parts, block: nn.Module) -> None:
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


def measure(parts: Parts, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
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
    parts: Parts, model: nn.Module, sums: Tensor, targets: Tensor, seed: int, step: Callable[[], None]
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
def _routing(parts: Parts, model: Sums, sums: Tensor, targets: Tensor) -> dict[str, Any]:
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
