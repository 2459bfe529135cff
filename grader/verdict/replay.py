"""Makes the calls of a failed test again, on the reference and on the reference with known mistakes, and compares the
replies."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from typing import Any

import torch
from grader.course.chapter_source import ChapterSource
from grader.course.known_mistakes import Base, Misconception, bases, misconceptions
from grader.course.source import replace_definition
from grader.course.syllabus import Exercise, load_syllabus
from grader.execution.chapter_package import compiled
from grader.execution.connection import Exchange
from grader.execution.errors import ChapterBroken, OutOfTime
from grader.execution.in_process import InProcessHost
from grader.execution.target import reference_of
from grader.execution.values import unpack

CACHE_BYTES, REPLY_BYTES = 1 << 28, 500  # limit of the cache of replies; about the size of a reply without its tensors

CALL_SECONDS, IMPORT_SECONDS = 2.0, 10.0

Reply = tuple[dict, list[bytes]]


@dataclass(frozen=True)
class Record:
    """The requests of one test's last example: enough to replay them on a known mistake."""

    test: str
    passed: bool
    seed: int
    log: list[Exchange]
    size: int = 0  # bytes that the code has sent

    @cached_property
    def paths(self) -> list[bytes]:
        """For each request a fingerprint of it and all requests before it."""
        digest, found = hashlib.blake2b(f"{self.test} {self.seed}".encode(), digest_size=16), []
        for exchange in self.log:
            digest.update(repr((exchange.op, exchange.tree)).encode())
            for buffer in exchange.buffers:
                digest.update(buffer)
            found.append(digest.digest())
        return found


# ---- the implementations


@dataclass(frozen=True)
class Version:
    """A wrong version of an exercise: a natural way to write it, with known mistakes in it."""

    base: Base
    mistakes: tuple[Misconception, ...] = ()


@cache
def text_with_mistake(module: str, mistake: Misconception) -> str:
    """The text of the reference's chapter with this one mistake. StaleEdit if the edit does not fit."""
    return mistake.applied_to_chapter(reference_chapter(module).text)


def reference_chapter(module: str) -> ChapterSource:
    """The reference's chapter, which exists wherever its tests and its mistakes do."""
    source = reference_of(module)
    assert source is not None
    return source


@cache
def _chapter_of(module: str, version: Version) -> ChapterSource | None:
    """The reference's chapter with this version of an exercise; None if the mistakes do not fit the base."""
    new = version.base.with_mistakes(version.mistakes)
    if new is None:
        return None
    right = reference_chapter(module)
    text = replace_definition(right.text, version.base.exercise, new)
    return ChapterSource(module, text, f"known mistakes/{module}.py", right.sealed)


def compile_mistakes(exercise: Exercise) -> None:
    """Compile the chapter with each known mistake of this exercise; processes forked from this one then need not."""
    known = misconceptions(exercise.module, exercise.name)
    for base, mistake in product(bases(exercise.module, exercise.name)[:1], known):
        if chapter := _chapter_of(exercise.module, Version(base, (mistake,))):
            compiled(chapter)


@contextmanager
def open_reference(exercise: Exercise) -> Iterator[Replayer]:
    with Replayer(exercise, reference_chapter(exercise.module)) as replayer:
        yield replayer


@contextmanager
def open_version(exercise: Exercise, version: Version) -> Iterator[Replayer | None]:
    """A replayer of the reference with this version; None if its mistakes do not fit."""
    own = _chapter_of(exercise.module, version)
    if own is None:
        yield None
        return
    with Replayer(exercise, own) as replayer:
        yield replayer


# ---- the replies


class Replayer:
    """Replays requests on an implementation: the reference, with `own` for the exercise's chapter."""

    def __init__(self, exercise: Exercise, own: ChapterSource) -> None:
        self.exercise, self.own = exercise, own
        self.host: InProcessHost | None = None

    def __enter__(self) -> Replayer:
        return self

    def __exit__(self, *_: object) -> None:
        if self.host:
            self.host.close()

    def replies(self, record: Record) -> Iterator[Reply]:
        """Its reply to each request of this record, computed when it is needed."""
        cached, host = _cache, None
        for place, exchange in enumerate(record.log):
            reply = cached.replies.get((self.own, record.paths[place])) if cached and host is None else None
            if reply is None:
                if host is None:  # all earlier replies came from the cache, so the host has not received their requests
                    host = self._start_host(record)
                    for earlier in record.log[:place]:
                        host.exchange(earlier.op, earlier.tree, earlier.buffers)
                reply = host.exchange(exchange.op, exchange.tree, exchange.buffers)
                if cached:
                    cached.store((self.own, record.paths[place]), reply)
            yield reply

    def _start_host(self, record: Record) -> InProcessHost:
        if self.host is None:
            chapter = load_syllabus().chapter(self.exercise.chapter)
            earlier = [other.name for other in load_syllabus().chapters if other.number < chapter.number]
            sources = [self.own, *filter(None, map(reference_of, earlier))]
            self.host = InProcessHost(sources, chapter.name, CALL_SECONDS, IMPORT_SECONDS)
        self.host.exchange("load", [], [])
        # forbidden calls are checked elsewhere
        self.host.exchange("begin", [record.seed, [], self.exercise.gradient], [])
        return self.host


class _ReplyCache:
    def __init__(self) -> None:
        self.replies: dict[tuple[ChapterSource, bytes], Reply] = {}
        self.bytes = 0

    def store(self, key: tuple[ChapterSource, bytes], reply: Reply) -> None:
        self.bytes += sum(map(len, reply[1])) + REPLY_BYTES
        if self.bytes <= CACHE_BYTES:
            self.replies[key] = reply


_cache: _ReplyCache | None = None


@contextmanager
def cache_replies() -> Iterator[None]:
    """In this context, cache the replies of references and mistakes, for trying many implementations."""
    global _cache
    _cache = _ReplyCache()
    try:
        yield
    finally:
        _cache = None


# ---- whether two replies are the same


def reply_matches(answer: Reply, exchange: Exchange, strict: bool = True) -> bool:
    """Is this reply the learner's? If not strict, errors only need to have the same type."""
    reply, out = answer
    # identical to the last bit, so nothing has to be unpacked
    if "value" in reply and out == exchange.out and repr(reply) == repr(exchange.reply):
        return True
    if reply.keys() != exchange.reply.keys():
        return False
    if "error" in reply:
        mistake_error, learner_error = reply["error"], exchange.reply["error"]
        if any(mistake_error[part] != learner_error[part] for part in ("kind", "type")):
            return False
        own_words = all(error["where"] and "raise " in error["where"][2] for error in (mistake_error, learner_error))
        if not strict or _without_own_names(mistake_error["message"]) == _without_own_names(learner_error["message"]):
            return True
        if mistake_error["type"] == "RecursionError":  # its message depends on the call at the limit
            return True
        errors = mistake_error, learner_error
        facts, learner_facts = (_message_facts(error["message"], exchange.tree) for error in errors)
        return own_words and (bool(facts & learner_facts) or not (facts or learner_facts))
    return values_match(unpack_value(reply["value"], out), unpack_value(exchange.reply["value"], exchange.out))


def agrees(
    replayer: Replayer | None, record: Record, matches: Callable[[Reply, Exchange], bool] = reply_matches
) -> bool:
    """Are all its replies the learner's?"""
    if replayer is None:
        return False
    try:
        return all(matches(reply, exchange) for reply, exchange in zip(replayer.replies(record), record.log))
    except (OutOfTime, ChapterBroken):
        return False


def _without_own_names(message: str) -> str:
    """An error message without the name of an autograd Function, which each learner chooses."""
    return re.sub(r"\bFunction \w+Backward\b", "Function Backward", message)


def _message_facts(message: str, request: Any) -> set[str]:
    """The facts in an error message, independent of its wording: numbers, and words that are in the request."""
    request_words = {word.casefold() for word in re.findall(r"\w+", json.dumps(request, ensure_ascii=False))}
    return {word for word in re.findall(r"\w+", message) if word.isdigit() or word.casefold() in request_words}


def unpack_value(tree: Any, buffers: list[bytes]) -> Any:
    return unpack(tree, buffers, lambda handle: ("handle", handle[0]))


def values_match(a: Any, b: Any) -> bool:
    """The same value up to rounding."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device:
            return False
        if a.device.type == "meta" or not a.is_floating_point():
            return a.device.type == "meta" or bool(torch.equal(a, b))
        a, b, half = a.double(), b.double(), a.dtype in (torch.bfloat16, torch.float16)
        if half:  # different correct code rounds in different places
            largest = float(b.nan_to_num(0, 0, 0).abs().amax()) if b.numel() else 0.0
            return bool(torch.allclose(a, b, rtol=0.05, atol=0.05 * largest, equal_nan=True))
        return bool(torch.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True))
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-6)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(values_match(x, y) for x, y in zip(a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(values_match(a[key], b[key]) for key in a)
    return a == b


# ---- how these replies compare with the learner's, and how much an agreement says

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
