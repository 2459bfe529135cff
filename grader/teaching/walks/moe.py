"""Dense layers compared with experts: parameters, active parameters, loss curves, and the experts of each token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from grader.teaching.drawing.charts import curves, heatmap
from grader.teaching.drawing.svg import stack_pictures
from grader.teaching.walks.parts import Parts
from grader.teaching.walks.progress_line import ProgressReporter
from grader.teaching.walks.small_models import ATTENDING
from grader.teaching.walks.walk_page import WalkPage, shape
from torch import Tensor, nn

REQUIRED_EXERCISES = (
    "TokenEmbedding", "LearnedPositions", *ATTENDING, "CausalSelfAttention", "gelu", "dropout", "LayerNorm", "FeedForward", "PreNormBlock",
    "count_parameters", "cross_entropy", "AdamW", "route", "load_balancing_loss", "MoELayer", "MoEBlock", "active_parameters",
)  # fmt: skip
NEXT_STEP = "Next: `headway measure balance` starts with all tokens at one expert, and trains with and without the balance loss."

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
MODELS = ("dense, narrow", "experts", "dense, wide")


@dataclass(frozen=True)
class Model:
    name: str
    hidden: int  # units of the feed-forward that one token meets
    parameters: int
    active: int
    losses: list[float]  # means of SMOOTH steps
    right: float  # of all sums
    by_operation: list[float]


@dataclass(frozen=True)
class Numbers:
    models: list[Model]
    routed: list[list[tuple[str, list[int], list[float]]]]  # for each text of SHOWN: token, its experts, their weights
    answers: list[tuple[str, str]]  # to these texts: of the model with experts, and the right one
    by_operation: list[list[float]]  # where the answer is given: each operation's choices, as shares of the experts
    by_place: list[list[float]]  # the same for all first numbers, operations and second numbers
    shares: list[float]  # of all choices
    chances: list[float]  # mean probability of the router
    balance: float


class Sums(nn.Module):
    """A language model of one block, which reads a sum and predicts its last digit: ids (B, 3) -> logits (B, 3, V), and the balance loss."""

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
    """Every sum, (800, 3), and the targets: its answer at the last place, nothing elsewhere."""
    rows = [(a, 10 + i, b, f(a, b) % 10) for i, f in enumerate(OPERATIONS.values()) for a in range(10) for b in range(10)]
    table = torch.tensor(rows)
    targets = torch.full((len(rows), 3), -100)
    targets[:, -1] = table[:, -1]
    return table[:, :3], targets


def measure(parts: Parts, seed: int, report_progress: ProgressReporter) -> Numbers:
    """Train three models that differ only in their feed-forward on all sums; then record the routing of the one with experts."""
    makers: dict[str, Callable[[], nn.Module]] = {
        MODELS[0]: lambda: parts.PreNormBlock(WIDTH, HEADS, TOP_K * D_FF),
        MODELS[1]: lambda: parts.MoEBlock(WIDTH, HEADS, D_FF, EXPERTS, TOP_K),
        MODELS[2]: lambda: parts.PreNormBlock(WIDTH, HEADS, EXPERTS * D_FF),
    }
    sums, targets = all_sums()
    models, trained = [], {}
    with report_progress("training three models", STEPS * len(makers)) as step:
        for name, make in makers.items():
            torch.manual_seed(seed)
            model = trained[name] = Sums(parts, make())
            losses = _train(parts, model, sums, targets, seed, step)
            with torch.no_grad():
                right = (model.eval()(sums)[0][:, -1].argmax(-1) == targets[:, -1]).float().view(len(OPERATIONS), -1).mean(1)
            hidden = EXPERTS * D_FF if name == MODELS[2] else TOP_K * D_FF
            models.append(Model(name, hidden, parts.count_parameters(model), parts.active_parameters(model), losses, right.mean().item(), right.tolist()))
    return Numbers(models=models, **_routing(parts, trained[MODELS[1]], sums, targets))


def _train(parts: Parts, model: nn.Module, sums: Tensor, targets: Tensor, seed: int, step: Callable[[], None]) -> list[float]:
    chance = torch.Generator().manual_seed(seed)
    optimizer = parts.AdamW(model.parameters(), lr=LR)
    losses = []
    for _ in range(STEPS):
        picked = torch.randint(len(sums), (BATCH,), generator=chance)
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
    hook = layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        said = model(sums)[0][:, -1].argmax(-1)
    finally:
        hook.remove()
    logits = layer.router(seen[0])  # (800, 3, N)
    weights, experts = parts.route(logits, TOP_K)
    probs = parts.softmax(logits, dim=-1)
    rows = [int((sums == torch.tensor([WORDS.index(word) for word in text.split()])).all(1).nonzero()[0]) for text in SHOWN]
    return {
        "routed": [[(word, experts[r, t].tolist(), weights[r, t].tolist()) for t, word in enumerate(text.split())] for r, text in zip(rows, SHOWN)],
        "answers": [(WORDS[said[r]], WORDS[targets[r, -1]]) for r in rows],
        "by_operation": [_shares(chosen) for chosen in experts[:, -1].reshape(len(OPERATIONS), -1)],
        "by_place": [_shares(experts[:, place]) for place in range(3)],
        "shares": _shares(experts),
        "chances": probs.flatten(0, 1).mean(0).tolist(),
        "balance": float(parts.load_balancing_loss(probs, experts)),
    }


def _shares(experts: Tensor) -> list[float]:
    return (experts.flatten().bincount(minlength=EXPERTS) / experts.numel()).tolist()


def print_walk(page: WalkPage, n: Numbers) -> None:
    narrow, experts, wide = n.models
    names = [f"{i}" for i in range(EXPERTS)]
    page.step("Something to memorise")
    page.say(
        f"Sums of two digits in {len(OPERATIONS)} operations, {len(OPERATIONS) * 100} in all; the answer is the last digit. 7 plus 5 is 2, 7 times 5 is 5, "
        "3 minus 5 is 8. A model stores such facts in its feed-forward layers, so a narrow layer does not have enough room."
    )

    page.step("Three models")
    page.say(
        f"The models differ only in the feed-forward layer. The one with experts has {EXPERTS} experts of {D_FF} hidden units and routes each token to {TOP_K} "
        "of them. It has as many parameters as the wide model, and uses about as many per token as the narrow one."
    )
    page.table([[m.name, m.hidden, f"{m.parameters:,}", f"{m.active:,}"] for m in n.models], ["", "hidden units per token", "parameters", "active per token"])

    page.step("Training")
    for m in n.models:
        page.curve(m.name.ljust(max(map(len, MODELS))), m.losses, width=40)
    page.say(f"{STEPS} steps of {BATCH} sums, the same for all three. How many of the {len(OPERATIONS) * 100} sums are right now:")
    page.bars([(m.name, m.right) for m in n.models], most=1.0, decimals=3)
    page.say("By operation:")
    page.table([[word, *(f"{m.by_operation[i]:.0%}" for m in n.models)] for i, word in enumerate(OPERATIONS)], ["", *MODELS])
    page.say(
        f"For one token the model with experts uses {experts.active / wide.active:.0%} of the parameters that the wide one uses. It does not save memory: "
        f"all {experts.parameters:,} parameters must be in memory."
    )

    page.step("The experts of each token", shape((1, 3, TOP_K)))
    page.say("Each token's two experts, with their weights from route:")
    rows = []
    for routed, (said, right) in zip(n.routed, n.answers):
        for number, (word, chosen, weights) in enumerate(routed):
            verdict = f"answers {said}" + ("" if said == right else f", right is {right}") if number == 2 else ""
            rows.append([word, *(f"{e} ({w:.2f})" for e, w in zip(chosen, weights)), verdict])
    page.table(rows, ["token", "first", "second", ""], left=4)
    page.say("The model answers at the last token. There attention has mixed in the other two, so the same digit may go to other experts after another operation.")

    page.step("Which expert does what")
    page.say("At the last token, the share of each expert in the choices of each operation, in percent:")
    page.grid([[100 * share for share in row] for row in n.by_operation], list(OPERATIONS), names, decimals=0, width=4)
    expert, most, least = _widest(n.by_operation)
    words = list(OPERATIONS)
    page.say(
        f"Expert {expert} is chosen most by {words[most]!r} ({n.by_operation[most][expert]:.0%}) and least by {words[least]!r} "
        f"({n.by_operation[least][expert]:.0%}). The router was not trained to separate operations. Experts seldom divide the work as people would."
    )
    page.say("The same by place:")
    page.grid([[100 * share for share in row] for row in n.by_place], ["first digit", "operation", "second digit"], names, decimals=0, width=4)

    page.step("Is the load balanced?")
    page.grid([n.shares, n.chances], ["f, share of choices", "P, mean probability"], names)
    even = 1 / EXPERTS
    page.say(
        f"With an even load each number would be {even:.3f}. The balance loss is {EXPERTS} times the sum of f times P: {n.balance:.3f}. It is 1 if the load is "
        f"even, and {EXPERTS} / {TOP_K} = {EXPERTS / TOP_K:g} if all tokens choose the same {TOP_K} experts with all their "
        f"probability. Its weight in training was {FACTOR}."
    )


def _widest(table: list[list[float]]) -> tuple[int, int, int]:
    """Return the expert whose shares differ most between operations, and the operations that choose it most and least."""
    columns = list(zip(*table))
    expert = max(range(len(columns)), key=lambda i: max(columns[i]) - min(columns[i]))
    return expert, columns[expert].index(max(columns[expert])), columns[expert].index(min(columns[expert]))


def draw(n: Numbers) -> str:
    """The loss curves of the three models, and the experts of each operation."""
    lines = {f"{m.name}, {m.active:,} active": [((i + 0.5) * SMOOTH, loss) for i, loss in enumerate(m.losses)] for m in n.models}
    percent = [[round(100 * share) for share in row] for row in n.by_operation]
    names = [f"{i}" for i in range(EXPERTS)]
    return stack_pictures(
        [
            curves(lines, "Loss while learning 800 sums", x_name="steps of training", y_name="loss"),
            heatmap(percent, list(OPERATIONS), names, "Experts of each operation, in percent of its choices", column_name="expert"),
        ],
        "Dense layers and experts",
    )
