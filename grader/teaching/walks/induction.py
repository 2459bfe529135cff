"""How a model learns to repeat: training until an induction head appears, and what changes at that moment."""

from __future__ import annotations

import string
from dataclasses import dataclass

import torch
from grader.teaching.drawing.charts import Map, curves, draw_maps
from grader.teaching.drawing.svg import stack_pictures
from grader.teaching.measurements.induction import EVERY, EXAM, FOUND, PERIODS, VOCABULARY, Checkpoint, Findings
from grader.teaching.measurements.induction import measure as grow
from grader.teaching.walks.parts import Parts
from grader.teaching.walks.progress_line import ProgressReporter
from grader.teaching.walks.small_models import GPT_PARTS
from grader.teaching.walks.walk_page import WalkPage, shape
from torch import Tensor, nn

REQUIRED_EXERCISES = (
    *(name for name in GPT_PARTS if name != "LearnedPositions"), "rope_angles", "apply_rope",
    "residual_stream", "attention_patterns", "classify_head", "induction_score", "find_induction_heads",
)  # fmt: skip
NEXT_STEP = "Next: `headway measure induction --seed 1` trains on other texts from other initial weights. Does the head appear at the same step?"

MOST, LONGER = 1200, 150  # steps: at most, and after the head has appeared
SIGNS = string.ascii_letters + string.digits + "+-"  # one for each of 64 tokens
PERIOD = PERIODS[0]  # of the text that is looked at closely


@dataclass(frozen=True)
class Numbers:
    found: Findings
    text: str  # the example, PERIOD symbols, twice
    previous: list[float]  # at each look: the largest mean weight of a head of layer 0 on the position before
    partner: int  # the head of layer 0 that ends with it
    patterns: list[list[list[float]]]  # at each look: the best head's on the example
    partner_pattern: list[list[float]]  # at the end


def measure(parts: Parts, seed: int, report_progress: ProgressReporter) -> Numbers:
    """Train until a head is found and a little longer, and record its pattern on one text at each checkpoint."""
    row = torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(seed))[:PERIOD].repeat(2)
    looks: list[Tensor] = []

    def at_checkpoint(model: nn.Module) -> None:
        looks.append(parts.attention_patterns(model, row[None])[:, 0])  # (layers, heads, T, T)

    with report_progress("training until an induction head appears", MOST) as step:
        found = grow(parts.chapter("ch07"), parts.chapter("ch12"), seed, MOST, step, longer=LONGER, at_checkpoint=at_checkpoint)
    layer, head = found.head
    previous = torch.stack([look[0].diagonal(-1, dim1=1, dim2=2).mean(1) for look in looks])  # (looks, heads)
    partner = int(previous[-1].argmax())
    return Numbers(
        found=found,
        text="".join(SIGNS[i] for i in row.tolist()),
        previous=previous.amax(1).tolist(),
        partner=partner,
        patterns=[look[layer, head].tolist() for look in looks],
        partner_pattern=looks[-1][0, partner].tolist(),
    )


def steepest_rise(found: Findings) -> tuple[int, int]:
    """Return the two checkpoints between which the best score rises most."""
    best = [max(seen.best) for seen in found.checkpoints]
    late = max(range(1, len(best)), key=lambda i: best[i] - best[i - 1])
    return late - 1, late


def print_walk(page: WalkPage, n: Numbers) -> None:
    found, half = n.found, PERIOD
    layer, head = found.head
    page.step("Texts that repeat themselves")
    page.say(f"A text of random symbols, out of {VOCABULARY}; after {PERIODS[0]} to {PERIODS[1]} symbols the same sequence comes again. For example:")
    page.line(f"{n.text[:half]} {n.text[half:]}", style="bold")
    page.say(
        "The first half cannot be predicted. The second half can: find the earlier copy of the current symbol, and read the symbol after it. A head "
        "that does so is an induction head; `induction_score` is the share of its attention that goes to that place."
    )

    page.step("Training, with checkpoints")
    page.say(f"A GPT of two layers with four heads each. Every {EVERY} steps: the loss in both halves, and the best score in each layer.")
    page.table(
        [[seen.step, f"{seen.first:.2f}", f"{seen.second:.2f}", *(f"{score:.2f}" for score in seen.best), _mark(seen, found)] for seen in found.checkpoints],
        ["step", "first half", "second half", "layer 0", "layer 1", ""],
        left=0,
    )
    page.say(f"ln {VOCABULARY} = 4.16 is the loss of guessing. Here a head with a score above {FOUND} counts as an induction head.")

    early, late = (found.checkpoints[i] for i in steepest_rise(found))
    page.step("When it appears")
    if found.appeared is None:
        page.say(f"In {found.checkpoints[-1].step} steps no head reached {FOUND}. Try another seed: --seed 1.")
    else:
        page.say(f"At step {found.appeared} it has appeared: head {head} of layer {layer}.")
    page.say(
        f"The steepest part is from step {early.step} to {late.step}: the best score goes from {max(early.best):.2f} to {max(late.best):.2f}, and the "
        f"loss in the second half from {early.second:.2f} to {late.second:.2f}. In the first half it goes from {early.first:.2f} to {late.first:.2f}: "
        "there is nothing to look up."
    )

    page.step("What it does", shape((2 * half, 2 * half)))
    page.say(f"Where head {head} of layer {layer} attends in the second half of the text above, at the end of training:")
    rows = []
    for q in range(half, half + 6):
        k = max(range(q + 1), key=lambda key: n.patterns[-1][q][key])
        rows.append([n.text[q], q, n.text[k], k, f"{n.patterns[-1][q][k]:.2f}", n.text[q + 1], "yes" if k == q - half + 1 else "no"])
    page.table(rows, ["symbol", "at", "attends most to", "at", "weight", "next symbol", "right"], left=0)
    others = " and ".join(f"{score:.2f} with period {period}" for period, score in found.other_periods.items())
    page.say(
        f"Its score is {found.scores[layer][head]:.2f} with period {EXAM}. With periods that were not in training: {others}. "
        "It searches for a symbol, not for a distance."
    )

    page.step("The head that it needs")
    page.say(
        "This head needs another one: each key must contain the symbol at the previous position. A head in the layer below copies it, by attending to "
        f"the previous position. In layer 0 head {n.partner} does most of that; its mean weight there, by step:"
    )
    page.bars([(str(seen.step), weight) for seen, weight in zip(found.checkpoints, n.previous)], most=1.0)
    page.say("classify_head gives these names:")
    page.table([[f"layer {i}", *names] for i, names in enumerate(found.names)], ["", *(f"head {h}" for h in range(len(found.names[0])))])
    page.say("`induction` is not one of its names: in the first half of a text there is no earlier copy, so there the head attends to other places.")


def _mark(seen: Checkpoint, found: Findings) -> str:
    return "<- appears" if seen.step == found.appeared else ""


def draw(n: Numbers) -> str:
    """Scores and loss over the steps, and the head's pattern before, at and after the moment."""
    found, (early, late) = n.found, steepest_rise(n.found)
    layer, head = found.head
    steps = [seen.step for seen in found.checkpoints]
    scores = {f"induction, layer {i}": [(seen.step, seen.best[i]) for seen in found.checkpoints] for i in range(len(found.scores))}
    scores["position before, layer 0"] = list(zip(steps, n.previous))
    losses = {"first half": [(seen.step, seen.first) for seen in found.checkpoints], "second half": [(seen.step, seen.second) for seen in found.checkpoints]}
    shown = sorted({early, late, len(steps) - 1})
    panels = [Map(f"after {steps[i]} steps", n.patterns[i], n.text, n.text) for i in shown]
    panels.append(Map(f"the head it needs, layer 0, head {n.partner}", n.partner_pattern, n.text, n.text))
    return stack_pictures(
        [
            curves(scores, "The best head of each kind", x_name="steps of training", y_name="mean weight", dots=True),
            curves(losses, "Loss a token", x_name="steps of training", y_name="nats", dots=True),
            draw_maps(panels, f"Where head {head} of layer {layer} attends", columns=2, row_name="this position", column_name="attends to"),
        ],
        "An induction head appears",
    )
