"""Lesson 12: the step at which an induction head appears in a GPT of two layers, trained on random tokens that repeat.

The first half of each text is random and cannot be predicted. The second half repeats it, so every token can be predicted: find the
last copy of the present token and read the token after it. The period differs from text to text, so attending a fixed number of
places back does not help.
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
FOUND = 0.5  # a head with a higher score counts as an induction head


@dataclass(frozen=True)
class Checkpoint:
    """After so many steps: the loss per token in each half of a text with period EXAM, and the best induction score of each layer."""

    step: int
    first: float
    second: float
    best: list[float]


@dataclass(frozen=True)
class Findings:
    """All checkpoints, and measures of the trained model: all `scores` at EXAM, the best head's at other periods, and every head's name."""

    checkpoints: list[Checkpoint]
    scores: list[list[float]]
    other_periods: dict[int, float]
    names: list[list[str]]

    @property
    def appeared(self) -> int | None:
        """The first checkpoint's step with a head above FOUND."""
        return next((point.step for point in self.checkpoints if max(point.best) > FOUND), None)

    @property
    def head(self) -> tuple[int, int]:
        """Layer and number of the best head."""
        return max(((layer, head) for layer, row in enumerate(self.scores) for head in range(len(row))), key=lambda at: self.scores[at[0]][at[1]])


def measure(
    models: ModuleType,
    interpretability: ModuleType,
    seed: int = 0,
    steps: int = STEPS,
    each_step: Callable[[], None] = lambda: None,
    *,
    every: int = EVERY,
    longer: int | None = None,
    at_checkpoint: Callable[[torch.nn.Module], None] = lambda model: None,
) -> Findings:
    """Train a GPT of `models`, chapter 7, and measure it with the functions of `interpretability`, chapter 12, every `every` steps.

    With `longer`, training ends this many steps after a head was found, or after `steps` steps. `at_checkpoint` is called with the model.
    """
    generator = torch.Generator().manual_seed(seed)
    exam = make_repeating_texts(64, torch.full((64, 1), EXAM), generator)  # (64, LENGTH + 1)
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        model = models.GPT(models.GPTConfig(VOCABULARY, LENGTH, d_model=64, n_heads=4, n_layers=2, d_ff=16, positions="rope"))
        optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
        checkpoints = [measure_checkpoint(model, interpretability, 0, exam)]
        at_checkpoint(model)
        last, step = steps, 0
        while step < last:
            step += 1
            texts = make_repeating_texts(BATCH, torch.randint(PERIODS[0], PERIODS[1] + 1, (BATCH, 1), generator=generator), generator)
            optimizer.param_groups[0]["lr"] = 3e-3 * min(1, step / 20)
            optimizer.zero_grad()
            model(texts[:, :-1], texts[:, 1:])[1].backward()
            optimizer.step()
            each_step()
            if step % every == 0 or step == last:
                checkpoints.append(measure_checkpoint(model, interpretability, step, exam))
                at_checkpoint(model)
                if longer is not None and max(checkpoints[-1].best) > FOUND:
                    last = min(last, step + longer)
    scores = interpretability.find_induction_heads(model, EXAM, 32, scoring_generator())
    layer, head = divmod(int(scores.argmax()), scores.size(1))
    other_periods = {period: interpretability.find_induction_heads(model, period, 32, scoring_generator())[layer, head].item() for period in NEW}
    patterns = interpretability.attention_patterns(model, exam[:, :-1]).mean(1)  # (n_layers, H, T, T)
    return Findings(checkpoints, scores.tolist(), other_periods, [[interpretability.classify_head(pattern) for pattern in heads] for heads in patterns])


def make_repeating_texts(n: int, periods: Tensor, generator: torch.Generator) -> Tensor:
    """Draw random texts (n, LENGTH + 1); row r repeats itself after periods[r] tokens."""
    tokens = torch.randint(VOCABULARY, (n, LENGTH + 1), generator=generator)
    return tokens.gather(1, torch.arange(LENGTH + 1) % periods)


def scoring_generator() -> torch.Generator:
    """Return a generator that gives the same sequences for every score."""
    return torch.Generator().manual_seed(0)


def measure_checkpoint(model: torch.nn.Module, interpretability: ModuleType, step: int, exam: Tensor) -> Checkpoint:
    with torch.no_grad():
        logits, _ = model(exam[:, :-1])  # (64, LENGTH, V); no dropout, so the mode makes no difference
    losses = F.cross_entropy(logits.transpose(1, 2), exam[:, 1:], reduction="none").mean(0)  # (LENGTH,)
    best = interpretability.find_induction_heads(model, EXAM, 8, scoring_generator()).amax(1).tolist()
    return Checkpoint(step, losses[: EXAM - 1].mean().item(), losses[EXAM:].mean().item(), best)


def make_table(found: Findings) -> Table:
    result_table = Table(title="loss per token in both halves, and the best induction score")
    for name in ("step", "first half", "second half", "layer 0", "layer 1"):
        result_table.add_column(name, justify="right")
    for point in found.checkpoints:
        here = "bold" if point.step == found.appeared else None
        result_table.add_row(str(point.step), f"{point.first:.2f}", f"{point.second:.2f}", *(f"{score:.2f}" for score in point.best), style=here)
    return result_table


def describe_findings(found: Findings) -> list[str]:
    """Describe the end of the table in sentences."""
    layer, head = found.head
    best, others = found.scores[layer][head], [f"{score:.2f} with period {period}" for period, score in found.other_periods.items()]
    when = f"An induction head appears by step {found.appeared}." if found.appeared else f"No head scored above {FOUND} in {found.checkpoints[-1].step} steps."
    lines = [when, f"The best is head {head} of layer {layer}: {best:.2f} with period {EXAM}, {' and '.join(others)}, not used in training."]
    return lines + [f"Heads of layer {layer}: {', '.join(names)}." for layer, names in enumerate(found.names)]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="headway measure induction", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps of training ({STEPS})")
    parser.add_argument("--target", metavar="DIR", default="solutions", help="the chapters to use: a folder with chapters 1 to 12, or `solutions` (the reference)")
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)  # this model is too small for more, and the sums come in one order
    console = Console()
    try:
        package = ChapterPackage(package_sources(resolve(asked.target), load_syllabus().chapter("ch12"), whole=True), "measured")
        models, interpretability = package.module("ch07_models"), package.module("ch12_interpretability")
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task("training", total=asked.steps)
            found = measure(models, interpretability, asked.seed, asked.steps, each_step=lambda: progress.advance(task))
    except (NoTarget, ChapterBroken, ModuleNotFoundError) as problem:
        parser.error(str(problem))
    except NotImplementedError:
        parser.error(f"{asked.target}: a part of the GPT, or of chapter 12, is not implemented yet")
    console.print(make_table(found))
    for line in describe_findings(found):
        console.print(line, highlight=False)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
