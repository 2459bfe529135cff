"""Compares the people of a class with each other, exercise by exercise.

What the course explains is left out (works.py). Of the rest, what few people wrote counts more: the weight of a piece is 1 if only one or two people have it, and falls
with the logarithm to 0 if all of a class have it. So a usual way to solve an exercise makes nobody alike, but a group that shares unusual code stays visible.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import combinations
from math import log

from grader.classroom.similarity.fingerprints import Piece

SMALLEST = 10.0  # the weight of an exercise's pieces from which it can be alike; less says nothing
ALIKE = 60  # percent from which two versions of an exercise are alike
ENOUGH = 25.0  # the weight of all alike exercises from which a pair is listed, if it has LISTED percent;
LISTED = 40
PLENTY = 60.0  # and from which it is listed anyway: somebody may have copied a part of the work
SMALL_CLASS = 20  # in a smaller class a piece has the weight that it would have in this one: three of three people are no usual way
COMMON_SHARE = 4  # what more than a quarter of a large class has is not counted at all
UNIT = 1000  # weights are whole numbers of thousandths, so that sums do not depend on their order
Exercise = tuple[str, str]  # the chapter's module, and the exercise's name, or "" for the other definitions


@dataclass(frozen=True)
class Work:
    """What one person submitted."""

    name: str
    digest: str
    group: str = ""  # people with the same group handed in together
    pieces: Mapping[Exercise, Set[Piece]] = field(default_factory=dict)  # that the course does not explain
    sources: Mapping[str, str] = field(default_factory=dict)  # module → text


@dataclass(frozen=True)
class AlikeExercise:
    module: str
    name: str
    percent: int
    weight: float  # of the pieces that both have
    pieces: frozenset[Piece]


@dataclass(frozen=True)
class Pair:
    first: int  # their places among the works
    second: int
    percent: int  # of everything that both wrote
    alike: tuple[AlikeExercise, ...]
    compared: int  # exercises in which both have enough code to compare
    identical: bool  # the same files

    @property
    def weight(self) -> float:
        return sum(one.weight for one in self.alike)

    @property
    def alike_exercises(self) -> int:
        """Without other definitions."""
        return sum(bool(one.name) for one in self.alike)

    @property
    def is_listed(self) -> bool:
        return self.weight >= (ENOUGH if self.percent >= LISTED else PLENTY)


def find_pairs(works: Sequence[Work]) -> list[Pair]:
    """The pairs that a person should look at, those with most alike code first."""
    rest = [work.pieces for work in works]
    weights = _weigh(rest, [work.group or f"\0{place}" for place, work in enumerate(works)])
    totals = [{exercise: sum(weights[piece] for piece in pieces) for exercise, pieces in one.items()} for one in rest]
    shared = _weigh_shared(rest, weights)
    alike: dict[tuple[int, int], list[Exercise]] = defaultdict(list)
    for exercise, found in shared.items():
        for pair, weight in found.items():
            a, b = (totals[place][exercise] for place in pair)
            if min(a, b) >= SMALLEST * UNIT and _percent(weight, a + b) >= ALIKE:
                alike[pair].append(exercise)
    pairs = []
    for (first, second), exercises in alike.items():
        if works[first].group and works[first].group == works[second].group:
            continue
        if sum(shared[exercise][first, second] for exercise in exercises) >= ENOUGH * UNIT:
            ones = [_make_alike(exercise, shared[exercise][first, second], rest, totals, weights, first, second) for exercise in exercises]
            both = totals[first].keys() & totals[second].keys()
            same = sum(shared[exercise][first, second] for exercise in both)
            percent = _percent(same, sum(totals[first][exercise] + totals[second][exercise] for exercise in both))
            compared = sum(bool(one[1]) and min(totals[first][one], totals[second][one]) >= SMALLEST * UNIT for one in both)
            identical = works[first].digest == works[second].digest
            pairs.append(Pair(first, second, percent, tuple(sorted(ones, key=lambda one: (-one.weight, one.module, one.name))), compared, identical))
    return sorted(filter(lambda pair: pair.is_listed, pairs), key=lambda pair: (-pair.weight * pair.percent, pair.first, pair.second))


def _make_alike(
    exercise: Exercise, weight: int, rest: Sequence[Mapping[Exercise, Set[Piece]]], totals: Sequence[Mapping[Exercise, int]], weights: Mapping[Piece, int],
    first: int, second: int,
) -> AlikeExercise:  # fmt: skip
    pieces = frozenset(piece for piece in rest[first][exercise] & rest[second][exercise] if weights[piece])
    return AlikeExercise(*exercise, _percent(weight, totals[first][exercise] + totals[second][exercise]), weight / UNIT, pieces)


def _percent(same: int, total: int) -> int:
    """The share of both people's code that is in both, in percent."""
    return 200 * same // total if total else 0


def _weigh(rest: Sequence[Mapping[Exercise, Set[Piece]]], owners: Sequence[str]) -> dict[Piece, int]:
    """The weight of each piece in thousandths. A group counts as one person."""
    having: dict[Piece, set[str]] = defaultdict(set)
    for owner, exercises in zip(owners, rest, strict=True):
        for pieces in exercises.values():
            for piece in pieces:
                having[piece].add(owner)
    people = max(SMALL_CLASS, len(set(owners)))
    by_count = {count: _weight_of(count, people) for count in range(1, people + 1)}
    return {piece: by_count[len(found)] for piece, found in having.items()}


def _weight_of(count: int, people: int) -> int:
    """The weight of what `count` of `people` have."""
    if count <= 2:
        return UNIT
    if count > max(SMALL_CLASS, people // COMMON_SHARE):
        return 0
    return round(UNIT * log(people / count) / log(people / 2))


def _weigh_shared(rest: Sequence[Mapping[Exercise, Set[Piece]]], weights: Mapping[Piece, int]) -> dict[Exercise, Counter[tuple[int, int]]]:
    """For each exercise, the weight of what each two people share. Only pairs that share something are looked at."""
    owners: dict[Exercise, dict[Piece, list[int]]] = defaultdict(lambda: defaultdict(list))
    for place, exercises in enumerate(rest):
        for exercise, pieces in exercises.items():
            having = owners[exercise]
            for piece in pieces:
                if weights[piece]:
                    having[piece].append(place)
    return {exercise: _count(having, weights) for exercise, having in owners.items()}


def _count(having: Mapping[Piece, list[int]], weights: Mapping[Piece, int]) -> Counter[tuple[int, int]]:
    together: Counter[tuple[int, ...]] = Counter()
    for piece, people in having.items():
        if len(people) > 1:
            together[tuple(people)] += weights[piece]
    found: Counter[tuple[int, int]] = Counter()
    for owners, weight in together.items():
        for pair in combinations(owners, 2):
            found[pair] += weight
    return found


def list_identical(works: Sequence[Work]) -> list[list[int]]:
    """The people who submitted the same files, not as one group."""
    same: dict[str, list[int]] = defaultdict(list)
    for place, work in enumerate(works):
        same[work.digest].append(place)
    return [places for places in same.values() if len(places) > 1 and not _is_one_group(works[place] for place in places)]


def _is_one_group(works: Iterable[Work]) -> bool:
    groups = {work.group for work in works}
    return len(groups) == 1 and groups != {""}
