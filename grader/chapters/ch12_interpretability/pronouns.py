"""A language in which a pronoun points back: whom it means is decided by the names before it.

A text has two sentences, each a name and that person's thing, then a pronoun: `mia ball tom kite she`. One model has to
go on with the thing at once, `ball`. The other one may say first whom it means: `mia ball`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from grader.chapters.ch12_interpretability.walk_heads import HEADS, without_heads
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import Report, result_table
from torch import Tensor, nn

NAMES, THINGS = 8, 16  # names of each kind
PRONOUN = 4  # its place in a text
BATCH, LR, EXAM_TEXTS, EVERY = 64, 3e-3, 512, 100


def make_texts(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw texts (n, 7): two sentences of two tokens, a pronoun, the name that it means, and the thing. Also return
    which sentence it means, 0 or 1."""
    first_kind = torch.randint(2, (n,), generator=generator)
    names = torch.randint(NAMES, (n, 2), generator=generator) + NAMES * torch.stack([first_kind, 1 - first_kind], 1)
    things = 2 * NAMES + torch.rand(n, THINGS, generator=generator).argsort(1)[:, :2]  # two different ones
    meant = torch.randint(2, (n,), generator=generator)
    pronoun = 2 * NAMES + THINGS + (first_kind ^ meant)
    every = torch.arange(n)
    columns = names[:, 0], things[:, 0], names[:, 1], things[:, 1], pronoun, names[every, meant], things[every, meant]
    return torch.stack(columns, 1), meant


def train(
    chapter: object, seed: int, steps: int, kept: list[int], each_step: Callable[[], None]
) -> tuple[nn.Module, list[list[float]]]:
    """Train a GPT to continue texts after the pronoun. `kept` are the places of a text that it reads and writes.

    Return it, and the shares of right tokens at each place behind the pronoun, every EVERY steps.
    """
    generator = torch.Generator().manual_seed(seed)
    exam = make_texts(EXAM_TEXTS, generator)[0][:, kept]
    torch.manual_seed(seed)
    sizes = {"d_model": 64, "n_heads": HEADS, "n_layers": 2, "d_ff": 128, "dropout": 0.0}
    model = chapter.GPT(chapter.GPTConfig(2 * NAMES + THINGS + 2, len(kept) - 1, **sizes))  # type: ignore[attr-defined]
    optimizer = torch.optim.Adam(model.parameters(), lr=LR, betas=(0.9, 0.98))
    history = [share_right(model, exam)]
    for step in range(1, steps + 1):
        texts = make_texts(BATCH, generator)[0][:, kept]
        optimizer.zero_grad()
        F.cross_entropy(_answers(model, texts).transpose(1, 2), texts[:, PRONOUN + 1 :]).backward()
        optimizer.step()
        each_step()
        if step % EVERY == 0:
            history.append(share_right(model, exam))
    return model, history


def _answers(model: nn.Module, texts: Tensor) -> Tensor:
    """The logits of the tokens behind the pronoun."""
    return model(texts[:, :-1])[0][:, PRONOUN:]


@torch.no_grad()
def share_right(model: nn.Module, exam: Tensor) -> list[float]:
    return (_answers(model, exam).argmax(-1) == exam[:, PRONOUN + 1 :]).float().mean(0).tolist()


def report_pronouns(chapters: ChapterPackage, seed: int, *, steps: int = 1000) -> Report:
    """Lesson 12: how a GPT learns whom a pronoun means, with and without saying it, and which heads look at names."""
    models, interpretability = chapters.module("ch07_models"), chapters.module("ch12_interpretability")
    with torch.random.fork_rng(devices=[]), torch.enable_grad(), show_progress("training", 2 * steps) as step:
        _, at_once = train(models, seed, steps, [0, 1, 2, 3, 4, 6], step)
        model, in_steps = train(models, seed, steps, [0, 1, 2, 3, 4, 5, 6], step)
    shown = [[EVERY * i, *first, *second] for i, (first, second) in enumerate(zip(at_once, in_steps))]
    title = f"right answers in {EXAM_TEXTS} new texts; a guess of one of both: 50%"
    yield result_table(title, ("step", "the thing at once", "the name", "then the thing"), shown, ".0%")
    exam, meant = make_texts(EXAM_TEXTS, torch.Generator().manual_seed(seed + 1))
    weights = interpretability.attention_patterns(model, exam[:, :-1])[:, :, :, PRONOUN]  # (layers, B, H, 6)
    rows = []
    for layer in range(len(model.blocks)):
        for head in range(HEADS):
            looks = weights[layer, :, head]  # (B, 6)
            own, other = (looks.gather(1, 2 * side[:, None]).mean() for side in (meant, 1 - meant))
            with without_heads(model, [(layer, head)]):
                name, thing = share_right(model, exam)
            rows.append([f"layer {layer}, head {head}", f"{own:.2f}", f"{other:.2f}", f"{name:.0%}", f"{thing:.0%}"])
    title = "where heads look from the pronoun, and right answers without each of them"
    yield result_table(title, ("", "at the name", "at the other", "name without", "thing without"), rows)
