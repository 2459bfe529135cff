"""Training until an induction head appears: a walk, and the measurement of lesson 12.

The first half of each text is random and cannot be predicted. The second half repeats it, so every token can be
predicted: find the last copy of the present token and read the token after it. The period differs from text to text, so
attending a fixed number of places back does not help.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from grader.chapters.small_models import GPT_PARTS
from grader.console.output import ProgressReporter, show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import Report, result_table
from grader.teaching.terminal_drawing import bars, table
from grader.teaching.walks.parts import MixedChapters
from torch import Tensor, nn

REQUIRED_EXERCISES = (
    *(name for name in GPT_PARTS if name != "LearnedPositions"), "rope_angles", "apply_rope",
    "residual_stream", "attention_patterns", "classify_head", "induction_score", "find_induction_heads",
)  # fmt: skip

VOCABULARY, LENGTH, BATCH = 64, 32, 32
PERIODS = (12, 20)  # trained on all from the first to the last
EXAM, NEW_PERIODS = 16, (8, 24)
EVERY = 50  # steps between checkpoints
FOUND = 0.5  # a head with a higher score counts as an induction head
MAX_STEPS, FURTHER_STEPS = 1200, 150  # of the walk: at most, and after the head has appeared
SYMBOLS = string.ascii_letters + string.digits + "+-"  # one for each token
PERIOD = PERIODS[0]  # of the text that is looked at closely
COLUMNS = ("step", "first half", "second half", "layer 0", "layer 1")


def measure(parts: MixedChapters, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
    row = torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(seed))[:PERIOD].repeat(2)
    patterns: list[Tensor] = []

    def at_checkpoint(model: nn.Module) -> None:
        patterns.append(parts.attention_patterns(model, row[None])[:, 0])  # (layers, heads, T, T)

    chapters = parts.chapter("ch07"), parts.chapter("ch12")
    with report_progress("training until an induction head appears", MAX_STEPS) as step:
        found = train(*chapters, seed, MAX_STEPS, step, longer=FURTHER_STEPS, at_checkpoint=at_checkpoint)
    previous = torch.stack([one[0].diagonal(-1, dim1=1, dim2=2).mean(1) for one in patterns])  # (checkpoints, heads)
    partner = int(previous[-1].argmax())
    return SimpleNamespace(
        found=found,
        text="".join(SYMBOLS[i] for i in row.tolist()),
        previous=previous.amax(1).tolist(),  # the largest mean weight of a head of layer 0 on the position before
        partner=partner,  # the head of layer 0 that ends with it
        patterns=[one[found.layer, found.head].tolist() for one in patterns],  # the best head's on the example
    )


def describe(n: SimpleNamespace) -> dict[str, Any]:
    found, last = n.found, n.patterns[-1]
    pairs = zip(found.checkpoints, found.checkpoints[1:])
    early, late = max(pairs, key=lambda pair: max(pair[1].best) - max(pair[0].best))  # the steepest rise
    checkpoints = [
        [one.step, one.first, one.second, *one.best, "<- appears" if one.step == found.appeared else ""]
        for one in found.checkpoints
    ]
    attention = []
    for q in range(PERIOD, PERIOD + 6):
        k = max(range(q + 1), key=lambda key: last[q][key])
        right = "yes" if k == q - PERIOD + 1 else "no"
        attention.append([n.text[q], q, n.text[k], k, last[q][k], n.text[q + 1], right])
    others = [f"{score:.2f} with period {period}" for period, score in found.other_periods.items()]
    names = [[f"layer {i}", *names] for i, names in enumerate(found.names)]
    previous = [(str(one.step), weight) for one, weight in zip(found.checkpoints, n.previous)]
    columns = ["symbol", "at", "attends most to", "at", "weight", "next symbol", "right"]
    return {
        "layer": found.layer,
        "head": found.head,
        "spaced_text": f"{n.text[:PERIOD]} {n.text[PERIOD:]}",
        "text_length": len(n.text),
        "checkpoint_table": table(checkpoints, [*COLUMNS, ""], ".2f", left=0),
        "appeared": found.appeared,
        "last_step": found.checkpoints[-1].step,
        "early": early,
        "late": late,
        "early_best": max(early.best),
        "late_best": max(late.best),
        "attention_table": table(attention, columns, ".2f", left=0),
        "score": found.score,
        "other_scores": " and ".join(others),
        "previous_bars": bars(previous, most=1.0),
        "name_table": table(names, ["", *(f"head {h}" for h in range(len(found.names[0])))]),
    }


# ---- lesson 12


def train(
    models: ModuleType,
    interpretability: ModuleType,
    seed: int = 0,
    steps: int = 700,
    each_step: Callable[[], None] = lambda: None,
    *,
    every: int = EVERY,
    longer: int | None = None,
    at_checkpoint: Callable[[nn.Module], None] = lambda model: None,
) -> SimpleNamespace:
    """Train a GPT of `models`, chapter 7, and measure it with `interpretability`, chapter 12, every `every` steps.

    With `longer`, training ends this many steps after a head was found, or after `steps` steps. `at_checkpoint` is
    called with the model.
    """
    generator = torch.Generator().manual_seed(seed)
    exam = make_repeating_texts(64, torch.full((64, 1), EXAM), generator)  # (64, LENGTH + 1)

    def scores(period: int, count: int = 32) -> Tensor:
        return interpretability.find_induction_heads(model, period, count, torch.Generator().manual_seed(0))

    def look(step: int) -> SimpleNamespace:
        """Measure the loss per token in each half of a text, and the best score of each layer."""
        with torch.no_grad():
            logits, _ = model(exam[:, :-1])  # (64, LENGTH, V); no dropout, so the mode makes no difference
        losses = F.cross_entropy(logits.transpose(1, 2), exam[:, 1:], reduction="none").mean(0)  # (LENGTH,)
        at_checkpoint(model)
        first, second = losses[: EXAM - 1].mean().item(), losses[EXAM:].mean().item()
        return SimpleNamespace(step=step, first=first, second=second, best=scores(EXAM, 8).amax(1).tolist())

    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        sizes = {"d_model": 64, "n_heads": 4, "n_layers": 2, "d_ff": 16, "positions": "rope"}
        model = models.GPT(models.GPTConfig(VOCABULARY, LENGTH, **sizes))
        optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
        checkpoints, last, step = [look(0)], steps, 0
        while step < last:
            step += 1
            periods = torch.randint(PERIODS[0], PERIODS[1] + 1, (BATCH, 1), generator=generator)
            texts = make_repeating_texts(BATCH, periods, generator)
            optimizer.param_groups[0]["lr"] = 3e-3 * min(1, step / 20)
            optimizer.zero_grad()
            model(texts[:, :-1], texts[:, 1:])[1].backward()
            optimizer.step()
            each_step()
            if step % every == 0 or step == last:
                checkpoints.append(look(step))
                if longer is not None and max(checkpoints[-1].best) > FOUND:
                    last = min(last, step + longer)
    trained = scores(EXAM)
    layer, head = divmod(int(trained.argmax()), trained.size(1))
    patterns = interpretability.attention_patterns(model, exam[:, :-1]).mean(1)  # (n_layers, H, T, T)
    return SimpleNamespace(
        checkpoints=checkpoints,
        appeared=next((one.step for one in checkpoints if max(one.best) > FOUND), None),
        layer=layer,  # of the best head of the trained model
        head=head,
        score=trained[layer, head].item(),
        other_periods={period: scores(period)[layer, head].item() for period in NEW_PERIODS},
        names=[[interpretability.classify_head(pattern) for pattern in heads] for heads in patterns],
    )


def make_repeating_texts(n: int, periods: Tensor, generator: torch.Generator) -> Tensor:
    """Draw random texts (n, LENGTH + 1); row r repeats itself after periods[r] tokens."""
    tokens = torch.randint(VOCABULARY, (n, LENGTH + 1), generator=generator)
    return tokens.gather(1, torch.arange(LENGTH + 1) % periods)


def report_induction(chapters: ChapterPackage, seed: int, *, steps: int = 700) -> Report:
    """Lesson 12: the step at which an induction head appears in a GPT, trained on random tokens that repeat."""
    models, interpretability = chapters.module("ch07_models"), chapters.module("ch12_interpretability")
    with show_progress("training", steps) as step:
        found = train(models, interpretability, seed, steps, step)
    rows = [[one.step, one.first, one.second, *one.best] for one in found.checkpoints]
    yield result_table("loss per token in both halves, and the best induction score", COLUMNS, rows, ".2f")
    others = " and ".join(f"{score:.2f} with period {period}" for period, score in found.other_periods.items())
    if found.appeared is not None:
        yield f"An induction head appears by step {found.appeared}."
    else:
        yield f"No head scored above {FOUND} in {found.checkpoints[-1].step} steps."
    yield (
        f"The best is head {found.head} of layer {found.layer}: {found.score:.2f} with period {EXAM}, "
        f"{others}, not used in training."
    )
    for number, names in enumerate(found.names):
        yield f"Heads of layer {number}: {', '.join(names)}."
