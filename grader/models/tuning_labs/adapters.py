"""What an adapter of each rank learns, and what a model forgets when it is tuned."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from grader.execution.chapter_package import ChapterPackage
from grader.models.tuning_labs.small_model import SmallModel, perplexity, train, train_small_model, trained_parameters
from grader.teaching.measurements import result_table
from grader.teaching.walks.progress_line import show_progress
from rich.table import Table
from torch import nn

RANKS = (1, 2, 4, 8)
SEEDS = 2  # for each row
LAYERS = ("W_q", "W_k", "W_v", "W_out", "up", "down")  # all linear layers of the blocks
SCALE = 2  # alpha / rank
LR, FULL_LR = 1e-2, 3e-3
NAMES = "mia anna lily nora zoe ella rosa tara ben tom max leo sam omar finn ravi"
EVERY = 5  # one text of so many is a story, where stories are mixed in

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


def tuned(
    small: SmallModel,
    texts: Sequence[Ids],
    rank: int | None,
    steps: int,
    seed: int,
    each_step: Callable[[], None],
    lr: float | None = None,
) -> nn.Module:
    """A copy of the model, trained on these texts: all its weights, or an adapter of this rank."""
    model = copy.deepcopy(small.model)
    if rank is not None:
        torch.manual_seed(seed)
        small.parts.add_lora(model, rank, SCALE * rank, LAYERS)
    train(small, model, texts, steps, lr or (FULL_LR if rank is None else LR), seed, each_step)
    return model


def report_tuning_rank(
    chapters: ChapterPackage, seed: int, *, pretraining: int = 400, steps: int = 150
) -> Iterator[Table | str]:
    """Lesson 17: what adapters of several ranks learn, beside full fine-tuning: perplexity on held-out texts.

    A small GPT has read stories. The first task is the same stories, in which all people have one name. The second
    is the same stories from the last word to the first. Each row is trained twice, with other random numbers.
    """
    ranks = (*RANKS, None)
    with show_progress("training", pretraining + len(ranks) * len(TASKS) * SEEDS * steps) as step:
        small = train_small_model(chapters, seed, pretraining, step)
        rows = [["before", "0"], *([f"rank {rank}" if rank else "all weights"] for rank in ranks)]
        for change in TASKS.values():
            texts, held_out = ([change(small, text.ids) for text in some] for some in (small.texts, small.held_out))
            measure = partial(perplexity, small, texts=held_out)
            rows[0] += [f"{measure(small.model):,.2f}"] * SEEDS
            for row, rank in zip(rows[1:], ranks):
                models = [tuned(small, texts, rank, steps, seed + i, step) for i in range(SEEDS)]
                row[1:] = row[1:] or [f"{sum(parameter.numel() for parameter in trained_parameters(models[0])):,}"]
                row += [f"{measure(model):,.2f}" for model in models]
    columns = [heading for name in TASKS for heading in (name, "again")]
    yield result_table("Perplexity on held-out texts of the task", ("", "trained numbers", *columns), rows)


def report_tuning_forgetting(
    chapters: ChapterPackage, seed: int, *, pretraining: int = 400, steps: int = 150
) -> Iterator[Table | str]:
    """Lesson 17: what a model forgets when it is tuned: its perplexity on the task and on stories, as it read before.

    The tasks are those of tuning_rank. Where stories are mixed in, every fifth text of the training is one.
    """
    ways: tuple[tuple[str, int | None, float | None, bool], ...] = (
        ("all weights", None, None, False),
        ("a tenth of the learning rate", None, FULL_LR / 10, False),
        ("all weights, stories mixed in", None, None, True),
        ("rank 8", 8, None, False),
        ("rank 8, stories mixed in", 8, None, True),
    )
    rows = [["before"], *([name] for name, *_ in ways), ["rank 8, the adapter taken off"]]
    with show_progress("training", pretraining + len(ways) * len(TASKS) * steps) as step:
        small = train_small_model(chapters, seed, pretraining, step)
        stories = [text.ids for text in small.texts]
        for change in TASKS.values():
            held_out = [text.ids for text in small.held_out]
            both = [change(small, ids) for ids in held_out], held_out
            models = [small.model]
            for _, rank, lr, is_mixed in ways:
                texts = [ids if is_mixed and i % EVERY == 0 else change(small, ids) for i, ids in enumerate(stories)]
                models.append(tuned(small, texts, rank, steps, seed, step, lr))
            models.append(without_adapter(small, models[4]))
            for row, model in zip(rows, models):
                row += [f"{perplexity(small, model, some):,.2f}" for some in both]
    columns = [heading for name in TASKS for heading in (name, "stories")]
    yield result_table("Perplexity on held-out texts", ("", *columns), rows)


def without_adapter(small: SmallModel, model: nn.Module) -> nn.Module:
    """A copy in which each linear layer is the wrapped one again."""
    model = copy.deepcopy(model)
    for name, module in list(model.named_modules()):
        if isinstance(module, small.parts.LoRALinear):
            model.set_submodule(name, module.linear)
    return model
