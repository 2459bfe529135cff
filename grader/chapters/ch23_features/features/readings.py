"""What a feature means: a rule such as "the token is boat or ship" that says where it is active.

A rule names a place (this token, the one before, the next one) and at most four tokens. It is found on one half of the
texts and scored on the other. Only strong activations count: those above a third of the feature's largest. The
precision is the share of their sum that is where the rule says, the recall is the share of the rule's places that have
one, and the score is 2 · precision · recall / (precision + recall). Random directions get rules in the same way: a
feature has a reading if its score is above that of 95 % of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from grader.chapters.ch23_features.features.opened import HeldOut
from torch import Tensor
from torch.nn import functional as F

MOST_TOKENS = 4
STRONG = 1 / 3  # of the largest activation
WORTH = 0.02  # a rule with more tokens is better by so much
CONTROL_SHARE = 0.95  # of the random directions; a score above theirs is a reading
LEAST_ACTIVE = 20  # tokens in all, to say something about a feature
PLACES = ("this token", "the token before", "the next token")


@dataclass(frozen=True)
class Reading:
    place: str
    tokens: list[int]
    precision: float  # on the second half, as the others
    recall: float
    score: float


def tokens_at(texts: HeldOut) -> dict[str, Tensor]:
    """The token that each place means, for every token of the texts: (N,) each."""
    before = torch.cat([texts.inputs[:, :1], texts.inputs[:, :-1]], 1)  # the first token has none; it is its own
    following = texts.targets.clamp_min(0)
    return dict(zip(PLACES, (each[texts.mask] for each in (texts.inputs, before, following))))


def find_readings(active: Tensor, tokens: dict[str, Tensor], vocab_size: int) -> list[Reading]:
    """The best rule of each column of `active` (N, F), for the tokens (N,) at each place."""
    half, n = len(active) // 2, active.size(1)
    active = active * (active > STRONG * active.amax(0))
    best, found = torch.full((n,), -1.0), [Reading(PLACES[0], [], 0.0, 0.0, 0.0)] * n
    for place, ids in tokens.items():
        first, second = (_counts(active[part], ids[part], vocab_size) for part in (slice(half), slice(half, None)))
        order = first[1].topk(min(MOST_TOKENS, vocab_size), dim=0).indices  # (tokens, F)
        for count in range(1, len(order) + 1):
            chosen = order[:count]
            _, _, seen = _score(*first, chosen)
            precision, recall, score = (each.tolist() for each in _score(*second, chosen))
            better = seen > best + (WORTH if count > 1 else 0.0)
            best = torch.where(better, seen, best)
            for i in better.nonzero()[:, 0].tolist():
                found[i] = Reading(place, chosen[:, i].tolist(), precision[i], recall[i], score[i])
    return found


def _counts(active: Tensor, ids: Tensor, vocab_size: int) -> tuple[Tensor, Tensor, Tensor]:
    """By token: at how many of its places each feature is active (V, F), how active in all (V, F), and its places."""
    empty = torch.zeros(vocab_size, active.size(1))
    places = torch.bincount(ids, minlength=vocab_size).float()
    return empty.index_add(0, ids, (active > 0).float()), empty.index_add(0, ids, active), places


def _score(on: Tensor, activation: Tensor, places: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Precision, recall and score of the rules that name these tokens (tokens, F)."""
    precision = activation.gather(0, chosen).sum(0) / activation.sum(0).clamp_min(1e-9)
    recall = on.gather(0, chosen).sum(0) / places[chosen].sum(0).clamp_min(1.0)
    return precision, recall, 2 * precision * recall / (precision + recall).clamp_min(1e-9)


def random_directions(states: Tensor, shares: Tensor, seed: int) -> Tensor:
    """How active as many random directions are at the states (N, D): each at that share of them where it is largest,
    (N, F). `shares` are those of the features, so both are compared at equal activity."""
    generator = torch.Generator().manual_seed(seed)
    directions = F.normalize(torch.randn(len(shares), states.size(1), generator=generator), dim=1)
    projected = (states - states.mean(0)) @ directions.T
    kept = (shares * len(states)).round().long().clamp(1, len(states) - 1)
    least = projected.sort(dim=0, descending=True).values.gather(0, kept[None])  # the first that is not kept
    return torch.relu(projected - least)


def threshold(control: list[Reading]) -> float:
    """The score above which a feature has a reading."""
    return float(torch.tensor([one.score for one in control]).quantile(CONTROL_SHARE))
