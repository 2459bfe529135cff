"""Gradient noise of small batches, and how accumulated gradients give the step of a large batch.

Everything is measured on a small GPT after a few steps of training on the twenty sentences of grader/teaching/corpora.py.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from grader.teaching.corpora import SENTENCES
from grader.teaching.drawing.charts import curves
from grader.teaching.drawing.svg import stack_pictures
from grader.teaching.walks.parts import Parts
from grader.teaching.walks.progress_line import ProgressReporter
from grader.teaching.walks.small_models import GPT_PARTS, TOKENIZING, TRAINING, Batch, small_gpt, tokenizer_and_batch, train
from grader.teaching.walks.walk_page import WalkPage
from torch import Tensor, nn

REQUIRED_EXERCISES = (*TOKENIZING, *GPT_PARTS, *TRAINING, "accumulated_step")
NEXT_STEP = "Next: with `accumulated_step` a small machine can train with the batch size of a large one, only more slowly. `headway walk training` shows a whole run."

WARM = 30  # steps before anything is measured: the first gradients all point the same way
SIZES = (1, 2, 5, 10)
DRAWS = 40  # small batches of each size
PIECES = 4
SMALL = 2  # sentences in a small batch of the three runs
STEPS, LR = 60, 3e-3
SHOWN = (1, 10, 20, 40, 60)
RUNS = ("2 sentences a step", "10 x 2, accumulated", "all 20 at once")


@dataclass(frozen=True)
class Numbers:
    targets: int
    length: float  # of the whole batch's gradient
    noise: dict[int, tuple[float, float]]  # by size: mean cosine with the whole gradient; mean length of the difference / length of the whole
    counts: list[int]  # targets in each piece
    positions: tuple[int, int]  # in memory at once: the largest piece, the whole
    step_length: float  # how far one step of the whole batch moves the weights
    accumulated_off: float  # the largest difference of a weight to that step
    averaged_off: float  # the same if the pieces' losses are averaged without regard to their sizes
    losses: dict[str, list[float]]  # by run: on all sentences, after each step
    worse: dict[str, int]  # by run: how many steps made that loss greater


def measure(parts: Parts, seed: int, report_progress: ProgressReporter) -> Numbers:
    """Gradients of many small batches; one step made three ways; three runs."""
    tokenizer, whole = tokenizer_and_batch(parts)
    model = small_gpt(parts, tokenizer.vocab_size, seed)
    train(parts, model, whole, WARM, report_progress, what="first steps of training")
    generator = torch.Generator().manual_seed(seed)
    full = _gradient(parts, model, whole)
    noise = {}
    with report_progress("drawing small batches", len(SIZES) * DRAWS) as step:
        for size in SIZES:
            found = []
            for _ in range(DRAWS):
                found.append(_gradient(parts, model, _rows(whole, torch.randperm(len(SENTENCES), generator=generator)[:size])))
                step()
            cosines = [torch.cosine_similarity(one, full, dim=0).item() for one in found]
            noise[size] = (sum(cosines) / DRAWS, sum(((one - full).norm() / full.norm()).item() for one in found) / DRAWS)

    by_length = sorted(range(len(SENTENCES)), key=lambda i: len(SENTENCES[i].split()))
    size = len(SENTENCES) // PIECES
    pieces = [_rows(whole, torch.tensor(by_length[i : i + size])) for i in range(0, len(SENTENCES), size)]
    big, accumulated, averaged = (_stepped(parts, model, way, whole, pieces) for way in ("big", "accumulated", "averaged"))
    start = _weights(model)

    losses: dict[str, list[float]] = {}
    with report_progress("three runs", 3 * STEPS) as step:
        for name in RUNS:
            losses[name] = []
            runner, order = copy.deepcopy(model), torch.Generator().manual_seed(seed)
            optimizer = parts.AdamW(runner.parameters(), lr=LR)
            for _ in range(STEPS):
                small = [_rows(whole, rows) for rows in torch.randperm(len(SENTENCES), generator=order).split(SMALL)]
                if name == RUNS[0]:
                    parts.train_step(runner, optimizer, *small[0])
                elif name == RUNS[1]:
                    parts.accumulated_step(runner, optimizer, small)
                else:
                    parts.train_step(runner, optimizer, *whole)
                with torch.no_grad():
                    losses[name].append(float(parts.cross_entropy(runner(whole[0])[0], whole[1])))
                step()
    return Numbers(
        targets=_count(whole),
        length=full.norm().item(),
        noise=noise,
        counts=[_count(piece) for piece in pieces],
        positions=(max(piece[0].numel() for piece in pieces), whole[0].numel()),
        step_length=(big - start).norm().item(),
        accumulated_off=(accumulated - big).abs().max().item(),
        averaged_off=(averaged - big).abs().max().item(),
        losses=losses,
        worse={name: sum(after > before for before, after in zip(run, run[1:])) for name, run in losses.items()},
    )


def _rows(batch: Batch, rows: Tensor) -> Batch:
    """Take some sentences of a batch and cut the padding to the longest of them."""
    inputs, targets = batch[0][rows], batch[1][rows]
    wide = int((targets != -100).sum(dim=1).max())
    return inputs[:, :wide], targets[:, :wide]


def _count(batch: Batch) -> int:
    return int((batch[1] != -100).sum())


def _gradient(parts: Parts, model: nn.Module, batch: Batch) -> Tensor:
    """Return the gradient of the mean loss with respect to all weights, as one vector."""
    loss = parts.cross_entropy(model(batch[0])[0], batch[1])
    return torch.cat([gradient.flatten() for gradient in torch.autograd.grad(loss, list(model.parameters()))])


def _weights(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def _stepped(parts: Parts, model: nn.Module, way: str, whole: Batch, pieces: Sequence[Batch]) -> Tensor:
    """Return the weights after one SGD step from the same starting point."""
    copied = copy.deepcopy(model)
    optimizer = torch.optim.SGD(copied.parameters(), lr=1.0)
    if way == "big":
        parts.train_step(copied, optimizer, *whole)
    elif way == "accumulated":
        parts.accumulated_step(copied, optimizer, pieces)
    else:
        optimizer.zero_grad()
        for inputs, targets in pieces:
            (parts.cross_entropy(copied(inputs)[0], targets) / len(pieces)).backward()
        optimizer.step()
    return _weights(copied)


def print_walk(page: WalkPage, n: Numbers) -> None:
    """The noise, the equality, the three runs."""
    page.say(f"A GPT has been trained on twenty sentences for {WARM} steps. Its next step could use all of them, or only a few.")

    page.step("The whole batch's gradient")
    page.say(
        f"The loss is a mean over {n.targets} words. Its gradient is one direction in the space of all weights, with norm {n.length:.3f}. "
        "Smaller batches can only estimate it."
    )

    page.step("Smaller batches estimate it")
    page.say(f"{DRAWS} random batches of each size; each gradient is compared with the gradient of the whole batch:")
    rows = [[size, f"{cosine:.2f}", f"{off:.2f}", f"{n.noise[1][1] * size**-0.5:.2f}"] for size, (cosine, off) in n.noise.items()]
    page.table(rows, ["sentences", "cosine", "noise", "noise of one / root of size"], left=0)
    page.say(
        "The cosine is 1 when the directions agree. The noise is the norm of the difference, relative to the norm of the whole gradient: "
        "above 1 there is more noise than signal. The noise falls with the square root of the size, like the mean of independent draws. "
        f"It falls faster at the end, because ten sentences are already half of all {len(SENTENCES)}."
    )

    page.step("Accumulation: many pieces, one step")
    page.say(
        f"The batch is cut into {PIECES} pieces, short sentences first. Each piece has its own forward and backward pass, the gradients add "
        f"up, and the optimizer makes one step at the end. At most {n.positions[0]} positions are in memory at once, not {n.positions[1]}."
    )
    page.table([["words to predict", *n.counts]], ["piece", *(str(i) for i in range(PIECES))])

    page.step("Is it the same step?")
    page.say(f"One SGD step from the same weights, with norm {n.step_length:.2f}. The largest difference of any weight from the whole batch's step:")
    rows = [["pieces weighted by their words (accumulated_step)", f"{n.accumulated_off:.0e}"], ["the mean of the pieces' mean losses", f"{n.averaged_off:.0e}"]]
    page.table(rows)
    page.say("The first difference is rounding. The second way gives a word in a short piece more weight than a word in a long piece, so its step is slightly wrong.")

    page.step(f"Three runs of {STEPS} steps")
    page.say("The loss on all twenty sentences, after each step:")
    wide, every = max(map(len, RUNS)), [loss for losses in n.losses.values() for loss in losses]
    span = min(every), max(every)
    for name, losses in n.losses.items():
        page.curve(name.ljust(wide), losses, width=36, span=span)
    page.blank()
    rows = [[name, *(f"{losses[step - 1]:.3f}" for step in SHOWN), n.worse[name]] for name, losses in n.losses.items()]
    page.table(rows, ["after step", *map(str, SHOWN), "worse"])
    apart = max(abs(a - b) for a, b in zip(n.losses[RUNS[1]], n.losses[RUNS[2]]))
    page.say(
        "The last column counts the steps that increased the loss. "
        f"The accumulated run and the run with all sentences agree: their losses differ by at most {apart:.0e}. With two sentences a step the loss "
        "goes up and down, because each batch pulls towards its own sentences. But these steps read a tenth as much, and with a smaller "
        "learning rate that is often the better trade."
    )


def draw(n: Numbers) -> str:
    """The three runs, and the noise by size."""
    runs = {name: list(enumerate(losses, start=1)) for name, losses in n.losses.items()}
    noise = {
        "measured": [(size, off) for size, (_, off) in n.noise.items()],
        "of one / root of size": [(size, n.noise[1][1] * size**-0.5) for size in n.noise],
    }
    pictures = [
        curves(runs, "The loss on all sentences", x_name="step", y_name="loss"),
        curves(noise, "Noise, relative to the whole gradient", x_name="sentences in a batch", y_name="noise", dots=True),
    ]
    return stack_pictures(pictures, "Small batches and large batches")
