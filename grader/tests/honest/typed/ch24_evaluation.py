"""In the typed style: named steps, a dataclass where values belong together, every type written down."""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
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


def contaminated(example: str, corpus_ngrams: Collection[str], n: int) -> bool:
    runs: set[str] = shingles(normalise_answer(example), n)
    found: list[str] = [run for run in runs if run in corpus_ngrams]
    return len(found) > 0


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
