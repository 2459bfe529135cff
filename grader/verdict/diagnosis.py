"""Recognises known mistakes in the learner's code.

Tests are deterministic and use an implementation only across the boundary, so a mistake can be recognised by its answers: the tests' requests to
the learner's code are replayed on each mistaken reference. The diagnosis names the mistake whose answers agree everywhere, or else the one that
gives most of the same wrong answers. Otherwise there is no diagnosis, because a false one is worse than none.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from grader.course.chapter_source import ChapterSource
from grader.course.known_mistakes import Misconception, StaleEdit, misconceptions
from grader.course.sealed import reader as sealed
from grader.course.source import SourceProblem
from grader.course.syllabus import Exercise, load_syllabus
from grader.execution.errors import ChapterBroken, OutOfTime
from grader.execution.in_process import InProcessHost
from grader.execution.proxy import Exchange
from grader.execution.target import reference_of
from grader.execution.values import unpack
from grader.verdict.results import Diagnosis
from grader.verdict.trial import Record

CACHE_BYTES, REPLY_BYTES = 1 << 28, 500  # limit of the cache of replies; about the size of a reply without its tensors

Reply = tuple[dict, list[bytes]]
Map = Callable[[Callable[["Misconception"], int], list["Misconception"]], Iterable[int]]


@cache
def text_with_mistake(module: str, mistake: Misconception) -> str:
    """The text of the reference's chapter with this one mistake. StaleEdit if the edit does not fit."""
    return mistake.applied_to_chapter(_reference_chapter(module).text)


def _reference_chapter(module: str) -> ChapterSource:
    """The reference's chapter, which exists wherever its tests and its mistakes do."""
    source = reference_of(module)
    assert source is not None
    return source


def _mistaken_source(module: str, mistake: Misconception) -> ChapterSource:
    filename = f"known mistake/{module}.py"
    if mistake.edit:
        return sealed.apply_mistake(module, mistake.edit, filename)
    return ChapterSource(module, text_with_mistake(module, mistake), filename)


def diagnose(exercise: Exercise, records: list[Record], each: Map = map) -> Diagnosis | None:
    """The known mistake that gives the learner's answers, in every test or in nearly every one, or None.

    `each` applies a function to all known mistakes, perhaps in parallel; one after another this is most of the work.
    """
    failing = sorted((record for record in records if not record.passed and record.log), key=lambda record: len(record.log))
    passing = [record for record in records if record.passed]
    if not failing:
        return None
    known = list(misconceptions(exercise.module, exercise.name))
    fitting = [mistake for mistake, fits in zip(known, each(lambda mistake: _explains_all(mistake, exercise, failing), known)) if fits]
    with _Replayer(exercise, _reference_chapter(exercise.module)) as reference:
        informative = [record for record in passing if _replies_match(reference, record, strict=False)]
    found = [mistake for mistake in fitting if _explains_all(mistake, exercise, informative, strict=False)]
    found = found or _best_partial_match(known, exercise, failing, informative, each)
    if len(found) != 1:
        return None
    explained = failing if fitting else [record for record in failing if _explains_all(found[0], exercise, [record])]
    return Diagnosis(found[0].id, found[0].says, found[0].hint, [record.test for record in explained])


def _best_partial_match(known: list[Misconception], exercise: Exercise, failing: list[Record], informative: list[Record], each: Map) -> list[Misconception]:
    """The mistakes that explain most of the wrong answers better than any other mistake.

    Code that makes a mistake in a different way may differ from the mistaken reference in a corner case, or have a second fault. But the same
    wrong numbers in test after test are no coincidence. Tests in which an error was raised carry too little information to count.
    """
    wrong = [record for record in failing if not any("error" in exchange.reply for exchange in record.log)]
    points = list(each(lambda mistake: _score_mistake(mistake, exercise, wrong, informative), known))
    return [mistake for mistake, score in zip(known, points) if score and score == max(points)]


def _score_mistake(mistake: Misconception, exercise: Exercise, wrong: list[Record], informative: list[Record]) -> int:
    """How much better this mistake explains the answers than the correct reference does; 0 if it explains too few."""
    with _open_mistaken(mistake, exercise) as replayer:
        fits = 0
        for tried, record in enumerate(wrong, start=1):
            fits += _replies_match(replayer, record)
            if 3 * (tried - fits) > len(wrong) or (tried == 2 and not fits):
                return 0
        clashes = sum(not _replies_match(replayer, record, strict=False) for record in informative) if fits else 0
    return fits - clashes if fits >= 3 and clashes <= 1 or fits == len(wrong) and not clashes else 0


def _explains_all(mistake: Misconception, exercise: Exercise, records: list[Record], strict: bool = True) -> bool:
    with _open_mistaken(mistake, exercise) as replayer:
        return all(_replies_match(replayer, record, strict) for record in records)


@contextmanager
def _open_mistaken(mistake: Misconception, exercise: Exercise) -> Iterator[_Replayer | None]:
    """A replayer of the reference with this mistake; None if the edit does not fit, which `headway dev-check` reports to the maintainer."""
    try:
        replayer = _Replayer(exercise, _mistaken_source(exercise.module, mistake))
    except (StaleEdit, SourceProblem):
        yield None
        return
    with replayer:
        yield replayer


class _Replayer:
    """Replays requests on an implementation: the reference, with `own` for the exercise's chapter."""

    def __init__(self, exercise: Exercise, own: ChapterSource) -> None:
        self.exercise, self.own = exercise, own
        self.host: InProcessHost | None = None

    def __enter__(self) -> _Replayer:
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
            neighbours = [reference_of(earlier.name) for earlier in load_syllabus().chapters if earlier.number < chapter.number]
            self.host = InProcessHost([self.own, *filter(None, neighbours)], chapter.name, 2.0, 10.0)
        self.host.exchange("load", [], [])
        self.host.exchange("begin", [record.seed, [], self.exercise.gradient], [])  # forbidden calls are checked elsewhere
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
    """In this context, cache the replies of references and mistakes: for trying many implementations of one exercise."""
    global _cache
    _cache = _ReplyCache()
    try:
        yield
    finally:
        _cache = None


def _replies_match(replayer: _Replayer | None, record: Record, strict: bool = True) -> bool:
    """Does the replayer answer this record as the learner's code did? If not strict, errors only need to have the same type."""
    if replayer is None:
        return False
    try:
        return all(_reply_matches(reply, exchange, strict) for reply, exchange in zip(replayer.replies(record), record.log))
    except (OutOfTime, ChapterBroken):
        return False


def _reply_matches(answer: Reply, exchange: Exchange, strict: bool) -> bool:
    reply, out = answer
    if "value" in reply and out == exchange.out and repr(reply) == repr(exchange.reply):  # identical to the last bit, so nothing has to be unpacked
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
        facts, learner_facts = (_message_facts(error["message"], exchange.tree) for error in (mistake_error, learner_error))
        return own_words and (bool(facts & learner_facts) or not (facts or learner_facts))
    return values_match(_unpack_value(reply["value"], out), _unpack_value(exchange.reply["value"], exchange.out))


def _message_facts(message: str, request: Any) -> set[str]:
    """The facts in an error message, independent of its wording: numbers, and words that are in the request."""
    request_words = {word.casefold() for word in re.findall(r"\w+", json.dumps(request, ensure_ascii=False))}
    return {word for word in re.findall(r"\w+", message) if word.isdigit() or word.casefold() in request_words}


def _unpack_value(tree: Any, buffers: list[bytes]) -> Any:
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
            return bool(torch.allclose(a, b, rtol=0.05, atol=0.05 * float(b.nan_to_num(0, 0, 0).abs().amax()) if b.numel() else 0.0, equal_nan=True))
        return bool(torch.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True))
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-6)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(values_match(x, y) for x, y in zip(a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(values_match(a[key], b[key]) for key in a)
    return a == b
