"""How the replies of an implementation compare with the learner's, and how much an agreement says."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from grader.execution.calls import Exchange
from grader.execution.errors import ChapterBroken, OutOfTime
from grader.verdict.replay import Record, Replayer, Reply, reply_matches, unpack_value, values_match

MAX_REPLY_WEIGHT = 8.0

FULL = "full"
OTHER_FAULT = "other fault"  # the mistake gives the right reply: something else made the learner's reply wrong
CORNER = "corner"  # the learner's reply is right, or it is finite where the mistake's is not: other code differs there
CONFLICT = "conflict"  # both replies are wrong, in different ways


@dataclass(frozen=True)
class Comparison:
    """Which of the learner's replies in a record are wrong, and what it says if a mistake gives the same."""

    record: Record
    rights: list[Reply]  # the reference's replies
    weights: list[float | None]  # for each reply; None: it is the reference's

    @property
    def most(self) -> float:
        """The weight of all wrong replies."""
        return sum(weight or 0.0 for weight in self.weights)

    def without_weight(self) -> list[float | None]:
        return [None if weight is None else 0.0 for weight in self.weights]


@dataclass(frozen=True)
class Match:
    """How far the replies of a mistake are the learner's in one record, up to the first that is not."""

    end: str  # what ends the comparison: the record (FULL), or the first other reply, one of the following
    weight: float = 0.0  # of the agreeing wrong replies

    @property
    def full(self) -> bool:
        return self.end == FULL

    @property
    def explains(self) -> bool:
        return self.weight > 0 and (self.full or self.end == OTHER_FAULT and self.weight >= 2.0)


def compare_with_reference(reference: Replayer, record: Record) -> Comparison:
    rights, weights = [], []
    with suppress(OutOfTime):  # the rest of the record is not compared
        for reply, exchange in zip(reference.replies(record), record.log):
            rights.append(reply)
            weights.append(None if reply_matches(reply, exchange, strict=False) else _weight(reply, exchange))
    return Comparison(record, rights, weights)


def match(replayer: Replayer | None, facts: Comparison) -> Match:
    """Compare the replies in a failing record."""
    if replayer is None:
        return Match(CONFLICT)
    weight = 0.0
    try:
        compared = zip(replayer.replies(facts.record), facts.record.log, facts.rights, facts.weights)
        for reply, exchange, right, wrong in compared:
            if not reply_matches(reply, exchange):
                return Match(_difference(reply, exchange, right, wrong is None), weight)
            weight += wrong or 0.0
    except (OutOfTime, ChapterBroken):
        return Match(CONFLICT, weight)
    return Match(FULL, weight)


def _difference(reply: Reply, exchange: Exchange, right: Reply, learner_is_right: bool) -> str:
    if learner_is_right:
        return CORNER
    is_right = reply_matches(right, replace(exchange, reply=reply[0], out=reply[1]), strict=False)
    if is_right or matches_but_for_nan(reply, exchange):
        return OTHER_FAULT
    return CORNER if _is_number(exchange.reply, exchange.out) and not _is_number(*reply) else CONFLICT


def _is_number(reply: dict, out: list[bytes]) -> bool:
    """Is the reply a value without NaN?"""
    return "value" in reply and not _has_nan(unpack_value(reply["value"], out))


def _leaves(value: Any) -> Iterator[Any]:
    """The parts of a value that are no containers."""
    if isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _leaves(part)
    else:
        yield value


def _has_nan(value: Any) -> bool:
    def is_nan(leaf: Any) -> bool:
        if isinstance(leaf, torch.Tensor):
            return not leaf.is_meta and bool(leaf.isnan().any())
        return leaf != leaf

    return any(map(is_nan, _leaves(value)))


def matches_but_for_nan(answer: Reply, exchange: Exchange) -> bool:
    """Is this reply the learner's, but for NaN in gradients? How far it spreads depends on how code is written."""
    if exchange.op != "gradients" or "value" not in answer[0] or "value" not in exchange.reply:
        return reply_matches(answer, exchange)
    one, other = unpack_value(answer[0]["value"], answer[1]), unpack_value(exchange.reply["value"], exchange.out)
    if not isinstance(one, dict) or not isinstance(other, dict) or not values_match(one["output"], other["output"]):
        return False
    return _match_but_for_nan([one["inputs"], one["parameters"]], [other["inputs"], other["parameters"]])


def _match_but_for_nan(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if a.shape != b.shape or a.dtype != b.dtype or not a.is_floating_point() or a.is_meta or b.is_meta:
            return values_match(a, b)
        number = ~(a.isnan() | b.isnan())
        return values_match(a, b) or bool(a.isnan().any() and b.isnan().any()) and values_match(a[number], b[number])
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(_match_but_for_nan(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and type(a) is type(b):
        return len(a) == len(b) and all(map(_match_but_for_nan, a, b))
    return values_match(a, b)


def _values(replayer: Replayer, record: Record) -> Iterator[tuple[Any, Any]]:
    """The values that it replies, each with the learner's."""
    for (reply, out), exchange in zip(replayer.replies(record), record.log):
        if "value" in reply:
            yield unpack_value(reply["value"], out), unpack_value(exchange.reply["value"], exchange.out)


def distance(replayer: Replayer, record: Record) -> float:
    """The largest difference between a number of its replies and the learner's, which agree up to rounding."""
    leaves = (pair for mine, learners in _values(replayer, record) for pair in zip(_leaves(mine), _leaves(learners)))
    return max((_distance(mine, learners) for mine, learners in leaves), default=0.0)


def _distance(a: Any, b: Any) -> float:
    if isinstance(a, torch.Tensor):
        if a.is_meta or not a.numel():
            return 0.0
        return float((a.double() - b.double()).abs().nan_to_num(0.0, 0.0, 0.0).max())
    return abs(a - b) if isinstance(a, float) and math.isfinite(a - b) else 0.0


def rounded_alike(replayer: Replayer, record: Record) -> bool:
    """Are the same float64 tensors of its replies and of the learner's numbers that float32 can hold?

    Then both were computed in float32, in whatever order.
    """
    pairs = [tuple(map(_with_float32_digits, pair)) for pair in _values(replayer, record)]
    return any(any(mine) for mine, _ in pairs) and all(mine == learners for mine, learners in pairs)


def _with_float32_digits(value: Any) -> list[bool]:
    """For each float64 tensor in a value: has it numbers with a fraction, and none that float32 cannot hold?"""
    tensors = (x for x in _leaves(value) if isinstance(x, torch.Tensor) and x.dtype == torch.float64 and not x.is_meta)
    return [bool((x != x.trunc()).any()) and _fits_float32(x) for x in tensors]


def _fits_float32(x: torch.Tensor) -> bool:
    return torch.equal(x.float().double().nan_to_num(0.0), x.nan_to_num(0.0))


def first_different(replayer: Replayer, record: Record) -> int:
    """The place of the first reply that is not the learner's; errors only need to have the same type."""
    place = 0
    with suppress(OutOfTime, ChapterBroken):
        for place, (reply, exchange) in enumerate(zip(replayer.replies(record), record.log)):
            if not reply_matches(reply, exchange, strict=False):
                return place
        return len(record.log)
    return place


# ---- how much it says


def _weight(right: Reply, exchange: Exchange) -> float:
    """How much it says if a mistake gives this wrong reply too: about the number of unusual values in it, at most
    MAX_REPLY_WEIGHT.

    Zeros, infinities, NaN and constants come from many mistakes, and so do errors.
    """
    if "error" in exchange.reply:
        return 0.5
    value = unpack_value(exchange.reply["value"], exchange.out)
    if "error" in right[0]:
        return max(1.0, min(MAX_REPLY_WEIGHT, _unusual(value, None)))
    return min(MAX_REPLY_WEIGHT, _unusual(value, unpack_value(right[0]["value"], right[1])))


def _unusual(value: Any, right: Any) -> float:
    """About the number of unusual values among those that are wrong."""
    if right is not None and values_match(value, right):
        return 0.0
    if isinstance(value, torch.Tensor):
        return _unusual_elements(value, right)
    if isinstance(value, dict):
        other = right if isinstance(right, dict) and list(right) == list(value) else {}
        return sum(_unusual(part, other.get(key)) for key, part in value.items())
    if isinstance(value, list | tuple):
        if all(isinstance(part, int | str) for part in value):
            return min(2.0, len(set(value)) / 2)
        others = right if isinstance(right, list | tuple) and len(right) == len(value) else [None] * len(value)
        return sum(_unusual(part, other) for part, other in zip(value, others))
    if isinstance(value, str):  # one word may be one of a few names
        return min(2.0, len(value.split()) / 2)
    if isinstance(value, float):
        return 1.5 if math.isfinite(value) and value not in (0.0, 1.0, -1.0) else 0.25
    return 0.25


def _unusual_elements(value: torch.Tensor, right: Any) -> float:
    if value.device.type == "meta" or value.is_complex() or not value.numel():
        return 0.25
    x = value.double()
    same_shape = isinstance(right, torch.Tensor) and right.shape == value.shape and right.device == value.device
    if not same_shape or right.is_complex():
        if value.is_floating_point():
            return _distinct(x)
        return max(_distinct(x) / 2, _pattern(int((x != x.flatten()[0]).sum()), x.numel()))
    if bool((x == x.flatten()[0]).all()) or not bool(x.isfinite().any()):
        return 0.25
    y = right.double()
    # the code in process may have replaced torch.isclose
    different = ~(((x - y).abs() <= 1e-5 + 1e-4 * y.abs()) | (x == y) | (x.isnan() & y.isnan()))
    numbers = different & x.isfinite() & y.isfinite() & (y != 0) if value.is_floating_point() else different & False
    count = int(different.sum())
    pattern = _pattern(count, different.numel()) if count < different.numel() else float(len(x.unique()) > 1)
    return max(_distinct(x[numbers]), pattern, 0.25)


def _pattern(count: int, size: int) -> float:
    """What it says that these places, and not the others, have one of two values."""
    return min(2.0, min(count, size - count) / 4)


def _distinct(x: torch.Tensor) -> float:
    """The number of different finite values, 0 and 1 left out."""
    x = x.flatten()[:400]
    x = x[x.isfinite() & (x != 0) & (x.abs() != 1)]
    return float(len({f"{number:.4g}" for number in x.tolist()}))
