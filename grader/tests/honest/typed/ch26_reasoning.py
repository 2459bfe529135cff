"""In the typed style: named steps, a dataclass where values belong together, every type written down."""

from __future__ import annotations

import math
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from .ch09_sampling import generate

AVERAGES: Final[tuple[str, ...]] = ("token", "sequence", "fixed")


@dataclass(frozen=True)
class Bounds:
    low: float
    high: float

    def objective(self, ratio: Tensor, advantage: Tensor) -> Tensor:
        """The ratio stops at one bound only: at the upper one for good answers, at the lower one for bad ones."""
        stopped: Tensor = torch.where(advantage > 0, ratio.clamp(max=1 + self.high), ratio.clamp(min=1 - self.low))
        return stopped * advantage


def _grouped(rewards: Tensor, group_size: int, smallest: int) -> Tensor:
    if group_size < smallest:
        raise ValueError(f"group_size must be at least {smallest}, got {group_size}")
    count, rest = divmod(rewards.shape[0], group_size)
    if rest:
        raise ValueError(f"{rewards.shape[0]} rewards are not a multiple of group_size = {group_size}")
    return rewards.reshape(count, group_size)


def leave_one_out_advantages(rewards: Tensor, group_size: int) -> Tensor:
    groups: Tensor = _grouped(rewards, group_size, smallest=2)
    own: Tensor = torch.eye(group_size, dtype=rewards.dtype, device=rewards.device)
    of_the_others: Tensor = groups @ (1 - own) / (group_size - 1)
    return torch.flatten(groups - of_the_others)


def informative_groups(rewards: Tensor, group_size: int) -> Tensor:
    groups: Tensor = _grouped(rewards, group_size, smallest=1)
    smallest, largest = torch.aminmax(groups, dim=1)
    return torch.repeat_interleave(torch.ne(smallest, largest), group_size)


def long_answer_penalty(lengths: Tensor, soft: int, hard: int) -> Tensor:
    if not soft < hard:
        raise ValueError(f"expected soft < hard, got soft = {soft} and hard = {hard}")
    beyond: Tensor = (lengths.to(torch.float32) - soft).clamp(min=0, max=hard - soft)
    return torch.neg(beyond / (hard - soft))


def _change(now: Tensor, before: Tensor, mask: Tensor) -> Tensor:
    """The differences of the log probabilities, and 0 where the mask is False; `before` is fixed."""
    return torch.where(mask, now - before.detach(), torch.zeros_like(now))


def kl_loss(log_probs: Tensor, reference_log_probs: Tensor, mask: Tensor) -> Tensor:
    half_square: Tensor = 0.5 * torch.square(_change(log_probs, reference_log_probs, mask))
    return torch.sum(half_square) / max(1, int(mask.sum()))


def asymmetric_policy_loss(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    low: float = 0.2,
    high: float = 0.28,
    average: str = "token",
    length: float | None = None,
) -> Tensor:
    if average not in AVERAGES:
        raise ValueError(f"average must be one of {AVERAGES}, got {average!r}")
    weights: Tensor = mask.to(log_probs.dtype)
    if average == "fixed":
        if length is None or length <= 0:
            raise ValueError(f"the fixed average needs a length above 0, got {length}")
        weights = weights / (mask.shape[0] * length)
    elif average == "sequence":
        tokens: Tensor = weights.sum(dim=1, keepdim=True)
        weights = weights / tokens.clamp(min=1) / torch.count_nonzero(tokens).clamp(min=1)
    else:
        weights = weights / weights.sum().clamp(min=1)
    ratio: Tensor = torch.exp(_change(log_probs, old_log_probs, mask))
    advantage: Tensor = advantages.detach().unsqueeze(-1).expand_as(ratio)
    return -torch.sum(weights * Bounds(low, high).objective(ratio, advantage))


def sequence_policy_loss(
    log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, mask: Tensor, low: float = 0.2, high: float = 0.28
) -> Tensor:
    tokens: Tensor = mask.sum(dim=1)
    change: Tensor = _change(log_probs, old_log_probs, mask)
    ratio: Tensor = torch.exp(change.sum(dim=1) / tokens.clamp(min=1))
    objective: Tensor = Bounds(low, high).objective(ratio, advantages.detach())
    counts: Tensor = (tokens > 0).to(objective.dtype)
    return -torch.dot(objective, counts) / counts.sum().clamp(min=1)


def truncated_weights(train_log_probs: Tensor, rollout_log_probs: Tensor, cap: float) -> Tensor:
    if cap <= 0:
        raise ValueError(f"cap must be positive, got {cap}")
    with torch.no_grad():
        ratio: Tensor = torch.exp(train_log_probs - rollout_log_probs)
        return torch.clamp(ratio, max=cap)


def entropy(logits: Tensor, mask: Tensor) -> Tensor:
    counted: Tensor = mask.unsqueeze(-1)
    safe: Tensor = torch.where(counted, logits, torch.zeros_like(logits))
    probabilities: Tensor = torch.softmax(safe, dim=-1)
    logs: Tensor = torch.log_softmax(safe, dim=-1)
    possible: Tensor = torch.isfinite(safe)
    surprise: Tensor = torch.where(possible, logs, torch.zeros_like(logs)).neg()
    each: Tensor = (probabilities * surprise).sum(dim=-1)
    places: int = int(mask.sum().item())
    return torch.where(mask, each, torch.zeros_like(each)).sum() / max(places, 1)


class Kind(StrEnum):
    FORWARD = "forward"
    REVERSE = "reverse"
    JSD = "jsd"


def _kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    return torch.sum(log_p.exp() * (log_p - log_q), dim=-1)


def distillation_loss(
    student_logits: Tensor, teacher_logits: Tensor, mask: Tensor, kind: str = "forward", temperature: float = 1.0
) -> Tensor:
    try:
        wanted: Kind = Kind(kind)
    except ValueError as problem:
        raise ValueError(f"kind must be one of {[each.value for each in Kind]}, not {kind!r}") from problem
    if temperature <= 0.0:
        raise ValueError(f"temperature must be positive, got {temperature}")
    student: Tensor = torch.log_softmax(student_logits[mask].div(temperature), dim=-1)
    with torch.no_grad():
        teacher: Tensor = torch.log_softmax(teacher_logits[mask].div(temperature), dim=-1)
    match wanted:
        case Kind.FORWARD:
            distance = _kl(teacher, student)
        case Kind.REVERSE:
            distance = _kl(student, teacher)
        case Kind.JSD:
            half: float = math.log(0.5)
            mixture: Tensor = torch.logaddexp(student + half, teacher + half)
            distance = torch.stack([_kl(teacher, mixture), _kl(student, mixture)]).mean(dim=0)
    places: int = max(distance.numel(), 1)
    return distance.sum() * (temperature * temperature / places)


A = TypeVar("A", bound=Hashable)
C = TypeVar("C")


def majority_vote(answers: Sequence[A | None], weights: Sequence[float] | None = None) -> A | None:
    if weights is not None and len(weights) != len(answers):
        raise ValueError(f"got {len(weights)} weights for {len(answers)} answers")
    ballots: Iterable[tuple[A | None, float]] = zip(answers, weights or [1.0] * len(answers))
    votes: OrderedDict[A, float] = OrderedDict()
    for answer, weight in ballots:
        if answer is not None:
            votes.setdefault(answer, 0.0)
            votes[answer] += weight
    if not votes:
        return None
    most: float = max(votes.values())
    return next(answer for answer, total in votes.items() if total == most)


def best_of(candidates: Sequence[C | None], score: Callable[[C], float]) -> C | None:
    present: list[C] = [candidate for candidate in candidates if candidate is not None]
    if not present:
        return None
    scores: list[float] = [score(candidate) for candidate in present]
    return present[max(range(len(scores)), key=scores.__getitem__)]


class _State(NamedTuple):
    used: int
    ties: int


def expected_vote(probabilities: Sequence[float], n: int) -> float:
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    total: float = math.fsum(probabilities)
    if not probabilities or any(p < 0.0 for p in probabilities) or total > 1.0 + 1e-6:
        raise ValueError(f"not valid probabilities: {list(probabilities)}")
    silence: float = max(1.0 - total, 0.0)
    right, *wrong = probabilities

    def given(c: int) -> float:
        """The chance that the right answer wins, if it has c votes."""
        states: dict[_State, float] = {_State(0, 0): 1.0}
        for p in wrong:
            following: defaultdict[_State, float] = defaultdict(float)
            for state, chance in states.items():
                left: int = n - c - state.used
                for votes in range(min(c, left) + 1):
                    after = _State(state.used + votes, state.ties + int(votes == c))
                    following[after] += chance * math.comb(left, votes) * p**votes
            states = dict(following)
        return sum(chance * silence ** (n - c - state.used) / (1 + state.ties) for state, chance in states.items())

    return sum(math.comb(n, c) * right**c * given(c) for c in range(1, n + 1))


@dataclass
class _Writer:
    model: nn.Module
    temperature: float
    generator: torch.Generator | None
    text: list[int]

    def peek(self) -> int:
        """The token that the model would write next; it is not written yet."""
        device: torch.device = next(self.model.parameters()).device
        ids: Tensor = torch.tensor(self.text, dtype=torch.int64, device=device).unsqueeze(0)
        longer: Tensor = generate(self.model, ids, 1, temperature=self.temperature, generator=self.generator)
        return int(longer[0, -1].item())


def think(
    model: nn.Module,
    prompt_ids: Sequence[int],
    end_think_id: int,
    minimum: int,
    maximum: int,
    continue_ids: Sequence[int],
    eos_id: int | None = None,
    max_answer_tokens: int = 32,
    temperature: float = 0.0,
    generator: torch.Generator | None = None,
) -> tuple[list[int], list[int]]:
    if minimum > maximum:
        raise ValueError(f"minimum ({minimum}) must not exceed maximum ({maximum})")
    if minimum > 0 and len(continue_ids) == 0:
        raise ValueError("continue_ids must not be empty when there is a minimum")
    writer = _Writer(model, temperature, generator, list(prompt_ids))
    begin: Final[int] = len(writer.text)
    while (thought := len(writer.text) - begin) < maximum:
        token: int = writer.peek()
        if token != end_think_id:
            writer.text.append(token)
        elif thought < minimum:
            room: int = maximum - thought
            writer.text.extend(list(continue_ids)[:room])
        else:
            break
    thinking: list[int] = writer.text[begin:]
    writer.text.append(end_think_id)
    answer: list[int] = []
    while len(answer) < max_answer_tokens:
        token = writer.peek()
        if eos_id is not None and token == eos_id:
            break
        writer.text.append(token)
        answer.append(token)
    return thinking, answer
