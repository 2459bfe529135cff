"""Makes the recorded calls of a failed test again on other implementations: the reference, and the reference with known mistakes in it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache

from grader.course.chapter_source import ChapterSource
from grader.course.known_mistakes import Misconception, StaleEdit, misconceptions
from grader.course.sealed import format as sealed_format
from grader.course.sealed import reader as sealed
from grader.course.sealed.merge import Conflict, merge
from grader.course.source import SourceProblem, definition
from grader.course.syllabus import Exercise, load_syllabus
from grader.execution.chapter_package import compiled
from grader.execution.in_process import InProcessHost
from grader.execution.target import reference_of
from grader.verdict.traces import Record

CACHE_BYTES, REPLY_BYTES = 1 << 28, 500  # limit of the cache of replies; about the size of a reply without its tensors

Reply = tuple[dict, list[bytes]]


# ---- the implementations


@cache
def text_with_mistake(module: str, mistake: Misconception) -> str:
    """The text of the reference's chapter with this one mistake. StaleEdit if the edit does not fit."""
    return mistake.applied_to_chapter(reference_chapter(module).text)


def reference_chapter(module: str) -> ChapterSource:
    """The reference's chapter, which exists wherever its tests and its mistakes do."""
    source = reference_of(module)
    assert source is not None
    return source


def _mistaken_chapter(module: str, mistake: Misconception) -> ChapterSource:
    filename = f"known mistake/{module}.py"
    if mistake.edit:
        return sealed.apply_mistake(module, mistake.edit, filename)
    return ChapterSource(module, text_with_mistake(module, mistake), filename)


@cache
def _statements(module: str, mistake: Misconception | None, exercise: str) -> list:
    """The syntax tree of what a mistake changes, with this mistake or without: the exercise's definition, in a handout the chapter."""
    if mistake and mistake.edit or not mistake and reference_chapter(module).sealed:
        source = _mistaken_chapter(module, mistake) if mistake else reference_chapter(module)
        return sealed_format.split_statements(source.sealed)
    text = definition(reference_chapter(module).text, exercise).text
    return sealed_format.split_statements(sealed_format.module_bytes(mistake.applied_to(text) if mistake else text))


def compile_mistakes(exercise: Exercise) -> None:
    """Compile the chapter with each known mistake of this exercise; processes forked from this one then need not."""
    for mistake in misconceptions(exercise.module, exercise.name):
        with suppress(StaleEdit, SourceProblem, Conflict):
            compiled(_mistaken_chapter(exercise.module, mistake))


def _twice_mistaken_chapter(module: str, first: Misconception, second: Misconception) -> ChapterSource:
    """The reference's chapter with both mistakes. Conflict if they change the same place."""
    exercise, filename = first.exercise, f"known mistakes/{module}.py"
    merged = sealed_format.join_statements(merge(*(_statements(module, mistake, exercise) for mistake in (None, first, second))))
    if first.edit:
        return sealed.source_of_tree(module, merged, filename)
    text = reference_chapter(module).text
    own = definition(text, exercise).text
    return ChapterSource(module, text.replace(own, ast.unparse(sealed_format.read_tree(merged)) + "\n" * own.endswith("\n"), 1), filename)


@contextmanager
def open_reference(exercise: Exercise) -> Iterator[Replayer]:
    with Replayer(exercise, reference_chapter(exercise.module)) as replayer:
        yield replayer


@contextmanager
def open_mistaken(exercise: Exercise, mistake: Misconception, second: Misconception | None = None) -> Iterator[Replayer | None]:
    """A replayer of the reference with this mistake, or these two; None if they do not fit (`headway dev-check` reports a single stale edit)."""
    try:
        own = _twice_mistaken_chapter(exercise.module, mistake, second) if second else _mistaken_chapter(exercise.module, mistake)
    except (StaleEdit, SourceProblem, Conflict):
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


