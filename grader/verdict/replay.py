"""Makes the calls of a failed test again, on the reference and on the reference with known mistakes, and compares the
replies."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from typing import Any

import torch
from grader.course.chapter_source import ChapterSource
from grader.course.known_mistakes import Base, Misconception, bases, misconceptions
from grader.course.source import replace_definition
from grader.course.syllabus import Exercise, load_syllabus
from grader.execution.calls import Exchange
from grader.execution.chapter_package import compiled
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
        if not strict or mistake_error["message"] == learner_error["message"]:
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
