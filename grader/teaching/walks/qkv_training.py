"""The weights of attention before and after one optimizer step, with the gradients by layer.

The model is a GPT so narrow that its matrices fit on the page; the step is the first one of its training.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from grader.teaching.drawing.charts import heatmap
from grader.teaching.drawing.svg import stack_pictures
from grader.teaching.walks.parts import Parts
from grader.teaching.walks.progress_line import ProgressReporter
from grader.teaching.walks.small_models import GPT_PARTS, TOKENIZING, TRAINING, small_gpt, tokenizer_and_batch
from grader.teaching.walks.walk_page import WalkPage
from torch import nn

REQUIRED_EXERCISES = (*TOKENIZING, *GPT_PARTS, *TRAINING)
NEXT_STEP = (
    "Next: `headway walk training` takes such steps until the model has learned something; `headway walk accumulation` shows how much the "
    "gradients of single batches differ."
)

D, HEADS, LAYERS, LR = 4, 2, 4, 0.01
LATER = 100  # further steps
MAPS = ("W_q", "W_k", "W_v")
PARTS = {**{name: f"attn.{name}" for name in (*MAPS, "W_out")}, "up": "ffn.up", "down": "ffn.down"}
Matrix = list[list[float]]


@dataclass(frozen=True)
class Numbers:
    vocab_size: int
    targets: int  # words to predict
    loss_before: float
    loss_after: float
    before: dict[str, Matrix]  # W_q, W_k, W_v of the first layer
    gradient: dict[str, Matrix]
    after: dict[str, Matrix]
    norms: list[list[float]]  # of the gradients: by layer, by part
    moved: tuple[float, float]  # the smallest and the largest absolute change of a weight of the three
    against: float  # the share of them that moved against the sign of their gradient
    losses: list[float]  # of the steps that follow
    later_norms: list[list[float]]  # of the gradients of the last of them


def measure(parts: Parts, seed: int, report_progress: ProgressReporter) -> Numbers:
    """Make one step on the whole batch, with copies of the weights before and after; then more steps, for the gradients of a later one."""
    tokenizer, batch = tokenizer_and_batch(parts)
    model = small_gpt(parts, tokenizer.vocab_size, seed, d_model=D, n_heads=HEADS, n_layers=LAYERS)
    optimizer = parts.AdamW(model.parameters(), lr=LR)
    before = _weights(model)
    loss_before = float(parts.train_step(model, optimizer, *batch))
    after, gradients = _weights(model), _gradients(model)
    losses = []
    with report_progress("training on", LATER) as step:
        for _ in range(LATER):
            losses.append(float(parts.train_step(model, optimizer, *batch)))
            step()
    first = {name: f"blocks.0.attn.{name}.weight" for name in MAPS}
    change = torch.cat([(after[name] - before[name]).flatten() for name in first.values()])
    downhill = torch.cat([-gradients[name].flatten() for name in first.values()])
    return Numbers(
        vocab_size=tokenizer.vocab_size,
        targets=int((batch[1] != -100).sum()),
        loss_before=loss_before,
        loss_after=losses[0],
        before={name: before[full].tolist() for name, full in first.items()},
        gradient={name: gradients[full].tolist() for name, full in first.items()},
        after={name: after[full].tolist() for name, full in first.items()},
        norms=_norms(gradients),
        moved=(change.abs().min().item(), change.abs().max().item()),
        against=(change.sign() == downhill.sign()).float().mean().item(),
        losses=losses,
        later_norms=_norms(_gradients(model)),
    )


def _weights(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def _gradients(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return the gradients of the last step; the optimizer leaves them in place."""
    return {name: torch.zeros_like(p) if p.grad is None else p.grad.detach().clone() for name, p in model.named_parameters()}


def _norms(gradients: dict[str, torch.Tensor]) -> list[list[float]]:
    return [[gradients[f"blocks.{layer}.{part}.weight"].norm().item() for part in PARTS.values()] for layer in range(LAYERS)]


def print_walk(page: WalkPage, n: Numbers) -> None:
    """The matrices, the gradients, the step."""
    layers = [f"layer {i}" for i in range(LAYERS)]
    page.say(
        f"A GPT of {LAYERS} layers, only {D} numbers wide, so that its matrices fit on the page. It is untrained and makes its first "
        f"step: all twenty sentences in one batch, AdamW with a learning rate of {LR}."
    )

    page.step("Forward pass: the loss")
    page.table([[n.targets, n.vocab_size, f"{n.loss_before:.3f}", f"{math.log(n.vocab_size):.3f}"]], ["words to predict", "vocabulary", "loss", "ln(vocabulary)"], left=0)
    page.say("The loss is that of a model that gives every word the same probability.")

    page.step("Backward pass: a gradient for every weight")
    page.say("The three maps of the first layer, their gradients, and the maps after the step:")
    for name in MAPS:
        factor, unit = _unit(n.gradient[name])
        page.blank()
        before, gradient, after = _times(n.before[name], 1e3), _times(n.gradient[name], factor), _times(n.after[name], 1e3)
        page.line(name, style="bold")
        page.grids([("before, thousandths", before), (f"gradient, {unit}", gradient), ("after, thousandths", after)], ["  "] * D, decimals=1)

    page.step("The step")
    page.say(
        f"Every weight moved by nearly the same amount, from {n.moved[0]:.4f} to {n.moved[1]:.4f}, whatever the size of its gradient; "
        f"{n.against:.0%} of them moved against the sign of the gradient. AdamW divides each gradient by a running estimate of its size. In the first "
        f"step that is its own size, so only the sign is left, times the learning rate of {LR}."
    )
    page.table([["before the step", f"{n.loss_before:.4f}"], ["after it", f"{n.loss_after:.4f}"]], ["", "loss"])

    page.step("The gradients by layer")
    page.say("The norm of each matrix's gradient, in thousandths:")
    page.grid(_times(n.norms, 1e3), layers, list(PARTS))
    page.say(
        "W_q and W_k have almost no gradient. All scores are still about 0 and the attention is uniform, so queries and keys hardly "
        "change the loss yet. The values (W_v, W_out) change it at once."
    )

    page.step(f"The same, {LATER} steps later")
    page.curve("loss", n.losses)
    page.grid(_times(n.later_norms, 1e3), layers, list(PARTS), decimals=0)
    share = [sum(row[0] + row[1] for row in norms) / sum(map(sum, norms)) for norms in (n.norms, n.later_norms)]
    page.say(f"The share of W_q and W_k in these norms went from {share[0]:.1%} to {share[1]:.1%}: the model now learns where to attend.")


def _unit(matrix: Matrix) -> tuple[float, str]:
    """Return a factor that makes the numbers of a matrix readable, and the name of the unit."""
    largest = max(abs(value) for row in matrix for value in row)
    return (1e3, "thousandths") if largest >= 1e-3 else (1e6, "millionths") if largest >= 1e-6 else (1e9, "billionths")


def _times(matrix: Matrix, factor: float) -> Matrix:
    return [[factor * value for value in row] for row in matrix]


def draw(n: Numbers) -> str:
    """The gradients by layer, in the first step and later."""
    rows = [f"layer {i}" for i in range(LAYERS)]
    first = heatmap(_times(n.norms, 1e3), rows, list(PARTS), "In the first step, in thousandths")
    return stack_pictures([first, heatmap(n.later_norms, rows, list(PARTS), f"{LATER} steps later, as they are")], "The norm of each matrix's gradient")
