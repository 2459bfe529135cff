"""What an adapter of each rank learns, and what a model forgets when it is tuned."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from grader.chapters.story_model import SmallModel, perplexity, train, train_small_model, trained_parameters
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import result_table
from rich.table import Table
from torch import nn

ADAPTED_LAYERS = ("W_q", "W_k", "W_v", "W_out", "up", "down")  # all linear layers of the blocks
HEAD = ("lm_head",)
SEEDS_A_ROW = 2
ALPHA_BY_RANK = 2
LR, FULL_LR = 1e-2, 3e-3
NAMES = "mia anna lily nora zoe ella rosa tara ben tom max leo sam omar finn ravi"
TEXTS_A_STORY = 5  # where stories are mixed in

Ids = list[int]
Task = Callable[[SmallModel, Ids], Ids]


def one_name(small: SmallModel, ids: Ids) -> Ids:
    """The same text, but all people have the first name."""
    names = small.tokenizer.encode(NAMES)
    return [names[0] if i in names else i for i in ids]


def backwards(small: SmallModel, ids: Ids) -> Ids:
    """The same words from the last to the first, between the same ends."""
    return [ids[0], *reversed(ids[1:-1]), ids[-1]]


TASKS: dict[str, Task] = {"one name": one_name, "backwards": backwards}


class Way(NamedTuple):
    """How a model is tuned: with an adapter of this rank in these layers, or all its weights."""

    name: str
    rank: int | None = None
    layers: tuple[str, ...] = ADAPTED_LAYERS
    lr: float = LR
    stories_mixed_in: bool = False


FULL = Way("all weights", lr=FULL_LR)
HEAD_ALONE = Way("rank 1, head only", 1, HEAD)
RANKS = (*(Way(f"rank {rank}", rank) for rank in (1, 2, 4, 8)), HEAD_ALONE, FULL)
ADAPTER = Way("rank 8", 8)
FORGETTING = (
    FULL,
    FULL._replace(name="a tenth of the learning rate", lr=FULL_LR / 10),
    FULL._replace(name="all weights, stories mixed in", stories_mixed_in=True),
    ADAPTER,
    ADAPTER._replace(name="rank 8, stories mixed in", stories_mixed_in=True),
    HEAD_ALONE,
)


def tuned(small: SmallModel, task: Task, way: Way, steps: int, seed: int, each_step: Callable[[], None]) -> nn.Module:
    """A copy of the model that has been tuned for the task."""
    stories = [text.ids for text in small.texts]
    is_story = [way.stories_mixed_in and i % TEXTS_A_STORY == 0 for i in range(len(stories))]
    texts = [ids if keep else task(small, ids) for ids, keep in zip(stories, is_story)]
    model = copy.deepcopy(small.model)
    if way.rank is not None:
        torch.manual_seed(seed)
        small.parts.add_lora(model, way.rank, ALPHA_BY_RANK * way.rank, way.layers)
    train(small, model, texts, steps, way.lr, seed, each_step)
    return model


def report_tuning_rank(
    chapters: ChapterPackage, seed: int, *, pretraining: int = 400, steps: int = 120
) -> Iterator[Table | str]:
    """Lesson 17: what adapters of several ranks learn, beside full fine-tuning: perplexity on held-out texts.

    A small GPT has read stories. The first task is the same stories, in which all people have one name. The second
    is the same stories from the last word to the first. Adapters are in all linear layers of the blocks, in one row
    only in the head. Each row is trained twice, with other random numbers.
    """
    with show_progress("training", pretraining + len(RANKS) * len(TASKS) * SEEDS_A_ROW * steps) as step:
        small = train_small_model(chapters, seed, pretraining, step)
        rows = [["before", "0"], *([way.name] for way in RANKS)]
        for task in TASKS.values():
            held_out = [task(small, text.ids) for text in small.held_out]
            rows[0] += [_write(perplexity(small, small.model, held_out))] * SEEDS_A_ROW
            for row, way in zip(rows[1:], RANKS):
                models = [tuned(small, task, way, steps, seed + i, step) for i in range(SEEDS_A_ROW)]
                row[1:] = row[1:] or [f"{sum(parameter.numel() for parameter in trained_parameters(models[0])):,}"]
                row += [_write(perplexity(small, model, held_out)) for model in models]
    columns = [heading for name in TASKS for heading in (name, "again")]
    yield result_table("Perplexity on held-out texts of the task", ("", "trained numbers", *columns), rows)


def report_tuning_forgetting(
    chapters: ChapterPackage, seed: int, *, pretraining: int = 400, steps: int = 120
) -> Iterator[Table | str]:
    """Lesson 17: what a model forgets when it is tuned: its perplexity on the task and on stories, as it read before.

    The tasks are those of tuning_rank. Where stories are mixed in, every fifth text of the training is one.
    """
    rows = [["before"], *([way.name] for way in FORGETTING), ["rank 8, the adapter taken off"]]
    with show_progress("training", pretraining + len(FORGETTING) * len(TASKS) * steps) as step:
        small = train_small_model(chapters, seed, pretraining, step)
        stories = [text.ids for text in small.held_out]
        for task in TASKS.values():
            models = {way: tuned(small, task, way, steps, seed, step) for way in FORGETTING}
            shown = (small.model, *models.values(), without_adapter(small, models[ADAPTER]))
            for row, model in zip(rows, shown):
                for texts in ([task(small, ids) for ids in stories], stories):
                    row.append(_write(perplexity(small, model, texts)))
    columns = [heading for name in TASKS for heading in (name, "stories")]
    yield result_table("Perplexity on held-out texts", ("", *columns), rows)


def _write(number: float) -> str:
    return f"{number:,.2f}" if number < 100 else f"{number:,.0f}"


def without_adapter(small: SmallModel, model: nn.Module) -> nn.Module:
    """A copy in which each linear layer is the wrapped one again."""
    model = copy.deepcopy(model)
    for name, module in list(model.named_modules()):
        if isinstance(module, small.parts.LoRALinear):
            model.set_submodule(name, module.linear)
    return model
