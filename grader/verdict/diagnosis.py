"""Recognises known mistakes in the learner's code.

Tests are deterministic and use an implementation only across the boundary, so a mistake can be recognised by its
answers: the tests' requests to the learner's code are replayed on each mistaken reference. The diagnosis names the
mistake whose answers agree everywhere. If no mistake does, the code has a second fault, or makes a mistake in a way of
its own. Then the diagnosis names the two mistakes that give all answers together, or the mistake that explains whole
tests, without giving a wrong answer where the learner's is right. Otherwise there is no diagnosis, because a false one
is worse than none.

`replay.py` runs the mistaken references and compares their answers with the learner's. This module chooses among them:
`Search` tries the mistakes, and a `Candidate` is what it has found about one or two of them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from grader.course.known_mistakes import Base, Misconception, bases, misconceptions
from grader.course.syllabus import Exercise
from grader.verdict.replay import (
    CONFLICT,
    CORNER,
    Comparison,
    Match,
    Record,
    Replayer,
    Version,
    agrees,
    compare_with_reference,
    distance,
    first_different,
    match,
    matches_but_for_nan,
    open_reference,
    open_version,
    rounded_alike,
)
from grader.verdict.results import Diagnosis

MIN_PAIR_WEIGHT = 0.5  # that two mistakes must explain which explain every test
# mistakes, or a quarter of them: if more explain a test, it does not count, because such an answer shows none of them
MAX_MISTAKES_OF_AN_ANSWER = 3
MAX_PAIRS = 120  # that are tried on a base, of mistakes of which one explains an answer alone
MAX_HIDDEN_PAIRS = 300  # that are tried on a base, of mistakes that explain no answer alone
MIN_HIDDEN_PAIR_WEIGHT = 6.0  # that such a pair must explain

Map = Callable[[Callable[[Any], Any], list[Any]], Iterable[Any]]


class SearchStopped(Exception):
    """The search for a known mistake took too long. Its next run goes on from there."""


@dataclass(frozen=True)
class Passing:
    """A test that the learner's code passes."""

    record: Record
    right: int  # the place of its first reply that is not the reference's: behind it, correct code may differ
    seconds: float  # that the reference takes


@dataclass
class Search:
    """The search for the known mistakes that one exercise's answers show."""

    exercise: Exercise
    records: list[Record]  # of the exercise's tests
    # applies a function to all known mistakes, perhaps in parallel; one after another this is most of the work
    map: Map = map

    def __post_init__(self) -> None:
        self.deadline = math.inf
        self.steps: list[list[Any]] = []  # what each step has found before the search was stopped
        self.known = list(misconceptions(self.exercise.module, self.exercise.name))
        self.by_id = {mistake.id: mistake for mistake in self.known}
        self.bases = bases(self.exercise.module, self.exercise.name)
        failed = [record for record in self.records if not record.passed and record.log]
        self.wrong = sorted(failed, key=lambda record: len(record.log))

    def run(self, seconds: float = math.inf, pause: float = math.inf) -> Diagnosis | None:
        """The known mistake, or the two, that the answers show; None if that is not certain. SearchStopped after so
        many seconds; also after `pause` seconds, if no mistake in the solution gives all answers alone."""
        if not self.wrong or not self.bases:
            return None
        began, self.step = time.monotonic(), 0
        self.deadline = began + seconds
        # a mistake must be nearer than the reference to numbers that are wrong by little
        with open_reference(self.exercise) as reference:
            gaps = [(record, distance(reference, record)) for record in self.wrong if agrees(reference, record)]
            self.nearly_right = [(record, gap) for record, gap in gaps if gap > 0]
        with open_reference(self.exercise) as reference:
            passing = [self._passing(reference, record) for record in self.records if record.passed]
        self.passing = sorted(passing, key=lambda one: one.seconds)  # the first that a version breaks refuses it
        tests = [record.test for record in self.wrong]
        for bases_tried in (self.bases[:1], self.bases[1:]):
            if complete := self._complete(self._versions(bases_tried)):
                names = self._common_names(complete)
                return self._told_apart(diagnosis_of(names, tests)) if names else None
            self.deadline = began + min(seconds, pause)
        self._check_time()
        self.failing = self._failing()
        found = self._search()
        return self._told_apart(found.named(self.failing)) if found else None

    def _failing(self) -> list[Comparison]:
        with open_reference(self.exercise) as reference:
            return [compare_with_reference(reference, record) for record in self.wrong]

    def _told_apart(self, found: Diagnosis) -> Diagnosis:
        """Of two mistakes, each with the tests in which it shows before the other does; the first one has the rest."""
        if found.also is None:
            return found
        failing, solution = self._failing(), self.bases[0]
        one, other = (self._compare(Version(solution, (self.by_id[each.id],)), failing) for each in found.mistakes)
        shown = [(bool(a.weight), bool(b.weight)) for a, b in zip(one.matches, other.matches)]
        tests = {facts.record.test: each for facts, each in zip(failing, shown)}
        firsts = [test for test in found.explains if tests[test] != (False, True)]
        others = [test for test in found.explains if tests[test][1]]
        return replace(found, explains=firsts, also=replace(found.also, explains=others))

    def _passing(self, reference: Replayer, record: Record) -> Passing:
        began = time.perf_counter()
        return Passing(record, first_different(reference, record), time.perf_counter() - began)

    def _versions(self, bases_tried: Iterable[Base]) -> list[Version]:
        """Each mistake on each of these bases, and the bases that have mistakes themselves."""
        pairs = [(base, mistake) for base in bases_tried for mistake in self.known if mistake.id not in base.mistakes]
        return [Version(base, (mistake,)) for base, mistake in pairs] + [
            Version(base) for base in bases_tried if base.mistakes
        ]

    def _names(self, version: Version) -> tuple[Misconception, ...]:
        return (*version.mistakes, *(self.by_id[name] for name in version.base.mistakes))

    def _each(self, work: Callable[[Version], Any], versions: list[Version]) -> list[Any]:
        """What `work` finds for each version."""
        if self.step == len(self.steps):
            self.steps.append([])
        found, self.step = self.steps[self.step], self.step + 1
        for one in self.map(work, versions[len(found) :]):
            found.append(one)
        return found

    def _complete(self, versions: list[Version]) -> list[Version]:
        """Those that give all the answers of the learner's code."""
        fits = self._each(self._fits, versions)
        fitting = [version for version, fit in zip(versions, fits) if fit and fit == max(fits)]
        return [version for version in fitting if not self._compare(version, []).breaks_passing]

    def _fits(self, version: Version) -> int:
        """How well it gives all answers: twice the number of failed tests in which it does, one less if they are only
        rounded alike, and 0 if it does not.

        Which places of a gradient are NaN may differ in some tests.
        """
        self._check_time()
        with open_version(self.exercise, version) as replayer:
            if replayer is None:
                return 0
            same = 0
            for record in self.wrong:
                if agrees(replayer, record):
                    same += 1
                elif not agrees(replayer, record, matches_but_for_nan):
                    return 0
            if not same:
                return 0
            near = [distance(replayer, record) < gap / 2 for record, gap in self.nearly_right]
            if not all(close or rounded_alike(replayer, record) for close, (record, _) in zip(near, self.nearly_right)):
                return 0
            return 2 * same - (not all(near))

    def _common_names(self, complete: list[Version]) -> tuple[Misconception, ...]:
        """The mistakes that all these versions have, of those with the fewest; what differs explains nothing."""
        fewest = min(len(self._names(version)) for version in complete)
        first, *others = [self._names(version) for version in complete if len(self._names(version)) == fewest]
        return tuple(mistake for mistake in first if all(mistake in names for names in others))

    def _check_time(self) -> None:
        if time.monotonic() > self.deadline:
            raise SearchStopped

    def _search(self) -> Candidate | None:
        """The best explanation by two mistakes, or by one that does not explain everything.

        One of two mistakes should explain an answer alone. Two that explain answers only together may be a third
        mistake, because two edits can make one swap. They are tried last, and must explain more.
        """
        solution, *others = self.bases
        alone = self._each(self._compare_all, self._versions([solution]))
        explaining = [sum(one.matches[place].weight > 0 for one in alone) for place in range(len(self.failing))]
        common = max(MAX_MISTAKES_OF_AN_ANSWER, len(alone) // 4)
        self.failing = [
            replace(facts, weights=facts.without_weight()) if many > common else facts
            for facts, many in zip(self.failing, explaining)
        ]
        alone = [self._limited(one) for one in alone]
        by_base = [alone.copy()]
        if pair := self._pair(alone):
            return pair
        for base in others:
            on_base = [self._limited(one) for one in self._each(self._compare_possible, self._versions([base]))]
            by_base.append(on_base)
            if pair := self._pair(on_base):
                return pair
            plain = next((one for one in on_base if not one.version.mistakes), None)
            alone += [one for one in on_base if one is plain or plain is None or one.score() > plain.score()]
        if found := best_partly(best_of_each([one for one in alone if one.possible]), self.failing):
            return found
        return next(filter(None, (self._pair(on_base, hidden=True) for on_base in by_base)), None)

    def _limited(self, one: Candidate) -> Candidate:
        pairs = zip(one.matches, self.failing)
        return replace(one, matches=[replace(match, weight=min(match.weight, facts.most)) for match, facts in pairs])

    def _pair(self, alone: list[Candidate], hidden: bool = False) -> Candidate | None:
        """The only pair on one base that explains everything. `hidden`: neither explains an answer alone."""
        possible = sorted((one for one in alone if one.possible and one.version.mistakes), key=lambda one: -one.weight)
        couples = [(one, other) for one, other in combinations(possible, 2) if hidden != bool(one.weight)]
        pairs = [Version(one.version.base, (*one.version.mistakes, *other.version.mistakes)) for one, other in couples]
        most, least = (MAX_HIDDEN_PAIRS, MIN_HIDDEN_PAIR_WEIGHT) if hidden else (MAX_PAIRS, MIN_PAIR_WEIGHT)
        together = self._each(lambda pair: self._compare(pair, self.failing, completely=True), pairs[:most])
        found = [pair for pair in together if pair.complete and pair.weight >= least]
        return None if hidden and len(found) > 1 else best_pair(found, alone)

    def _compare_all(self, version: Version) -> Candidate:
        return self._compare(version, self.failing)

    def _compare_possible(self, version: Version) -> Candidate:
        """The same on another base, where a mistake that breaks a passing test cannot be the explanation."""
        return self._compare(version, self.failing, if_possible=bool(version.mistakes))

    def _compare(
        self, version: Version, failing: list[Comparison], completely: bool = False, if_possible: bool = False
    ) -> Candidate:
        """`completely`: stop at the first answer that the version does not give. `if_possible`: stop at the first
        passing test that the version breaks."""
        self._check_time()
        matches: list[Match] = []
        names = self._names(version)
        with open_version(self.exercise, version) as replayer:
            if if_possible and self._breaks_passing(replayer):
                return Candidate(version, names, matches, True)
            for facts in failing:
                matches.append(match(replayer, facts))
                if completely and not matches[-1].full:
                    return Candidate(version, names, matches)
            return Candidate(version, names, matches, not if_possible and self._breaks_passing(replayer))

    def _breaks_passing(self, replayer: Replayer | None) -> bool:
        return replayer is None or any(first_different(replayer, one.record) < one.right for one in self.passing)


# ---- the versions that were compared with the learner's answers, and which of them is the explanation

# unusual values that a mistake must explain in several tests, or twice as many in one, if it does not explain every
# test
MIN_WEIGHT = 3.0
# that a mistake must explain, or CORNER_CASE_TESTS tests, if its answer is different in a corner case
CORNER_CASE_WEIGHT = 12.0
CORNER_CASE_TESTS = 3
MAX_TESTS_FOR_EACH_EXPLAINED = 4  # it must explain one in so many of the failed tests


@dataclass(frozen=True)
class Candidate:
    """A version of the exercise with one or two mistakes, compared with the learner's answers."""

    version: Version
    mistakes: tuple[Misconception, ...]  # those that are named, the version's own first
    matches: list[Match]  # for each failing record
    breaks_passing: bool = False  # whether its answers differ in a test that the learner's code passes

    @property
    def complete(self) -> bool:
        return all(match.full for match in self.matches) and not self.breaks_passing

    @property
    def weight(self) -> float:
        return sum(match.weight for match in self.matches)

    @property
    def possible(self) -> bool:
        """Does it pass what the learner's code passes? In one failed test, other code may differ in a corner case."""
        ends = [match.end for match in self.matches if not match.full]
        if self.breaks_passing or CORNER not in ends:
            return not self.breaks_passing
        places = self.explained()
        weight = sum(self.matches[place].weight for place in places)
        return len(ends) == 1 and (len(places) >= CORNER_CASE_TESTS or weight >= CORNER_CASE_WEIGHT)

    def explained(self) -> list[int]:
        """The places of the records that it explains."""
        return [place for place, match in enumerate(self.matches) if match.explains]

    def score(self, without: frozenset[int] = frozenset()) -> tuple[int, float]:
        """How many records it explains, those at the places `without` left out, and by how much."""
        places = set(self.explained()) - without
        return len(places), sum(self.matches[place].weight for place in places)

    def named(self, failing: list[Comparison]) -> Diagnosis:
        places = list(range(len(failing))) if self.complete else self.explained()
        if full := [place for place in places if self.matches[place].full]:
            places = full  # the others end with another fault, which their examples show
        places.sort(key=lambda place: -self.matches[place].weight)
        return diagnosis_of(self.mistakes, [failing[place].record.test for place in places])


def diagnosis_of(mistakes: Iterable[Misconception], tests: list[str]) -> Diagnosis:
    """The diagnosis that these mistakes explain these tests. It has room for two of them."""
    first, *others = (Diagnosis(mistake.id, mistake.says, mistake.hint) for mistake in mistakes)
    return replace(first, explains=tests, also=others[0] if others else None)


def best_pair(together: list[Candidate], alone: list[Candidate]) -> Candidate | None:
    """The only pair that explains everything, or the mistake that all of them share. Each of the two must explain
    something that the other does not.

    It is not named if one other mistake explains alone more of what they explain only together than either of them
    explains alone. Such a pair may be the same function as another one that was not tried, because the edits of those
    two change the same place.
    """
    single = {one.version.mistakes[0]: one for one in alone if one.version.mistakes}

    def gain(pair: Candidate, one: Misconception) -> float:
        return sum(both.weight for both, match in zip(pair.matches, single[one].matches) if not match.full)

    def has_simpler_rival(pair: Candidate) -> bool:
        two = pair.version.mistakes
        places = range(len(pair.matches))
        needs_both = [place for place in places if not any(single[one].matches[place].full for one in two)]
        most = max(MIN_WEIGHT, *(single[one].weight for one in two))
        rivals = [one for mistake, one in single.items() if one.possible and mistake not in two]
        matches = [[one.matches[place] for place in needs_both] for one in rivals]
        return any(sum(match.weight for match in found if match.full) > most for found in matches)

    together = [pair for pair in together if all(gain(pair, one) > 0 for one in pair.version.mistakes)]
    together = [pair for pair in together if not has_simpler_rival(pair)]
    if not together:
        return None
    if len(together) == 1:
        mistakes = sorted(together[0].version.mistakes, key=lambda one: -single[one].weight)
        return replace(together[0], mistakes=tuple(mistakes))
    shared = set.intersection(*(set(pair.version.mistakes) for pair in together))
    return single[shared.pop()] if len(shared) == 1 else None


def best_of_each(possible: list[Candidate]) -> list[Candidate]:
    """For each mistake the base on which it explains the most; the earlier one of two that explain the same."""
    found: dict[Misconception, Candidate] = {}
    for one in possible:
        if one.mistakes[0] not in found or one.score() > found[one.mistakes[0]].score():
            found[one.mistakes[0]] = one
    return list(found.values())


def best_partly(possible: list[Candidate], failing: list[Comparison]) -> Candidate | None:
    """The only mistake that explains the most tests, and perhaps a second one that explains other tests."""
    certain = [one for one in possible if not any(match.end == CONFLICT for match in one.matches)]
    best = _only_best(certain, frozenset())
    if best is None or MAX_TESTS_FOR_EACH_EXPLAINED * len(best.explained()) < len(failing):
        return None
    other = _only_best(certain, frozenset(best.explained()))
    if other is None or len(best.mistakes) > 1:
        return best
    matches = [max(pair, key=lambda match: (match.full, match.weight)) for pair in zip(best.matches, other.matches)]
    return replace(best, mistakes=(*best.mistakes, *other.mistakes), matches=matches)


def _only_best(possible: list[Candidate], without: frozenset[int]) -> Candidate | None:
    """The only mistake that best explains the records whose places are not in `without`, if it explains enough."""
    ranked = sorted(possible, key=lambda one: one.score(without), reverse=True)
    if not ranked:
        return None
    count, weight = ranked[0].score(without)
    is_only = len(ranked) == 1 or ranked[1].score(without) != (count, weight)
    if not is_only or weight < (MIN_WEIGHT if count > 1 else 2 * MIN_WEIGHT):
        return None
    return ranked[0]
