"""Lesson 12: when does a model learn to look up what came next? A GPT of two layers trained on random tokens that repeat, watched until an induction head appears.

Half of each text is random and cannot be foreseen. From there on it repeats what came before, so every token can be known:
by whoever finds the last copy of the present token and reads what came after it. The period differs from text to text, so
looking a fixed number of places back does not help.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import torch
import torch.nn.functional as F
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.errors import ChapterBroken
from grader.execution.target import NoTarget, package_sources, resolve
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch import Tensor

VOCABULARY = 64
LENGTH = 32
PERIODS = (12, 20)  # trained on all from the first to the last
EXAM = 16  # half of a text
NEW = (8, 24)  # never trained on
STEPS, EVERY = 700, 50
BATCH = 32
FOUND = 0.5  # a head is called an induction head from this score on


@dataclass(frozen=True)
class Moment:
    """After so many steps: the loss a token in each half of a text with period EXAM, and the best induction score of each layer."""

    step: int
    first: float
    second: float
    best: list[float]


@dataclass(frozen=True)
class Found:
    """The whole story, and what the trained model has: all `scores` at EXAM, the best head's at other periods, and every head's name."""

    moments: list[Moment]
    scores: list[list[float]]
    elsewhere: dict[int, float]
    names: list[list[str]]

    @property
    def appeared(self) -> int | None:
        """The first step looked at with a head above FOUND."""
        return next((moment.step for moment in self.moments if max(moment.best) > FOUND), None)

    @property
    def head(self) -> tuple[int, int]:
        """Layer and number of the best head."""
        return max(((layer, head) for layer, row in enumerate(self.scores) for head in range(len(row))), key=lambda at: self.scores[at[0]][at[1]])


def measure(
    models: ModuleType,
    looking: ModuleType,
    seed: int = 0,
    steps: int = STEPS,
    each_step: Callable[[], None] = lambda: None,
    *,
    every: int = EVERY,
    longer: int | None = None,
    looked: Callable[[torch.nn.Module], None] = lambda model: None,
) -> Found:
    """Train a GPT of `models`, chapter 7, and look into it with the functions of `looking`, chapter 12, after every so many steps.

    With `longer` training ends so many steps after a head was found, if `steps` do not end it before. `looked` gets the model at each look.
    """
    chance = torch.Generator().manual_seed(seed)
    exam = repeated(64, torch.full((64, 1), EXAM), chance)  # (64, LENGTH + 1)
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        model = models.GPT(models.GPTConfig(VOCABULARY, LENGTH, d_model=64, n_heads=4, n_layers=2, d_ff=16, positions="rope"))
        optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
        moments = [look(model, looking, 0, exam)]
        looked(model)
        last, step = steps, 0
        while step < last:
            step += 1
            texts = repeated(BATCH, torch.randint(PERIODS[0], PERIODS[1] + 1, (BATCH, 1), generator=chance), chance)
            optimizer.param_groups[0]["lr"] = 3e-3 * min(1, step / 20)
            optimizer.zero_grad()
            model(texts[:, :-1], texts[:, 1:])[1].backward()
            optimizer.step()
            each_step()
            if step % every == 0 or step == last:
                moments.append(look(model, looking, step, exam))
                looked(model)
                if longer is not None and max(moments[-1].best) > FOUND:
                    last = min(last, step + longer)
    scores = looking.find_induction_heads(model, EXAM, 32, drawn())
    layer, head = divmod(int(scores.argmax()), scores.size(1))
    elsewhere = {period: looking.find_induction_heads(model, period, 32, drawn())[layer, head].item() for period in NEW}
    patterns = looking.attention_patterns(model, exam[:, :-1]).mean(1)  # (n_layers, H, T, T)
    return Found(moments, scores.tolist(), elsewhere, [[looking.classify_head(pattern) for pattern in heads] for heads in patterns])


def repeated(n: int, periods: Tensor, chance: torch.Generator) -> Tensor:
    """Random texts (n, LENGTH + 1), row r repeating itself after periods[r] tokens."""
    tokens = torch.randint(VOCABULARY, (n, LENGTH + 1), generator=chance)
    return tokens.gather(1, torch.arange(LENGTH + 1) % periods)


def drawn() -> torch.Generator:
    """The same sequences to score heads on, whatever the training."""
    return torch.Generator().manual_seed(0)


def look(model: torch.nn.Module, looking: ModuleType, step: int, exam: Tensor) -> Moment:
    with torch.no_grad():
        logits, _ = model(exam[:, :-1])  # (64, LENGTH, V); no dropout, so the mode makes no difference
    losses = F.cross_entropy(logits.transpose(1, 2), exam[:, 1:], reduction="none").mean(0)  # (LENGTH,)
    best = looking.find_induction_heads(model, EXAM, 8, drawn()).amax(1).tolist()
    return Moment(step, losses[: EXAM - 1].mean().item(), losses[EXAM:].mean().item(), best)


def table(found: Found) -> Table:
    shown = Table(title="loss a token in both halves, and the best induction score")
    for name in ("step", "first half", "second half", "layer 0", "layer 1"):
        shown.add_column(name, justify="right")
    for moment in found.moments:
        here = "bold" if moment.step == found.appeared else None
        shown.add_row(str(moment.step), f"{moment.first:.2f}", f"{moment.second:.2f}", *(f"{score:.2f}" for score in moment.best), style=here)
    return shown


def said(found: Found) -> list[str]:
    """What the table ends in, in words."""
    layer, head = found.head
    best, others = found.scores[layer][head], [f"{score:.2f} with period {period}" for period, score in found.elsewhere.items()]
    when = f"An induction head appears by step {found.appeared}." if found.appeared else f"No head scored above {FOUND} in {found.moments[-1].step} steps."
    lines = [when, f"The best is head {head} of layer {layer}: {best:.2f} with period {EXAM}, {' and '.join(others)}, never trained on."]
    return lines + [f"Heads of layer {layer}: {', '.join(names)}." for layer, names in enumerate(found.names)]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m grader.teaching.measurements.induction", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS, help=f"of training ({STEPS})")
    parser.add_argument("--target", metavar="DIR", default="solutions", help="whose chapters 1 to 12: a folder of yours, or `solutions` (the reference)")
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)  # this model is too small for more, and the sums come in one order
    console = Console()
    try:
        package = ChapterPackage(package_sources(resolve(asked.target), load_syllabus().chapter("ch12"), whole=True), "measured")
        models, looking = package.module("ch07_models"), package.module("ch12_interpretability")
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task("training", total=asked.steps)
            found = measure(models, looking, asked.seed, asked.steps, each_step=lambda: progress.advance(task))
    except (NoTarget, ChapterBroken, ModuleNotFoundError) as problem:
        parser.error(str(problem))
    except NotImplementedError:
        parser.error(f"{asked.target}: a part of the GPT, or of what looks into it, is not implemented yet")
    console.print(table(found))
    for line in said(found):
        console.print(line, highlight=False)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
