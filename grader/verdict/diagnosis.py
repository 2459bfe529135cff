"""Known mistakes, and whether the learner has made one of them.

Tests are deterministic and see an implementation only across the boundary, so a mistake can be recognised by its answers: what the tests
asked of the learner's code is asked again of each mistaken reference. The one that answers alike everywhere is named, or else the one that
gives most of the same wrong answers; anything less is silent, for a false diagnosis is worse than none.
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

MEMORY_BYTES, REPLY_BYTES = 1 << 28, 500  # how much is remembered of what ours answered; about what a reply weighs besides its tensors

Reply = tuple[dict, list[bytes]]
Map = Callable[[Callable[["Misconception"], int], list["Misconception"]], Iterable[int]]


@cache
def text_with_mistake(module: str, mistake: Misconception) -> str:
    """The text of the reference's chapter with this one mistake in it. StaleEdit where the edit does not fit."""
    return mistake.applied_to_chapter(_reference_chapter(module).text)


def _reference_chapter(module: str) -> ChapterSource:
    """The reference's chapter, which is there where its tests and its mistakes are."""
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

    `each` is how a question is put to all known mistakes; asking them one after another is most of the work.
    """
    failing = sorted((record for record in records if not record.passed and record.log), key=lambda record: len(record.log))
    passing = [record for record in records if record.passed]
    if not failing:
        return None
    known = list(misconceptions(exercise.module, exercise.name))
    fitting = [mistake for mistake, fits in zip(known, each(lambda mistake: _explains_all(mistake, exercise, failing), known)) if fits]
    with _Replayer(exercise, _reference_chapter(exercise.module)) as reference:
        telling = [record for record in passing if _replies_match(reference, record, strict=False)]
    found = [mistake for mistake in fitting if _explains_all(mistake, exercise, telling, strict=False)] or _best_partial_match(known, exercise, failing, telling, each)
    return Diagnosis(found[0].id, found[0].says, found[0].hint) if len(found) == 1 else None


def _best_partial_match(known: list[Misconception], exercise: Exercise, failing: list[Record], telling: list[Record], each: Map) -> list[Misconception]:
    """The mistakes that explain most of the wrong answers better than any other does.

    Code that makes a mistake in a way of its own may differ from ours in a corner, or have a second fault beside it. But the same
    wrong numbers in test after test are no coincidence. Tests in which something was raised say too little to be counted.
    """
    wrong = [record for record in failing if not any("error" in asked.reply for asked in record.log)]
    points = list(each(lambda mistake: _score_mistake(mistake, exercise, wrong, telling), known))
    return [mistake for mistake, many in zip(known, points) if many and many == max(points)]


def _score_mistake(mistake: Misconception, exercise: Exercise, wrong: list[Record], telling: list[Record]) -> int:
    """How much better this mistake explains the answers than none would; 0 where it explains too few."""
    with _open_mistaken(mistake, exercise) as far:
        fits = 0
        for tried, record in enumerate(wrong, start=1):
            fits += _replies_match(far, record)
            if 3 * (tried - fits) > len(wrong) or (tried == 2 and not fits):
                return 0
        clashes = sum(not _replies_match(far, record, strict=False) for record in telling) if fits else 0
    return fits - clashes if fits >= 3 and clashes <= 1 or fits == len(wrong) and not clashes else 0


def _explains_all(mistake: Misconception, exercise: Exercise, records: list[Record], strict: bool = True) -> bool:
    with _open_mistaken(mistake, exercise) as far:
        return all(_replies_match(far, record, strict) for record in records)


@contextmanager
def _open_mistaken(mistake: Misconception, exercise: Exercise) -> Iterator[_Replayer | None]:
    """The reference with this mistake in it, to be asked; None where the edit does not fit, which `headway dev-check` tells the maintainer."""
    try:
        far = _Replayer(exercise, _mistaken_source(exercise.module, mistake))
    except (StaleEdit, SourceProblem):
        yield None
        return
    with far:
        yield far


class _Replayer:
    """An implementation of ours to ask the same: the reference with `own` for the exercise's chapter."""

    def __init__(self, exercise: Exercise, own: ChapterSource) -> None:
        self.exercise, self.own = exercise, own
        self.far: InProcessHost | None = None

    def __enter__(self) -> _Replayer:
        return self

    def __exit__(self, *_: object) -> None:
        if self.far:
            self.far.close()

    def replies(self, record: Record) -> Iterator[Reply]:
        """What it answers to each question of this record, as far as one listens."""
        memory, far = _cache, None
        for place, asked in enumerate(record.log):
            reply = memory.replies.get((self.own, record.paths[place])) if memory and far is None else None
            if reply is None:
                if far is None:  # all before this was remembered, and has not been asked today
                    far = self._begun(record)
                    for earlier in record.log[:place]:
                        far.exchange(earlier.op, earlier.tree, earlier.buffers)
                reply = far.exchange(asked.op, asked.tree, asked.buffers)
                if memory:
                    memory.keep((self.own, record.paths[place]), reply)
            yield reply

    def _begun(self, record: Record) -> InProcessHost:
        if self.far is None:
            chapter = load_syllabus().chapter(self.exercise.chapter)
            neighbours = [reference_of(earlier.name) for earlier in load_syllabus().chapters if earlier.number < chapter.number]
            self.far = InProcessHost([self.own, *filter(None, neighbours)], chapter.name, 2.0, 10.0)
        self.far.exchange("load", [], [])
        self.far.exchange("begin", [record.seed, [], self.exercise.gradient], [])  # what may not be called is judged elsewhere
        return self.far


class _ReplyCache:
    def __init__(self) -> None:
        self.replies: dict[tuple[ChapterSource, bytes], Reply] = {}
        self.bytes = 0

    def keep(self, key: tuple[ChapterSource, bytes], reply: Reply) -> None:
        self.bytes += sum(map(len, reply[1])) + REPLY_BYTES
        if self.bytes <= MEMORY_BYTES:
            self.replies[key] = reply


_cache: _ReplyCache | None = None


@contextmanager
def cache_replies() -> Iterator[None]:
    """Within this, ours are not asked again what they have answered: for whoever tries many implementations of one exercise."""
    global _cache
    _cache = _ReplyCache()
    try:
        yield
    finally:
        _cache = None


def _replies_match(far: _Replayer | None, record: Record, strict: bool = True) -> bool:
    """Does `far` answer this record as the learner did? Leniently, errors need only be of one type."""
    if far is None:
        return False
    try:
        return all(_reply_matches(reply, asked, strict) for reply, asked in zip(far.replies(record), record.log))
    except (OutOfTime, ChapterBroken):
        return False


def _reply_matches(answer: Reply, asked: Exchange, strict: bool) -> bool:
    reply, out = answer
    if "value" in reply and out == asked.out and repr(reply) == repr(asked.reply):  # to the last bit: nothing has to be unpacked
        return True
    if reply.keys() != asked.reply.keys():
        return False
    if "error" in reply:
        mine, theirs = reply["error"], asked.reply["error"]
        if any(mine[part] != theirs[part] for part in ("kind", "type")):
            return False
        own_words = all(error["where"] and "raise " in error["where"][2] for error in (mine, theirs))
        if not strict or mine["message"] == theirs["message"]:
            return True
        ours, others = (_message_facts(error["message"], asked.tree) for error in (mine, theirs))
        return own_words and (bool(ours & others) or not (ours or others))
    return values_match(_unpack_value(reply["value"], out), _unpack_value(asked.reply["value"], asked.out))


def _message_facts(message: str, asked: Any) -> set[str]:
    """What an author's own words say whatever the words are: the numbers, and the words that were in the question."""
    spoken = {word.casefold() for word in re.findall(r"\w+", json.dumps(asked, ensure_ascii=False))}
    return {word for word in re.findall(r"\w+", message) if word.isdigit() or word.casefold() in spoken}


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
        if half:  # every way to write it rounds in its own places
            return bool(torch.allclose(a, b, rtol=0.05, atol=0.05 * float(b.nan_to_num(0, 0, 0).abs().amax()) if b.numel() else 0.0, equal_nan=True))
        return bool(torch.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True))
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-6)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(values_match(x, y) for x, y in zip(a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(values_match(a[key], b[key]) for key in a)
    return a == b
