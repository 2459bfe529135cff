"""In the typed style: named steps, a dataclass where values belong together, every type written down."""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist
from typing import Any, Final

import torch
from torch import Tensor, nn

from .ch09_sampling import looking_at
from .ch19_data_and_scale import shingles

ARTICLES: Final[frozenset[str]] = frozenset({"a", "an", "the"})
WITHOUT_MARKS: Final[dict[int, int | None]] = str.maketrans("", "", string.punctuation)


class Kind(StrEnum):
    SUM = "sum"
    TOKEN = "token"
    BYTE = "byte"


def choice_score(log_probs: Sequence[float], n_bytes: int, kind: str = "byte") -> float:
    if kind not in list(Kind):
        raise ValueError(f"kind must be one of {[each.value for each in Kind]}, got {kind!r}")
    if not log_probs:
        raise ValueError("log_probs must not be empty")
    if n_bytes <= 0:
        raise ValueError(f"n_bytes must be positive, got {n_bytes}")
    total: float = math.fsum(log_probs)
    divisors: dict[Kind, int] = {Kind.SUM: 1, Kind.TOKEN: len(log_probs), Kind.BYTE: n_bytes}
    return total / divisors[Kind(kind)]


@dataclass(frozen=True)
class Continuation:
    """A choice behind its question: all ids, and where the choice's own ones begin."""

    choice: str
    ids: tuple[int, ...]
    start: int

    def score(self, logits: Tensor, kind: str) -> float:
        """The score from the logits (T, V) of this text."""
        own: Tensor = torch.tensor(self.ids[self.start :], device=logits.device)
        before: Tensor = logits[self.start - 1 : len(self.ids) - 1].to(torch.float32)
        log_probs: Tensor = -nn.functional.cross_entropy(before, own, reduction="none")
        return choice_score(log_probs.tolist(), len(self.choice.encode("utf-8")), kind)


def _continue(tokenizer: Any, question: str, choice: str) -> Continuation:
    asked: list[int] = list(tokenizer.encode(question))
    ids: tuple[int, ...] = tuple(tokenizer.encode(question + choice))
    start: int = 0
    for one, other in zip(asked, ids):
        if one != other:
            break
        start += 1
    if start == 0:
        raise ValueError(f"question = {question!r} shares no token with the text that {choice!r} ends")
    if start == len(ids):
        raise ValueError(f"choices must add a token each, and {choice!r} adds none")
    return Continuation(choice, ids, start)


def score_choices(
    model: nn.Module, tokenizer: Any, question: str, choices: Sequence[str], kind: str = "byte"
) -> list[float]:
    if not choices:
        raise ValueError("choices must not be empty")
    texts: list[Continuation] = [_continue(tokenizer, question, choice) for choice in choices]
    width: int = max(len(text.ids) for text in texts)
    device: torch.device = next(model.parameters()).device
    batch: Tensor = torch.tensor([[*text.ids, *[text.ids[0]] * (width - len(text.ids))] for text in texts])
    with looking_at(model):
        output: Tensor | tuple[Tensor, ...] = model(batch.to(device))
        logits: Tensor = output[0] if isinstance(output, tuple) else output
    return [text.score(row, kind) for text, row in zip(texts, logits)]


def normalise_answer(text: str) -> str:
    without_marks: str = text.lower().translate(WITHOUT_MARKS)
    words: list[str] = [word for word in without_marks.split() if word not in ARTICLES]
    return " ".join(words)


def _normalised(answers: Sequence[str]) -> list[str]:
    if not answers:
        raise ValueError("answers must have at least one entry")
    return [normalise_answer(answer) for answer in answers]


def exact_match(text: str, answers: Sequence[str]) -> bool:
    return normalise_answer(text) in _normalised(answers)


@dataclass(frozen=True)
class Overlap:
    precision: float
    recall: float

    @property
    def f1(self) -> float:
        total: float = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total > 0 else 0.0


def _overlap(text: list[str], answer: list[str]) -> Overlap:
    if not text or not answer:
        same: float = 1.0 if text == answer else 0.0
        return Overlap(same, same)
    shared: int = sum((Counter(text) & Counter(answer)).values())
    return Overlap(shared / len(text), shared / len(answer))


def token_f1(text: str, answers: Sequence[str]) -> float:
    words: list[str] = normalise_answer(text).split()
    return max(_overlap(words, answer.split()).f1 for answer in _normalised(answers))


def pass_at_k(n: int, correct: int, k: int) -> float:
    if correct not in range(n + 1):
        raise ValueError(f"correct must be from 0 to n = {n}, got {correct}")
    if k not in range(1, n + 1):
        raise ValueError(f"k must be from 1 to n = {n}, got {k}")
    wrong: int = n - correct
    if wrong < k:
        return 1.0
    places: Tensor = torch.arange(k, dtype=torch.float64)
    all_wrong: Tensor = ((wrong - places) / (n - places)).log().sum().exp()
    return 1.0 - all_wrong.item()


EXACT_LIMIT: Final[int] = 20
DRAWS: Final[int] = 10_000
COLDEST: Final[float] = 0.01
HOTTEST: Final[float] = 100.0


@dataclass
class Cluster:
    total: float = 0.0
    count: int = 0

    def add(self, value: float) -> None:
        self.total += float(value)
        self.count += 1


def _clusters(values: Sequence[float], names: Sequence[Hashable] | None) -> list[Cluster]:
    if names is None:
        return [Cluster(float(value), 1) for value in values]
    if len(names) != len(values):
        raise ValueError(f"clusters must have {len(values)} names, got {len(names)}")
    found: dict[Hashable, Cluster] = {}
    for name, value in zip(names, values, strict=True):
        found.setdefault(name, Cluster()).add(value)
    return list(found.values())


def bootstrap_interval(
    values: Sequence[float],
    level: float = 0.95,
    resamples: int = 2000,
    generator: torch.Generator | None = None,
    clusters: Sequence[Hashable] | None = None,
) -> tuple[float, float]:
    if len(values) == 0:
        raise ValueError("values must not be empty")
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must be between 0 and 1, got {level}")
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, got {resamples}")
    groups: list[Cluster] = _clusters(values, clusters)
    size: int = len(groups)
    uniform: Tensor = torch.ones(size, dtype=torch.float64).expand(resamples, size)
    drawn: Tensor = torch.multinomial(uniform, size, replacement=True, generator=generator)  # (resamples, size)
    totals: Tensor = torch.tensor([group.total for group in groups], dtype=torch.float64)
    counts: Tensor = torch.tensor([group.count for group in groups], dtype=torch.float64)
    means: Tensor = torch.take(totals, drawn).sum(dim=1) / torch.take(counts, drawn).sum(dim=1)
    tail: float = (1.0 - level) / 2.0
    return float(torch.quantile(means, tail)), float(torch.quantile(means, 1.0 - tail))


@dataclass(frozen=True)
class SignFlips:
    """The differences that are not 0, and how far their sum is from 0."""

    differences: Tensor

    @property
    def threshold(self) -> float:
        """What a sum as far as the one that was seen reaches, in spite of rounding."""
        return float(self.differences.sum().abs() - 1e-10 * self.differences.abs().max())

    def count_far(self, negative: Tensor) -> int:
        """Of these ways (ways, m), True for a minus: how many sums are as far?"""
        sums: Tensor = torch.where(negative, -self.differences, self.differences).sum(dim=1)
        return int(torch.count_nonzero(sums.abs() >= self.threshold))

    def all_ways(self) -> Iterator[Tensor]:
        """In parts of at most 2 ** 14 ways."""
        m: int = self.differences.numel()
        powers: Tensor = 2 ** torch.arange(m)
        for numbers in torch.arange(2**m).split(2**14):
            yield numbers[:, None].bitwise_and(powers) != 0


def paired_test(a: Sequence[float], b: Sequence[float], generator: torch.Generator | None = None) -> float:
    if len(a) != len(b) or len(a) == 0:
        raise ValueError(f"a and b must have equally many scores, at least one; got {len(a)} and {len(b)}")
    each: list[float] = [float(x) - float(y) for x, y in zip(a, b, strict=True)]
    differences: Tensor = torch.tensor([x for x in each if x != 0.0], dtype=torch.float64)
    m: int = differences.numel()
    if m == 0:
        return 1.0
    flips = SignFlips(differences)
    if m <= EXACT_LIMIT:
        return sum(flips.count_far(ways) for ways in flips.all_ways()) / 2**m
    drawn: Tensor = torch.rand(DRAWS, m, generator=generator, dtype=torch.float64) < 0.5
    return (1 + flips.count_far(drawn)) / (1 + DRAWS)


def questions_needed(accuracy: float, difference: float, power: float = 0.8) -> int:
    if not 0.0 <= accuracy <= 1.0:
        raise ValueError(f"accuracy must be from 0 to 1, got {accuracy}")
    if difference <= 0.0:
        raise ValueError(f"difference must be above 0, got {difference}")
    better: float = accuracy + difference
    if better > 1.0 and not math.isclose(better, 1.0, rel_tol=1e-9):
        raise ValueError(f"accuracy + difference must be at most 1, got difference = {difference}")
    if not 0.5 < power < 1.0:
        raise ValueError(f"power must be between 0.5 and 1, got {power}")
    normal: NormalDist = NormalDist()
    quantiles: float = normal.inv_cdf(1.0 - 0.05 / 2.0) + normal.inv_cdf(power)
    variance: float = sum(p * (1.0 - p) for p in (accuracy, min(better, 1.0)))
    return max(1, math.ceil(quantiles**2 * variance / difference**2))


def calibration_error(confidence: Tensor, correct: Tensor, bins: int = 10) -> float:
    if confidence.numel() == 0:
        raise ValueError("confidence must not be empty")
    inside: Tensor = torch.logical_and(confidence >= 0.0, confidence <= 1.0)
    if not bool(inside.all()):
        raise ValueError("confidence must have probabilities only")
    if correct.shape != confidence.shape:
        raise ValueError(f"correct must have the shape {tuple(confidence.shape)}, got {tuple(correct.shape)}")
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}")
    c: Tensor = confidence.to(torch.float64)
    right: Tensor = correct.to(torch.float64)
    place: Tensor = torch.clamp(torch.floor(c * bins), max=bins - 1)
    error: float = 0.0
    for number in place.unique().tolist():
        members: Tensor = place == number
        share: float = members.double().mean().item()
        error += share * abs(c[members].mean().item() - right[members].mean().item())
    return error


def _mean_loss(scores: Tensor, temperature: float) -> float:
    """Scores are the logits minus the target's."""
    return float(torch.logsumexp(scores / temperature, dim=1).mean())


def fit_temperature(logits: Tensor, targets: Tensor) -> float:
    if logits.shape[0] == 0:
        raise ValueError("logits must have at least one row")
    z: Tensor = logits.detach().to(torch.float64)
    scores: Tensor = z - torch.gather(z, 1, targets.unsqueeze(1))
    low: float = math.log(COLDEST)
    high: float = math.log(HOTTEST)
    while high - low > 1e-13:
        third: float = (high - low) / 3.0
        left, right = low + third, high - third
        if _mean_loss(scores, math.exp(left)) < _mean_loss(scores, math.exp(right)):
            high = right
        else:
            low = left
        if third < 1e-13:
            break
    middle: float = math.exp((low + high) / 2.0)
    return min((middle, COLDEST, HOTTEST), key=lambda temperature: _mean_loss(scores, temperature))


def contaminated(example: str, corpus_ngrams: Collection[str], n: int) -> bool:
    runs: set[str] = shingles(normalise_answer(example), n)
    found: list[str] = [run for run in runs if run in corpus_ngrams]
    return len(found) > 0


def bradley_terry(wins: Tensor) -> Tensor:
    if wins.dim() != 2 or wins.shape[0] != wins.shape[1]:
        raise ValueError(f"wins must be square, got {tuple(wins.shape)}")
    if bool(torch.any(wins < 0)):
        raise ValueError("wins must not have numbers below 0")
    players: int = wins.shape[0]
    itself: Tensor = torch.eye(players, dtype=torch.bool, device=wins.device)
    count: Tensor = (wins.to(torch.float64) + 0.5).masked_fill(itself, 0.0)
    games: Tensor = count + count.transpose(0, 1)
    ratings: Tensor = torch.zeros(players, dtype=torch.float64, device=wins.device)
    for _ in range(500):
        chance: Tensor = torch.sigmoid(ratings.unsqueeze(1) - ratings.unsqueeze(0))
        slope: Tensor = (count - games * chance).sum(dim=1)
        weight: Tensor = games * chance * (1.0 - chance)
        laplacian: Tensor = torch.diag(weight.sum(dim=1)) - weight
        step: Tensor = torch.linalg.solve(laplacian + weight.mean() + itself.double() * (players == 1), slope)
        longest: float = float(step.abs().max())
        ratings = ratings + step / max(1.0, 2.0 * longest)
        if longest < 1e-10:
            break
    return (ratings - ratings.mean()).to(torch.float32)


def agreement(a: Sequence[Hashable], b: Sequence[Hashable]) -> float:
    if len(a) != len(b) or not a:
        raise ValueError(f"a and b must have equally many labels, got {len(a)} and {len(b)}")
    cases: int = len(a)
    observed: float = sum(one == other for one, other in zip(a, b)) / cases
    of_a: Counter[Hashable] = Counter(a)
    of_b: Counter[Hashable] = Counter(b)
    by_chance: float = sum((of_a[label] / cases) * (of_b[label] / cases) for label in of_a.keys() & of_b.keys())
    if len(of_a) == 1 and of_a.keys() == of_b.keys():
        return 1.0
    return (observed - by_chance) / (1.0 - by_chance)


class Verdict(StrEnum):
    FIRST = "first"
    SECOND = "second"
    TIE = "tie"


def _ask(judge: Callable[[str, str], str], first: str, second: str) -> Verdict:
    said: str = judge(first, second)
    if not isinstance(said, str) or said not in list(Verdict):
        raise ValueError(f"the judge must say one of {[each.value for each in Verdict]}, got {said!r}")
    return Verdict(said)


def judge_both_orders(judge: Callable[[str, str], str], a: str, b: str) -> str:
    in_order: Verdict = _ask(judge, a, b)
    reversed_order: Verdict = _ask(judge, b, a)
    match (in_order, reversed_order):
        case (Verdict.FIRST, Verdict.SECOND):
            return "a"
        case (Verdict.SECOND, Verdict.FIRST):
            return "b"
        case _:
            return "tie"
