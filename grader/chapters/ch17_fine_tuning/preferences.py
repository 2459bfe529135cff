"""Pairs of answers: labels that are swapped, and reward models that do not see the question."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from grader.chapters.story_model import SmallModel, Text, train_small_model, update
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import result_table
from rich.table import Table
from torch import Tensor, nn

ROWS, LR, BETA = 16, 1e-3, 0.1
PAIRS, MORE_PAIRS = 400, 1600
SWAPPED = ((0, PAIRS), (10, PAIRS), (25, PAIRS), (25, MORE_PAIRS), (50, PAIRS))  # percent, pairs

Ids = list[int]


@dataclass(frozen=True)
class Pair:
    question: Ids
    chosen: Ids
    rejected: Ids

    @property
    def swapped(self) -> Pair:
        return Pair(self.question, self.rejected, self.chosen)


def make_pairs(texts: Sequence[Text], generator: torch.Generator) -> list[Pair]:
    """A pair for each text: the chosen answer is its own, the rejected one is that of another text.

    Each answer is chosen once and rejected once, so an answer alone does not say which of both it is.
    """
    order = torch.randperm(len(texts), generator=generator).tolist()
    following = [*order[1:], order[0]]
    return [Pair(texts[i].question, texts[i].answer, texts[j].answer) for i, j in zip(order, following)]


def longer_is_better(texts: Sequence[Text], generator: torch.Generator) -> list[Pair]:
    """As make_pairs, but only pairs whose chosen answer is the longer one."""
    pairs = make_pairs(texts, generator)
    return [pair for pair in pairs if len(pair.chosen) > len(pair.rejected)]


# ---- DPO on swapped labels


def log_probs(small: SmallModel, model: nn.Module, pairs: Sequence[Pair]) -> tuple[Tensor, Tensor]:
    """The log probabilities of the chosen and of the rejected answers, given the question: two (B,)."""
    windows = []
    for answers in ([pair.chosen for pair in pairs], [pair.rejected for pair in pairs]):
        for pair, answer in zip(pairs, answers):
            ids = [*pair.question, *answer]
            windows.append((ids[:-1], small.parts.answer_labels(ids, [(len(pair.question), len(ids))])))
    inputs, targets = small.parts.collate(windows)
    return small.parts.sequence_log_prob(model(inputs)[0], targets).chunk(2)


def train_dpo(
    small: SmallModel, pairs: Sequence[Pair], steps: int, seed: int, each_step: Callable[[], None]
) -> nn.Module:
    """A copy of the model that prefers what these pairs prefer."""
    policy, generator = copy.deepcopy(small.model), torch.Generator().manual_seed(seed)
    optimizer = small.parts.AdamW(policy.parameters(), lr=LR, betas=(0.9, 0.98), weight_decay=0.0)
    for drawn in _batches(pairs, steps, generator):
        with torch.no_grad():
            reference = log_probs(small, small.model, drawn)
        loss, _, _ = small.parts.dpo_loss(*log_probs(small, policy, drawn), *reference, BETA)
        update(small, policy, optimizer, loss)
        each_step()
    return policy


@torch.no_grad()
def share_preferred(small: SmallModel, policy: nn.Module, pairs: Sequence[Pair]) -> float:
    """The share of the pairs in which the policy's reward of the chosen answer is the larger one."""
    _, chosen, rejected = small.parts.dpo_loss(*log_probs(small, policy, pairs), *log_probs(small, small.model, pairs))
    return _share_won(chosen, rejected)


def _share_won(chosen: Tensor, rejected: Tensor) -> float:
    """The share in which chosen is larger; equal ones count half."""
    return ((chosen > rejected).double() + (chosen == rejected).double() / 2).mean().item()


def _batches(pairs: Sequence[Pair], steps: int, generator: torch.Generator) -> Iterator[list[Pair]]:
    """Batches of all pairs in a new order each time around."""
    order: list[int] = []
    for _ in range(steps):
        if len(order) < ROWS:
            order += torch.randperm(len(pairs), generator=generator).tolist()
        yield [pairs[i] for i in order[:ROWS]]
        del order[:ROWS]


def swap(pairs: Sequence[Pair], percent: int, generator: torch.Generator) -> list[Pair]:
    """The pairs, of which so many percent have their answers exchanged."""
    swapped = set(torch.randperm(len(pairs), generator=generator)[: len(pairs) * percent // 100].tolist())
    return [pair.swapped if i in swapped else pair for i, pair in enumerate(pairs)]


def report_tuning_noise(
    chapters: ChapterPackage, seed: int, *, pretraining: int = 400, steps: int = 100
) -> Iterator[Table | str]:
    """Lesson 17: DPO on preferences of which some are swapped: accuracy on held-out pairs without swapped ones.

    The chosen answer is the third sentence of a story; the rejected one is that of another story. The accuracy is the
    share of the pairs in which the chosen answer has the larger reward.
    """
    with show_progress("training", pretraining + len(SWAPPED) * steps) as step:
        small = train_small_model(chapters, seed, pretraining, step)
        held_out = make_pairs(small.held_out, torch.Generator().manual_seed(seed))
        rows = []
        for percent, count in SWAPPED:
            generator = torch.Generator().manual_seed(seed)
            pairs = swap(make_pairs(small.texts[:count], generator), percent, generator)
            policy = train_dpo(small, pairs, steps, seed, step)
            shares = (share_preferred(small, policy, some) for some in (pairs, held_out))
            rows.append([f"{percent} %", f"{len(pairs):,}", *(f"{share:.0%}" for share in shares)])
    columns = ("swapped", "pairs", "agrees with its pairs", "right on held-out pairs")
    yield result_table(f"After {steps} steps of {ROWS} pairs", columns, rows)


# ---- reward models that see less


def whole(question: Ids, answer: Ids) -> Ids:
    return [*question, *answer]


def only_answer(question: Ids, answer: Ids) -> Ids:
    return [question[0], *answer]


def only_length(question: Ids, answer: Ids) -> Ids:
    """As many tokens as the answer, all the same, between the same ends."""
    return [question[0]] * len(answer) + answer[-1:]


VIEWS = {"question and answer": whole, "the answer alone": only_answer, "its length alone": only_length}
BLIND_LR = 2e-3


def rewards(small: SmallModel, model: nn.Module, texts: Sequence[Ids]) -> Tensor:
    """The reward of each text: the logit of the end token, at its last position; (B,)."""
    ids, _ = small.parts.collate([(text, text) for text in texts])
    last = torch.tensor([len(text) - 1 for text in texts])
    return model(ids)[0][torch.arange(len(texts)), last, small.tokenizer.end_id]


def train_reward_model(
    small: SmallModel,
    pairs: Sequence[Pair],
    view: Callable[[Ids, Ids], Ids],
    steps: int,
    seed: int,
    each_step: Callable[[], None],
) -> nn.Module:
    """A copy of the model that gives rewards to what it sees of an answer."""
    model, generator = copy.deepcopy(small.model), torch.Generator().manual_seed(seed)
    optimizer = small.parts.AdamW(model.parameters(), lr=BLIND_LR, betas=(0.9, 0.98))
    for drawn in _batches(pairs, steps, generator):
        update(small, model, optimizer, small.parts.reward_loss(*_both_rewards(small, model, drawn, view)))
        each_step()
    return model


def _both_rewards(
    small: SmallModel, model: nn.Module, pairs: Sequence[Pair], view: Callable[[Ids, Ids], Ids]
) -> tuple[Tensor, Tensor]:
    chosen = [view(pair.question, pair.chosen) for pair in pairs]
    rejected = [view(pair.question, pair.rejected) for pair in pairs]
    return rewards(small, model, [*chosen, *rejected]).chunk(2)


def report_tuning_blind(
    chapters: ChapterPackage, seed: int, *, pretraining: int = 400, steps: int = 250
) -> Iterator[Table | str]:
    """Lesson 17: reward models that see only the answer, or only its length, on biased and on balanced pairs.

    The chosen answer is the third sentence of a story; the rejected one is that of another story. In the biased set,
    the chosen one is always longer. Each model is trained on one of the sets and tested on new pairs of both.
    """
    sets = {"biased": longer_is_better, "balanced": make_pairs}
    with show_progress("training", pretraining + len(VIEWS) * len(sets) * steps) as step:
        small = train_small_model(chapters, seed, pretraining, step)
        held_out = [make(small.held_out, torch.Generator().manual_seed(seed)) for make in sets.values()]
        rows = []
        for name, make in sets.items():
            pairs = make(small.texts, torch.Generator().manual_seed(seed))
            for view_name, view in VIEWS.items():
                model = train_reward_model(small, pairs, view, steps, seed, step)
                with torch.no_grad():
                    shares = [_share_won(*_both_rewards(small, model, some, view)) for some in held_out]
                rows.append([view_name, name, *(f"{share:.0%}" for share in shares)])
    columns = ("what it sees", "trained on", "biased pairs", "balanced pairs")
    yield result_table(f"Right on new pairs, after {steps} steps", columns, rows)
