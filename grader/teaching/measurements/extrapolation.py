"""Lesson 4: the loss of four GPTs that differ only in their positions, at 1, 2 and 4 times the trained length.

The language is artificial. Each token is, with equal probability, either the token ECHO places before it (a model must know distances
for that), or a follower of the previous token (a model needs only that token). Nothing depends on earlier tokens, and a longer
text is even a little easier: a higher loss at later places comes from the positions.
"""

from __future__ import annotations

import argparse
import math
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

SCHEMES = ("learned", "sinusoidal", "rope", "alibi")
TIMES = (1, 2, 4)
VOCABULARY = 24
ECHO = 3  # places back
SURE = 0.9  # the probability of a token's two favourite followers; all tokens share the rest
LENGTH = 16
STEPS = 1000


@dataclass(frozen=True)
class Row:
    """`at[n]` is the mean loss over texts of n tokens, `beyond` that over the positions after the trained length, `places` that of each position from ECHO - 1."""

    name: str
    at: dict[int, float]
    beyond: float
    places: tuple[float, ...] = ()


def measure(
    chapter: ModuleType,
    seed: int = 0,
    length: int = LENGTH,
    steps: int = STEPS,
    texts: int = 200,
    each_step: Callable[[], None] = lambda: None,
    trained: Callable[[str, torch.nn.Module, Tensor], None] = lambda scheme, model, texts: None,
) -> list[Row]:
    """Train the four models on the same texts of `length` tokens, and test them on longer ones; `trained` is called with each model and the test texts.

    Two rows come first: the language's true probabilities, and those of each token after the previous one, counted in the training texts.
    """
    language = _draw_language(seed)
    generator = torch.Generator().manual_seed(seed)
    lessons = _draw_texts(language, 32 * steps, length, generator)[0].view(steps, 32, length + 1)
    exam, chances = _draw_texts(language, texts, TIMES[-1] * length, generator)
    best = -chances.log().mean(0)
    last_alone = -_estimate_followers(lessons).log()[exam[:, ECHO - 1 : -1], exam[:, ECHO:]].mean(0)
    rows = [_make_row("best possible", best, length), _make_row("last token alone", last_alone, length)]
    for scheme in SCHEMES:
        model = train(chapter, scheme, lessons, seed, each_step)
        trained(scheme, model.eval(), exam[:, :-1])
        with torch.no_grad():
            logits, _ = model.eval()(exam[:, :-1])  # (B, T, V)
        losses = F.cross_entropy(logits.transpose(1, 2), exam[:, 1:], reduction="none").mean(0)  # (T,)
        rows.append(_make_row(scheme, losses[ECHO - 1 :], length))
    return rows


def train(chapter: ModuleType, scheme: str, lessons: Tensor, seed: int, each_step: Callable[[], None] = lambda: None) -> torch.nn.Module:
    """Train a small GPT on each batch of `lessons` once. A table of positions has rows for the longest text, but only the first ones are trained."""
    steps, _, length = lessons[:, :, 1:].shape
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = chapter.GPT(chapter.GPTConfig(VOCABULARY, TIMES[-1] * length, d_model=32, n_heads=4, n_layers=2, positions=scheme))
    optimizer = torch.optim.Adam(model.parameters())
    for step, batch in enumerate(lessons):
        targets = batch[:, 1:].clone()
        targets[:, : ECHO - 1] = -100  # their echo lies before the text
        optimizer.param_groups[0]["lr"] = 3e-3 * min((step + 1) / 30, 0.01 + math.cos(math.pi / 2 * step / steps) ** 2)
        optimizer.zero_grad()
        model(batch[:, :-1], targets)[1].backward()
        optimizer.step()
        each_step()
    return model


def _draw_language(seed: int) -> Tensor:
    """Draw the language: the probabilities (V, V) of each token's followers without an echo."""
    generator = torch.Generator().manual_seed(seed)
    chances = torch.full((VOCABULARY, VOCABULARY), (1 - SURE) / VOCABULARY)
    for token in range(VOCABULARY):
        chances[token, torch.randperm(VOCABULARY, generator=generator)[:2]] += SURE / 2
    return chances


def _draw_texts(followers: Tensor, n: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw texts (n, length + 1), and return the true probability of each token after the first ECHO, (n, length + 1 - ECHO)."""
    tokens, chances = list(torch.randint(VOCABULARY, (ECHO, n), generator=generator)), []
    for _ in range(length + 1 - ECHO):
        chance = (followers[tokens[-1]] + F.one_hot(tokens[-ECHO], VOCABULARY)) / 2  # (n, V)
        tokens.append(torch.multinomial(chance, 1, generator=generator)[:, 0])
        chances.append(chance.gather(1, tokens[-1][:, None])[:, 0])
    return torch.stack(tokens, 1), torch.stack(chances, 1)


def _estimate_followers(lessons: Tensor) -> Tensor:
    """Estimate the probabilities (V, V) of each token after each token from the texts."""
    pairs = lessons[..., ECHO - 1 : -1].flatten() * VOCABULARY + lessons[..., ECHO:].flatten()
    counts = pairs.bincount(minlength=VOCABULARY**2).view(VOCABULARY, VOCABULARY) + 1.0
    return counts / counts.sum(1, keepdim=True)


def _make_row(name: str, losses: Tensor, length: int) -> Row:
    """Make a row from the losses of positions ECHO - 1 and later."""
    ends = {times * length: times * length - (ECHO - 1) for times in TIMES}
    return Row(name, {n: losses[:end].mean().item() for n, end in ends.items()}, losses[ends[length] :].mean().item(), tuple(losses.tolist()))


def make_table(rows: list[Row]) -> Table:
    lengths = list(rows[0].at)
    shown = Table(title="mean loss in nats per token, by length of text")
    shown.add_column("positions")
    for times, n in zip(TIMES, lengths):
        shown.add_column(f"{times}x ({n})", justify="right")
    shown.add_column(f"only places {lengths[0] + 1} to {lengths[-1]}", justify="right")
    for row in rows:
        shown.add_row(row.name, *(f"{loss:.2f}" for loss in row.at.values()), f"{row.beyond:.2f}")
    return shown


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="headway measure extrapolation", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--length", type=int, default=LENGTH, help=f"length of the training texts ({LENGTH})")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps of training ({STEPS})")
    parser.add_argument("--target", metavar="DIR", default="solutions", help="the chapters to use: a folder with chapters 1 to 7, or `solutions` (the reference)")
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)  # these models are too small for more, and the sums come in one order
    console = Console()
    try:
        package = ChapterPackage(package_sources(resolve(asked.target), load_syllabus().chapter("ch07"), whole=True), "measured")
        chapter = package.module("ch07_models")
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task(f"training {len(SCHEMES)} models", total=len(SCHEMES) * asked.steps)
            rows = measure(chapter, asked.seed, asked.length, asked.steps, each_step=lambda: progress.advance(task))
    except (NoTarget, ChapterBroken, ModuleNotFoundError) as problem:
        parser.error(str(problem))
    except NotImplementedError:
        parser.error(f"{asked.target}: a part of the GPT is not implemented yet")
    console.print(make_table(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
