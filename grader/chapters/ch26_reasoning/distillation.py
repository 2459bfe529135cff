"""Lab distillation: forward and reverse KL, on the teacher's answers and on the student's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import torch
from grader.chapters.small_models import names_of
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import result_table
from rich.table import Table
from torch import Tensor, nn

CHAPTERS = ("ch08_training", "ch26_reasoning")
KINDS = ("forward", "jsd", "reverse")
EVERYWHERE = torch.ones(1, 1, dtype=torch.bool)

# ---- a student that cannot be its teacher

NUMBERS, BUMPS, WIDTH = 21, ((5.0, 0.6), (15.0, 0.4)), 1.5  # where the teacher's bumps are, and how probable
BUMP_STEPS, BUMP_RATE = 400, 0.05
RARE = 0.01  # of the teacher's probabilities: numbers below it are not the teacher's


def two_bumps() -> Tensor:
    """The teacher's logits: its next token is a number near 5 or near 15; (1, 1, NUMBERS)."""
    x = torch.arange(NUMBERS)
    bumps = (weight * torch.softmax(-((x - middle) ** 2) / (2 * WIDTH**2), 0) for middle, weight in BUMPS)
    return sum(bumps).log()[None, None]  # type: ignore[union-attr]


def fit_bump(parts: Any, kind: str, seed: int) -> Tensor:
    """The log-probabilities of a student that has one bump, with a place and a width that it learns: (NUMBERS,). It
    begins near the teacher's first bump."""
    place = nn.Parameter(3 + 4 * torch.rand(1, generator=torch.Generator().manual_seed(seed)))
    log_width, teacher = nn.Parameter(torch.tensor([WIDTH]).log()), two_bumps()
    optimizer = parts.AdamW([place, log_width], lr=BUMP_RATE, betas=(0.9, 0.95), weight_decay=0.0)

    def logits() -> Tensor:
        return (-((torch.arange(NUMBERS) - place) ** 2) / (2 * log_width.exp() ** 2))[None, None]

    for _ in range(BUMP_STEPS):
        optimizer.zero_grad()
        parts.distillation_loss(logits(), teacher, EVERYWHERE, kind).backward()
        optimizer.step()
    return torch.log_softmax(logits().detach()[0, 0], 0)


# ---- whose answers a student learns on

PLACES, STEADY = 8, 0.97  # places of a walk; the teacher's probability of the right next step
BATCH_ROWS, WALK_STEPS, WALK_RATE = 16, 60, 0.1
WALKS = 4000
Tables: TypeAlias = Tensor  # (2 * PLACES, 2 * PLACES): logits of the next state, by the state


def teacher_table() -> Tables:
    """State i is place i of the path, and PLACES + i is a place off it. From both, the teacher goes to place
    i + 1 of the path, with the probability STEADY."""
    states = 2 * PLACES
    table = torch.full((states, states), (1 - STEADY) / (states - 1))
    for state in range(states):
        table[state, (state % PLACES + 1) % PLACES] = STEADY
    return table.log()


@torch.no_grad()
def walk(table: Tables, count: int, generator: torch.Generator) -> Tensor:
    """Walks from place 0, as states (count, PLACES)."""
    states = [torch.zeros(count, dtype=torch.int64)]
    for _ in range(PLACES - 1):
        chances = torch.softmax(table[states[-1]], -1)
        states.append(torch.multinomial(chances, 1, generator=generator)[:, 0])
    return torch.stack(states, 1)


def distil(parts: Any, kind: str, own: bool, seed: int) -> Tables:
    """A student that began with random logits, after learning on walks of the teacher's or on its own."""
    generator, teacher = torch.Generator().manual_seed(seed), teacher_table()
    student = nn.Parameter(2 * torch.randn(teacher.shape, generator=generator))
    optimizer = parts.AdamW([student], lr=WALK_RATE, betas=(0.9, 0.95), weight_decay=0.0)
    for _ in range(WALK_STEPS):
        states = walk(student if own else teacher, BATCH_ROWS, generator)[:, :-1]
        optimizer.zero_grad()
        mask = torch.ones_like(states, dtype=torch.bool)
        parts.distillation_loss(student[states], teacher[states], mask, kind).backward()
        optimizer.step()
    return student.detach()


def share_arrived(table: Tables, seed: int) -> float:
    """Of many walks, those that end where the teacher's do: at the last place of the path."""
    return float((walk(table, WALKS, torch.Generator().manual_seed(seed))[:, -1] == PLACES - 1).float().mean())


@torch.no_grad()
def distance(parts: Any, table: Tables, beside: bool) -> float:
    """The forward KL from the teacher, on average over the states on the path, or over those off it."""
    states = slice(PLACES, None) if beside else slice(0, PLACES)
    mask = torch.ones(1, PLACES, dtype=torch.bool)
    return float(parts.distillation_loss(table[None, states], teacher_table()[None, states], mask, "forward"))


def report_reasoning_distillation(chapters: ChapterPackage, seed: int) -> Iterator[Table | str]:
    """Lesson 26: forward and reverse KL, and whose answers the student learns on.

    First, the student cannot be its teacher: the teacher's next token is near 5 or near 15, and the student has only
    one bump, which begins near 5. "outside" is its share at numbers to which the teacher gives less than 1 %. Then it
    can: a table says where a walk of eight places goes next. In 3 % of its steps the teacher goes to any other place,
    on the path or off it, and from a place off it back to the path. A student that begins with random logits learns on
    60 batches of walks.
    """
    parts = names_of(*map(chapters.module, CHAPTERS))
    teacher, rows = torch.softmax(two_bumps()[0, 0], 0), []
    numbers = torch.arange(NUMBERS)
    with show_progress("training", len(KINDS) + 2 * len(KINDS)) as step:
        for kind in KINDS:
            log_probs = fit_bump(parts, kind, seed)
            student = log_probs.exp()
            mean = float((student * numbers).sum())
            spread = float((student * (numbers - mean) ** 2).sum().sqrt())
            kls = [
                float(parts.distillation_loss(log_probs[None, None], two_bumps(), EVERYWHERE, one))
                for one in ("forward", "reverse")
            ]
            outside = float(student[teacher < RARE].sum())
            rows.append([kind, f"{mean:.1f}", f"{spread:.1f}", f"{outside:.0%}", *(f"{kl:.2f}" for kl in kls)])
            step()
        columns = ("loss", "mean", "width", "outside", "forward KL", "reverse KL")
        yield result_table("A student with one bump, its teacher has two", columns, rows)
        rows = [["teacher", "-", f"{share_arrived(teacher_table(), seed):.0%}", "0.00", "0.00"]]
        for kind in KINDS:
            for own in (False, True):
                table = distil(parts, kind, own, seed)
                far = (f"{distance(parts, table, beside):.2f}" for beside in (False, True))
                rows.append([kind, "own" if own else "teacher's", f"{share_arrived(table, seed):.0%}", *far])
                step()
        heads = ("loss", "walks", "arrive", "KL on the path", "KL off it")
        yield result_table(f"After {WALK_STEPS} batches of walks", heads, rows)
