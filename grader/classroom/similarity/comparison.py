"""Compares the people of a class with each other, exercise by exercise.

What the course explains is left out (pieces.py). Of the rest, what few people wrote counts more: the weight of a piece
is 1 if only one or two people have it, and falls with the logarithm to 0 if all of a class have it. So a usual way to
solve an exercise makes no pair similar, but a group that shares unusual code stays visible.

A whole class may share one copied solution, which then seems usual. So people whose code is equal are also listed as a
group, however many they are, with the part of this code that counts in pairs. Who cannot be in a pair, because the code
is common or the course explains it, is named; and with a discount of 0, code counts in full, however common it is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, starmap
from math import log

from grader.classroom.intake.submissions import Submission
from grader.classroom.similarity.pieces import ExerciseKey, Piece, Work, read_works
from grader.counts import format_count
from grader.course.syllabus import Exercise

MAX_PAIRS = 200  # in the table; the page shows fewer of them side by side
MIN_EXERCISE_WEIGHT = 10  # of an exercise's pieces, from which it can be alike; less says nothing
MIN_ALIKE_PERCENT = 60  # from which two versions of an exercise are alike
MIN_PAIR_WEIGHT = 25  # of all alike exercises, from which a pair is listed if it has LISTED_PERCENT
LISTED_PERCENT = 40
MIN_GROUP_PIECES = 60  # of a group; all of a short formula is equal more often
SURE_PAIR_WEIGHT = 120  # from which a pair is listed anyway: somebody may have copied a part of the work
SMALL_CLASS = 20  # people; in a smaller class, three of three people are no usual way
COMMON_SHARE = 4  # what more than a quarter of a large class has is not counted at all
UNIT = 1000  # weights are whole numbers of thousandths, so that sums do not depend on their order


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
        return self.weight >= (MIN_PAIR_WEIGHT if self.percent >= LISTED_PERCENT else SURE_PAIR_WEIGHT)


@dataclass(frozen=True)
class EqualGroup:
    """People whose code is equal in some exercises, apart from names of variables and what the course explains."""

    places: tuple[int, ...]  # among the works
    exercises: tuple[AlikeExercise, ...]

    @property
    def pieces(self) -> int:
        return sum(len(one.pieces) for one in self.exercises)

    @property
    def named(self) -> int:
        """How many exercises these are, without other definitions."""
        return sum(bool(one.name) for one in self.exercises)

    @property
    def counted_percent(self) -> int:
        """How much of this code counts in pairs; the rest counts as usual, because many people have it."""
        return round(100 * sum(one.weight for one in self.exercises) / self.pieces)


@dataclass(frozen=True)
class Comparison:
    works: Sequence[Work]
    exercises: Sequence[Exercise]
    groups: Sequence[EqualGroup]
    pairs: Sequence[Pair]  # at most MAX_PAIRS
    found: int  # all that are listed
    identical: Sequence[Sequence[str]]  # names of people with identical files
    notes: Sequence[str]  # what is not compared
    common: Sequence[str]  # names of people who can be in no pair, because so many people have their code
    short: Sequence[str]  # names of people with too little code that the course does not explain

    @property
    def compared(self) -> int:
        return sum(bool(work.sources) for work in self.works)

    @property
    def summary(self) -> str:
        """ "no pair to look at, 1 group with the same code"."""
        pairs = f"{format_count(self.found, 'pair') if self.found else 'no pair'} to look at"
        return f"{pairs}, {format_count(len(self.groups), 'group')} with the same code" if self.groups else pairs

    def members(self, group: EqualGroup) -> list[str]:
        return [self.works[place].name for place in group.places]

    def names(self, pair: Pair) -> tuple[str, str]:
        return self.works[pair.first].name, self.works[pair.second].name


def compare(
    submissions: Sequence[Submission], exercises: Sequence[Exercise], groups: Mapping[str, str], discount: int = 100
) -> Comparison:
    """Compare the submissions; the order is that of the submissions' names.

    With a `discount` of 0 percent, code counts in full, however many people have it.
    """
    works, notes = read_works(submissions, exercises, groups)
    weights = _weigh(works, discount)
    pairs = _find_pairs(works, weights)
    listed = {(pair.first, pair.second) for pair in pairs}
    equal = [group for group in _find_groups(works, weights) if group.places not in listed]
    identical = [[works[place].name for place in places] for places in _list_identical(works)]
    short = [one.name for one in works if one.sources and not _has_enough(one, dict.fromkeys(weights, UNIT))]
    few = [one.name for one in works if one.sources and not _has_enough(one, weights) and one.name not in {*short}]
    return Comparison(works, exercises, equal, pairs[:MAX_PAIRS], len(pairs), identical, notes, few, short)


def _has_enough(work: Work, weights: Mapping[Piece, int]) -> bool:
    """Whether this person can be in a pair with anyone."""
    exercises = [sum(weights[piece] for piece in pieces) for pieces in work.pieces.values()]
    return sum(one for one in exercises if one >= MIN_EXERCISE_WEIGHT * UNIT) >= MIN_PAIR_WEIGHT * UNIT


def _find_groups(works: Sequence[Work], weights: Mapping[Piece, int]) -> list[EqualGroup]:
    """The people with equal code, the largest group first: each set of people, with all exercises that they share."""
    owners: dict[ExerciseKey, dict[frozenset[Piece], list[int]]] = defaultdict(lambda: defaultdict(list))
    for place, work in enumerate(works):
        for exercise, pieces in work.pieces.items():
            if len(pieces) >= MIN_EXERCISE_WEIGHT:
                owners[exercise][pieces].append(place)
    shared = [(name, pieces, places) for name, found in owners.items() for pieces, places in found.items()]
    shared = [(name, pieces, places) for name, pieces, places in shared if _are_independent(works, places)]
    groups = []
    for people in dict.fromkeys(tuple(places) for _, _, places in shared):
        common = [(name, pieces) for name, pieces, places in shared if set(people) <= set(places)]
        weighed = [(*name, 100, sum(weights[piece] for piece in pieces) / UNIT, pieces) for name, pieces in common]
        groups.append(EqualGroup(people, tuple(sorted(starmap(AlikeExercise, weighed), key=_by_size))))
    large = [group for group in groups if group.pieces >= MIN_GROUP_PIECES]
    return sorted(large, key=lambda group: (-len(group.places), -group.pieces, group.places))


def _by_size(one: AlikeExercise) -> tuple[int, str, str]:
    return (-len(one.pieces), one.module, one.name)


def _are_independent(works: Sequence[Work], places: Sequence[int]) -> bool:
    """Whether these are several people who did not hand in together, as one group."""
    groups = {works[place].group for place in places}
    return len(places) > 1 and (len(groups) > 1 or groups == {""})


def _find_pairs(works: Sequence[Work], weights: Mapping[Piece, int]) -> list[Pair]:
    """The pairs that a person should look at, those with most alike code first."""
    totals = [{name: sum(weights[piece] for piece in pieces) for name, pieces in one.pieces.items()} for one in works]
    shared = _weigh_shared(works, weights)
    alike: dict[tuple[int, int], list[ExerciseKey]] = defaultdict(list)
    for exercise, found in shared.items():
        for pair, weight in found.items():
            a, b = (totals[place][exercise] for place in pair)
            if min(a, b) >= MIN_EXERCISE_WEIGHT * UNIT and _percent(weight, a + b) >= MIN_ALIKE_PERCENT:
                alike[pair].append(exercise)
    pairs = []
    for (first, second), exercises in alike.items():
        one, other = works[first], works[second]
        own, others = totals[first], totals[second]
        weight_of = {name: shared[name][first, second] for name in own.keys() & others.keys() & shared.keys()}
        is_group = one.group and one.group == other.group
        if is_group or sum(weight_of[name] for name in exercises) < MIN_PAIR_WEIGHT * UNIT:
            continue
        found_alike = []
        for name in exercises:
            pieces = frozenset(piece for piece in one.pieces[name] & other.pieces[name] if weights[piece])
            percent = _percent(weight_of[name], own[name] + others[name])
            found_alike.append(AlikeExercise(*name, percent, weight_of[name] / UNIT, pieces))
        found_alike.sort(key=lambda found: (-found.weight, found.module, found.name))
        percent = _percent(sum(weight_of.values()), sum(own[name] + others[name] for name in weight_of))
        enough = [name for name in weight_of if min(own[name], others[name]) >= MIN_EXERCISE_WEIGHT * UNIT]
        compared, is_identical = sum(bool(name) for _, name in enough), one.digest == other.digest
        pairs.append(Pair(first, second, percent, tuple(found_alike), compared, is_identical))
    listed = [pair for pair in pairs if pair.is_listed]
    return sorted(listed, key=lambda pair: (-pair.weight * pair.percent, pair.first, pair.second))


def _percent(same: int, total: int) -> int:
    """The share of both people's code that is in both, in percent."""
    return 200 * same // total if total else 0


def _weigh(works: Sequence[Work], discount: int) -> dict[Piece, int]:
    """The weight of each piece in thousandths. A group counts as one person."""
    owners: dict[Piece, set[str]] = defaultdict(set)
    for place, work in enumerate(works):
        for pieces in work.pieces.values():
            for piece in pieces:
                owners[piece].add(work.group or f"\0{place}")
    people = max(SMALL_CLASS, len({work.group or f"\0{place}" for place, work in enumerate(works)}))
    by_count = {n: UNIT - (UNIT - _weight_of(n, people)) * discount // 100 for n in range(1, people + 1)}
    return {piece: by_count[len(found)] for piece, found in owners.items()}


def _weight_of(count: int, people: int) -> int:
    """The weight of what `count` of `people` have."""
    if count <= 2:
        return UNIT
    if count > max(SMALL_CLASS, people // COMMON_SHARE):
        return 0
    return round(UNIT * log(people / count) / log(people / 2))


def _weigh_shared(works: Sequence[Work], weights: Mapping[Piece, int]) -> dict[ExerciseKey, Counter[tuple[int, int]]]:
    """For each exercise, the weight of what each two people share. Only pairs that share something are looked at."""
    owners: dict[ExerciseKey, dict[Piece, list[int]]] = defaultdict(lambda: defaultdict(list))
    for place, work in enumerate(works):
        for exercise, pieces in work.pieces.items():
            for piece in pieces:
                if weights[piece]:
                    owners[exercise][piece].append(place)
    found: dict[ExerciseKey, Counter[tuple[int, int]]] = {}
    for exercise, having in owners.items():
        together: Counter[tuple[int, ...]] = Counter()  # many pieces have the same owners
        for piece, places in having.items():
            together[tuple(places)] += weights[piece]
        found[exercise] = Counter()
        for people, weight in together.items():
            for pair in combinations(people, 2):
                found[exercise][pair] += weight
    return found


def _list_identical(works: Sequence[Work]) -> list[list[int]]:
    """The people who submitted the same files, not as one group. Unchanged stubs mean nothing."""
    same: dict[str, list[int]] = defaultdict(list)
    for place, work in enumerate(works):
        if work.pieces:
            same[work.digest].append(place)
    return [places for places in same.values() if _are_independent(works, places)]
