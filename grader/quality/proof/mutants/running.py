"""Tries mutants on the suites of their exercises, each in a process forked from one that has loaded everything, until the first test fails."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection

import pytest
from grader.course.syllabus import Exercise, load_syllabus
from grader.quality.devcheck.pool import spread
from grader.quality.devcheck.subjects import solution_of
from grader.quality.proof.mutants.edits import Mutant
from grader.quality.proof.mutants.kept import SURVIVED, Met, keep, kept
from grader.quality.proof.mutants.suites import PROCESSOR_SECONDS, SuiteRunner, lines_of_a_fork, trial_of
from grader.quality.proof.mutants.suites import serve as serve_pieces

PIECE = 30  # mutants that a process is handed at a time


@dataclass(frozen=True)
class Piece:
    exercise: str
    mutants: tuple[Mutant, ...]


def try_all(everything: dict[Exercise, list[Mutant]], fresh: bool = False, processes: int | None = None) -> Iterator[tuple[Exercise, list[Met]]]:
    """Each exercise with what its mutants met, as it comes; from what is kept where nothing it depends on has changed."""
    left: dict[str, int] = {}
    met: dict[str, list[Met]] = {}
    pieces: list[Piece] = []
    by_name = {exercise.name: exercise for exercise in everything}
    for exercise, mutants in everything.items():
        before = None if fresh else kept(exercise, mutants)
        if before is not None:
            yield exercise, before
            continue
        cut = [Piece(exercise.name, tuple(mutants[start : start + PIECE])) for start in range(0, len(mutants), PIECE)]
        left[exercise.name], met[exercise.name] = len(cut), []
        pieces += cut
    for piece, found in spread(pieces, serve, processes or os.cpu_count() or 1):
        met[piece.exercise] += found
        left[piece.exercise] -= 1
        if not left[piece.exercise]:
            exercise = by_name[piece.exercise]
            order = {mutant.key: place for place, mutant in enumerate(everything[exercise])}
            found = sorted(met[piece.exercise], key=lambda each: order[each.mutant.key])
            keep(exercise, everything[exercise], found)
            yield exercise, found


# ---- in a process that has everything loaded


def serve(pieces: Connection) -> None:
    """In a process of its own: answers each Piece with a list of Met, or with a sentence why it cannot, until None comes."""
    serve_pieces(_Trying, pieces)


class _Trying(SuiteRunner):
    """Answers a piece with what its mutants met."""

    def __init__(self, pieces: Connection) -> None:
        super().__init__(pieces)
        self.caught: Counter[str] = Counter()  # by test: those that catch most in the least time are asked first

    def answer(self, piece: Piece) -> list[Met]:
        exercise = load_syllabus().exercise(piece.exercise)
        text = solution_of(exercise)
        seconds = self.times(exercise, text)
        found = []
        for mutant in piece.mutants:
            items = sorted(seconds, key=lambda item: -(self.caught[item.name] + 0.5) / seconds[item])
            limit = PROCESSOR_SECONDS + math.ceil(3 * sum(seconds.values()))
            first, *_ = lines_of_a_fork(partial(self._first_failure, exercise, mutant.in_chapter(text), items), limit)
            by, outcome = json.loads(first) if first.startswith("[") else ("", first)
            self.caught[by] += 1
            found.append(Met(mutant, by, outcome))
        return found

    def _first_failure(self, exercise: Exercise, text: str, items: list[pytest.Function], say: Callable[[str], None]) -> None:
        self.run.trial = trial_of(exercise, text)
        for item, after in zip(items, [*items[1:], None]):
            if self.run_test(item, after) != "passed":
                return say(json.dumps([item.name, self.last]))
        say(json.dumps(["", SURVIVED]))
